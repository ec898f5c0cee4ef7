# `make dev` runs the agent, `make test` proves it. Both install what they need into .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null)
PIP := $(if $(UV),uv pip install --quiet --python $(PYTHON),$(PYTHON) -m pip install --quiet)

COMMA := ,

# Four workers also on two cores: most of a server test is waiting for the server's queue. A module's tests share its servers.
PARALLEL := -n 4 --dist loadfile

.PHONY: help dev dev-postgres chat seed install check test proof eval audit clean

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

dev: $(VENV)/.installed .env ## run the server (PORT= chooses the port)
	@$(PYTHON) -m settings
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) dev.py $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST))

# The shell expands these, so that a quote in a name stays in the name.
export AS ORG URL

dev-postgres: $(VENV)/.installed .env ## the same, with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI, or an embedded one)
	@$(PYTHON) -m memory.postgres
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) dev.py --config langgraph.postgres.json $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST))

chat: $(VENV)/.installed ## talk to it in the terminal (AS=alice@example.com, ORG=acme, URL=)
	@test -n "$$AS" || { echo "AS is empty; say who you are, e.g. make chat AS=alice@example.com ORG=acme" >&2; exit 1; }
	@$(PYTHON) chat.py --as "$$AS" $${ORG:+--org "$$ORG"} $${URL:+--url "$$URL"}

seed: $(VENV)/.installed ## put policies and skills into a deployment (URL=, PRUNE=1)
	@$(PYTHON) -m seeds $${URL:+--url "$$URL"} $(if $(PRUNE),--prune)

install: $(VENV)/.installed ## install what a model's provider needs, too (EXTRA=openai)
	$(PIP) -c constraints.txt -e '.[dev$(if $(EXTRA),$(COMMA)$(EXTRA))]'

check: $(VENV)/.installed ## lint and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: check ## check, and every test but the long proofs
	$(PYTHON) -m pytest -m "not proof" $(PARALLEL)

proof: check ## check, and every test
	$(PYTHON) -m pytest $(PARALLEL)

eval: $(VENV)/.installed ## judge consolidation with the model in .env (with LANGSMITH_API_KEY: an experiment there)
	@$(PYTHON) -m pytest evals -q -n 2 --dist load

audit: $(VENV)/.installed ## ask for known vulnerabilities of what is pinned (needs the network)
	$(PIP) -c constraints.txt pip-audit
	$(PYTHON) -m pip_audit -r constraints.txt --no-deps --disable-pip

clean: ## remove the environment and everything the local server keeps
	rm -rf $(VENV) .langgraph_api .postgres build *.egg-info

.env:
	cp .env.example .env

$(VENV)/.installed: pyproject.toml constraints.txt
ifneq ($(UV),)
	test -x $(PYTHON) || uv venv --quiet $(VENV)
else
	test -x $(PYTHON) || python3 -m venv $(VENV)
endif
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $@
