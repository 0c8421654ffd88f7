# Needs make and a Python of 3.11 or newer; everything else goes into $(VENV).
#     make test PYTHON=python3.13 VENV=.venv-3.13        another Python, beside the first
#     make test ARGS="tests/core -k order"               some of the tests

PYTHON ?= python3
VENV ?= .venv
CLIENTS ?= .clients
ARGS ?=
AT_ONCE ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))# tests mostly wait
HEADGATE_CHAOS_SECONDS ?= 120

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format bench sim reference chaos soak clients peers pin clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) \
	| while IFS='|' read -r target does; do printf '%-14s%s\n' "$$target" "$$does"; done

demo: $(VENV)/.runtime ## watch headgate at work
	$(BIN)/headgate demo $(ARGS)

test: $(VENV)/.dev ## run the tests
	$(BIN)/pytest -n $(AT_ONCE) --dist worksteal $(ARGS)

lint: $(VENV)/.dev ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## fix what a machine can fix
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

peers: .peers/.installed ## install what benchmarks compare with: LiteLLM (0.7 GB)

.peers/.installed:
	@echo "Installing LiteLLM into .peers"
	@$(PYTHON) -m venv .peers
	@.peers/bin/python -m pip --disable-pip-version-check install --quiet "litellm[proxy]==1.106.2"
	@touch $@

bench: $(VENV)/.dev ## measure, as ratios to a baseline in the same run
	$(BIN)/python bench/run.py $(ARGS)

sim: $(VENV)/.dev ## judge how limits are learned, and write it into docs/control.md (minutes)
	$(BIN)/headgate sim report --out docs/control.md $(ARGS)

reference: $(VENV)/.dev ## write docs/reference.md and the man pages, as the code has it
	$(BIN)/python tools/reference.py
	PYTHONPATH=. $(BIN)/python tools/man_pages.py

chaos: $(VENV)/.dev ## kill and stop things at random for HEADGATE_CHAOS_SECONDS (120), then count seats
	HEADGATE_CHAOS_SECONDS=$(HEADGATE_CHAOS_SECONDS) $(BIN)/pytest -m chaos --timeout=0 $(ARGS)

soak: $(VENV)/.dev ## keep 1,000 slow streams open through one wire for ten minutes
	HEADGATE_SOAK_STREAMS=$${HEADGATE_SOAK_STREAMS:-1000} HEADGATE_SOAK_SECONDS=$${HEADGATE_SOAK_SECONDS:-600} \
	    $(BIN)/pytest -m soak $(ARGS)

clients: $(VENV)/.dev ## run the real agents (claude, opencode, codex, gemini) from npm, on loopback
	@if command -v npm >/dev/null; then \
	    $(MAKE) --no-print-directory $(CLIENTS)/.installed \
	    && HEADGATE_CLIENTS=$(abspath $(CLIENTS)) $(BIN)/pytest -m clients -rs tests/clients $(ARGS); \
	else echo "SKIPPED: no real agent was tested, npm is not on PATH (it comes with Node 20+)" >&2; fi

pin: ## pin the newest versions that pyproject.toml allows
	$(PYTHON) tools/pin.py

clean: ## remove the environment, caches and build output
	rm -rf $(VENV) $(CLIENTS) .peers build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Two stamps, so that the demo fetches only what headgate runs on, and a second run fetches nothing.

$(VENV)/.runtime: $(PINS) | $(BIN)/python
	@echo "Installing headgate into $(VENV)"
	@sed '/^# Part 2/,$$d' constraints.txt > $(VENV)/runtime.txt
	@$(PIP) install --quiet --require-hashes -r $(VENV)/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@$(PIP) check >$(VENV)/check.txt \
	|| { cat $(VENV)/check.txt; echo "If a pin is missing: make pin"; exit 1; } >&2
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --quiet --require-hashes -r constraints.txt
	@touch $@

# Of their install scripts only the two that put the native program in place, whatever npm allows.

$(CLIENTS)/.installed: tests/clients/package.json
	@echo "Installing the agents into $(CLIENTS)"
	@mkdir -p $(CLIENTS)
	@cp tests/clients/package.json $(CLIENTS)/
	@npm install --prefix $(CLIENTS) --ignore-scripts --no-audit --no-fund --loglevel=error
	@cd $(CLIENTS)/node_modules/@anthropic-ai/claude-code && node install.cjs
	@cd $(CLIENTS)/node_modules/opencode-ai && node postinstall.mjs
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null \
	|| { echo "$(PYTHON) is not on PATH; name a Python of 3.11 or newer with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "headgate needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1);" \
	          "name another with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	|| { echo "$(PYTHON) lacks venv or ensurepip; on Debian and Ubuntu:" \
	          "apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
