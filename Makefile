# `make dev` runs the agent, `make test` proves it. Both install what they need into .venv. What they run is the command
# `lasting-memory`, which does the same without make: `uv run lasting-memory --help`.
VENV := .venv
# What a new environment is made with; empty: what uv chooses by .python-version, or python3.
INTERPRETER :=
PYTHON := $(VENV)/bin/python
COMMAND := $(PYTHON) -m lasting_memory.dev
# uv installs in seconds what takes pip minutes. Where the machine has none, pip puts one into the environment; where that fails, too
# (no wheel for this machine), pip goes on. Looked up when it is used: the environment may be new.
UV = $(shell command -v uv 2>/dev/null || command -v $(VENV)/bin/uv 2>/dev/null)
PIP = $(if $(UV),$(UV) pip install --quiet --compile-bytecode --python $(PYTHON),$(PYTHON) -m pip install --quiet)
# The engine is a folder, or a wheel in wheels/ that pyproject.toml pins.
FOLDER := $(wildcard engine/pyproject.toml)
ENGINE := $(if $(FOLDER),-e './engine[tests]',--find-links wheels 'lasting-memory[dev]')
# Tools of your own: an older pip knows no groups.
GROUP = $(if $(UV),--group dev)

# TEMPLATE=1 holds this folder to the template as it is shipped, too.
TEMPLATED := $(if $(TEMPLATE),--template)

# Every server would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help dev dev-postgres dev-aegra chat smoke seed forget install check test test-fast test-mine proof eval screenshots audit upgrade upgrade-engine clean

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

dev: $(VENV)/.installed .env ## run the server (PORT= chooses the port)
	@$(COMMAND) dev $(if $(PORT),--port $(PORT))

dev-postgres: $(VENV)/.installed .env ## the same, with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI, or an embedded one)
	@$(COMMAND) dev-postgres $(if $(PORT),--port $(PORT))

dev-aegra: $(VENV)/.installed .env ## the same on aegra, with Postgres and Redis and no licence (needs Python 3.12)
	@$(COMMAND) dev-aegra $(if $(PORT),--port $(PORT))

# make itself sets AS, to the assembler.
ifeq ($(origin AS),default)
AS :=
endif
# The shell expands these, so that a quote in a name stays in the name.
export AS ORG URL TOKEN USER_ID

chat: $(VENV)/.installed ## talk to it in the terminal (AS=alice@example.com, ORG=acme; or TOKEN= of an identity provider; URL=)
	@$(COMMAND) chat $${AS:+--as "$$AS"} $${ORG:+--org "$$ORG"} $${URL:+--url "$$URL"}

smoke: $(VENV)/.installed ## try a deployment as somebody without memory (URL=, TOKEN=), and delete what that made
	@test -n "$$URL" || { echo "URL is empty; say where, e.g. make smoke URL=http://127.0.0.1:2024 TOKEN=dev:acme:smoke" >&2; exit 1; }
	@$(COMMAND) smoke --url "$$URL"

seed: $(VENV)/.installed ## put policies and skills into a deployment (URL=, PRUNE=1; TOKEN= of an operator, where Studio is not let in)
	@$(COMMAND) seed $${URL:+--url "$$URL"} $(if $(PRUNE),--prune)

forget: $(VENV)/.installed ## delete all of a person who left (USER_ID=, ORG=, URL=; TOKEN= of an operator, where Studio is not let in)
	@test -n "$$USER_ID" -a -n "$$ORG" || { echo "USER_ID or ORG is empty; say who, e.g. make forget USER_ID=alice@example.com ORG=acme" >&2; exit 1; }
	@$(COMMAND) forget "$$USER_ID" "$$ORG" $${URL:+--url "$$URL"}

install: $(VENV)/.installed ## install what a model's provider needs, too (EXTRA=openai)
	$(PIP) -c constraints.txt $(ENGINE) $(GROUP) -e '.$(if $(EXTRA),[$(EXTRA)])'

check: $(VENV)/.installed ## lint and types; the engine's too while it is a folder
	@$(COMMAND) check

test-mine: $(VENV)/.installed ## the tests of this fork alone
	@$(COMMAND) test-mine

test: $(VENV)/.installed ## check, the tests of this fork, and the engine's (but the long proofs) while it is a folder
	@$(COMMAND) test $(TEMPLATED)

test-fast: $(VENV)/.installed ## the engine's tests without a server, Postgres or a browser, for the inner loop
	@$(COMMAND) test-fast $(TEMPLATED)

proof: $(VENV)/.installed ## the same as test, with the engine's long proofs
	@$(COMMAND) proof $(TEMPLATED)

eval: $(VENV)/.installed ## judge the model in .env by the cases of evals/ (with LANGSMITH_API_KEY: an experiment there)
	@$(COMMAND) eval

screenshots: $(VENV)/.installed ## look at the page as it is now: engine/docs/screenshot*.png (needs a Chromium)
	@cd engine && "$(CURDIR)/$(PYTHON)" -m tests.page.screenshots

audit: $(VENV)/.installed ## ask for known vulnerabilities of what is pinned (needs the network)
	$(PIP) -c constraints.txt pip-audit
	$(PYTHON) -m pip_audit -r constraints.txt --no-deps --disable-pip

upgrade: $(VENV)/.installed ## pin the newest releases that fit together (needs uv and the network); then `make test`. BEYOND_BOUNDS=1: also what the engine excludes
	@$(COMMAND) upgrade $(if $(BEYOND_BOUNDS),--beyond-bounds)

upgrade-engine: $(VENV)/.installed ## use another engine: FROM=<folder or wheel>; shows what changes for this fork (DRY_RUN=1: no more), then runs its tests
	@$(PYTHON) -m lasting_memory.dev.upgrade $(if $(DRY_RUN),--dry-run) -- "$(FROM)"
	@# An editable engine of the same version would count as installed, though its folder is gone.
	@$(if $(DRY_RUN),:,$(if $(UV),$(UV) pip uninstall --quiet --python $(PYTHON),$(PYTHON) -m pip uninstall --quiet --yes) lasting-memory)
	@$(if $(DRY_RUN),:,rm $(VENV)/.installed)
	@$(if $(DRY_RUN),:,$(MAKE) --no-print-directory test-mine)

clean: ## remove the environment and everything the local server keeps
	rm -rf $(VENV) .venv-aegra .langgraph_api .postgres build *.egg-info

.env:
	cp .env.example .env

# Not the interpreter itself: its date is that of the machine's Python.
$(VENV)/.created:
	test -x $(PYTHON) || $(if $(UV),$(UV) venv --quiet --seed $(if $(INTERPRETER),--python "$(INTERPRETER)") $(VENV),"$(or $(INTERPRETER),python3)" -m venv $(VENV))
	@$(if $(UV),:,$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt uv || echo "uv cannot be installed here; pip takes minutes.")
	@touch $@

$(VENV)/.installed: pyproject.toml $(FOLDER) constraints.txt | $(VENV)/.created
	$(PIP) -c constraints.txt $(ENGINE) $(GROUP) -e .
	touch $@
