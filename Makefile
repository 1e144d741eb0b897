# Everything a contributor runs. `make help` lists it. Only Python 3.11-3.13 and make are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written after a complete install; newer inputs make it stale.
READY := $(VENV)/.ready
LOCK := requirements/lock.txt
# The floor holds for a whole run; a single test file would never reach it.
FLOOR := --cov --cov-report=term:skip-covered --cov-fail-under=90
PYTEST_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help install install-learn demo test test-all lint format bench lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## Set up .venv: the locked requirements and alloc itself

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "alloc needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	            "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "==> Creating $(VENV) with $$($(PYTHON) -V)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> Installing the locked requirements (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@echo "==> Installing alloc, editable"
	@# The build backend comes from the lock, so nothing outside the lock is fetched.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# PyTorch stands outside the lock: one version has a different file for every system and accelerator,
# and pip picks the one configured here. Everything PyTorch needs is in the lock.
install-learn: $(READY)  ## Add PyTorch, for training learned schedulers
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || { echo "==> Installing PyTorch"; \
	       $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps torch==2.13.0; }

demo: $(READY)  ## Compare schedulers with the certified optimum on a small cluster
	@echo "==> Running the demo"
	@$(BIN)/alloc demo --output demo-output

test: $(READY)  ## Run the fast tests, with the coverage floor
	@echo "==> Running the fast tests"
	@$(BIN)/python -m pytest -n 2 -m "not slow" $(FLOOR) $(PYTEST_FLAGS)

test-all: $(READY)  ## Run every test, with the coverage floor
	@echo "==> Running every test"
	@$(BIN)/python -m pytest -n 2 $(FLOOR) $(PYTEST_FLAGS)

lint: $(READY)  ## Check style, types and the direction of imports
	@echo "==> ruff check"
	@$(BIN)/ruff check
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> lint-imports"
	@# Without the cache, which misses that a module imported earlier has come to exist.
	@$(BIN)/lint-imports --no-cache

format: $(READY)  ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(READY)  ## Run the benchmarks
	@$(BIN)/python -m benchmarks

# The resolver lives in an environment of its own: only whoever renews the lock needs it. One lock
# serves Python 3.11 to 3.13 on every system. Addresses of package indexes stay out of it.
lock:  ## Renew requirements/lock.txt from pyproject.toml
	@echo "==> Resolving $(LOCK)"
	@$(PYTHON) -m venv build/lock-env
	@build/lock-env/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"
	@build/lock-env/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --no-config --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" --output-file $(LOCK)
	@# The same versions for the container: what the server needs, and the build backend.
	@build/lock-env/bin/uv pip compile pyproject.toml requirements/build.in --extra server \
	  --universal --python-version 3.11 \
	  --constraint $(LOCK) --no-config --quiet --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --custom-compile-command "make lock" --output-file requirements/server.txt

clean:  ## Remove everything the other targets made
	rm -rf $(VENV) build dist *.egg-info demo-output htmlcov .coverage .coverage.* \
	  .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find alloc models instances benchmarks tests -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
