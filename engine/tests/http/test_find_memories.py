"""Search of one's memory by a fork's own tool, `find_memories`."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.store.base import BaseStore

from lasting_memory import Context, Deployment, file_system, find_memories, middleware
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import BuildGraph
from tests.http.conftest import MEMORIES


def build_finder(d: Deployment, model: BaseChatModel) -> Any:
    """An agent with a tool of its own."""

    @tool
    async def shopping(wanted: str) -> str:
        """What to buy."""
        return " | ".join(
            f"{each.path}: {each.text} {each.lines}"
            for each in await find_memories(d, wanted, limit=1)
        )

    return create_deep_agent(
        model=model,
        tools=[shopping],
        **file_system(d),
        middleware=middleware(d),
        context_schema=Context,
    )


async def test_a_fork_s_own_tool_finds_what_is_its_person_s_alone(graph: BuildGraph) -> None:
    agent = graph(deployed(), build=build_finder)
    for name in ("alice", "bob"):
        agent.put(("memories", f"acme:{name}"), "/list.md", f"- {name} needs leek\n")
    for name in ("alice", "bob"):
        (told,) = await agent.called(
            ToolCall("shopping", {"wanted": "leek"}), user=name, thread=name
        )
        assert told == f"/memories/list.md: - {name} needs leek ((0, '- {name} needs leek'),)"


async def test_a_fork_s_tool_finds_shared_lines_in_shared_memory(graph: BuildGraph) -> None:
    agent = graph(deployed(memory_scope="assistant"), build=build_finder)
    agent.put(("memories", f"{AGENT}:acme"), "/list.md", "- all need leek\n")
    (told,) = await agent.called(ToolCall("shopping", {"wanted": "leek"}))
    assert "all need leek" in told


async def test_the_store_is_never_searched_for_a_temporary_conversation(
    graph: BuildGraph, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "lasting_memory.agent.memory_search.in_temporary_conversation", lambda: True
    )
    agent = graph(deployed(), build=build_finder)
    agent.put(MEMORIES, "/list.md", "- needs leek\n")
    (told,) = await agent.called(ToolCall("shopping", {"wanted": "leek"}))
    assert "leek" not in told
