# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CODE   := baton activities workflows cli emulator tests benchmarks starter.py worker.py

.PHONY: demo test setup format lint types unit end-to-end bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@command -v git >/dev/null || { echo "git is missing: install it first (Debian: apt-get install git)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments (ensurepip is missing). On Debian or Ubuntu: apt-get install $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Real input for the tests: packages as published, with their own suites. Tests themselves reach loopback only.
SDISTS := $(VENV)/sdists
$(SDISTS)/.ready: $(VENV)/.ready Makefile
	@mkdir -p $(SDISTS)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary boltons,webob,pelican \
	  --dest $(SDISTS) boltons==26.2.0 webob==1.8.9 pelican==4.12.0
	@touch $@

# What their suites need lies outside of .venv: Baton takes its own environment off a project's PATH.
PUBLISHED := build/published
$(PUBLISHED)/.ready: tests/end_to_end/published.txt
	$(PYTHON) -m venv $(PUBLISHED)
	$(PUBLISHED)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

demo: setup
	@$(BIN)/orchestrate demo
	@echo "The command is $(BIN)/orchestrate; to have it on PATH: . $(BIN)/activate"

test: setup format lint types unit end-to-end

format: setup
	$(BIN)/ruff format --check $(CODE)

lint: setup
	$(BIN)/ruff check $(CODE)

types: setup
	$(BIN)/mypy
	$(BIN)/mypy starter.py worker.py

unit: setup
	$(BIN)/python -m pytest -q -m "not end_to_end" -n 2

end-to-end: setup $(SDISTS)/.ready $(PUBLISHED)/.ready
	$(BIN)/python -m pytest -q -m end_to_end -n 2

# What others need for the comparison has an environment of its own: tests never see it.
COMPARED := $(VENV)/compared
$(COMPARED)/.ready: $(VENV)/.ready
	$(PYTHON) -m venv $(COMPARED)
	$(COMPARED)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[bench]'
	@touch $@

bench: setup $(COMPARED)/.ready
	$(BIN)/python -m benchmarks --others $(COMPARED)/bin/python --json build/benchmarks.json

clean:
	rm -rf $(VENV) build *.egg-info
