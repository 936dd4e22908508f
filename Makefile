# `make demo` and `make test` do all their own set-up: a virtual environment in .venv, from requirements.lock.

PYTHON ?= python3
export NPUC_SHARED ?= ../shared
PY := .venv/bin/python
READY := .venv/.ready

# One thread in every BLAS: results and times must not depend on the machine's cores.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.DELETE_ON_ERROR:
.PHONY: help setup demo test lint bench anchors acceptance clean

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: $(READY)  ## Create .venv (every other target does this by itself)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo 'npuc needs Python 3.11 to 3.13; name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)  ## Compile the digits network and run it on the simulator
	.venv/bin/npuc demo

test: $(READY)  ## Run the tests (what CI runs)
	$(PY) -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(READY)  ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m mypy

bench: $(READY)  ## Measure speed and schedule quality
	$(PY) -m benchmarks.bench $(ARGS)

anchors: $(READY)  ## Measure schedules beside Arm Vela's; resumes where it stopped
	$(PY) -m benchmarks.anchors $(ARGS)

acceptance: $(READY)  ## Run every acceptance check; takes long, resumes where it stopped
	$(PY) -m benchmarks.acceptance $(ARGS)

clean:  ## Remove everything that the other targets made
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
