# What developers and CI run. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test test-matrix lint demo bench generate pgtap dba-check zombies fuzz chaos load clean

READY := .venv/.ready
RUNNABLE := .venv/.runnable
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Test processes that run at once. Each has a server of its own, so a server that the caller names can serve only one.
WORKERS ?= $(if $(FLOWFABRIC_TEST_DSN),0,2)

# `make test` prefers server binaries of this machine to a container: only those come with plpgsql_check.
LOCAL_SERVER = $(shell ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | head -n 1)
TEST_SERVER = $(if $(FLOWFABRIC_TEST_PG)$(FLOWFABRIC_TEST_DSN),$(FLOWFABRIC_TEST_PG),$(if $(LOCAL_SERVER),local,))

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target what; do \
	    printf '  make %-12s %s\n' "$$target" "$$what"; done

$(READY): pyproject.toml tools/setup
	@tools/setup

$(RUNNABLE): pyproject.toml
	@tools/setup --demo

setup: ## make .venv and, as root with apt, install the server and its test extensions
	@tools/setup

test: $(READY) ## run every check and every test, as CI does
	@echo "test: gates, Python tests and pgTAP on $(or $(TEST_SERVER),the server that is found first), $(WORKERS) processes"
	@FLOWFABRIC_TEST_PG=$(TEST_SERVER) FLOWFABRIC_REQUIRE_PLPGSQL_CHECK=1 \
	    python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-matrix: $(READY) ## run the tests on PostgreSQL 14, 15, 16, 17 and 18
	@tools/test-matrix

lint: $(READY) ## run the checks that need no server: ruff, mypy, sqlfluff, squawk, pgspot
	@tools/lint

demo: $(RUNNABLE) ## start a private Postgres and three workers, kill one, and watch its work being taken over
	@flowfabric demo

bench: $(READY) ## measure this engine and its peers side by side: make bench BENCH_ARGS=--quick
	@python -c 'import matplotlib' 2>/dev/null || pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@python -m bench $(BENCH_ARGS)

generate: $(READY) ## write what is generated anew: the Python client, docs/reference.md and docs/errors.md
	@echo "generate: writing from the catalogue of a private server, and from the error codes"
	@python tools/generate_docs.py
	@python tools/generate_client.py

pgtap: $(READY) ## run the pgTAP suite with pg_prove on a database: make pgtap DSN=postgresql://...
	@python tools/run_pg_prove.py "$(DSN)"

dba-check: $(READY) ## check a production database, reading only: make dba-check DSN=postgresql://...
	@python tools/run_pg_prove.py "$(DSN)" dba/check.sql

zombies: $(READY) ## let stale workers try every write, on a private server or on DSN=, and print what refuses them
	@python tools/run_zombies.py "$(DSN)"

SEED ?= $(shell echo $$RANDOM)
fuzz: $(READY) ## call every function with random arguments for a long time: make fuzz SEED=7
	@echo "fuzz: seed $(SEED)"
	@FLOWFABRIC_FUZZ_SEED=$(SEED) FLOWFABRIC_FUZZ_ROUNDS=500 FLOWFABRIC_TEST_PG=$(TEST_SERVER) \
	    python -m pytest tests/attack/test_fuzz.py tests/attack/test_injection.py

chaos: $(READY) ## break things under steady load, for minutes: make chaos CHAOS_ARGS='--minutes 10 --seed 7'
	@python -m tests.chaos $(CHAOS_ARGS)

load: $(READY) ## 200 000 executions of every kind for 100 workers: make load LOAD_ARGS='--executions 5000'
	@python -m tests.chaos.load $(LOAD_ARGS)

clean: ## remove everything that is not in git: .venv, caches, builds
	@echo "clean: removing .venv, caches and builds"
	@rm -rf .venv .cache dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
