# Everything the README promises, from nothing but Python 3.11+, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.installed-demo

.PHONY: demo test test-all test-slow test-kernels test-oldest test-pythons test-package lint types imports bench bench-service paper paper-cv compare soak soak-service browser docs mutants tables clean help

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
	$(BIN)/python -m pytest -n auto -m 'slow and not soak'

test-all: test test-slow test-kernels test-oldest test-pythons test-package  ## everything, in a quarter of an hour

test-kernels: $(STAMP)  ## the numerical tests as on other processors
	$(BIN)/python tools/kernels.py

test-oldest: $(STAMP)  ## quick tests with the least versions that pyproject.toml allows
	$(BIN)/python tools/versions.py oldest

test-pythons: $(STAMP)  ## quick tests with every other supported Python found here
	$(BIN)/python tools/versions.py pythons

test-package: $(STAMP)  ## wheel and sdist: built, checked, tried without extras
	$(BIN)/python tools/package.py

lint: $(STAMP)  ## style, formatting, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

bench: $(STAMP)  ## speed against named baselines, as ratios
	$(BIN)/python benchmarks/engine.py

paper: $(STAMP)  ## the whole paper on the reference streams; tables and figures go to docs/paper (stop and go on as you like)
	$(BIN)/kinbandits paper --streams docs/paper/streams.npz --out runs/paper
	mkdir -p runs/controls && cp -r runs/paper/cells runs/paper/times runs/controls
	$(BIN)/python -m reproduce.controls --streams docs/paper/streams.npz --out runs/controls
	$(BIN)/python -m reproduce.theory --out runs/theory/report
	$(BIN)/python -m reproduce.tables
	cp runs/paper/results.csv docs/paper && mkdir -p docs/paper/tables
	for part in paper controls theory; do \
	  place=docs/paper/$$(echo $$part | sed s/paper/report/); mkdir -p $$place/figures; \
	  cp runs/$$part/report/*.html runs/$$part/report/*.csv $$place; \
	  cp runs/$$part/report/figures/*.png $$place/figures; \
	  cp runs/$$part/report/tables/*.csv docs/paper/tables; done
	$(BIN)/python tools/tables.py

paper-cv: $(STAMP)  ## the paper with settings chosen by cross-validation, for hours; then make paper writes its tables too
	$(BIN)/kinbandits paper --settings cv --streams docs/paper/streams.npz --out runs/paper-cv

compare: $(STAMP)  ## other libraries on the same streams; docs/comparison.md and its CSV file (stop and go on as you like)
	$(BIN)/python benchmarks/compare

soak: soak-service  ## all of it: the service (docs/soak-service.txt), a million rounds (docs/soak-budgeted.txt)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dask]'
	$(BIN)/python benchmarks/budgeted.py cost --rounds 1000000 | tee docs/soak-budgeted.txt

soak-service: $(STAMP)  ## the service killed 262 times, 50,000 deliveries, 10,000 malformed requests, half an hour of steady load
	$(BIN)/python -m pytest tests/service -m slow -n 0 -s
	$(BIN)/python tests/service/steady.py

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

mutants: $(STAMP)  ## break thirty lines of the core one by one: every one must be noticed (half an hour)
	$(BIN)/python tools/mutants.py

tables: $(STAMP)  ## tables of the pages and of the README, from the files in benchmarks/results
	$(BIN)/python tools/tables.py

clean:  ## remove everything that make made
	rm -rf $(VENV) .venvs build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
