# `make dev` runs the agent, `make test` proves it. Both install what they need into .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
BIN := $(CURDIR)/$(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
PIP := $(if $(UV),uv pip install --quiet --compile-bytecode --python $(PYTHON),$(PYTHON) -m pip install --quiet)

COMMA := ,

# Six workers also on two cores: most of a server test is waiting for the server's queue. A module's tests share its servers.
PARALLEL := -n 6 --dist loadfile --no-loadscope-reorder
# Every server would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help dev dev-postgres chat smoke seed install check test proof eval screenshots audit upgrade clean

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

dev: $(VENV)/.installed .env ## run the server (PORT= chooses the port)
	@$(PYTHON) -m lasting_memory.agent.models
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) -m lasting_memory.dev.server $(if $(PORT),--port $(PORT))

# make itself sets AS, to the assembler.
ifeq ($(origin AS),default)
AS :=
endif
# The shell expands these, so that a quote in a name stays in the name.
export AS ORG URL TOKEN

dev-postgres: $(VENV)/.installed .env ## the same, with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI, or an embedded one)
	@$(PYTHON) -m lasting_memory.agent.models
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) -m lasting_memory.dev.server --postgres $(if $(PORT),--port $(PORT))

chat: $(VENV)/.installed ## talk to it in the terminal (AS=alice@example.com, ORG=acme, URL=)
	@test -n "$$AS" || { echo "AS is empty; say who you are, e.g. make chat AS=alice@example.com ORG=acme" >&2; exit 1; }
	@$(PYTHON) -m lasting_memory.dev.chat --as "$$AS" $${ORG:+--org "$$ORG"} $${URL:+--url "$$URL"}

smoke: $(VENV)/.installed ## try a deployment as somebody without memory (URL=, TOKEN=), and delete what that made
	@test -n "$$URL" || { echo "URL is empty; say where, e.g. make smoke URL=http://127.0.0.1:2024 TOKEN=dev:acme:smoke" >&2; exit 1; }
	@printf '%s' "$$TOKEN" | $(PYTHON) -m lasting_memory.dev.smoke --url "$$URL"

seed: $(VENV)/.installed ## put policies and skills into a deployment (URL=, PRUNE=1)
	@$(PYTHON) -m seeds $${URL:+--url "$$URL"} $(if $(PRUNE),--prune)

install: $(VENV)/.installed ## install what a model's provider needs, too (EXTRA=openai)
	$(PIP) -c constraints.txt -e '.[dev$(if $(EXTRA),$(COMMA)$(EXTRA))]'

check: $(VENV)/.installed ## lint, types, and the engine's walls while it is a folder
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@! test -d engine || $(MAKE) --no-print-directory check-engine

check-engine:
	cd engine && $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo --no-cache

test: check ## check, the template's tests, and the engine's but the long proofs while it is a folder
	@! test -d engine || (cd engine && $(BIN)/python -m pytest -m "not proof" $(PARALLEL))

proof: check ## check, and every test
	@! test -d engine || (cd engine && $(BIN)/python -m pytest $(PARALLEL))

eval: $(VENV)/.installed ## judge the model in .env by the cases of evals/ (with LANGSMITH_API_KEY: an experiment there)
	@$(PYTHON) -m pytest evals -q -n 2 --dist load

screenshots: $(VENV)/.installed ## look at the page as it is now: docs/screenshot.png (needs a Chromium)
	@$(PYTHON) -m tests.page.screenshots

audit: $(VENV)/.installed ## ask for known vulnerabilities of what is pinned (needs the network)
	$(PIP) -c constraints.txt pip-audit
	$(PYTHON) -m pip_audit -r constraints.txt --no-deps --disable-pip

upgrade: ## pin the newest releases that pyproject.toml allows (needs uv and the network); then `make test`
	@test -n "$(UV)" || { echo "make upgrade needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	$(UV) pip compile pyproject.toml --quiet --all-extras --upgrade --no-annotate --no-header --python-version 3.11 -o constraints.txt

clean: ## remove the environment and everything the local server keeps
	rm -rf $(VENV) .langgraph_api .postgres build *.egg-info

.env:
	cp .env.example .env

$(VENV)/.installed: pyproject.toml $(wildcard engine/pyproject.toml) constraints.txt
ifneq ($(UV),)
	test -x $(PYTHON) || uv venv --quiet $(VENV)
else
	test -x $(PYTHON) || python3 -m venv $(VENV)
endif
	$(PIP) -c constraints.txt -e './engine[dev]' -e '.[dev]'
	touch $@
