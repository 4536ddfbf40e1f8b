# The one-word commands. `make` alone lists them.
#
# Every target that needs the environment begins with `setup`, which is done in a moment when nothing
# has changed. More arguments go through ARGS: make test ARGS="tests/mechanisms -x".

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; PYTHON=/path/to/python3 chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ARGS ?=

COMPILE = $(BIN)/uv pip compile pyproject.toml --group build --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet
# Where it is set, each of the hundreds of Pythons that a run of the tests starts compiles the kit anew.
unexport PYTHONDONTWRITEBYTECODE

# The developers' tools, which `make lab` leaves out.
test quick bench lint lock site: SETUP = --dev

.PHONY: help setup lab test quick bench docker notebooks page site lint bom audit lock clean

help: ## List these commands
	@echo "Delivery Lab: learn what at least once and exactly once mean, on a real Kafka and Spark."
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done
	@echo
	@echo "Begin with: make lab"

setup: ## Make .venv and fetch the jars; start nothing
	@if [ -z "$(PYTHON)" ]; then echo "setup: no Python 3.11 or newer was found. Install one, or call: make PYTHON=/path/to/python3 setup" >&2; exit 5; fi
	@$(PYTHON) scripts/bootstrap.py $(SETUP)

lab: setup ## Start Kafka and JupyterLab and open the first notebook; Ctrl-C ends it all
	@trap : INT; $(BIN)/kit lab $(ARGS) || [ $$? -eq 130 ]

test: setup ## Run every test: lint, unit, conformance, properties, Kafka, Spark, notebooks, browser
	@exec $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

quick: setup ## Run what fails most often in a few minutes: lint, the models, conformance, one notebook on Kafka
	@exec $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --ignore=tests/exercises \
		-m "quick or not (kafka or spark or browser or notebooks or slow or pace)" $(ARGS)

bench: setup ## Measure; a table on the screen and figures as JSON in build/bench.json; then how quick the players are
	@mkdir -p build
	@$(BIN)/kit bench --out build/bench.json $(ARGS)
	@exec $(BIN)/python -m pytest -q -m pace

docker: ## Build the Docker image and run all notebooks in it, alone and beside the cluster (needs Docker)
	@exec $(PYTHON) scripts/try_docker.py $(ARGS)

notebooks: setup ## Measure the table of guarantees, run all notebooks again and save their outputs
	@if [ -z "$(ARGS)" ]; then $(BIN)/kit guarantees --out notebooks/data/guarantees.jsonl; fi
	@exec $(BIN)/kit notebooks $(ARGS)

page: setup ## Build a site of all experiments in build/page: Python in the browser, no server of its own
	@exec $(BIN)/kit page --out build/page $(ARGS)

site: setup ## Build the pages to read in build/site: README, notebooks, docs, commands, search, and the live page
	@$(BIN)/kit page --out build/page || echo "site: without the live page" >&2
	@exec $(BIN)/python scripts/make_site.py $(ARGS)

lint: setup ## ruff, mypy --strict, the arrows between the rooms and their numbers of lines
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python scripts/count_lines.py

bom: ## Write build/bom.json: every package and jar that an install brings, with its hash (CycloneDX)
	@$(PYTHON) scripts/write_bom.py

audit: ## Ask OSV whether a locked package or jar has a known vulnerability (needs a network)
	@exec $(PYTHON) scripts/audit_supply.py $(ARGS)

lock: setup ## Write the locks of packages, jars and npm packages anew (needs npm and a network)
	$(COMPILE) -o requirements.lock
	@mkdir -p build
	$(COMPILE) --group dev --constraints requirements.lock -o build/all.lock
	@# What requirements.lock has not: each package is the line that names it and the lines of its hashes.
	awk '/^[^ ]/ { new = NR == FNR || !($$1 in have); if (NR == FNR) have[$$1] } NR != FNR && new' \
		requirements.lock build/all.lock > requirements-dev.lock
	$(BIN)/python scripts/lock_jars.py
	$(BIN)/python scripts/lock_npm.py

clean: ## Remove what make made here: .venv and caches
	@if [ -d .venv ] && [ ! -e .venv/.kit-ready ] && [ ! -e .venv/.kit-begun ]; then \
		echo "clean: .venv was not made by make; it stays"; else rm -rf .venv; fi
	@rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: done. Your notebooks in work/ stay. Jars, Kafka's data and logs are in $${KIT_HOME:-your cache folder, under delivery-lab}; they stay, delete them by hand."
