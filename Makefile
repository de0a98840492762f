# SPDX-License-Identifier: Apache-2.0
#
# The commands people type; CMakeLists.txt and CMakePresets.json do the building, in
# build/<preset>/. Every target first installs the packages it misses (tools/packages.txt).
#
#   make            the release: build/meshflow, build/libmeshflow.so*
#   make test       what gates every change          T=pattern: only unit tests that match
#   make check      before calling something done: format, lint, layers, asan, tsan
#   make help       all of them

PREFIX ?= /usr/local
T ?=
N ?= 20
export T

.DEFAULT_GOAL := release
.PHONY: release dev clang asan tsan test test-repeat check bench fuzz soak engines install bundle format lint layers \
	sizes train tour docs clean distclean help

# $(call build,preset,targets)
define build
	@cmake --preset $(1) --log-level=WARNING >/dev/null
	@cmake --build build/$(1) $(if $(2),--target $(2))
endef

release: ## build the program and the libraries
	@tools/install_packages.sh build
	$(call build,release,meshflow meshflow_shared meshflow_static plugins man)
	@for f in build/release/meshflow build/release/libmeshflow.so* build/release/libmeshflow.a \
		build/release/plugins; do if [ -e "$$f" ]; then cp -af "$$f" build/; fi; done

dev: ## quick build without optimisation, in build/dev
	@tools/install_packages.sh build
	$(call build,dev)

clang: ## the release built by clang, in build/clang
	@tools/install_packages.sh build test
	$(call build,clang)

test: ## the tests that gate every change (T=pattern: unit tests that match)
	@tools/install_packages.sh build test data bundle
	@tools/run_tests.sh

test-repeat: ## the suites N (20) times, half of them beside busy loops (T=pattern); lists what failed once
	@tools/repeat_tests.py -n $(N) $(T)

asan: ## unit tests under the address and undefined-behaviour sanitizers
	@tools/install_packages.sh build test
	$(call build,asan,all bench)
	@tools/run_sanitized.sh asan $(T)

# What shares anything between threads: runs, queues and other objects with state, the pool, every op
# with one thread and several, threads that train at once, checkpoints written behind the training.
TSAN := ^runtime_ ^pool_ ^base_cancel ^queue_ ^staging_ ^accumulator_ ^stack_ ^tensor_array ^random \
	every_op_gives ^data_ ^coordinator_ ^monitored_ ^comm_ ^cluster_ \
	^recovery_ ^session ^predict ^train_ ^fit_ ^damage_ ^replicas_ ^workers_ ^servers_ ^dispatch_ ^average_

tsan: ## unit tests of threads and processes under the thread sanitizer
	@tools/install_packages.sh build test
	$(call build,tsan,meshflow-tests)
	@tools/run_sanitized.sh tsan $(or $(T),$(TSAN))

check: ## format, lint, layers, whole suite under asan, tsan
	@tools/install_packages.sh build test check
	@tools/format.sh --check
	@$(MAKE) --no-print-directory lint layers asan tsan

bench: ## build and run the benchmarks (T=pattern: programs that match)
	@tools/install_packages.sh build data
	$(call build,release,all bench)
	@tools/run_bench.sh $(T)

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@tools/install_packages.sh build test
	$(call build,fuzz,fuzzers)
	@tools/run_fuzz.sh

soak: ## hours instead of minutes: fuzzing, the sweep against TensorFlow, kills, faults, accuracy
	@$(MAKE) --no-print-directory release
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} $(MAKE) --no-print-directory fuzz
	$(call build,asan,meshflow-tests)
	@GRAPHS=10000 tools/run_sanitized.sh asan random_graphs
	@MUTATIONS=100 tools/run_sanitized.sh asan every_op_answers_mutated
	@tools/run_tf_tests.sh --soak
	@tests/train/run.py build/meshflow --kills 100
	@tests/train/partition.py build/meshflow load --hosts --minutes 10
	@tests/train/members.py build/meshflow killed --kills 50
	@tests/train/groups.py build/meshflow killed --kills 50
	@tests/train/faults.py build/meshflow killed_in_turn --kills 200
	@tests/train/soak.py build/meshflow --minutes $${SOAK_MINUTES:-10}
	$(call build,release,meshflow-kills)
	@build/release/meshflow-kills 500
	@tests/server/floods.py build/meshflow --connections 100000
	@tests/server/limits.py build/meshflow --hosts
	@tests/train/accuracy.py build/meshflow
	@tests/train/accuracy.py build/meshflow --strategies
	@tests/train/accuracy.py build/meshflow --compress

engines: ## tests with real engines: MPI, UCX, etcd, Slurm, torchrun, Ray, JAX, hosts as network namespaces
	@tools/install_packages.sh build test data engines
	$(call build,release,meshflow meshflow_shared meshflow-engine-tests net-check)
	@tests/engines/run.sh build/release

install: release ## install to PREFIX (/usr/local)
	@cmake --install build/release --prefix $(abspath $(PREFIX))

bundle: ## a tree and a tarball for other Linux distributions, build/meshflow-*-linux-x86_64.tar.xz
	@tools/install_packages.sh build bundle
	$(call build,release,meshflow meshflow_shared meshflow_static plugins man bench-peak)
	@tools/make_bundle.sh build/release

format: ## lay out the sources
	@tools/install_packages.sh check
	@tools/format.sh

lint: ## clang-tidy and cppcheck
	@tools/install_packages.sh build test check
	$(call build,asan,mf_proto_headers)
	@tools/lint.sh

layers: ## check the direction of includes, entries, names, links of the documentation, prose
	@tools/install_packages.sh test
	@tools/check_layers.py && tools/check_host.py && tools/check_names.py && tools/check_docs.py && tools/check_prose.py

sizes: ## print sizes of files and functions
	@tools/sizes.sh

train: release ## train on pictures of clothes with a small cluster, of which some die, and compare
	@tools/install_packages.sh data
	@tools/demonstrate.sh build/meshflow

tour: release ## what the five documents say, section by section, run (T=pattern: some steps)
	@tools/install_packages.sh data tour
	@tools/tour/run.py build/meshflow $(T)

docs: ## build the documentation as a site, in build/site; fails on a broken link
	@tools/install_packages.sh docs
	@tools/build_docs.sh

clean: ## remove what was built, keep build/venv and build/docs-venv
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name venv ! -name docs-venv -exec rm -rf {} +; fi

distclean: ## remove build/
	@rm -rf build

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
