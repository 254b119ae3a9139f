# Everything the README promises, from nothing but Python 3.11+, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.installed-demo

.PHONY: demo test test-all test-slow test-kernels test-oldest test-pythons test-package test-extras lint types imports bench bench-service paper compare soak soak-service browser docs tables clean help

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# $(call install,EXTRA): the environment with that extra; Debian's Python may lack ensurepip, and then lends its pip.
define install
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kinbandits needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --without-pip $(VENV)
	@test -x $(BIN)/pip && $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[$(1)]' \
	  || $(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python install -q -c constraints.txt -e '.[$(1)]'
endef
BUILT_FROM := pyproject.toml constraints.txt

$(STAMP): $(BUILT_FROM)
	$(call install,test)
	@touch $@ $(DEMO)

$(DEMO): $(BUILT_FROM)
	$(call install,demo)
	@touch $@

demo: $(DEMO)  ## one story in a minute: related items, new ones, noisy clicks; a page with figures
	$(BIN)/kinbandits demo

test: $(STAMP)  ## what a stranger should see pass, in some minutes
	$(BIN)/python -m pytest -n auto -m 'not slow'

test-slow: $(STAMP)  ## the tests that take longer: kills, long games, a Dask cluster
	$(BIN)/python -m pytest -n auto -m slow

test-all: test test-slow test-kernels test-oldest test-pythons test-package  ## everything

test-kernels: $(STAMP)  ## the numerical tests as on other processors
	$(BIN)/python tools/kernels.py

test-oldest: $(STAMP)  ## quick tests with the least versions that pyproject.toml allows
	$(BIN)/python tools/versions.py oldest

test-pythons: $(STAMP)  ## quick tests with every other supported Python found here
	$(BIN)/python tools/versions.py pythons

test-package: $(STAMP)  ## wheel and sdist: built, checked, tried without extras
	$(BIN)/python tools/package.py

test-extras: $(STAMP)  ## the tests that need PyTorch, which `make test` leaves out; it goes to .venvs/extras
	@test -d .venvs/extras/torch \
	  || $(BIN)/python -m pip install --disable-pip-version-check -q --target .venvs/extras 'torch>=2.4'
	PYTHONPATH=.venvs/extras $(BIN)/python -m pytest -n 0 benchmarks/compare/test_neural.py -k neural

lint: $(STAMP)  ## style, formatting, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

bench: $(STAMP)  ## speed against named baselines, as ratios
	$(BIN)/python benchmarks/engine.py

paper: $(STAMP)  ## the whole paper on the reference streams; tables and figures go to docs/paper (stop and go on as you like)
	$(BIN)/kinbandits paper --streams docs/paper/streams.npz --out runs/paper-reference
	$(BIN)/python -m reproduce.controls --streams docs/paper/streams.npz --out runs/controls
	$(BIN)/python -m reproduce.theory --out runs/theory
	mkdir -p docs/paper/report/figures docs/paper/theory/figures
	cp runs/paper-reference/results.csv docs/paper
	cp runs/paper-reference/report/*.html runs/paper-reference/report/*.csv runs/controls/report/*.csv docs/paper/report
	cp runs/paper-reference/report/figures/*.png runs/controls/report/figures/*.png docs/paper/report/figures
	cp runs/theory/*.html runs/theory/*.csv docs/paper/theory && cp runs/theory/figures/*.png docs/paper/theory/figures
	$(BIN)/python -m reproduce.tables

compare: $(STAMP)  ## other libraries on the same streams; benchmarks/results/comparison.csv (stop and go on as you like)
	@$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[compare-build]' \
	  || echo "contextualbandits could not be built (it needs a C compiler): it will be left out"
	$(BIN)/python benchmarks/compare --streams docs/paper/streams.npz --horizon 2000 \
	  --chosen benchmarks/compare/chosen.json --recorded benchmarks/compare/recorded.json --csv benchmarks/results/comparison.csv
	$(BIN)/python tools/tables.py

soak: soak-service  ## all of it: the service (docs/soak-service.txt), a million rounds (docs/soak-budgeted.txt)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dask]'
	$(BIN)/python benchmarks/budgeted.py cost --rounds 1000000 | tee docs/soak-budgeted.txt

soak-service: $(STAMP)  ## the service killed 262 times, 50,000 deliveries, 10,000 malformed requests, half an hour of steady load
	$(BIN)/python -m pytest tests/service -m slow -n 0 -s
	$(BIN)/python tests/service/steady.py --figure docs/soak-service.png

bench-service: $(STAMP)  ## the service beside a FastAPI no-op of the same shape
	$(BIN)/python benchmarks/service.py | tee docs/bench-service.txt

browser:  ## Chromium for the browser tests, from apt, where it is missing and we may
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || test -n "$$KINBANDITS_CHROMIUM" || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	  else echo "no Chromium, and no right to install it: browser tests will be left out"; fi; }

docs: $(STAMP)  ## the documentation, in docs/_build/html
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

tables: $(STAMP)  ## tables of the pages and of the README, from the files in benchmarks/results
	$(BIN)/python tools/tables.py

clean:  ## remove everything that make made
	rm -rf $(VENV) .venvs build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
