"""The server of the quality set: the project in this folder as it is, with the model that the environment or `.env` names.

A fork's `evals/conftest.py` imports `pytest_configure` and the two fixtures.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from lasting_memory.settings import VARIABLES, local_environ
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.evals.summary import Summary

PROJECT = Path.cwd()
ENVIRON = local_environ(PROJECT)
MODELS = ("AGENT_MODEL", "CONSOLIDATION_MODEL")
NO_MODEL = (
    "No model is set, so there is nothing to judge: put AGENT_MODEL (or CONSOLIDATION_MODEL) and its provider's key into .env, "
    "e.g. AGENT_MODEL=anthropic:claude-sonnet-4-6 and ANTHROPIC_API_KEY=..."
)
# By the cases' names: each keeps its last result, so that part of them can be run.
SUMMARY = Summary(PROJECT / "evals" / ".last_run.json", ENVIRON.get("CONSOLIDATION_MODEL") or ENVIRON.get("AGENT_MODEL", ""))
# What a deployment's own settings may not change about a case, and what belongs to the server that is started here.
_DROPPED = ("LANGGRAPH_", "POSTGRES_", "MEMORY_POSTGRES_")


def server_env(environ: Mapping[str, str] = ENVIRON) -> dict[str, str]:
    """The environment of the server: everything given but the deployment's settings, of which only the models count."""
    kept = {name: value for name, value in environ.items() if name not in VARIABLES and not name.startswith(_DROPPED)}
    models = {name: environ[name] for name in MODELS if environ.get(name)}
    return {**kept, **models, "CONSOLIDATE_AFTER_SECONDS": "0"}


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    if not any(ENVIRON.get(name) for name in MODELS):
        pytest.skip(NO_MODEL)
    with DevServer(tmp_path_factory.mktemp("server"), env=server_env(), project=PROJECT) as server:
        yield server


@pytest.fixture
async def server(shared_server: DevServer) -> AsyncIterator[DevServer]:
    """`langgraph dev` with the project's own configuration and a real model."""
    yield shared_server
    await shared_server.close_clients()


def pytest_configure(config: pytest.Config) -> None:
    """Show and keep results. LangSmith's plugin reads the process environment, and reports nothing while tracing is off."""
    config.pluginmanager.register(SUMMARY)
    os.environ.update({name: value for name, value in ENVIRON.items() if name.startswith("LANGSMITH_")})
    if ENVIRON.get("LANGSMITH_API_KEY"):
        os.environ.setdefault("LANGSMITH_TRACING", "true")
        os.environ.setdefault("LANGSMITH_EXPERIMENT", ENVIRON.get("CONSOLIDATION_MODEL") or ENVIRON.get("AGENT_MODEL", ""))
