# Every target sets up .venv by itself (again only when pyproject.toml or constraints.txt changed).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
STAMP := $(VENV)/.eqkir-installed
PY := $(VENV)/bin/python
JOBS ?= 2
OUT ?= out
ISSUE ?= 2
TARGET ?= triton:nvidia-h200
N ?= 5000
SEED ?= 0

.PHONY: help setup demo test test-all fuzz lint bench-gpu bench-cpu show clean

help:
	@echo "make demo | test | test-all | fuzz N=5000 | lint | bench-gpu | bench-cpu | show ISSUE=n | clean"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@python="$$(tools/find_python.sh)"; \
	if ! { [ -x $(PY) ] && $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }; then \
	  echo "setting up $(VENV) with $$python" >&2; rm -rf $(VENV); "$$python" -m venv $(VENV); \
	fi
	@$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cpu,dev,ilp,triton]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(PY) -m eqkir optimize corpus --out $(OUT)/demo --target $(TARGET) --check numeric -j $(JOBS)

test: $(STAMP)
	@$(PY) -m pytest -q -n $(JOBS)

test-all: $(STAMP)
	@$(PY) -m pytest -q -n $(JOBS) -m 'slow or not slow'

# Random kernels through every stage; exit status 1 on a mismatch or a cell of the table below its hits.
fuzz: $(STAMP)
	@$(PY) -m tools.fuzz --n $(N) --seed $(SEED) -j $(JOBS) --out $(OUT)/fuzz --json $(OUT)/fuzz/seed-$(SEED)/summary.json

lint: $(STAMP)
	@$(PY) -m ruff check .
	@$(PY) -m mypy

bench-gpu: $(STAMP)
	@status=0; $(PY) bench/gpu.py emit --out $(OUT)/bench || status=1; \
	if $(PY) -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then \
	  $(PY) bench/gpu.py run --artifacts $(OUT)/bench --json bench/results/gpu.json || status=1; \
	  $(PY) bench/gpu.py table bench/results/gpu.json > bench/RESULTS.md; \
	else \
	  echo "artifacts are in $(OUT)/bench; on a GPU machine with torch, triton and numpy: python bench/gpu.py run --artifacts $(OUT)/bench --json bench/results/gpu.json"; \
	fi; exit $$status

# Native kernels beside numpy and, where it is installed, torch. Nothing else should run on the machine.
bench-cpu: $(STAMP)
	@status=0; $(PY) bench/cpu.py emit --artifacts $(OUT)/cpu || status=1; \
	$(PY) bench/cpu.py run --artifacts $(OUT)/cpu; $(PY) bench/cpu.py table; exit $$status

show: $(STAMP)
	@$(PY) tools/show.py $(ISSUE)

clean:
	rm -rf $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache
