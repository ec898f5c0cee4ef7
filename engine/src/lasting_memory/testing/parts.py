"""Which of the parts that come off are on."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from lasting_memory.dev import server
from lasting_memory.settings import ENGINE, PROJECT

CONSOLIDATION = (PROJECT / "consolidation_agent.py").is_file()
MEANING = (ENGINE / "recall" / "semantic.py").is_file()
PAGE = (ENGINE / "http" / "static").is_dir()
POSTGRES = (ENGINE / "postgres").is_dir()
# What that adds to langgraph.json.
ON_POSTGRES: dict[str, Any] = server.ON_POSTGRES if POSTGRES else {}
SKILLS = (ENGINE / "agent" / "skills.py").is_file()
SUBAGENTS = ("general-purpose", "writer")

# For tests of what others make of a consolidation.
needs_consolidation = pytest.mark.skipif(not CONSOLIDATION, reason="consolidation is taken off")


def graph_builders() -> dict[str, Callable[..., Any]]:
    """What builds each graph, by its id."""
    built = {"agent": "agent", "consolidation_agent": "lasting_memory.consolidation.graph"}
    return {graph: getattr(import_module(module), f"build_{graph}") for graph, module in built.items()}


def stores(*marks: pytest.MarkDecorator) -> list[object]:
    """Parameters for the fixture `store`: its kinds. `marks` are for the tests on Postgres."""
    return ["memory", *([pytest.param("postgres", marks=[pytest.mark.postgres, *marks])] if POSTGRES else [])]


def postgres() -> Any:
    """The module testing/postgres.py, which is taken off with Postgres."""
    return import_module("lasting_memory.testing.postgres")
