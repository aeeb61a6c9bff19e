# Everything runs in a virtual environment of its own, made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := xoptim cli patterns tests examples benchmarks docs
.DEFAULT_GOAL := help

.PHONY: help demo test test-torch lint format types docs bench new-pattern clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(BIN)/xopt: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(BIN)/xopt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@

$(VENV)/.torch: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 onnxscript
	@touch $@

demo: $(BIN)/xopt ## install, and optimize a model that ships with the repository
	$(BIN)/xopt examples/models/tiny_bert.onnx -o tiny_bert.opt.onnx

test: $(VENV)/.test ## install what the tests need, and run them
	$(BIN)/python -m pytest

test-torch: $(VENV)/.torch ## run the tests that need torch (installs torch 2.13.0)
	$(BIN)/python -m pytest tests/test_torch.py

lint: $(VENV)/.test ## check style
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(VENV)/.test ## apply the style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(VENV)/.test ## check types
	$(BIN)/mypy

docs: $(VENV)/.test ## write the pages about patterns
	$(BIN)/python docs/generate.py

bench: $(VENV)/.test ## measure how time grows with the size of a model
	$(BIN)/python benchmarks/scaling.py

new-pattern: $(BIN)/xopt ## start a pattern: make new-pattern NAME=ReluReluPattern
	$(BIN)/python -m xoptim.testing.new_pattern $(NAME)

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info tiny_bert.opt.onnx
