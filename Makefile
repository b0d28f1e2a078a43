# morph-opt: `make replay` is the main job, `make test` the check of it. Both set themselves up.
# Only Python >= 3.11 and make are needed; another interpreter: `make PYTHON=python3.12 test`.

PYTHON ?= python3
TRACE = base
OBJECTIVE = auto
ARGS =
RUNS = runs/readme
JOBS = 1
FILES = 3500
LINES = 5000
ROUNDS = 5000
TESTS = tests --ignore=tests/benchmarks --ignore=tests/site
BLOCKS = 20
CHANGED = 200
SEED = 1
KILLS = 112
MUTANTS = 300

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check
# What is imported is compiled then; compiling all that is installed takes half of the set-up.
INSTALL := $(PIP) install --no-build-isolation --constraint constraints.txt
CORE := $(VENV)/.stamp-core
DEV := $(VENV)/.stamp-dev

# One thread each, or two workers ask for four cores. Bytecode is kept whatever the shell says: else
# every process that a test starts compiles the package anew, and both workers all tests.
TESTED := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PY) -m pytest

# A virtual environment holds absolute paths: one that was copied or moved here is set up again.
ifneq ($(shell cat $(VENV)/.root 2>/dev/null),$(CURDIR))
MOVED := FORCE
endif

.DEFAULT_GOAL := help
.PHONY: docs smoke evidence dist example never-beaten reports-check check-replays help install install-dev replay test lint types imports unit format hooks readme bench-solvers bench-scale fuzz faults mutants evalys oracle live-test live-demo constraints clean FORCE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(CORE) ## set-up alone: .venv with the pinned versions of constraints.txt

install-dev: $(DEV) ## the same with every extra: tools of `make test`, the site, more solvers

replay: $(CORE) ## the main job; TRACE=mt OBJECTIVE=jct ARGS="--seed 1" to vary it
	$(PY) -m morph_opt.replay --trace $(TRACE) --objective $(OBJECTIVE) $(ARGS)

test: lint types imports unit ## what a change to the packages has to pass

lint: $(DEV) ## ruff: rules and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(DEV) ## mypy --strict on morph_opt and formulations
	$(PY) -m mypy --num-workers 2

imports: $(DEV) ## import contract between the packages
	$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()" --no-cache

smoke: $(DEV) ## smoke tests of every package (tests/smoke.txt), under a minute on two quiet cores
	$(TESTED) -q -n 2 @tests/smoke.txt $(ARGS)

unit: $(DEV) ## tests alone; TESTS=tests/round or ARGS="-k placement" to choose
	$(TESTED) -n auto --maxprocesses 4 --dist worksteal $(TESTS) $(ARGS)

evidence: TESTS = tests/benchmarks
evidence: unit ## tests of benchmarks/, which makes the reports and the library of instances

format: $(DEV) ## let ruff mend what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

hooks: $(DEV) ## run lint, types and the import contract before every commit
	$(PY) -m pre_commit install

never-beaten: $(DEV) ## twins drawn by the date: is a policy that knows no more ahead of auto? (half an hour; DATE=2026-11-22)
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.comparison.guard --jobs $(JOBS) $(if $(DATE),--date $(DATE)) $(ARGS)

dist: $(DEV) ## wheel and sdist in dist/, built and checked: contents, metadata, size, README
	@$(PIP) install --upgrade --target $(VENV)/dist build==1.6.1 twine==7.0.0
	rm -rf dist
	PYTHONPATH=$(VENV)/dist $(PY) -m build --no-isolation --outdir dist .
	PYTHONPATH=$(VENV)/dist $(PY) -m twine check --strict dist/*
	$(PY) -m tests.house.dist dist

example: $(DEV) ## the example report and the timeline of the README, from two replays of base
	$(PY) -m morph_opt.replay --trace base --explain --out $(RUNS)-example/auto
	$(PY) -m morph_opt.replay --trace base --policy srtf --out $(RUNS)-example/srtf
	$(PY) -m morph_opt.report $(RUNS)-example/auto $(RUNS)-example/srtf --out reports/example/base.html
	$(PY) -m morph_opt.report.picture timeline $(RUNS)-example/auto --out reports/example/timeline.svg
	$(PY) -m benchmarks.reports record example

docs: $(DEV) ## the documentation site, build/site, and its tests; a broken link is an error
	$(PY) -m tests.notebook --check
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	$(TESTED) -q tests/site

reports-check: $(DEV) ## which reports are not what their command would make today
	$(PY) -m benchmarks.reports check

readme: $(DEV) ## replay what the README shows, then rewrite its tables, figures and docs/seeds.md
	$(PY) -m benchmarks.readme replay --runs $(RUNS) --jobs $(JOBS)
	$(PY) -m benchmarks.readme write --runs $(RUNS)
	$(PY) -m benchmarks.seeds page

bench-solvers: $(DEV) ## compare all solvers (minutes); FULL=1 for all instances and the report
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.solvers all $(if $(FULL),--full) $(ARGS)

bench-scale: $(DEV) ## rounds of 64 to 8,192 GPUs and more (ARGS="--sizes 65536 --types 1"), minutes
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.scale $(ARGS)

fuzz: $(DEV) ## mutated files and random option lines (an hour); FILES=100 per format, LINES=200
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.checks.robustness.fuzz --files $(FILES) --seed $(SEED) $(ARGS)
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.checks.robustness.lines --lines $(LINES) --seed $(SEED)
	$(PY) -m benchmarks.checks.robustness.report

faults: $(DEV) ## kill replays, fill disks, make solvers lie (an hour); KILLS=20 to vary it
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.checks.robustness.faults --kills $(KILLS) --seed $(SEED) $(ARGS)
	$(PY) -m benchmarks.checks.robustness.report

mutants: $(DEV) ## change the code a little and see whether a test fails (hours); MUTANTS=20 SEED=2
	@$(PIP) install --upgrade --target $(VENV)/mutants cosmic-ray==8.7.0
	PYTHONPATH=$(VENV)/mutants $(PY) -m benchmarks.checks.robustness.mutants --count $(MUTANTS) --seed $(SEED) $(ARGS)
	$(PY) -m benchmarks.checks.robustness.report

evalys: $(DEV) ## install evalys apart, so that `make test` lets it read the Batsim export
	@$(PIP) install --upgrade --constraint constraints.txt --target $(VENV)/evalys evalys==4.0.7

oracle: $(DEV) ## random rounds, promises, explanations against enumeration; ROUNDS=5000 SEED=1 BLOCKS=20
	MORPH_OPT_BLOCKS=$(BLOCKS) $(TESTED) -q -n auto $$(grep -rl "tests.campaigns import" tests)
	for kind in everything requests local-ssd; do \
	  OMP_NUM_THREADS=1 $(PY) -m tests.round.compare --of $$kind --rounds $(ROUNDS) --seed $(SEED) || exit 1; \
	done
	OMP_NUM_THREADS=1 $(PY) -m tests.round.compare --changes --rounds $(CHANGED) --seed $(SEED)
	OMP_NUM_THREADS=1 $(PY) -m tests.explanation.campaign --seed $(SEED)

live-test: $(DEV) ## a real Slurm on loopback: acceptance and chaos (minutes), and a recording at 30 times the clock; ARGS="--runs 10 --seed 20", LIVE_TEST_ROOT=another Debian's
	$(PY) -m benchmarks.checks.live.chaos $(ARGS)
	$(PY) -m benchmarks.checks.live.recording

live-demo: $(DEV) ## ten minutes: the same jobs under backfill and under morph-opt, with a report of both
	$(PY) -m benchmarks.checks.live.demo $(ARGS)

check-replays: $(DEV) ## recheck varied and corrupted replays by independent code (20 minutes); ARGS="--only mt"
	OMP_NUM_THREADS=1 $(PY) -m benchmarks.checks.replays $(ARGS)

constraints: ## resolve all extras anew and rewrite constraints.txt (names and versions)
	$(PYTHON) -m venv --clear $(VENV)/resolve
	$(VENV)/resolve/bin/python -m pip install -qq --upgrade hatchling editables setuptools ".[all,ray]"
	{ sed -n '/^#/p' constraints.txt; \
	  $(VENV)/resolve/bin/python -m pip freeze --all --exclude pip --exclude morph-opt; } > $(VENV)/constraints.new
	mv $(VENV)/constraints.new constraints.txt
	rm -rf $(VENV)/resolve

clean: ## remove the environment, caches and runs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis runs build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------ set-up
# A stamp is written last, so a set-up that broke off is taken up again; it is older than
# pyproject.toml or constraints.txt when those change, and then pip runs once more.
$(CORE): pyproject.toml constraints.txt $(MOVED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "morph-opt needs Python >= 3.11, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "setting up $(VENV) (once)" >&2
	@if [ -n "$(MOVED)" ] || ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  rm -rf $(VENV); \
	  $(PYTHON) -m venv $(VENV) || { \
	    echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2; \
	    rm -rf $(VENV); exit 2; }; \
	fi
	@rm -f $(DEV) $(CORE)
	@$(PIP) install --no-compile --constraint constraints.txt hatchling editables
	@$(INSTALL) --no-compile --editable .
	@printf '%s\n' "$(CURDIR)" > $(VENV)/.root
	@touch $@

$(DEV): $(CORE)
	@echo "adding the tools of 'make test' to $(VENV) (once)" >&2
	@$(INSTALL) --editable ".[all]"
	@touch $@

FORCE:
