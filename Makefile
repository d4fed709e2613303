# All that a fresh clone needs is make and a Python of at least 3.11 with its venv module.
#   make demo    train a small network on handwritten digits
#   make test    lint, types and all tests that are not slow; builds the site without its reference of public names
#   make docs    the whole site: open out/docs/index.html
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Remade when the dependencies change.
STAMP := $(VENV)/.installed
JOBS ?= 2
DEMO_FLAGS ?=
# Images of containers often ask for no bytecode. Then each start of a program compiles the package's sources anew: 1.7 s
# instead of 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-all docs lint format protos clean

setup: $(STAMP)

$(STAMP): pyproject.toml native/anabranch_native/onednn_handler.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Name one: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[onednn]' || \
	  echo "oneDNN cannot be had here: convolutions on CPUs are XLA's own, some half as fast"
	@{ command -v cc >/dev/null && $(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation ./native; } || \
	  echo "No handler in C for oneDNN (no compiler?): Python's takes its place"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m anabranch.cli.demo $(DEMO_FLAGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Types are checked beside the first tests: mypy uses one core.
test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; \
	  $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not accelerator"; tests=$$?; \
	  wait $$types && exit $$tests

test-all: lint
	ANABRANCH_TEST_COMPILE=full $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not accelerator"

docs: $(STAMP)
	$(BIN)/python tools/build_docs.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

protos: $(STAMP)
	$(BIN)/python tools/compile_protos.py

clean:
	rm -rf $(VENV) build dist out/docs *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
