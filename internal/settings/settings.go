// Package settings holds every setting that cannot change while weir runs: one
// struct, filled from flags and environment variables.
//
// It owns names, defaults, accepted forms and the redaction of secrets. It must
// not know what a setting does; internal/server wires them. Rules are no
// settings: they are files that may change at any time.
package settings

import "time"

// Settings are the effective values. Each field is a flag and, by its env tag,
// an environment variable; names and defaults of the variables that
// envoyproxy/ratelimit has are its own.
type Settings struct {
	Rules   Rules   `embed:"" group:"Rules"`
	Listen  Listen  `embed:"" group:"Ports"`
	GRPC    GRPC    `embed:"" group:"gRPC"`
	Answers Answers `embed:"" group:"Answers"`
	Store   Store   `embed:"" group:"Store"`
	Redis   Redis   `embed:"" group:"Redis"`
	PerSec  PerSec  `embed:"" group:"Redis for limits per second"`
	Limits  Limits  `embed:"" group:"Bounds"`
	XDS     XDS     `embed:"" group:"xDS"`
	Metrics Metrics `embed:"" group:"Metrics"`
	Tracing Tracing `embed:"" group:"Tracing"`
	Log     Log     `embed:"" group:"Log"`
}

// Rules say where rules come from.
type Rules struct {
	Config string `short:"c" env:"WEIR_CONFIG" placeholder:"PATH" help:"Rule file, or folder of *.yaml files, watched for changes. Without it the RUNTIME_* layout of envoyproxy/ratelimit is read."`

	ConfigType      string `env:"CONFIG_TYPE" default:"FILE" enum:"FILE,GRPC_XDS_SOTW" help:"FILE, or GRPC_XDS_SOTW to get rules from an xDS server."`
	RuntimeRoot     string `env:"RUNTIME_ROOT" default:"/srv/runtime_data/current" help:"Root of the rule folder in the RUNTIME_* layout."`
	RuntimeSub      string `name:"runtime-subdirectory" env:"RUNTIME_SUBDIRECTORY" help:"Folder below the root."`
	RuntimeApp      string `name:"runtime-appdirectory" env:"RUNTIME_APPDIRECTORY" default:"config" help:"Folder below the subdirectory that holds the rule files."`
	IgnoreDotFiles  bool   `name:"runtime-ignoredotfiles" env:"RUNTIME_IGNOREDOTFILES" help:"Skip files and folders whose name begins with a dot."`
	WatchRoot       bool   `name:"runtime-watch-root" env:"RUNTIME_WATCH_ROOT" default:"true" negatable:"" help:"Watch the root (a link that is swapped) rather than the folder of rule files."`
	MergeDomains    *bool  `name:"merge-domain-config" env:"MERGE_DOMAIN_CONFIG" help:"false refuses a second file of one domain; otherwise files of one domain are merged."`
	ForceStart      bool   `name:"force-start-without-initial-config" env:"FORCE_START_WITHOUT_INITIAL_CONFIG" help:"Listen before the first rules have come."`
	HealthyWithOne  bool   `name:"healthy-with-at-least-one-config-loaded" env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" help:"Be unhealthy while no domain is loaded."`
	DefaultAlg      string `name:"default-algorithm" env:"DEFAULT_ALGORITHM" default:"fixed_window" enum:"fixed_window,sliding_window_log,sliding_window_counter,token_bucket,gcra,leaky_bucket" help:"Algorithm of limits that choose none."`
	OnError         string `name:"on-error" env:"ON_ERROR" default:"error" enum:"allow,deny,error,local" help:"What rules that choose nothing answer while the store cannot: allow, deny, error (gRPC Unavailable) or local."`
	HashSecretFile  string `env:"HASH_SECRET_FILE" placeholder:"FILE" help:"File with the secret that keys hash_value."`
	DefaultReplicas int    `name:"expected-replicas" env:"EXPECTED_REPLICAS" placeholder:"N" help:"Number of weir replicas: on_error local divides limits by it."`
}

// Listen are the ports.
type Listen struct {
	Host      string `env:"HOST" default:"0.0.0.0" help:"Address of the HTTP port."`
	Port      int    `env:"PORT" default:"8080" help:"HTTP port: /healthcheck, /livez, /readyz, /json, /metrics. 0 takes a free one."`
	GRPCHost  string `name:"grpc-host" env:"GRPC_HOST" default:"0.0.0.0" help:"Address of the gRPC port."`
	GRPCPort  int    `name:"grpc-port" env:"GRPC_PORT" default:"8081" help:"gRPC port. 0 takes a free one."`
	GRPCUDS   string `name:"grpc-uds" env:"GRPC_UDS" placeholder:"PATH" help:"Unix socket for gRPC, instead of the port."`
	DebugHost string `env:"DEBUG_HOST" default:"127.0.0.1" help:"Address of the debug port."`
	DebugPort int    `env:"DEBUG_PORT" default:"6070" help:"Debug port: /rlconfig, /stats, /metrics. 0 takes a free one."`
	Pprof     bool   `env:"DEBUG_PPROF" help:"Serve /debug/pprof/ on the debug port."`

	ShutdownDelay   time.Duration `env:"SHUTDOWN_DELAY" default:"0s" help:"Time between not ready and the end of accepting, for balancers to notice."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" default:"30s" help:"Longest wait for calls in flight at the end."`
}

// GRPC is how the gRPC port is served.
type GRPC struct {
	MaxAge      time.Duration `name:"grpc-max-connection-age" env:"GRPC_MAX_CONNECTION_AGE" default:"24h" help:"Age at which a connection is asked to go; 0 is never."`
	MaxAgeGrace time.Duration `name:"grpc-max-connection-age-grace" env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" help:"Time that its calls then have."`
	UseTLS      bool          `name:"grpc-server-use-tls" env:"GRPC_SERVER_USE_TLS" help:"Serve TLS; certificate and key are read again when they change."`
	Cert        string        `name:"grpc-server-tls-cert" env:"GRPC_SERVER_TLS_CERT" placeholder:"FILE" help:"Certificate chain (PEM)."`
	Key         string        `name:"grpc-server-tls-key" env:"GRPC_SERVER_TLS_KEY" placeholder:"FILE" help:"Private key (PEM)."`
	ClientCA    string        `name:"grpc-client-tls-cacert" env:"GRPC_CLIENT_TLS_CACERT" placeholder:"FILE" help:"Require client certificates of this CA, and of no other."`
	ClientSAN   string        `name:"grpc-client-tls-san" env:"GRPC_CLIENT_TLS_SAN" placeholder:"NAME" help:"Require that client certificates are valid for this name."`
	Transport   string        `name:"grpc-transport" env:"GRPC_TRANSPORT" default:"grpc-go" enum:"grpc-go" help:"Implementation of the gRPC port."`
}

// Answers are what callers get beside the verdict.
type Answers struct {
	Headers         bool   `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" help:"Send RateLimit-Limit, -Remaining and -Reset for rules that choose no headers."`
	LimitHeader     string `env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Name of the limit header."`
	RemainingHeader string `name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Name of the remaining header."`
	ResetHeader     string `name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Name of the reset header."`
	RetryAfter      bool   `name:"retry-after-header" env:"RETRY_AFTER_HEADER" default:"true" negatable:"" help:"Send retry-after on refusals."`
	Metadata        string `name:"response-metadata" env:"RESPONSE_METADATA" default:"refused" enum:"refused,all,off" help:"When to send the verdict as dynamic metadata: refused, all or off."`
	RefMetadata     bool   `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" help:"Send dynamic metadata in the layout of envoyproxy/ratelimit."`
	StatusLimits    string `env:"STATUS_LIMITS" default:"all" enum:"all,refusing,enforced" help:"Which statuses carry current_limit, of which Envoy makes x-ratelimit headers."`
	RefusedBody     string `env:"REFUSED_BODY" default:"none" enum:"none,text,problem+json" help:"Body of refusals."`
	ShadowMode      bool   `env:"SHADOW_MODE" help:"Count and report everything, refuse nothing."`
	QuotaMode       bool   `env:"QUOTA_MODE" help:"Treat every matched rule as a quota: refuse only when all are used up."`
	StopIncrement   bool   `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" help:"Count the descriptors of a request only if all of them pass, in every domain (all_or_nothing)."`
}

// Store is where states live.
type Store struct {
	Backend     string        `name:"backend-type" env:"BACKEND_TYPE" placeholder:"redis|memory" help:"Store of the states. Default: memory with --config and without any REDIS_* variable, else redis."`
	Timeout     time.Duration `name:"backend-timeout" env:"BACKEND_TIMEOUT" default:"500ms" help:"Longest wait for the store, whatever the caller allows."`
	KeyPrefix   string        `name:"cache-key-prefix" env:"CACHE_KEY_PREFIX" help:"Put before each key in the store."`
	Jitter      int           `name:"expiration-jitter-max-seconds" env:"EXPIRATION_JITTER_MAX_SECONDS" default:"300" help:"Keys live up to this many seconds longer than needed, so that they do not all expire at once."`
	MemoryKeys  int           `name:"memory-max-keys" env:"MEMORY_MAX_KEYS" default:"1000000" help:"Most states that the memory store holds."`
	LocalCache  int           `name:"local-cache-size-in-bytes" env:"LOCAL_CACHE_SIZE_IN_BYTES" help:"Size of the reference's local cache of refusals."`
	NearLimit   float64       `name:"near-limit-ratio" env:"NEAR_LIMIT_RATIO" default:"0.8" help:"Share of a limit from which hits count as near the limit in metrics."`
	KeyFormat   string        `name:"redis-key-format" env:"REDIS_KEY_FORMAT" default:"weir" enum:"weir,envoyproxy" help:"Text of the keys."`
	MemcacheURL string        `name:"memcache-host-port" env:"MEMCACHE_HOST_PORT" help:"Memcached servers."`
}

// Redis is the connection to Redis or Valkey.
type Redis struct {
	Socket       string        `name:"redis-socket-type" env:"REDIS_SOCKET_TYPE" default:"unix" enum:"tcp,unix" help:"Network of a single server."`
	Type         string        `name:"redis-type" env:"REDIS_TYPE" default:"SINGLE" help:"SINGLE, SENTINEL or CLUSTER."`
	URL          Secret        `name:"redis-url" env:"REDIS_URL" default:"/var/run/nutcracker/ratelimit.sock" help:"host:port, socket path or redis://user:pass@host:port/db; for a cluster a list of seeds; for Sentinel master,host:port,…"`
	Auth         Secret        `name:"redis-auth" env:"REDIS_AUTH" help:"password or user:password."`
	AuthFile     string        `name:"redis-auth-file" env:"REDIS_AUTH_FILE" placeholder:"FILE" help:"File with the same, read at each connection."`
	SentinelAuth Secret        `name:"redis-sentinel-auth" env:"REDIS_SENTINEL_AUTH" help:"password or user:password of the Sentinels."`
	PoolSize     int           `name:"redis-pool-size" env:"REDIS_POOL_SIZE" default:"10" help:"Connections to each server."`
	TLS          bool          `name:"redis-tls" env:"REDIS_TLS" help:"Use TLS, also towards Sentinels."`
	TLSCert      string        `name:"redis-tls-client-cert" env:"REDIS_TLS_CLIENT_CERT" placeholder:"FILE" help:"Client certificate (PEM)."`
	TLSKey       string        `name:"redis-tls-client-key" env:"REDIS_TLS_CLIENT_KEY" placeholder:"FILE" help:"Its key (PEM)."`
	TLSCA        string        `name:"redis-tls-cacert" env:"REDIS_TLS_CACERT" placeholder:"FILE" help:"CA of the servers, beside the system's."`
	TLSSkipHost  bool          `name:"redis-tls-skip-hostname-verification" env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" help:"Verify the chain but not the name."`
	DialTimeout  time.Duration `name:"redis-timeout" env:"REDIS_TIMEOUT" default:"10s" help:"Longest wait for a connection; decisions wait for BACKEND_TIMEOUT only."`
	HealthCheck  bool          `name:"redis-health-check-active-connection" env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" help:"Be unhealthy while Redis does not answer."`
}

// PerSec is the second Redis, for limits of one second; certificates are those of
// the first.
type PerSec struct {
	Use          bool          `name:"redis-persecond" env:"REDIS_PERSECOND" help:"Keep single limits of one second in a Redis of their own."`
	Socket       string        `name:"redis-persecond-socket-type" env:"REDIS_PERSECOND_SOCKET_TYPE" default:"unix" enum:"tcp,unix" help:"As REDIS_SOCKET_TYPE."`
	Type         string        `name:"redis-persecond-type" env:"REDIS_PERSECOND_TYPE" default:"SINGLE" help:"As REDIS_TYPE."`
	URL          Secret        `name:"redis-persecond-url" env:"REDIS_PERSECOND_URL" default:"/var/run/nutcracker/ratelimitpersecond.sock" help:"As REDIS_URL."`
	Auth         Secret        `name:"redis-persecond-auth" env:"REDIS_PERSECOND_AUTH" help:"As REDIS_AUTH."`
	SentinelAuth Secret        `name:"redis-persecond-sentinel-auth" env:"REDIS_PERSECOND_SENTINEL_AUTH" help:"As REDIS_SENTINEL_AUTH."`
	PoolSize     int           `name:"redis-persecond-pool-size" env:"REDIS_PERSECOND_POOL_SIZE" default:"10" help:"As REDIS_POOL_SIZE."`
	TLS          bool          `name:"redis-persecond-tls" env:"REDIS_PERSECOND_TLS" help:"As REDIS_TLS."`
	DialTimeout  time.Duration `name:"redis-persecond-timeout" env:"REDIS_PERSECOND_TIMEOUT" default:"10s" help:"As REDIS_TIMEOUT."`
}

// Limits bound what one request may hold.
type Limits struct {
	MaxDescriptors int `env:"MAX_DESCRIPTORS" default:"256" help:"Most descriptors of a request."`
	MaxEntries     int `env:"MAX_ENTRIES" default:"64" help:"Most entries of a descriptor."`
	MaxKeyBytes    int `env:"MAX_KEY_BYTES" default:"1024" help:"Longest key of an entry."`
	MaxValueBytes  int `env:"MAX_VALUE_BYTES" default:"65536" help:"Longest value of an entry, and longest domain."`
}

// XDS is the connection to an xDS server.
type XDS struct {
	URL         string            `name:"config-grpc-xds-server-url" env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000" help:"Address of the server."`
	NodeID      string            `name:"config-grpc-xds-node-id" env:"CONFIG_GRPC_XDS_NODE_ID" default:"default" help:"Node id."`
	NodeMeta    string            `name:"config-grpc-xds-node-metadata" env:"CONFIG_GRPC_XDS_NODE_METADATA" help:"Node metadata, k=v,k2=v2."`
	Headers     map[string]string `name:"config-grpc-xds-client-additional-headers" env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS" mapsep:"," help:"Headers sent along, k:v,k2:v2."`
	UseTLS      bool              `name:"config-grpc-xds-server-use-tls" env:"CONFIG_GRPC_XDS_SERVER_USE_TLS" help:"Use TLS."`
	Cert        string            `name:"config-grpc-xds-client-tls-cert" env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT" placeholder:"FILE" help:"Client certificate (PEM)."`
	Key         string            `name:"config-grpc-xds-client-tls-key" env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY" placeholder:"FILE" help:"Its key (PEM)."`
	CA          string            `name:"config-grpc-xds-server-tls-cacert" env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT" placeholder:"FILE" help:"CA of the server."`
	ServerName  string            `name:"config-grpc-xds-server-tls-san" env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN" help:"Name that its certificate must be valid for."`
	BackoffInit time.Duration     `name:"xds-client-backoff-initial-interval" env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s" help:"First wait before connecting again."`
	BackoffMax  time.Duration     `name:"xds-client-backoff-max-interval" env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s" help:"Longest wait."`
	MaxMsgBytes int               `name:"xds-client-max-msg-size-in-bytes" env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" help:"Largest message; 0 is 4 MiB."`
}

// Metrics are the metrics outlets.
type Metrics struct {
	UsePrometheus  bool          `env:"USE_PROMETHEUS" help:"Serve metrics on PROMETHEUS_ADDR too, with the names of envoyproxy/ratelimit beside weir's own. Those are on the debug port always."`
	PrometheusAddr string        `env:"PROMETHEUS_ADDR" default:":9090" help:"Address of that port."`
	PrometheusPath string        `env:"PROMETHEUS_PATH" default:"/metrics" help:"Path on it."`
	Mapper         string        `name:"prometheus-mapper-yaml" env:"PROMETHEUS_MAPPER_YAML" placeholder:"FILE" help:"Mapping file of statsd_exporter for the reference's names; one that is missing or broken is passed over with a warning."`
	Milliseconds   bool          `name:"prometheus-response-time-as-milliseconds" env:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS" help:"Leave the reference's response times in milliseconds."`
	FlushInterval  time.Duration `name:"stats-flush-interval" env:"STATS_FLUSH_INTERVAL" default:"10s" help:"Interval at which the reference's names are brought up to date."`
	UseStatsd      bool          `env:"USE_STATSD" default:"true" negatable:"" help:"Send statistics by statsd."`
	UseDogStatsd   bool          `env:"USE_DOG_STATSD" help:"Send statistics by dogstatsd."`
	Disable        bool          `name:"disable-stats" env:"DISABLE_STATS" help:"Send no statistics."`
}

// Tracing is OpenTelemetry.
type Tracing struct {
	Enabled bool `name:"tracing-enabled" env:"TRACING_ENABLED" help:"Send traces."`
}

// Log is the log on standard error.
type Log struct {
	Level  string `name:"log-level" env:"LOG_LEVEL" placeholder:"LEVEL" help:"trace, debug, info, warn, error, fatal or panic. Default: info with --config, else warn."`
	Format string `name:"log-format" env:"LOG_FORMAT" default:"text" help:"text or json."`
}

// DefaultRedisURL is where the reference looks for Redis unless told otherwise.
const DefaultRedisURL = "/var/run/nutcracker/ratelimit.sock"

// Secret is a text that is never printed.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from JSON and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }
