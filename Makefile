# All commands of the repository; each does the set-up that it needs. `make` alone lists them.
# Everything that is created goes below .local/, and `make clean` removes it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

LOCAL := .local
BIN := $(LOCAL)/venv/bin
INSTALLED := $(LOCAL)/venv/.installed
JARS := $(LOCAL)/jars/.fetched
say = printf '\n== %s\n'

# Pip and Spark should use what is here, not what an outer environment points to.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON AIRFLOW_HOME

.PHONY: help
help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: java $(INSTALLED) ## Virtual environment with everything pinned, and Java 17 (again only when a pin changes)

$(INSTALLED): pyproject.toml constraints.txt
	@python=; for one in python3.11 python3 python; do \
	    if "$$one" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then python=$$one; break; fi; done; \
	if [ -z "$$python" ]; then \
	    echo "Python 3.11 is missing; next: apt-get install -y python3.11 python3.11-venv, or pyenv install 3.11 && pyenv local 3.11" >&2; \
	    exit 1; fi; \
	if [ ! -x $(BIN)/python ]; then \
	    $(say) "creating the virtual environment $(LOCAL)/venv"; \
	    "$$python" -m venv $(LOCAL)/venv || { rm -rf $(LOCAL)/venv; echo "next: apt-get install -y python3.11-venv" >&2; exit 1; }; fi
	@$(say) "installing the packages that constraints.txt pins (1.4 GB, some minutes the first time)"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e '.[dev]' \
	    | { grep --line-buffered -v '^Requirement already satisfied' || true; }
	@touch $@

.PHONY: java
java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1 || true); \
	if [ "$${version:-0}" -ge 17 ]; then exit 0; fi; \
	install="apt-get install -y --no-install-recommends openjdk-17-jre-headless"; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    $(say) "installing Java 17"; apt-get update && $$install; \
	else echo "Java 17 is missing (found: $${version:-none}); next: sudo $$install" >&2; exit 1; fi

.PHONY: jars
jars: setup $(JARS) ## The jars for Delta, the databases and S3, into .local/jars

$(JARS): cdc_ops/lake/spark/jars.py | $(INSTALLED)
	@$(say) "fetching the jars (31 MB)"
	@$(BIN)/python -m cdc_ops.lake.spark.jars $(LOCAL)/jars
	@touch $@

.PHONY: servers
servers: setup
	@$(say) "making sure that MariaDB, Postgres, Debezium and, where it can be had, MySQL can be started"
	@$(BIN)/python -m cdc_ops.dev.servers
	@$(BIN)/python -m cdc_ops.dev.debezium

.PHONY: check
check: setup ## Lint, format, types, import contracts, examples in docstrings, the documentation as a site
	@$(say) "ruff: lint"
	@$(BIN)/ruff check .
	@$(say) "ruff: format"
	@$(BIN)/ruff format --check .
	@$(say) "mypy: types, strict (a minute the first time)"
	@$(BIN)/mypy cdc_ops $(wildcard spark_jobs)
	@$(say) "import-linter: who may import whom"
	@$(BIN)/lint-imports
	@$(say) "pytest: the examples in the docstrings"
	@$(BIN)/python -m pytest --quiet --durations 0 --doctest-modules cdc_ops/core cdc_ops/events cdc_ops/config/expressions
	@$(MAKE) docs

.PHONY: docs
docs: setup ## The documentation as a site, in .local/site; broken links fail. To read it: python -m http.server -d .local/site
	@$(say) "mkdocs: the documentation, strict (3 seconds of a processor)"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: test
test: jars servers ## The tests of every promise: unit, Spark, database servers and Airflow
	@$(say) "tests, in three processes: each begins with a part of those that need no Spark, which wait the most"
	@$(BIN)/python -m pytest tests -m "not long" --numprocesses 3 --dist loadscope --no-loadscope-reorder

.PHONY: test-long
test-long: jars servers ## The tests that repeat those on other ground: other servers, engines and formats, more examples, soaks
	@$(BIN)/python -m pytest tests -m long --numprocesses 3 --dist loadscope --no-loadscope-reorder

.PHONY: test-s3
test-s3: jars servers ## The tests of lake, archives and whole runs, with everything they write on an S3 endpoint on loopback (s3a)
	@CDC_OPS_TEST_STORE=s3 $(BIN)/python -m pytest tests/spark tests/integration --numprocesses 3 --dist loadscope --no-loadscope-reorder

.PHONY: test-unit
test-unit: setup ## The tests that need no Java: some minutes
	@$(BIN)/python -m pytest tests/unit tests/events

.PHONY: pictures
pictures: setup ## The pictures in docs/pictures, made anew from the page in Airflow by Chromium; look at them before you commit them
	@CDC_OPS_PICTURES=docs/pictures $(BIN)/python -m pytest tests/airflow/test_browser.py -k pictures

.PHONY: demo
demo: jars ## A MariaDB, a Delta lake and real Airflow runs between them, step by step
	@$(BIN)/python -m cdc_ops.demo up

.PHONY: demo-ui
demo-ui: jars ## The same, and Airflow stays up to look around in
	@$(BIN)/python -m cdc_ops.demo ui

.PHONY: demo-archive
demo-archive: jars ## The log method: events of a real Debezium, and the binlogs themselves, as files on an S3 endpoint; Airflow runs merge them
	@$(BIN)/python -m cdc_ops.demo archive

.PHONY: demo-down
demo-down: ## Stop what the demo left running
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m cdc_ops.demo down; else echo "nothing is running: there is no $(LOCAL)/venv"; fi

.PHONY: bench
bench: jars servers ## Side-by-side measurements against peers; prints ratios
	@for script in benchmarks/[a-z]*.py; do $(say) "$$script"; $(BIN)/python -m "benchmarks.$$(basename "$$script" .py)"; done

.PHONY: soak
soak: jars servers ## Eight writers and increments beside each other on MariaDB and MySQL, 5 minutes each; then lake = source
	@for server in mariadb mysql; do $(say) "soak on $$server"; $(BIN)/python -m tests.soak --server $$server --seconds 300; done

.PHONY: torture
torture: jars servers ## Random tables, policies, workloads and faults on each server, judged by an oracle of its own (SECONDS=600 for each; tests/torture/README.md)
	@failed=0; for place in "postgres query 1" "mysql query 1" "mariadb query 1" "mysql log 1" "mariadb log 1" "mariadb query 3" "postgres events 1" "mysql events 1"; do \
	    set -- $$place; $(say) "torture on $$1, $$2 method, nodes: $$3"; \
	    $(BIN)/python -m tests.torture --server $$1 --method $$2 --nodes $$3 --seconds $(or $(SECONDS),600) --first $(or $(FIRST),1) || failed=1; done; exit $$failed

.PHONY: wheel-check
wheel-check: jars ## The wheel, built and installed into an environment of its own: command line, starter, Airflow, services, the demo (WITHOUT=demo)
	@$(BIN)/python -m tests.wheel_check $(if $(WITHOUT),--without-$(WITHOUT))

.PHONY: prometheus
prometheus: ## Prometheus and promtool, built by Go into .local/go, for make test-long (10 minutes of a processor each)
	@go=$$(command -v go || echo /usr/local/go/bin/go); for one in promtool prometheus; do \
	    GOPATH=$(CURDIR)/$(LOCAL)/go GOFLAGS=-modcacherw "$$go" install github.com/prometheus/prometheus/cmd/$$one@v0.316.0; done

.PHONY: test-next-airflow
test-next-airflow: jars servers ## The tests of Airflow's side on the next Airflow, in an environment of its own (TESTS="tests/airflow/test_dags.py ...")
	@$(BIN)/python -m tests.next_airflow $(TESTS)

.PHONY: mutants
mutants: jars servers ## Breaks the mechanisms behind the guarantees one by one; a test has to notice each (WITHOUT=spark, ONLY="name ...")
	@$(BIN)/python -m tests.mutants $(if $(WITHOUT),--without-$(WITHOUT)) $(if $(ONLY),--only $(ONLY))

.PHONY: clean
clean: ## Remove everything that was created, after stopping the demo
	@-if [ -x $(BIN)/python ]; then $(BIN)/python -m cdc_ops.demo down; fi
	rm -rf $(LOCAL) .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
