# `make help` says what there is. Nothing needs to be prepared: the first target that needs the
# environment makes it in .venv (Python 3.11 or later), and those that need Java 17 say so.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
N      ?= 1000

# Spark must use this environment's Python in every process, and must not look up the
# machine's own name: without a network that name often resolves to nothing.
export PYSPARK_PYTHON        := $(CURDIR)/$(PY)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(PY)
export SPARK_LOCAL_IP        := 127.0.0.1
export SPARK_LOCAL_HOSTNAME  := localhost

.DEFAULT_GOAL := help
.PHONY: help venv java demo test test-pure lint types imports ci soak docs clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

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

test: $(READY) java ## Run every test: pure ones, the simulated engine, real Spark
	@$(PY) -m pytest -q

test-pure: $(READY) ## Run the tests that need no Java
	@$(PY) -m pytest -q -m 'not spark'

lint: $(READY) ## Check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(READY) ## Check the types (mypy --strict)
	@$(PY) -m mypy

imports: $(READY) ## Check that imports go down only
	@$(VENV)/bin/lint-imports

ci: ## Run what CI runs
	@.ci/run

soak: $(READY) ## Run N random histories in two processes: make soak N=10000
	@$(PY) -m tests.support.soak --seeds 0:$(N) --processes 2

docs: $(READY) ## Write the table of options into README.md
	@$(PY) docs/write_options_table.py

clean: ## Remove the environment and all that was made
	rm -rf $(VENV) demo-output build dist spark-warehouse artifacts metastore_db
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
