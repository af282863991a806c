package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/internal/settings"
	"github.com/weirhq/weir/internal/testutil/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const oneRule = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 2}}]\n"

// running is a server in this process.
type running struct {
	*Server
	t    *testing.T
	stop func() // drains; waits for the end
	log  *lockedText
}

type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// parse gives the settings of a command line, with free ports.
func parse(t *testing.T, args ...string) settings.Settings {
	t.Helper()
	var s settings.Settings
	p, err := kong.New(&s)
	require.NoError(t, err)
	_, err = p.Parse(append([]string{"--port=0", "--grpc-port=0", "--debug-port=0", "--host=127.0.0.1", "--grpc-host=127.0.0.1"}, args...))
	require.NoError(t, err)
	return s
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, log: &lockedText{}}
	var err error
	r.Server, err = Open(context.Background(), parse(t, args...), slog.New(slog.NewTextHandler(r.log, nil)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, context.Background()) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(r.stop)
	return r
}

func rulesFolder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "r.yaml"), []byte(text), 0o600))
	return dir
}

func (r *running) get(method, addr, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+addr+path, strings.NewReader(body))
	require.NoError(r.t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(text)
}

func (r *running) dial(creds credentials.TransportCredentials) *grpc.ClientConn {
	r.t.Helper()
	target := r.GRPCAddr()
	if strings.HasPrefix(target, "/") {
		target = "unix://" + target
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(conn *grpc.ClientConn) (*rls.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}},
	})
}

func TestJSON(t *testing.T) {
	r := start(t, "--config", rulesFolder(t, oneRule))
	const good = `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`
	for i, tt := range []struct {
		method, body string
		status       int
		has          string
	}{
		{"POST", good, 200, `"overallCode"`},
		{"PUT", good, 200, `"overallCode"`},
		{"POST", good, 429, `OVER_LIMIT`},
		{"POST", `{"domain":"d","descriptors":[{"entries":[{"key":"none","value":"v"}],"hits_addend":"0"}]}`, 200, "OK"},
		{"GET", "", 400, "Bad Request"},
		{"POST", "{", 400, "Bad Request"},
		{"POST", `{"domain":"d","nosuch":1}`, 400, "Bad Request"},
		{"POST", `{"domain":"","descriptors":[{}]}`, 400, "Bad Request"},
		{"POST", `{"domain":"d"}`, 400, "Bad Request"},
		{"POST", `{"domain":"d","descriptors":[null]}`, 400, "Bad Request"},
		{"POST", strings.Repeat(" ", 5<<20), 400, "Bad Request"},
	} {
		code, text := r.get(tt.method, r.HTTPAddr(), "/json", tt.body)
		require.Equal(t, tt.status, code, "%d: %s", i, text)
		require.Contains(t, text, tt.has, i)
	}
	code, _ := r.get("GET", r.HTTPAddr(), "/nosuch", "")
	require.Equal(t, 404, code)
}

func TestHealth(t *testing.T) {
	r := start(t, "--config", rulesFolder(t, oneRule))
	for _, path := range []string{"/healthcheck", "/livez", "/readyz"} {
		code, text := r.get("GET", r.HTTPAddr(), path, "")
		require.Equal(t, 200, code)
		require.Equal(t, "OK", text)
	}
	conn := r.dial(insecure.NewCredentials())
	client := healthpb.NewHealthClient(conn)
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		resp, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, resp.GetStatus(), name)
	}
	_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: "other"})
	require.Equal(t, codes.NotFound, status.Code(err))

	watch, err := client.Watch(context.Background(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, first.GetStatus())
	r.stop() // an open stream does not hold the end up
	second, err := watch.Recv()
	if err == nil {
		require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, second.GetStatus())
	}
}

func TestWithoutRules(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "config"), 0o755))
	file := filepath.Join(root, "config", "r.yaml")
	require.NoError(t, os.WriteFile(file, []byte("domain: d\ndescriptors: [{kee: k}]\n"), 0o600))
	args := []string{"--runtime-root", root, "--no-runtime-watch-root", "--backend-type=memory"}
	r := start(t, args...)
	code, _ := r.get("GET", r.HTTPAddr(), "/readyz", "")
	require.Equal(t, 500, code, "not ready")
	code, _ = r.get("GET", r.HTTPAddr(), "/healthcheck", "")
	require.Equal(t, 200, code, "but healthy, as the reference")
	_, err := ask(r.dial(insecure.NewCredentials()))
	require.Equal(t, codes.Unavailable, status.Code(err))
	code, _ = r.get("POST", r.HTTPAddr(), "/json", `{"domain":"d","descriptors":[{}]}`)
	require.Equal(t, 503, code)
	_, text := r.get("GET", r.DebugAddr(), "/metrics", "")
	require.Contains(t, text, `weir_config_loads_total{result="error"} 1`)

	strict := start(t, append(args, "--healthy-with-at-least-one-config-loaded")...)
	code, _ = strict.get("GET", strict.HTTPAddr(), "/healthcheck", "")
	require.Equal(t, 500, code)

	require.NoError(t, os.WriteFile(file, []byte(oneRule), 0o600))
	for _, server := range []*running{r, strict} {
		require.Eventually(t, func() bool {
			code, _ := server.get("GET", server.HTTPAddr(), "/readyz", "")
			return code == 200
		}, 5*time.Second, 20*time.Millisecond)
		resp, err := ask(server.dial(insecure.NewCredentials()))
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OK, resp.GetOverallCode())
	}
}

func TestDebugPages(t *testing.T) {
	r := start(t, "--config", rulesFolder(t, oneRule))
	_, text := r.get("GET", r.DebugAddr(), "/rlconfig", "")
	require.Equal(t, "d.k: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: false\n", text)
	_, text = r.get("GET", r.DebugAddr(), "/stats", "")
	require.Contains(t, text, "1 domains, 1 rules")
	_, text = r.get("GET", r.DebugAddr(), "/anything", "")
	require.Contains(t, text, "/rlconfig: ")
	require.NotContains(t, text, "pprof")
	code, _ := r.get("GET", r.DebugAddr(), "/debug/pprof/heap", "")
	require.Equal(t, 200, code)
	_, text = r.get("GET", r.DebugAddr(), "/debug/pprof/heap", "")
	require.Contains(t, text, "/rlconfig: ", "no profiles unless asked for")

	asked := start(t, "--config", rulesFolder(t, oneRule), "--pprof")
	_, text = asked.get("GET", asked.DebugAddr(), "/debug/pprof/", "")
	require.Contains(t, text, "goroutine")
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "grpc.sock")
	for range 2 { // the second finds what the first left
		r := start(t, "--config", rulesFolder(t, oneRule), "--grpc-uds", socket)
		_, err := ask(r.dial(insecure.NewCredentials()))
		require.NoError(t, err)
		r.stop()
		require.NoError(t, os.WriteFile(socket+".other", nil, 0o600))
	}
	_, err := Open(context.Background(), parse(t, "--config", rulesFolder(t, oneRule), "--grpc-uds", socket+".other"), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "no socket")
}

func TestAPortThatIsTaken(t *testing.T) {
	r := start(t, "--config", rulesFolder(t, oneRule))
	_, port, _ := strings.Cut(r.GRPCAddr(), ":")
	_, err := Open(context.Background(), parse(t, "--config", rulesFolder(t, oneRule), "--grpc-port="+port), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "gRPC port")
	require.ErrorContains(t, err, "address already in use")
}

func TestTLSFollowsItsFiles(t *testing.T) {
	first, second := certtest.Make(t, "127.0.0.1", "weir.test"), certtest.Make(t, "127.0.0.1", "weir.test")
	dir := t.TempDir()
	install := func(f certtest.Files) {
		for from, to := range map[string]string{f.Cert: "tls.crt", f.Key: "tls.key", f.CA: "ca.crt"} {
			text, err := os.ReadFile(from)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
		}
	}
	install(first)
	r := start(t, "--config", rulesFolder(t, strings.Replace(oneRule, "2}", "1000}", 1)), "--grpc-server-use-tls",
		"--grpc-server-tls-cert", dir+"/tls.crt", "--grpc-server-tls-key", dir+"/tls.key",
		"--grpc-client-tls-cacert", dir+"/ca.crt", "--grpc-client-tls-san", "weir.test")

	reach := func(server, client *certtest.Files) error {
		config := &tls.Config{RootCAs: server.Pool, ServerName: "weir.test"}
		if client != nil {
			pair, err := tls.LoadX509KeyPair(client.Cert, client.Key)
			require.NoError(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		conn := r.dial(credentials.NewTLS(config))
		defer conn.Close()
		_, err := ask(conn)
		return err
	}
	require.NoError(t, reach(&first, &first))
	require.Error(t, reach(&first, nil), "no client certificate")
	require.Error(t, reach(&first, &second), "another CA's")
	other := certtest.Make(t, "other.test")
	require.Error(t, reach(&first, &other))

	require.NoError(t, os.WriteFile(dir+"/tls.crt", []byte("broken"), 0o600))
	time.Sleep(2 * certRefresh) // a bad pair leaves the old one in use
	require.NoError(t, reach(&first, &first))

	install(second)
	require.Eventually(t, func() bool { return reach(&second, &second) == nil }, 10*time.Second, 100*time.Millisecond)
	require.Error(t, reach(&second, &first), "the client CA was renewed too")
}

func TestBadTLSFilesEndTheStart(t *testing.T) {
	certs := certtest.Make(t, "127.0.0.1")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, args := range map[string][]string{
		"GRPC_SERVER_TLS_CERT":   {"--grpc-server-tls-cert", "nosuch", "--grpc-server-tls-key", certs.Key},
		"GRPC_CLIENT_TLS_CACERT": {"--grpc-server-tls-cert", certs.Cert, "--grpc-server-tls-key", certs.Key, "--grpc-client-tls-cacert", empty},
	} {
		_, err := Open(context.Background(), parse(t, append([]string{"--config", rulesFolder(t, oneRule), "--grpc-server-use-tls"}, args...)...), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, name)
	}
}

func TestPrometheusPort(t *testing.T) {
	r := start(t, "--config", rulesFolder(t, oneRule), "--use-prometheus", "--prometheus-addr=127.0.0.1:0", "--prometheus-path=/m")
	_, err := ask(r.dial(insecure.NewCredentials()))
	require.NoError(t, err)
	want := `weir_decisions_total{cause="limit",domain="d",rule="k",verdict="ok"} 1`
	for _, place := range []struct{ addr, path string }{
		{r.HTTPAddr(), "/metrics"}, {r.DebugAddr(), "/metrics"}, {r.web[2].listener.Addr().String(), "/m"},
	} {
		_, text := r.get("GET", place.addr, place.path, "")
		require.Contains(t, text, want, fmt.Sprint(place))
	}
}
