# Everything a fresh machine needs is Python 3.11 or newer, make, and a package index for pip.
# `make demo` and `make test` set up .venv by themselves; `make help` lists all commands.

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The first of these that is new enough makes the virtual environment.
PYTHON ?= python3.11 python3 python3.12 python3.13 python3.14 python
# How many processes run tests, and more arguments for pytest: make test ARGS="-k notation"
WORKERS ?= 3
ARGS ?=

# One thread per process: test processes must not fight over cores. Three on two cores, since many
# tests wait for other processes or the disk.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check format clean docs evidence evidence-page picture audit

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.core  ## find better Transformers for this machine, on real text, in five minutes
	$(BIN)/formwright search --budget 4m --out runs/demo

test: check  ## everything that must pass: check, then all tests
	$(TEST_ENV) $(BIN)/python -m pytest -rs -n $(WORKERS) $(ARGS)

check: $(VENV)/.dev  ## lint, format, types and import rules, without tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev  ## format the code and fix what can be fixed safely
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## build the documentation into build/site, without the network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

evidence-page: $(VENV)/.dev  ## write docs/results.md anew from benchmarks/results
	$(BIN)/python benchmarks/evidence.py

evidence: $(VENV)/.dev  ## run the short form of all benchmarks, under two hours: DATA=FOLDER MINILM=FOLDER PEERS=FOLDER
	$(TEST_ENV) $(BIN)/python benchmarks/evidence.py run $(if $(DATA),--data $(DATA)) $(if $(MINILM),--minilm $(MINILM)) $(if $(PEERS),--peers $(PEERS))

audit: $(VENV)/.dev  ## look up known faults of all that is installed; needs the network
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

picture: $(VENV)/.dev  ## draw the README's picture: a real report of a search of four minutes
	$(BIN)/python docs/picture.py

clean:  ## remove .venv and all caches
	rm -rf $(VENV) build dist src/*.egg-info .coverage htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The two stamps: what the demo needs, and what the tests need on top. Both are made again when a
# requirement changes. torch goes in first and by its pin, so that no other package can choose one.
$(VENV)/.core: pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(create_venv); }
	@echo "Installing formwright into $(VENV); torch is large, so the first time takes minutes."
	@$(PIP) install -c constraints.txt torch
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "Installing what the tests need into $(VENV)."
	@$(PIP) install -c constraints.txt -e '.[dev,docs,export,hf,data,serve,trackers,oracles,ray]'
	@touch $@

define create_venv
for python in $(PYTHON); do \
  if "$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    echo "Creating $(VENV) with $$("$$python" --version)."; \
    exec "$$python" -m venv --clear $(VENV); \
  fi; \
done; \
echo "formwright needs Python 3.11 or newer with its venv module. Tried: $(PYTHON)." >&2; \
echo "Install one (on Debian and Ubuntu: python3 and python3-venv), or run: make PYTHON=/path/to/python3 ..." >&2; \
exit 1
endef
