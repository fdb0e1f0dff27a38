# `make help` says what there is. Nothing needs to be prepared: the first target that needs the
# environment makes it in .venv (Python 3.11 or later), and those that need Java 17 say so.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
N      ?= 1000
KILLS  ?= 50
PARITY := $(CURDIR)/.parity
CLUSTER := $(CURDIR)/.cluster
MATRIX  := $(CURDIR)/.matrix
CODE    := $(shell find kinesis_source pyspark_kinesis -name '*.py')

# Spark must use this environment's Python in every process, and must not look up the
# machine's own name: without a network that name often resolves to nothing.
export PYSPARK_PYTHON        := $(CURDIR)/$(PY)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(PY)
export SPARK_LOCAL_IP        := 127.0.0.1
export SPARK_LOCAL_HOSTNAME  := localhost

.DEFAULT_GOAL := help
.PHONY: help venv java demo test test-pure test-slow lint types imports ci soak crash cluster test-matrix parity mutations docs clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

venv: $(READY) ## Make or refresh the environment in .venv

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "$(PYTHON) is missing or older than Python 3.11; name another: make $(or $(MAKECMDGOALS),venv) PYTHON=python3.11" >&2; exit 1; }
	@echo "Making the environment in $(VENV) (once; PySpark is large, this takes a minute or two) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Spark takes $JAVA_HOME/bin/java if that is set, else the first java on the path.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found=$$("$$java" -version 2>&1) || { \
	  echo "No Java here: '$$java' does not run. Spark needs Java 17 or later: install it, or set JAVA_HOME." >&2; exit 1; }; \
	major=$$(printf '%s\n' "$$found" | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1); \
	[ "$${major:-0}" -ge 17 ] || { \
	  echo "'$$java' is Java $${major:-of an unknown version}; Spark needs 17 or later: install it, or set JAVA_HOME." >&2; exit 1; }

demo: $(READY) java ## Watch a real Spark query live through reshards and a SIGKILL (about a minute)
	@$(PY) -m kinesis_source.demo

test: $(READY) java ## Run the tests: pure ones, the simulated engine, real Spark
	@$(PY) -m tests.side_by_side

test-pure: $(READY) ## Run the tests that need no Java
	@$(PY) -m pytest -q -m 'not (spark or cluster or matrix)'

test-slow: $(READY) java ## Run what CI runs besides: a few real kills, engine parity on real Spark
	@$(PY) -m pytest -q -m 'slow and not (cluster or matrix)'

lint: $(READY) ## Check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(READY) ## Check the types (mypy --strict)
	@$(PY) -m mypy

imports: $(READY) ## Check that imports go down only
	@$(VENV)/bin/lint-imports

ci: ## Run what CI runs
	@.ci/run

soak: $(READY) ## Run N random histories in parallel processes: make soak N=10000
	@$(PY) -m tests.support.soak --seeds 0:$(N)

crash: $(READY) java ## Kill a real Spark KILLS times (50) under load and check its sinks
	@$(PY) -m tests.crash --kills $(KILLS)

cluster: $(READY) java $(CLUSTER)/.ready ## Run jobs on a standalone cluster in every way there is (five minutes)
	@CLUSTER=$(CLUSTER) $(PY) -m pytest -q -s --timeout 600 -m cluster tests/cluster
	@echo "What each run showed: $(CLUSTER)/log.txt"

$(CLUSTER)/.ready: docs/clusters.md tests/cluster/environments.py pyproject.toml constraints.txt $(CODE)
	@echo "Making the cluster's environments in $(CLUSTER) …"
	@$(PY) -m tests.cluster.environments $(CLUSTER)
	@touch $@

# The tests of `make test` on each PySpark that is supported, and what those before it answer.
test-matrix: java $(MATRIX)/.ready ## Run the tests on PySpark 4.2 and 4.3, and ask 3.5, 4.0 and 4.1
	@for version in 4.2 4.3; do \
	  echo "== PySpark $$version"; python=$(MATRIX)/$$version/bin/python; \
	  PYSPARK_PYTHON=$$python PYSPARK_DRIVER_PYTHON=$$python \
	    $$python -m pytest -q -m 'not (slow or cluster or matrix)' || exit 1; \
	done
	@MATRIX=$(MATRIX) $(MATRIX)/4.3/bin/python -m pytest -q -m matrix tests/matrix

$(MATRIX)/.ready: pyproject.toml constraints.txt
	@echo "Making an environment for each PySpark in $(MATRIX) …"
	@mkdir -p $(MATRIX); grep -v '^pyspark==' constraints.txt > $(MATRIX)/constraints.txt
	@for version in 4.2 4.3; do \
	  $(PYTHON) -m venv $(MATRIX)/$$version && $(MATRIX)/$$version/bin/pip install --quiet \
	    --constraint $(MATRIX)/constraints.txt "pyspark==$$version.*" --editable '.[dev]' || exit 1; \
	done
	@for version in 3.5 4.0 4.1; do \
	  $(PYTHON) -m venv $(MATRIX)/$$version && $(MATRIX)/$$version/bin/pip install --quiet \
	    "pyspark==$$version.*" pyarrow pandas 'setuptools<80' || exit 1; \
	done
	@touch $@

parity: $(READY) java $(PARITY)/.ready ## Compare with PySpark 4.2 and two other local streams
	@$(PY) -m tests.parity --modules $(PARITY)/node_modules
	@PARITY_PYTHON=$(PARITY)/pyspark-4.2/bin/python $(PY) -m pytest -q tests/parity/test_engine_parity.py

$(PARITY)/.ready: tests/parity/emulators.py
	@echo "Getting the other streams and PySpark 4.2 into $(PARITY) (once) …"
	@npm install --silent --prefix $(PARITY) --ignore-scripts --no-save --no-package-lock \
	  $$($(PY) -c 'from tests.parity.emulators import VERSIONS as v; print(*map("@".join, v.items()))')
	@$(PYTHON) -m venv $(PARITY)/pyspark-4.2
	@$(PARITY)/pyspark-4.2/bin/pip install --quiet 'pyspark==4.2.*' boto3 msgspec pyarrow
	@touch $@

mutations: $(READY) ## Plant each known mistake in a copy, and see that a test catches it
	@$(PY) -m tests.mutations

docs: $(READY) ## Write the tables of options, docs/errors.md and docs/parity.md
	@$(PY) docs/write_options_table.py
	@$(PY) -m tests.unit.options.wrong_inputs
	@$(PY) -m tests.parity --write-docs

clean: ## Remove the environment and all that was made
	rm -rf $(VENV) $(PARITY) $(CLUSTER) $(MATRIX) demo-output build dist spark-warehouse artifacts metastore_db
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
