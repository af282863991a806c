package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/credentials/tls/certprovider"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"

	"github.com/weirhq/weir/internal/settings"
)

// certRefresh is how often certificate files are looked at for changes.
const certRefresh = time.Second

// serverTLS makes a TLS configuration that follows its files: each connection
// is served with the newest pair and client CA that could be read. Files that
// do not fit together leave the last good ones in use.
func serverTLS(ctx context.Context, g *settings.GRPC) (*tls.Config, func(), error) {
	if _, err := tls.LoadX509KeyPair(g.Cert, g.Key); err != nil {
		return nil, nil, fmt.Errorf("GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY: %w", err)
	}
	if g.ClientCA != "" {
		if err := checkCA(g.ClientCA); err != nil {
			return nil, nil, fmt.Errorf("GRPC_CLIENT_TLS_CACERT: %w", err)
		}
	}
	provider, err := pemfile.NewProvider(pemfile.Options{
		CertFile: g.Cert, KeyFile: g.Key, RootFile: g.ClientCA, RefreshDuration: certRefresh,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("gRPC certificates: %w", err)
	}
	material, err := provider.KeyMaterial(ctx)
	if err != nil {
		provider.Close()
		return nil, nil, fmt.Errorf("gRPC certificates: %w", err)
	}
	base := configOf(material, g)
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		material, err := provider.KeyMaterial(hello.Context())
		if err != nil {
			return nil, err
		}
		return configOf(material, g), nil
	}
	return base, provider.Close, nil
}

func configOf(m *certprovider.KeyMaterial, g *settings.GRPC) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: m.Certs, NextProtos: []string{"h2"}}
	if g.ClientCA == "" {
		return c
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.Roots
	if g.ClientSAN != "" {
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("no client certificate")
			}
			return state.PeerCertificates[0].VerifyHostname(g.ClientSAN)
		}
	}
	return c
}

func checkCA(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%q holds no certificate", path)
	}
	return nil
}
