# `make demo` and `make test` set up everything they need; see README.md.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Tests wait more than they compute: more workers than processors. SOAK is how many times the usual effort a soak makes.
WORKERS ?= $(shell echo $$(( 2 * $$(nproc) )))
SOAK ?= 20
MINUTES ?= 60
SEED ?= $(shell date +%s)

.PHONY: setup demo test soak check snap docs pictures bench engine lock names lookalikes

setup: $(READY)

# A link leads to the environment of another copy, which has that copy's code, however new it is.
ifneq ($(shell test -L .venv && echo link),)
.PHONY: $(READY)
endif

$(READY): requirements.lock pyproject.toml
	$(PYTHON) .ci/setup.py
	@touch $@

engine: ## a Docker engine: started here where that is possible, explained where not
	@bash .ci/engine

demo: setup engine ## an agent fixes a bug in a throwaway repository: on the screen, or headless without a terminal
	@if [ -t 0 ] && [ -t 1 ] && [ "$$TERM" != dumb ]; then \
		echo "opening the screen; make demo | cat shows the same without one"; exec $(BIN)/codeagent demo; \
	else \
		echo "no terminal here: running headless" >&2; exec $(BIN)/codeagent demo --headless; \
	fi

test: setup engine ## every test; docker tests need an engine
	bash .ci/in-memory $(BIN)/pytest -n $(WORKERS) --dist loadgroup

soak: setup engine ## the tests marked soak with SOAK times the effort, for at most MINUTES; SEED repeats a run, ROW picks one
	CODEAGENT_SOAK=$(SOAK) CODEAGENT_SOAK_MINUTES=$(MINUTES) CODEAGENT_SEED=$(SEED) CODEAGENT_ROW="$(ROW)" $(BIN)/pytest \
		-m 'soak$(if $(ROW),(row="$(ROW)"))' -n $(WORKERS) --dist load --hypothesis-seed=$(SEED) --timeout=1200

check: setup ## formatting, lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

snap: setup ## accept changed screen snapshots
	$(BIN)/pytest --snapshot-update

docs: setup ## write the generated reference pages
	$(BIN)/python docs/generate.py

pictures: setup ## draw the pictures of the documentation again; NAMES="screen board" draws some of them
	$(BIN)/python -m docs.pictures $(NAMES)

bench: setup engine ## print the measured figures beside their floors
	$(BIN)/python -m benchmarks

lock: setup ## write requirements.lock from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o requirements.lock

names: setup ## write codeagent/core/names/known_tools.txt from collections of file names (npm and PyPI packages)
	$(BIN)/python .ci/known_tools.py

lookalikes: setup ## write codeagent/core/names/lookalikes.txt, what looks like ASCII, from Unicode's data in ICU (PyPI)
	$(BIN)/python .ci/lookalikes.py
