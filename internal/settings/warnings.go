package settings

import (
	"os"
	"slices"
)

// without are the variables whose feature weir does not have, with what to do
// instead.
var without = map[string]string{
	"LOCAL_CACHE_SIZE_IN_BYTES":                     "there is no local cache of refusals yet: each decision asks the store",
	"REDIS_KEY_FORMAT=envoyproxy":                   "keys in the reference's text are not supported yet",
	"USE_DOG_STATSD":                                "dogstatsd is not supported yet: scrape /metrics",
	"TRACING_ENABLED":                               "traces are not supported yet",
	"REDIS_PIPELINE_WINDOW":                         "weir writes as soon as a connection is free: the window has no effect",
	"REDIS_PIPELINE_LIMIT":                          "it has no effect, as in the reference",
	"REDIS_CLUSTER_PIPELINE_PARALLELISM":            "weir asks all nodes of a cluster at once",
	"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "it has no effect, as in the reference; use XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
}

// Warnings says which variables of the environment have no effect, and what to
// do instead.
func (s *Settings) Warnings() []string {
	var out []string
	for name, advice := range without {
		variable, only := name, ""
		for i := range name {
			if name[i] == '=' {
				variable, only = name[:i], name[i+1:]
				break
			}
		}
		value := os.Getenv(variable)
		if value == "" || value == "false" || value == "0" || only != "" && value != only {
			continue
		}
		out = append(out, variable+": "+advice)
	}
	if s.Rules.OnError == "local" && s.Rules.DefaultReplicas == 0 {
		out = append(out, "EXPECTED_REPLICAS is not set: on_error local gives each replica the whole limit")
	}
	slices.Sort(out)
	return out
}
