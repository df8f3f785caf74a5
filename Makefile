# The project's commands. `make help` prints the text after ##; a line that begins with ## continues it.
# Outputs are in build/ and dist/. The project's own Node.js comes first in PATH.
MAKEFLAGS += --no-print-directory
ifneq ($(words $(CURDIR)),1)
$(error The path of this folder has a space, which make and the lab kernel cannot handle: move "$(CURDIR)")
endif
# The caller's locale may not be installed.
export LC_ALL := C.UTF-8
export TMPDIR := $(shell toolchain/temporary-folder.sh)
architecture := $(patsubst x86_64,x64,$(patsubst aarch64,arm64,$(shell uname -m)))
# Only Biome's binary for this system is installed, because its main package requires binaries for all systems.
biome := $(CURDIR)/node_modules/@biomejs/cli-linux-$(architecture)
export PATH := $(CURDIR)/build/toolchain/bin:$(CURDIR)/node_modules/.bin:$(biome):$(PATH)

addon := build/native-shim/$(architecture)/netlink_socket.node
step := toolchain/step.sh
# Node.js's compile cache for test sources, which halves their startup time. The program has its own cache.
with_cache := NODE_COMPILE_CACHE=$(CURDIR)/build/compile-cache
bench_programs := build/bench/limit build/bench/observe build/bench/connect build/bench/forward build/bench/pretend-ipvs.so

spelled := $(wildcard *.md) Makefile deploy docs native-shim src test toolchain

version := $(shell sed -n 's/^  "version": "\(.*\)",$$/\1/p' package.json)
# The seed of `make nightly`.
SEED := $(or $(SEED),$(shell date +%Y%m%d))
soak_minutes := $(or $(MINUTES),60)
release_folder := build/release/kube-ipvs-$(version)

.DEFAULT_GOAL := help
# Targets without a slash are commands. The others are files.
.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the commands
	@awk -f toolchain/help.awk $(firstword $(MAKEFILE_LIST))

setup: ## install system packages (apt), Node.js and dependencies
	@toolchain/install-packages.sh build check lab test
	@$(MAKE) setup-build setup-lab setup-prometheus build/test/chart-renderer build/test/seccomp.json

setup-build:
	@toolchain/install-packages.sh build
	@toolchain/install-node.sh
	@toolchain/install-dependencies.sh

setup-lab: setup-build
	@toolchain/install-packages.sh lab
	@toolchain/require-lab.sh
	@toolchain/extract-lab-kernel.sh

setup-release: setup-build
	@toolchain/install-packages.sh release

setup-prometheus:
	@toolchain/extract-prometheus.sh

build: dist/kube-ipvs ## build dist/kube-ipvs, also under the name kube-proxy

shim: $(addon)

lab: build/lab/uml-registers.so build/lab/quick-node.so build/test/netlink-fault.so build/test/network_namespace.node build/test/sctp-station build/test/forbidden-calls build/test/keep-registers
	@:

check: lint types unit ## lint, spelling, types and unit tests; needs no root

lint: setup-build
	@toolchain/install-packages.sh check
	@$(step) "Lint and format" biome check --error-on-warnings
	@$(step) "Direction of imports" node toolchain/lint/imports.ts
	@$(step) "Spelling" codespell $(spelled)

format: setup-build ## format the sources
	biome check --write

types: setup-build
	@$(step) "Types" tsc -p .

unit: setup-build shim
	@$(with_cache) $(step) "Unit tests" node --test --test-concurrency=2 --test-timeout=600000 'test/unit/**/*.test.ts' 'test/contract/*.test.ts'

test: setup ## run lint, types and all tests in one queue
## RECORD=1 records each suite's duration
	@$(MAKE) lint types
	@$(MAKE) test-suites

# Builds everything that suites need, then runs all suites, or those in SUITES, in parallel.
test-suites: setup-build shim setup-prometheus build/test/chart-renderer setup-lab build lab image
	@cp -r dist/lib/compile-cache build && $(with_cache) node test/lab/warm-compile-cache.ts
	@$(with_cache) node test/run.ts $(if $(RECORD),--record) $(SUITES)

nightly: ## run the long forms of make test and of suites with nft
## and nf_tables, and soak
## SEED=N repeats a run (default: the date)
	@echo "Seed: $(SEED)"
	@status=0; for part in nightly-tests nightly-kernels soak; do $(MAKE) $$part SEED=$(SEED) || status=1; done; exit $$status

nightly-tests nightly-kernels: export TEST_LONG := 1
nightly-tests nightly-kernels: export TEST_FIRST_SEED := $(SEED)

nightly-tests: test

nightly-kernels:
	@$(MAKE) test-kernels BACKEND='nft nftables'

test-prometheus: setup-build shim setup-prometheus ## scrape the daemon with a real Prometheus
	@$(with_cache) node test/run.ts prometheus

test-fuzz: setup-build shim ## fuzz every input with 500 deterministic inputs
	@$(with_cache) node test/run.ts fuzz hostile-clients

fuzz: setup-build ## fuzz each decoder with ten million random inputs
	@node test/fuzz/run.ts --long
	@$(MAKE) -s -C native-shim asan
	@unshare --net build/native-shim/$(architecture)-asan/driver 10000000 test/captures/*.txt

test-shim: setup-build shim ## test native-shim with sanitizers
## TEST_LONG=1 adds valgrind and arm64
	@$(MAKE) -C native-shim check

image: build/image/root/usr/local/bin/kube-proxy build/test/seccomp.json ## assemble the image in build/image/root

image-nftables: dist/kube-ipvs ## assemble an image without iptables
## in build/image/root-without-iptables
	@WITHOUT=iptables $(step) "Assembling the image's root" deploy/image/assemble-root.sh build/image/root-without-iptables

manifests: ## write deploy/manifests from the kustomize overlays
## (needs kubectl with kustomize 5)
	@for overlay in deploy/kustomize/overlays/*; do \
	  kubectl kustomize $$overlay > deploy/manifests/$$(basename $$overlay).yaml || exit; done

test-deploy: setup-build setup-prometheus build/test/chart-renderer ## validate manifests, the Helm chart and alerts
	@$(with_cache) node test/run.ts deploy

test-elsewhere: setup-lab build lab image ## test under other machines' conditions
	@node test/run.ts elsewhere

test-lab: test-lab-boot test-lab-suites ## test on the lab kernel, and test the lab itself

test-host: export LAB := host
test-host: test-lab ## test on this machine's own kernel, which must have
## IPVS; skips tests that change the whole machine

test-lab-boot: setup-lab build lab
	@$(with_cache) node test/run.ts lab-boot

test-lab-suites: setup-lab build lab image
	@cp -r dist/lib/compile-cache build && $(with_cache) node test/lab/warm-compile-cache.ts
	@$(with_cache) node test/lab/run-suites.ts

lab_kernel = toolchain/build-lab-kernel.sh $(if $(filter none,$(BACKEND)),--without-xtables)

lab-kernel: ## build a lab kernel with nf_tables (30 minutes, once)
## LAB_KERNEL=FOLDER BACKEND=none
	@$(lab_kernel)

test-kernels: setup-lab build lab lab-kernel image-nftables ## test the nf_tables kernel with each backend and
## write docs/reports/kernels.md
## SUITES='golden drift' BACKEND=nft|legacy|nftables|none
	@TEST_LONG=1 LAB_KERNEL=$$($(lab_kernel) --folder) node test/lab/run-kernels.ts $(if $(BACKEND),--backend '$(BACKEND)') $(SUITES)

test-stock: setup-lab build lab ## test Debian's own kernels in QEMU, with and without
## iptables, and write docs/reports/kernels.md
## KERNELS='debian-13 debian-13-arm64' BACKEND=nft|none
	@toolchain/install-packages.sh lab-stock
	@node test/lab/run-kernels.ts --stock '$(or $(KERNELS),debian-12 debian-13 debian-sid debian-13-arm64)' \
	  $(if $(BACKEND),--backend '$(BACKEND)')

bench: setup-lab build lab $(bench_programs) ## measure and write docs/reports/benchmarks.md
## CASES=a,b PEER='command with {config}'
	@node test/bench/main.ts --cases '$(CASES)' --peer '$(PEER)'

e2e: build ## test a cluster that runs kube-ipvs (docs/acceptance.md)
## KUBECONFIG=FILE FLAGS='--skip=restart -o json'
	@dist/kube-ipvs-e2e --kubeconfig='$(KUBECONFIG)' $(FLAGS)

conformance: setup-lab build lab image build/test/chart-renderer ## run Kubernetes' network tests on lab nodes
## KUBERNETES=FOLDER FOCUS=RE SKIP=RE
## PROXY=kube-proxy MODE=iptables NODES=3 FAMILIES=dual
	@node test/cluster/main.ts --kubernetes '$(KUBERNETES)' $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SKIP),--skip '$(SKIP)') \
	  $(if $(PROXY),--proxy '$(PROXY)') $(if $(MODE),--mode '$(MODE)') $(if $(NODES),--nodes '$(NODES)') \
	  $(if $(FAMILIES),--families '$(FAMILIES)')

migration: setup-lab build lab image build/test/chart-renderer ## migrate a kubeadm cluster to kube-ipvs and back
## KUBERNETES=FOLDER
	@node test/cluster/migration.ts --kubernetes '$(KUBERNETES)'

cluster-upgrade: setup-lab build lab image build/test/chart-renderer ## upgrade an earlier version and roll back
## KUBERNETES=FOLDER EARLIER=CHECKOUT
	@node test/cluster/upgrade.ts --kubernetes '$(KUBERNETES)' --earlier '$(EARLIER)'

cluster-commands: setup-lab build lab image build/test/chart-renderer ## apply each overlay and run the guides' commands
## KUBERNETES=FOLDER
	@node test/cluster/operations.ts --kubernetes '$(KUBERNETES)'

cluster-faults: setup-lab build lab image build/test/chart-renderer ## break a control plane and reboot a node
## KUBERNETES=FOLDER AWAY=600 ONLY=restore,move
	@node test/cluster/faults.ts --kubernetes '$(KUBERNETES)' $(if $(AWAY),--away '$(AWAY)') $(if $(ONLY),--only '$(ONLY)')

cluster-latency: setup-lab build lab image build/test/chart-renderer ## measure network programming latency and API requests
## KUBERNETES=FOLDER PROXY=kube-proxy MODE=iptables
	@node test/cluster/latency.ts --kubernetes '$(KUBERNETES)' $(if $(PROXY),--proxy '$(PROXY)') $(if $(MODE),--mode '$(MODE)')

compare-slices: setup-lab build ## compare EndpointSlices with kube-controller-manager's
## KUBERNETES=FOLDER
	@node test/cluster/endpoints.ts --kubernetes '$(KUBERNETES)'

faults: setup-lab build lab ## inject every fault (long form) and write
## docs/reports/data/faults.tsv
	@TEST_EXPOSURE=whole $(step) "Exposure under every single fault" node --test test/unit/reconcile/exposure.test.ts
	@TEST_LONG=1 $(step) "Random pairs of leftovers and desired state" node --test test/unit/daemon/random-pairs.test.ts
	@node test/lab/boot.ts --timeout 14400 -- node test/faults/main.ts --form long > build/faults.json
	@node test/faults/write-document.ts build/faults.json

walks: setup-lab build lab ## run random walks on the fake kernel and in the lab
## TEST_SEEDS=10000 LAB_WALKS=200
	@TEST_LONG=1 TEST_SEEDS=$(or $(TEST_SEEDS),10000) $(step) "Random walks" node --test --test-timeout=36000000 test/unit/daemon/random-walks.test.ts
	@TEST_LONG=1 TEST_SEEDS=$(or $(LAB_WALKS),200) node test/lab/boot.ts --timeout 36000 -- node --test test/lab/random-walks.test.ts

soak: setup-lab build lab ## run churn and random faults; fail on growth
## MINUTES=60; SEED=N repeats a run (default: the date)
## writes all samples to build/soak.tsv
	@TEST_FIRST_SEED=$(SEED) node test/lab/boot.ts --memory 3G --timeout $$(( $(soak_minutes) * 60 + 3600 )) -- node test/faults/soak.ts --minutes $(soak_minutes) > build/soak.tsv

demo: setup-lab build lab ## show real packets over real backends, step by step
	@node test/demo/demo.ts

shell: setup-lab build lab ## open a shell on the lab kernel for docs/quick-start.md
	@node test/lab/shell.ts

packet-paths: setup-lab build lab ## write docs/reports/packet-paths.md from real packets
	@node test/lab/boot.ts -- node test/packet-paths/print-document.ts > build/packet-paths.txt
	@node test/packet-paths/write-documents.ts build/packet-paths.txt packet-paths
	@node test/lab/boot.ts -- node test/packet-paths/print-modes-document.ts > build/packet-paths-modes.txt
	@node test/packet-paths/write-documents.ts build/packet-paths-modes.txt packet-paths-modes

seccomp: setup-lab build lab ## record system calls and write deploy/seccomp
	@mkdir -p build/seccomp
	@node test/lab/boot.ts -- node test/seccomp/record.ts > build/seccomp/recorded-calls.txt
	@mv build/seccomp/recorded-calls.txt deploy/seccomp/recorded-calls.txt
	@node test/seccomp/write-profile.ts

sbom: setup-build build ## write dist/sbom.cdx.json, a CycloneDX SBOM
	@toolchain/install-npm.sh
	@$(step) "Writing dist/sbom.cdx.json" node toolchain/write-sbom.ts

audit: setup-build ## check dependencies for known vulnerabilities; fail
## at severity high or critical
	@toolchain/install-npm.sh
	@npm audit --omit=dev --audit-level=high

# IMAGE is the image repository in the manifests and the chart. The default is localhost/kube-ipvs, the name of an image
# that was loaded from an archive. PROJECT_URL is the project's web page. Images and the chart name it, and krew.yaml has
# download addresses below it.
release: setup-release sbom image ## build images, chart and manifests in build/release
## IMAGE=REPOSITORY PROJECT_URL=URL
	@$(step) "Release" node toolchain/release/main.ts $(release_folder) build/image/root
	@cat $(release_folder)/SHA256SUMS

release-check: release ## rebuild and compare the release, test its images
	@$(step) "Rebuilding the release" node toolchain/release/main.ts $(release_folder)-again
	@$(step) "Testing the release" node --test --test-timeout=600000 'test/release/*.test.ts'

docs: setup-build ## generate documents and pictures
	@node toolchain/docs/write.ts

pictures: docs ## draw docs/pictures from docs/quick-start.md

clean: ## remove build and dist
	rm -rf build dist

# -- build outputs -----------------------------------------------------------------------------------

bundle_sources := $(shell find src native-shim -name '*.ts') package.json package-lock.json $(wildcard toolchain/*.ts) toolchain/launcher.sh

dist/kube-ipvs: $(bundle_sources) $(addon) | setup-build
	@$(step) "Bundling" node toolchain/bundle.ts

$(addon): $(wildcard native-shim/*.c native-shim/*.h) native-shim/Makefile | setup-build
	@$(step) "Compiling native-shim" $(MAKE) -C native-shim

build/image/root/usr/local/bin/kube-proxy: dist/kube-ipvs deploy/image/packages.txt deploy/image/assemble-root.sh
	@$(step) "Assembling the image's root" deploy/image/assemble-root.sh build/image/root
	@touch $@

# -- programs and data for tests ----------------------------------------------------------------------

compile_test_library = gcc -shared -fPIC -O2 -Wall -Wextra -Werror

# User-mode Linux supports only x86_64.
build/lab/%.so: test/lab/%.c | setup-build
	@mkdir -p $(@D)
	@case $$(uname -m) in x86_64) $(compile_test_library) -o $@ $< -ldl ;; esac

build/lab/quick-node.so: $(wildcard test/lab/quick-node/*.[ch]) | setup-build
	@mkdir -p $(@D)
	@case $$(uname -m) in x86_64) $(compile_test_library) -o $@ $(filter %.c,$^) -Wl,--as-needed -ldl ;; esac

build/test/network_namespace.node: test/support/netns/network-namespace.c | setup-build
	@mkdir -p $(@D)
	@$(compile_test_library) -I node_modules/node-api-headers/include -o $@ $<

build/test/netlink-fault.so: test/faults/netlink-fault.c | setup-build
	@mkdir -p $(@D)
	@$(compile_test_library) -o $@ $< -ldl

build/bench/pretend-ipvs.so: test/bench/pretend-ipvs.c | setup-build
	@mkdir -p $(@D)
	@$(compile_test_library) -o $@ $< -ldl

build/test/chart-renderer: test/deploy/chart-renderer/main.go toolchain/build-chart-renderer.sh
	@$(step) "Building the Helm chart renderer" toolchain/build-chart-renderer.sh $< $@

build/test/seccomp.json:
	@$(step) "Fetching the container runtimes' seccomp profile" toolchain/extract-file.sh \
	  golang-github-containers-common /usr/share/containers/seccomp.json $@

build/bench/%: test/bench/%.c | setup-build
	@mkdir -p $(@D)
	@gcc -O2 -Wall -Wextra -Werror -o $@ $<

build/test/forbidden-calls: test/seccomp/forbidden-calls.c | setup-build
	@mkdir -p $(@D)
	@gcc -O2 -Wall -Wextra -Werror -static -o $@ $<

build/test/keep-registers: test/lab-boot/keep-registers.c | setup-build
	@mkdir -p $(@D)
	@case $$(uname -m) in x86_64) gcc -O2 -Wall -Wextra -Werror -pthread -o $@ $< ;; esac

build/test/sctp-station: test/packet-paths/sctp-station.c | setup-build
	@mkdir -p $(@D)
	@gcc -O2 -Wall -Wextra -Werror -o $@ $<
