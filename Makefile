# Everything a contributor runs. `make help` lists it. Only Python 3.11-3.14 and make are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written after a complete install; newer inputs make it stale.
READY := $(VENV)/.ready
LOCK := requirements/lock.txt
LOWEST := requirements/lowest.txt
LEARN := requirements/learn.txt
SITE := requirements/docs.txt
EXTRA := requirements/extras.txt
PIP := -m pip --quiet --disable-pip-version-check
# A lock names everything, so pip looks for nothing else: without --no-deps it would look at what
# `coverage[toml]` needs, meet a release newer than the lock, and refuse it for want of a hash.
# pip would compile all there is in one process, for half of its time; so `install` does it in as
# many as there are cores. What comes later, PyTorch above all, is compiled as it is imported.
LOCKED := install --no-compile --no-deps --require-hashes -r
# What tests need beside the lock; tests/helpers/needs.py says how each is found.
EXTRAS := torch or sb3 or ray or postgres or browser
# PyTorch: the version that is tested, and an index of its CPU builds, if pip knows none.
TORCH ?= 2.13.0
TORCH_INDEX ?=
# Two processes, as CI has cores; a file's tests stay together, so that what they share is made once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# The floor holds for all the tests. CI does not trace them: it takes half as much time again.
FLOOR := --cov --cov-report=term:skip-covered --cov-fail-under=90
# What is looked at after each change: types, checkers, files, single methods.
QUICK := tests/unit/foundation tests/unit/verification tests/unit/topology tests/unit/problems \
  tests/unit/backends tests/unit/instances tests/unit/schedulers tests/docs/test_words.py tests/docs/test_architecture.py
PYTEST_FLAGS ?=
# Compiled files are kept, whatever the environment says: the tests start hundreds of processes, and
# each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-learn install-extras demo check test test-long test-extras test-more test-random test-all test-lowest lint format docs bench lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## Set up .venv: the locked requirements and alloc itself

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	  || { echo "alloc needs Python 3.11 to 3.14, and $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	            "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "==> Creating $(VENV) with $$($(PYTHON) -V)"; $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }
	@echo "==> Installing the locked requirements (about a minute the first time)"
	@$(BIN)/python $(PIP) $(LOCKED) $(LOCK)
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # a template of a package is no Python
	@echo "==> Installing alloc, editable"
	@# The build backend comes from the lock, so nothing outside the lock is fetched.
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@$(BIN)/python $(PIP) check
	@touch $@

# PyTorch stands outside the lock: one version has a different file for every system and accelerator.
# Its CPU build is enough for every network here and a small part of the size of the one with CUDA,
# so it is asked for first; where pip finds none, whatever pip finds is taken, with all it needs.
# What it needs on every system is locked, and comes first.
install-learn: $(READY)  ## Add PyTorch, for training learned schedulers
	@$(BIN)/python $(PIP) $(LOCKED) $(LEARN)
	@$(BIN)/python -c 'import torch' 2>/dev/null || { \
	  echo "==> Installing PyTorch $(TORCH), the CPU build"; \
	  $(BIN)/python $(PIP) install --no-compile $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") \
	    "torch==$(TORCH)+cpu" 2>/dev/null \
	  || { echo "==> pip finds no CPU build here, so it takes the default one, on Linux several GB with CUDA."; \
	       echo "    To have the CPU build: make install-learn TORCH_INDEX=ADDRESS, with the address for"; \
	       echo "    pip and CPU that PyTorch's page on installing it names."; \
	       $(BIN)/python $(PIP) install --no-compile "torch==$(TORCH)"; }; }
	@$(BIN)/python -c 'import torch, onnxscript, alloc.learning.dl2.trainer; print("PyTorch", torch.__version__, "is ready.")'

# All that these need is in the locks before, or is PyTorch.
install-extras: install-learn  ## Add Ray and Stable-Baselines3 too, for `make test-extras`
	@$(BIN)/python $(PIP) $(LOCKED) $(EXTRA)

demo: $(READY)  ## Compare schedulers with the certified optimum on a small cluster
	@echo "==> Running the demo"
	@$(BIN)/alloc demo --report demo-output/report.html

check: $(READY)  ## Check style, imports and the quick tests: under a minute
	@$(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet
	@told=$$($(BIN)/lint-imports --no-cache) || { echo "$$told"; exit 1; }
	@$(PYTEST) --quiet -m "not slow and not long and not ($(EXTRAS))" $(QUICK) $(PYTEST_FLAGS)

test: $(READY)  ## Run the tests that take less than about half a second each
	@echo "==> Running the tests (make test-long runs those that take longer)"
	@$(PYTEST) -m "not slow and not long" $(PYTEST_FLAGS)

test-long: $(READY)  ## Run the tests that take half a second to 20 seconds each
	@echo "==> Running the longer tests"
	@$(PYTEST) -m "long and not slow" $(PYTEST_FLAGS)

test-extras: $(READY)  ## Run only the tests that need PyTorch, Stable-Baselines3, Ray, PostgreSQL or a browser
	@echo "==> Running the tests that need PyTorch, Stable-Baselines3, Ray, PostgreSQL or a browser"
	@$(PYTEST) -m "not slow and ($(EXTRAS))" $(PYTEST_FLAGS)

test-more: $(READY)  ## Run what `make test` leaves out but the slow tests: test-long and test-extras at once
	@echo "==> Running the longer tests, and those that need PyTorch, Stable-Baselines3, Ray, PostgreSQL or a browser"
	@$(PYTEST) -m "not slow and (long or $(EXTRAS))" $(PYTEST_FLAGS)

test-random: $(READY)  ## Run all but the slow tests, with random examples where `make test` has fixed ones
	@echo "==> Running the tests with random examples"
	@$(PYTEST) -m "not slow" --hypothesis-profile=random $(PYTEST_FLAGS)

test-all: $(READY)  ## Run every test, with the coverage floor
	@echo "==> Running every test"
	@$(PYTEST) $(FLOOR) $(PYTEST_FLAGS)

# The oldest versions were built for the oldest Python, so it takes that one. The smoke set: every
# import, every solver backend, every formulation against brute force, files, tables, the server.
LOWEST_BIN := build/lowest-env/bin
SMOKE := tests/packaging tests/unit/backends tests/conformance/test_every_formulation.py \
  tests/unit/learning/test_environments.py tests/unit/schedulers/test_policy_scheduler.py \
  tests/unit/server/test_server_jobs.py tests/unit/report tests/docs
test-lowest:  ## Run a smoke set with the oldest versions that pyproject.toml declares
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "make test-lowest needs Python 3.11, and $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	            "Name another one: make PYTHON=python3.11 test-lowest"; exit 1; }
	@test -x $(LOWEST_BIN)/python || $(PYTHON) -m venv build/lowest-env
	@echo "==> Installing the oldest versions"
	@$(LOWEST_BIN)/python $(PIP) $(LOCKED) $(LOWEST)
	@$(LOWEST_BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@echo "==> Running the smoke set"
	@# An old matplotlib calls what a new pyparsing will no longer have: no fault of ours.
	@$(LOWEST_BIN)/python -m pytest -n 2 -W default::DeprecationWarning \
	  -m "not slow and not ($(EXTRAS))" $(SMOKE) $(PYTEST_FLAGS)

lint: $(READY)  ## Check style, spelling, types and the direction of imports; after `make install-learn`
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || { echo "mypy reads the types of PyTorch, which is not here; run make install-learn first."; exit 1; }
	@echo "==> ruff check"
	@$(BIN)/ruff check
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check
	@echo "==> codespell"
	@$(BIN)/codespell
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> lint-imports"
	@# Without the cache, which misses that a module imported earlier has come to exist.
	@$(BIN)/lint-imports --no-cache

format: $(READY)  ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# What builds the site stands outside the lock, and is fetched only here: a newcomer needs none of it.
# The build itself uses no network.
docs: $(READY)  ## Build the documentation site in build/site, and check it
	@$(BIN)/python $(PIP) $(LOCKED) $(SITE)
	@echo "==> Building build/site"
	@cd docs && ../$(BIN)/python -m website

bench: $(READY)  ## Run the benchmarks
	@$(BIN)/python -m benchmarks

# The resolver lives in an environment of its own: only whoever renews the lock needs it. One lock
# serves Python 3.11 to 3.14 on every system. Addresses of package indexes stay out of it.
COMPILE_FROM := build/lock-env/bin/uv pip compile --universal --python-version 3.11 \
  --no-config --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock"
COMPILE := $(COMPILE_FROM) pyproject.toml
lock:  ## Renew requirements/lock.txt, and those beside it, from pyproject.toml
	@echo "==> Resolving $(LOCK)"
	@$(PYTHON) -m venv build/lock-env
	@build/lock-env/bin/python $(PIP) install "uv>=0.5"
	@$(COMPILE) --extra dev --output-file $(LOCK)
	@# The same versions for the container: what the server needs, and the build backend.
	@$(COMPILE) requirements/build.in --extra server --constraint $(LOCK) \
	  --output-file requirements/server.txt
	@# What training needs beside PyTorch, for `make install-learn`.
	@$(COMPILE_FROM) requirements/learn.in --constraint $(LOCK) --output-file $(LEARN)
	@# What has tests of its own beside PyTorch, for `make install-extras`.
	@$(COMPILE_FROM) requirements/extras.in --no-deps --output-file $(EXTRA)
	@# What builds the documentation site, for `make docs`.
	@$(COMPILE_FROM) requirements/docs.in --constraint $(LOCK) --output-file $(SITE)
	@# The oldest versions that pyproject.toml declares, for `make test-lowest`.
	@$(COMPILE) --extra dev --resolution lowest-direct --output-file $(LOWEST)

clean:  ## Remove everything the other targets made
	rm -rf $(VENV) build dist *.egg-info demo-output htmlcov .coverage .coverage.* \
	  .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find alloc models instances benchmarks docs tests -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
