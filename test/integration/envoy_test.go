package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/envoytest"
	"github.com/weirhq/weir/internal/testutil/redistest"
)

// gateway is an Envoy with one route; {filter} is further YAML of its rate limit
// filter, {limits} the route's own list.
const gateway = `
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: {port}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: edge
                access_log:
                  - name: envoy.access_loggers.stdout
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
                      log_format: {text_format_source: {inline_string: "access %RESPONSE_CODE% rule=%DYNAMIC_METADATA(envoy.filters.http.ratelimit:rule)% verdict=%DYNAMIC_METADATA(envoy.filters.http.ratelimit:verdict)%\n"}}
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: edge
                      timeout: 1s
                      failure_mode_deny: true
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
                      rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: weir}}}
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {prefix: /}
                          route: {cluster: app}
                          typed_per_filter_config:
                            envoy.filters.http.ratelimit:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                              rate_limits:
{limits}
    - address: {socket_address: {address: 127.0.0.1, port_value: {app}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: app
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                route_config:
                  virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: "hello"}}}]}]
  clusters:
    - name: app
      type: STATIC
      load_assignment: {cluster_name: app, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {app}}}}}]}]}
    - name: weir
      type: STATIC
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment: {cluster_name: weir, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {weir}}}}}]}]}
`

// start puts an Envoy before a weir; limits is the route's rate_limits list.
func start(t *testing.T, weirPort int, limits string) *envoytest.Envoy {
	t.Helper()
	var indented []string
	for line := range strings.Lines(strings.Trim(limits, "\n")) {
		indented = append(indented, strings.Repeat(" ", 32)+strings.TrimRight(line, "\n"))
	}
	return envoytest.Start(t, gateway, map[string]string{
		"limits": strings.Join(indented, "\n"), "weir": strconv.Itoa(weirPort), "app": strconv.Itoa(redistest.FreePort(t)),
	})
}

const perUser = `
- actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
`

func TestEnvoyRefusesTheFourthWithHeaders(t *testing.T) {
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			env := map[string]string{"BACKEND_TYPE": store}
			if store == "redis" {
				env["REDIS_SOCKET_TYPE"], env["REDIS_URL"] = "tcp", redistest.Start(t).Addr()
			}
			roomInMinute()
			weir, _ := serve(t, "domain: edge\ndefaults: {headers: [ratelimit]}\ndescriptors: [{key: user, rate_limit: {name: free, unit: minute, requests_per_unit: 3}}]\n", env)
			envoy := start(t, weir.GRPC, perUser)
			for left := 2; left >= 0; left-- {
				resp := get(t, envoy.Port, map[string]string{"x-user": "ann"})
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, strconv.Itoa(left), resp.Header.Get("ratelimit-remaining"))
				require.Equal(t, "3, 3;w=60;name=\"free\"", resp.Header.Get("x-ratelimit-limit"), "Envoy's own headers")
			}
			resp := get(t, envoy.Port, map[string]string{"x-user": "ann"})
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, "3", resp.Header.Get("ratelimit-limit"))
			require.Equal(t, "0", resp.Header.Get("ratelimit-remaining"))
			wait, err := strconv.Atoi(resp.Header.Get("retry-after"))
			require.NoError(t, err)
			require.True(t, wait >= 1 && wait <= 60, wait)
			require.Equal(t, resp.Header.Get("retry-after"), resp.Header.Get("ratelimit-reset"))

			require.Equal(t, http.StatusOK, get(t, envoy.Port, map[string]string{"x-user": "bob"}).StatusCode)
			require.Eventually(t, func() bool {
				return strings.Contains(envoy.Log(), "access 429 rule=free verdict=over_limit")
			}, 15*time.Second, 50*time.Millisecond, "the access log names the rule: %s", envoy.Log())
		})
	}
}

func TestRulesEditedLive(t *testing.T) {
	const rules = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: LIMIT}\n"
	weir, folder := serve(t, strings.ReplaceAll(rules, "LIMIT", "1"), nil)
	envoy := start(t, weir.GRPC, perUser)
	status := func() int { return get(t, envoy.Port, map[string]string{"x-user": "ann"}).StatusCode }
	require.Equal(t, http.StatusOK, status())
	require.Equal(t, http.StatusTooManyRequests, status())

	file := filepath.Join(folder, "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(rules, "LIMIT", "1000")), 0o600))
	edited := time.Now()
	require.Eventually(t, func() bool { return status() == http.StatusOK }, 3*time.Second, 20*time.Millisecond)
	require.Less(t, time.Since(edited), time.Second, "a change is in force within a second")

	require.NoError(t, os.WriteFile(file, []byte("domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: fortnight, requests_per_unit: 1}\n"), 0o600))
	require.Eventually(t, func() bool {
		log := weir.Log()
		return strings.Contains(log, "file=rules.yaml") && strings.Contains(log, "line=4") && strings.Contains(log, "rule=user") && strings.Contains(log, "fortnight")
	}, 3*time.Second, 20*time.Millisecond, "the log names file, line and rule")
	require.Equal(t, http.StatusOK, status(), "a broken edit changes nothing")
}

func TestAnOverrideWithoutUnitEndsNothing(t *testing.T) {
	weir, _ := serve(t, "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 2}}]\n", nil)
	envoy := start(t, weir.GRPC, `
- actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
  limit: {dynamic_metadata: {metadata_key: {key: none, path: [{key: none}]}}}
`)
	for _, want := range []int{200, 200, 429, 429} {
		require.Equal(t, want, get(t, envoy.Port, map[string]string{"x-user": "ann"}).StatusCode)
	}
	require.True(t, weir.Running())
}

// TestPlacesInFlight holds two requests of a user at most: weir's metadata
// brings the lease back when the stream ends.
func TestPlacesInFlight(t *testing.T) {
	weir, _ := serve(t, "domain: edge\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 2, algorithm: concurrency, lease_ttl: 1h}}]\n", nil)
	envoy := start(t, weir.GRPC, `
- actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
- actions:
    - request_headers: {header_name: x-user, descriptor_key: user}
    - metadata: {descriptor_key: lease, source: DYNAMIC, metadata_key: {key: envoy.filters.http.ratelimit, path: [{key: lease}]}}
  apply_on_stream_done: true
  hits_addend: {format: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:held)%", is_negative_hits: true}
`)
	for i := range 20 { // one after the other: each gives its place back
		require.Eventually(t, func() bool {
			return get(t, envoy.Port, map[string]string{"x-user": "ann"}).StatusCode == http.StatusOK
		}, 2*time.Second, 5*time.Millisecond, "request %d", i)
	}
}
