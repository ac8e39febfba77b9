PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg

.PHONY: demo test test-all browser lint format docs bench clean

demo: $(VENV)/.demo
	$(BIN)/dpgplvm demo

test: lint browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: lint browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow"

browser:
	@sh tests/get_browser.sh

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bound.py --quick

clean:
	rm -rf $(VENV) demo screenshots docs/_build docs/gallery docs/reference

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plots,cli]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@
