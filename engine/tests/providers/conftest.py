"""Both graphs on the real client of each provider, against a scripted server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from agent import build_agent
from langgraph.store.memory import InMemoryStore

from lasting_memory import Consolidation, build_consolidation_agent
from lasting_memory.agent import bounds
from lasting_memory.consolidation import run as run_module
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_provider import ScriptedProvider
from tests.conftest import Graph
from tests.consolidation.conftest import Runs
from tests.providers.protocols import PROVIDERS


@dataclass(frozen=True)
class Provided:
    """A provider that answers as its server is scripted, and both graphs on it."""

    server: ScriptedProvider
    agent: Any
    consolidation_agent: Any

    def graph(self) -> Graph:
        return Graph(self.agent, InMemoryStore())


@pytest.fixture(scope="module")
def provided() -> Iterator[Callable[[str], Provided]]:
    """Gives a provider by its name. Its graphs are built once: that takes longer than most tests."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "RETRY_DELAY_SECONDS", 0.01)

        @cache
        def provide(name: str) -> Provided:
            provider = PROVIDERS[name]
            server = stack.enter_context(ScriptedProvider(provider.speak))
            client = provider.client(server.url)
            many = replace(deployed(), consolidation=Consolidation(at_once=1_000))
            return Provided(
                server, build_agent(deployed(), client), build_consolidation_agent(many, client)
            )

        yield provide


async def messages_of(graph: Graph) -> list[Any]:
    state = await graph.graph.aget_state({"configurable": {"thread_id": "1"}})
    return list(state.values["messages"])


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def consolidation(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Provided], Runs]:
    monkeypatch.setattr(run_module, "get_client", lambda: platform)

    def consolidation(provider: Provided) -> Runs:
        model: Any = None  # the provider is scripted
        return Runs(InMemoryStore(), provider.consolidation_agent.copy(), model, platform)

    return consolidation
