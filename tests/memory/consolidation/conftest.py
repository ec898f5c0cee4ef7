"""Alice's consolidation runs without a server, and a platform for the triggers."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import BaseStore

from testing.fake_platform import FakePlatform
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import Runs


@pytest.fixture
def run(graph: BuildGraph, store: BaseStore) -> Runs:
    """Runs consolidation for Alice, whose conversations are `due` as far as they were not consolidated."""
    return Runs(graph, store)


@pytest.fixture
def built(run: Runs) -> Any:
    """The graph of Alice's runs."""
    return run.built


@pytest.fixture
def platform() -> FakePlatform:
    """A platform whose clock is the triggers' clock, too."""
    return FakePlatform()
