package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The domains and entry keys that requests name.
const (
	plainDomain  = "bench"
	routesDomain = "bench_routes"
	leasedDomain = "bench_leased"

	allowKey  = "allow"  // never refused
	denyKey   = "deny"   // one request a day and key passes
	clientKey = "client" // below a route
)

const plainRules = `domain: bench
descriptors:
  - key: allow
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
  - key: deny
    rate_limit: {unit: day, requests_per_unit: 1}
`

const leasedRules = `domain: bench_leased
descriptors:
  - key: allow
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
    consistency: leased
`

// few and many are the numbers of rules whose costs are compared.
const (
	fewRoutes  = 10
	manyRoutes = 100_000
)

func routeRules(routes int) string {
	var b strings.Builder
	b.WriteString("domain: bench_routes\ndescriptors:\n")
	for i := range routes {
		fmt.Fprintf(&b, "  - key: route\n    value: r%08d\n    descriptors:\n"+
			"      - {key: client, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n", i)
	}
	return b.String()
}

// writeRules lays out a rule folder as RUNTIME_* describe it and gives its
// root. Everything but the leased rules is in the reference's language.
func writeRules(root string, routes int, leased bool) error {
	files := map[string]string{"plain.yaml": plainRules, "routes.yaml": routeRules(routes)}
	if leased {
		files["leased.yaml"] = leasedRules
	}
	folder := filepath.Join(root, rulesSub, rulesApp)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	rulesSub = "ratelimit"
	rulesApp = "config"
)
