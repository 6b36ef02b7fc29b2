# `make demo` and `make test` are all that a new machine needs: Python 3.11 or newer, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A process for each core, up to four (0.6 to 1 GB each); a file's tests stay together, as its servers do.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check format readme constraints clean

demo: $(VENV)/.installed
	$(BIN)/gatehouse demo

test: $(VENV)/.installed-dev
	$(PYTEST) --cov=service --cov-branch --cov-report= --cov-fail-under=94

# Lint, types, import contracts and the fast tests; the generated parts of the README are among these.
check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -m "not slow"

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Writes what is generated (graph, settings, commands) into README.md.
readme: $(VENV)/.installed-dev
	$(BIN)/python -m tests.readme --write

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Gatehouse needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing Gatehouse into $(VENV) (once; a minute or two, about 2 GB with a CPU build of torch) ..."
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	@touch $(VENV)/.installed $@

# Pins what a fresh environment resolves to, without addresses and without torch's local version label.
constraints:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --quiet '.[dev]'
	{ echo "# Every version of a working installation, development tools included. Made with: make constraints"; \
	  build/pins/bin/python -m pip freeze --exclude gatehouse | sed 's/+cpu//'; } > constraints.txt
	rm -rf build

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
