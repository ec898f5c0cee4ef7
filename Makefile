# `make dev` runs the agent, `make test` proves it. Both install what they need into .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null)

.PHONY: help dev dev-postgres chat seed check test proof clean

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

dev: $(VENV)/.installed .env ## run the server (PORT= chooses the port)
	@$(PYTHON) -m settings
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) dev.py $(if $(PORT),--port $(PORT))

dev-postgres: $(VENV)/.installed .env ## the same, with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI, or an embedded one)
	@$(PYTHON) -m memory.postgres
	@LOG_LEVEL=$${LOG_LEVEL:-WARNING} $(PYTHON) dev.py --config langgraph.postgres.json $(if $(PORT),--port $(PORT))

chat: $(VENV)/.installed ## talk to it in the terminal (AS=alice@example.com, ORG=acme, URL=)
	@$(PYTHON) chat.py --as '$(or $(AS),$(error AS is empty; say who you are, e.g. make chat AS=alice@example.com))' \
		$(if $(ORG),--org '$(ORG)') $(if $(URL),--url '$(URL)')

seed: $(VENV)/.installed ## put policies and skills into a deployment (URL=)
	@$(PYTHON) -m seeds $(if $(URL),--url '$(URL)')

check: $(VENV)/.installed ## lint and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: check ## check, and every test but the long proofs
	$(PYTHON) -m pytest -m "not proof"

proof: check ## check, and every test
	$(PYTHON) -m pytest

clean: ## remove the environment and everything the local server keeps
	rm -rf $(VENV) .langgraph_api .postgres build *.egg-info

.env:
	cp .env.example .env

$(VENV)/.installed: pyproject.toml constraints.txt
ifneq ($(UV),)
	test -x $(PYTHON) || uv venv --quiet $(VENV)
	uv pip install --quiet --python $(PYTHON) -c constraints.txt -e '.[dev]'
else
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet -c constraints.txt -e '.[dev]'
endif
	touch $@
