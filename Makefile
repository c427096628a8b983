# Sluice. `make` lists the targets. docs: README.md

SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go
CONSOLE_SOURCES := $(shell find console/src console/public console/index.html console/package.json console/package-lock.json console/vite.config.ts -type f 2>/dev/null)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# gin's MessagePack, which nobody asks for here, would cost a sixth of the build.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -tags=nomsgpack
LDFLAGS := -X main.version=$(VERSION)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: sluice ## build Sluice and start it on embedded defaults in ./var
	@exec bin/sluice standalone --data ./var

.PHONY: build
build: sluice ## bin/sluice and bin/terraform-provider-sluice, console embedded
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/terraform-provider-sluice ./terraform

# The packages that need no console are compiled while npm works; Go itself knows
# what is up to date.
.PHONY: sluice parts go-packages
sluice:
	@$(MAKE) --no-print-directory --jobs=2 parts
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sluice

parts: console/dist/index.html go-packages

go-packages:
	@$(GO) build -trimpath ./dataplane/node ./controlplane/cache ./controlplane/controldb ./controlplane/fleet ./controlplane/messages ./cmd/sluice/cli

console/node_modules/.package-lock.json: console/package.json console/package-lock.json
	cd console && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

console/dist/index.html: console/node_modules/.package-lock.json $(CONSOLE_SOURCES)
	cd console && npm run --silent build
	@touch $@

.PHONY: test
test: build ## set up what tests need (Debian packages as root, Terraform) and run all of them
	cd console && npm run --silent test
	scripts/test-services.sh scripts/go-test.sh -timeout 40m

# The official SDKs race with themselves over their settings. The race detector
# leaves out them and the codec that reads those; all of ours it watches.
UNWATCHED := $(patsubst %,-gcflags=%=-race=false,github.com/apache/rocketmq-clients/golang/v5 github.com/apache/rocketmq-client-go/v2/... google.golang.org/protobuf/...)

.PHONY: check
check: console/dist/index.html ## format, vet, staticcheck, import fences, generated code clean, tests under the race detector
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/arch
	cd console && npm run --silent check
	scripts/generate-clean.sh
	scripts/test-services.sh scripts/go-test.sh -race $(UNWATCHED) -timeout 80m

.PHONY: generate
generate: console/node_modules/.package-lock.json ## regenerate all generated code
	$(GO) generate ./...
	cd console && npm run --silent generate

.PHONY: demo
demo: build ## a new user's first minutes, step by step with times, and exact counts over a kill -9
	@$(GO) run ./internal/demo

# Rows of the log need Java for the peers, which the rows set up in .cache/peers,
# the others databases.
BENCH_SERVICES := $(if $(filter log%,$(ROWS)),java,mariadb redis $(if $(ROWS),,java))

.PHONY: bench
bench: build ## our figures beside their goals and the peers'; ROWS=pattern picks, PEERS= and SECONDS= narrow, PROFILES=folder keeps profiles; run nothing else meanwhile
	@SERVICES="$(BENCH_SERVICES)" scripts/test-services.sh $(GO) run ./bench $(if $(ROWS),-rows '$(ROWS)') \
		$(if $(filter undefined,$(origin PEERS)),,-peers '$(PEERS)') $(if $(SECONDS),-seconds $(SECONDS)s) $(if $(PROFILES),-profiles '$(PROFILES)')

.PHONY: schemathesis
schemathesis: build ## hostile requests from openapi.yaml against a fresh Sluice, for SCHEMATHESIS_SECONDS
	@scripts/schemathesis.sh

.PHONY: interop
interop: build ## every official SDK against a fresh Sluice; ROWS=pattern picks
	@$(GO) run ./internal/interop $(if $(ROWS),-rows '$(ROWS)')

.PHONY: chaos
chaos: build ## a broker killed 50 times while messages are sent and pulled: nothing lost; SECONDS= at least
	@$(GO) run ./internal/chaos -seconds $(or $(SECONDS),120)

.PHONY: clean
clean: ## remove what was built; ./var stays
	rm -rf bin .cache console/node_modules console/dist/assets console/dist/index.html
