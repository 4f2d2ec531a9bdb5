# Each target first puts what it needs into .venv: once, and again when pyproject.toml or constraints.txt change.
# All that is asked of the machine is make and Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
# Three at a time on two cores, because tests wait for servers, browsers and reply slots; a fourth process costs more
# start-up time than it gains. TESTS adds options.
PYTEST = $(BIN)/python tools/run_tests.py -n 3 --dist loadgroup --no-loadscope-reorder $(TESTS)
# Tests of `make check`: packages whose tests take a few seconds each, and the rules of the code base. All others
# are left to `make test`.
QUICK := attacks audit cli curator files identity ledger local online oracle privacy queries viz
FAST := $(QUICK:%=tests/unit/%) tests/docs --ignore=tests/docs/test_snippets.py --ignore=tests/docs/test_walk.py \
  --ignore=tests/unit/curator/answers/test_coverage.py --ignore=tests/unit/curator/hostile

# Tests start hundreds of interpreters. Where a machine forbids bytecode, each of them would compile the package.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check slow bare bench docs clean

help:
	@echo "make demo    a guided tour on made-up patients, then its pages until Ctrl-C"
	@echo "make check   format, lint, types, import rules, fast tests"
	@echo "make test    every test that is not slow"
	@echo "make slow    long statistics and long fault runs"
	@echo "make bare    demo and test, each as the first command on a machine that has nothing"
	@echo "make bench   the benchmarks, one after the other"
	@echo "make docs    write the generated pages and run every snippet"
	@echo "make clean   remove what the other targets made"

demo: $(VENV)/.installed
	@$(BIN)/sfumato demo

test: $(VENV)/.installed-dev
	@$(PYTEST)

check: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy --strict
	@$(BIN)/lint-imports
	@$(PYTEST) $(FAST)

slow: $(VENV)/.installed-dev
	@$(PYTEST) -m slow --unseeded

# What earlier runs left in HOME, in pip's cache or in .venv has hidden what a newcomer lacks.
bare:
	@tools/bare.sh $(MAKE) demo
	@tools/bare.sh $(MAKE) test

bench: $(VENV)/.installed-dev $(PEERS)/.installed $(PEERS)/tumult/.installed
	@set -e; for script in $(sort $(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script; done
	@set -e; for script in $(sort $(wildcard benchmarks/peers/*.py)); do echo "== $$script"; \
	  PYTHONPATH=src $(PEERS)/bin/python $$script; done
	@$(BIN)/python benchmarks/learners.py --page docs/learn-measured.md --plot docs/images/learners.svg
	@$(BIN)/python benchmarks/usefulness.py --page docs/usefulness.md --plot docs/images/usefulness.svg
	@$(BIN)/python benchmarks/local.py --plot docs/images/local.svg
	@$(BIN)/python benchmarks/deep_speed.py --kept --page docs/deep-speed.md
	@$(BIN)/python benchmarks/deep_accuracy.py --page docs/deep-measured.md --plot docs/images/deep-accuracy.svg
	@$(BIN)/python benchmarks/synth_images.py --page docs/synth-images-measured.md
	@$(BIN)/python benchmarks/learners_unseen.py --curator
	@$(BIN)/python benchmarks/learners_unseen.py --page docs/learn-unseen.md

docs: $(VENV)/.installed-dev
	@$(BIN)/python docs/build.py
	@$(PYTEST) tests/docs

clean:
	rm -rf $(VENV) $(PEERS) build dist site demo-output
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The demo needs models, synthetic tables, charts and the server, and no torch. Most modules of its libraries are
# never imported, so their bytecode is compiled when they are.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python tools/install.py --extras learn,synth,plot,server --packages 45 --usually "30–60 s" --pip no-compile
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(BIN)/python tools/install.py --extras dev --packages 170 --usually "2–4 minutes"
	@touch $@

# Rivals may want other versions of the libraries that we use, so they live apart.
$(PEERS)/.installed: benchmarks/peers/requirements.txt
	@echo "Installing other libraries, for comparison, into $(PEERS)"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install -r benchmarks/peers/requirements.txt
	@touch $@

# One of them wants older versions than the others. Where it cannot be installed the benchmarks go on and say so.
$(PEERS)/tumult/.installed: benchmarks/peers/tumult.txt | $(PEERS)/.installed
	@echo "Installing Tumult Analytics into $(PEERS)/tumult"
	@$(PYTHON) -m venv $(PEERS)/tumult
	@$(PEERS)/tumult/bin/python -m pip --disable-pip-version-check -qq install -r benchmarks/peers/tumult.txt \
	  && touch $@ || { rm -rf $(PEERS)/tumult; echo "Tumult Analytics cannot be installed; it is left out." >&2; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sfumato needs Python 3.11 or newer. Name one with: make PYTHON=python3.11 …" >&2; exit 1; }
	@echo "Making a virtual environment in $(VENV); usually 5 s"
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "Python's venv module does not work here; Debian has it in python3-venv." >&2; exit 1; }
