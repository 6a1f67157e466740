# Thalweg: everything a developer or operator runs from a checkout. 'make' alone lists the targets.
# Needs make and Python >= 3.11 with its venv module; all else goes into .venv.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PORT ?= 8080
PROFILE ?=
# Tests run on two processes; a file's tests stay together.
JOBS ?= 2
PYTEST_ARGS ?=
# Debian packages of tests and benchmarks: groups or names, see tools/debian_packages.sh.
TEST_PACKAGES ?= test
TEST_ALL_PACKAGES ?= $(TEST_PACKAGES) qgis
BENCH_PACKAGES ?= bench
# Generated requests (make fuzz): how many, and which; the same seed gives the same ones again.
REQUESTS ?= 20000
SEED ?= 1
ONLY ?=
UV_VERSION ?= 0.13.9

# The first interpreter that is new enough and can make an environment; else the reason why none will do.
ifndef PYTHON
PYTHON = $(eval PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo "$$p"; exit; fi; done; echo none))$(PYTHON)
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
EDITABLE := install --no-deps --no-build-isolation --editable .

.PHONY: help demo test test-all fuzz lint format bless bench docs lock clean debian-test debian-test-all debian-bench

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  %-10s %s\n' "$$t" "$$d"; done

# ---------------------------------------------------------------- environment

$(VENV)/.made-stamp:
	@if [ "$(PYTHON)" = none ]; then \
		for p in python3.14 python3.13 python3.12 python3.11 python3; do \
			if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
				echo "Found $$("$$p" --version), but its venv or ensurepip module is missing." >&2; \
				echo "On Debian: apt-get install python3-venv. Then run make again." >&2; exit 1; fi; done; \
		echo "No Python 3.11 or newer found. Install one, or name it: make PYTHON=/path/to/python3.12" >&2; \
		exit 1; fi
	@echo "Making the environment $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.run-stamp: requirements/run.txt pyproject.toml | $(VENV)/.made-stamp
	@echo "Installing the server: the packages of requirements/run.txt and this checkout"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) $(EDITABLE)
	@touch $@

$(VENV)/.dev-stamp: requirements/dev.txt pyproject.toml | $(VENV)/.made-stamp
	@echo "Installing server, tests and linters: the packages of requirements/dev.txt and this checkout"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) $(EDITABLE)
	@touch $@

debian-test:
	@sh tools/debian_packages.sh $(TEST_PACKAGES)

debian-test-all:
	@sh tools/debian_packages.sh $(TEST_ALL_PACKAGES)

debian-bench:
	@sh tools/debian_packages.sh $(BENCH_PACKAGES)

# ---------------------------------------------------------------- run

demo: $(VENV)/.run-stamp ## install into .venv and serve sample data on PORT (8080)
	@exec $(BIN)/thalweg demo --port $(PORT)

bench: $(VENV)/.dev-stamp debian-bench ## measure: PROFILE="run sos-study" and the like
	@exec $(BIN)/thalweg bench $(PROFILE)

# ---------------------------------------------------------------- check

test: $(VENV)/.dev-stamp debian-test lint ## lint, then run the tests but the long ones
	@$(PYTEST) -m "not long" $(PYTEST_ARGS)

test-all: $(VENV)/.dev-stamp debian-test-all lint ## lint, then run all tests with more examples each
	@HYPOTHESIS_PROFILE=long $(PYTEST) $(PYTEST_ARGS)

fuzz: $(VENV)/.dev-stamp ## send REQUESTS (20000) generated requests of SEED (1) to a server; ONLY=n: one of them
	@$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

lint: $(VENV)/.dev-stamp ## style, types and import rule
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-logo || failed=1; \
	exit $$failed

format: $(VENV)/.dev-stamp ## put the code in form
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bless: $(VENV)/.dev-stamp ## rewrite the expected documents in tests/golden; review the diff
	@THALWEG_BLESS=1 $(BIN)/python -m pytest tests/golden $(PYTEST_ARGS)

# ---------------------------------------------------------------- keep

docs: $(VENV)/.dev-stamp ## write docs/reference from the code
	@$(BIN)/python -m thalweg.cli.reference docs/reference

# The resolver is a tool of this target only, in an environment of its own. One version of each package
# serves every Python; UPGRADE=1 takes the newest ones, UPGRADE=0 keeps what is locked where it fits.
UPGRADE ?= 0
COMPILE = .venv-lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(filter 1,$(UPGRADE)),--upgrade)

lock: ## write requirements/*.txt anew from pyproject.toml (UPGRADE=1: newest versions)
	@test -x .venv-lock/bin/uv || { echo "Installing the resolver uv $(UV_VERSION) into .venv-lock"; \
		"$(PYTHON)" -m venv .venv-lock && \
		.venv-lock/bin/python -m pip --quiet --disable-pip-version-check install uv==$(UV_VERSION); }
	@mkdir -p requirements
	@$(COMPILE) pyproject.toml --group editable -o requirements/run.txt
	@$(COMPILE) pyproject.toml --group editable --group dev -c requirements/run.txt -o requirements/dev.txt
	@echo "Wrote requirements/run.txt and requirements/dev.txt"

clean: ## remove what the other targets made (not the data)
	rm -rf $(VENV) .venv-lock build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
