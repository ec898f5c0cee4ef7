"""Alice's consolidation runs without a server, and a platform for the triggers."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.consolidation import run as run_module
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import Consolidation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import BuildGraph
from tests.consolidation.runs import Runs


@pytest.fixture
def run(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> Runs:
    """Runs consolidation for Alice."""
    monkeypatch.setattr(run_module, "get_client", lambda: platform)
    many = replace(deployed(), consolidation=Consolidation(at_once=1_000))
    return Runs(graph(many, build=build_consolidation_agent).graph, store, model, platform)


@pytest.fixture
def platform() -> Platform:
    platform = Platform()
    platform.now = datetime.now(UTC)
    return platform
