// Package web serves weir's HTTP ports: health, the JSON form of the rate limit
// call, and what an operator looks at on the debug port.
//
// It owns paths, statuses and bodies. It must not know stores or settings; what
// it shows is given to it as functions.
package web

import (
	"net/http"
	"net/http/pprof"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/envoyrls"
)

// State is what the pages show.
type State struct {
	Service *envoyrls.Service
	Metrics *prometheus.Registry
	// Snapshot is the configuration in force, nil while there is none.
	Snapshot func() *descriptors.Snapshot
	// Healthy is the health of the reference's /healthcheck; Ready also wants a
	// configuration.
	Healthy, Ready func() bool
	// Stats are the lines of /stats.
	Stats func() []string
	Pprof bool
}

// Main is the handler of the HTTP port.
func Main(s State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthcheck", health(s.Healthy))
	mux.HandleFunc("/livez", health(func() bool { return true }))
	mux.HandleFunc("/readyz", health(s.Ready))
	mux.HandleFunc("/json", jsonHandler(s.Service))
	mux.Handle("/metrics", Metrics(s.Metrics))
	return mux
}

// Metrics is the handler of the metrics page.
func Metrics(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, ErrorHandling: promhttp.ContinueOnError})
}

func health(ok func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !ok() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("OK"))
	}
}

// Debug is the handler of the debug port. Unknown paths list what there is.
func Debug(s State) http.Handler {
	pages := map[string]string{
		"/rlconfig": "print out the currently loaded configuration",
		"/stats":    "print out what the server is doing",
		"/metrics":  "metrics for Prometheus",
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		if snapshot := s.Snapshot(); snapshot != nil {
			_ = snapshot.Dump(w) // the client is gone: nobody is left to tell
		}
	})
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		_, _ = w.Write([]byte(strings.Join(s.Stats(), "\n") + "\n"))
	})
	mux.Handle("/metrics", Metrics(s.Metrics))
	if s.Pprof {
		pages["/debug/pprof/"] = "profiles of the process"
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	index := indexOf(pages)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		_, _ = w.Write([]byte(index))
	})
	return mux
}

func indexOf(pages map[string]string) string {
	lines := make([]string, 0, len(pages))
	for path, help := range pages {
		lines = append(lines, path+": "+help+"\n")
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// NewServer makes a server with the time limits that keep slow clients from
// holding connections for ever.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute, // profiles take their time
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}
