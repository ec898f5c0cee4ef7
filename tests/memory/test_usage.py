"""What people use up: tokens of a day are counted, a call that is refused each time ends the run; and middleware in one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory import namespaces
from memory.identity import Actor
from memory.usage import budget_refusal, merged, next_day
from settings import MAX_BUSY_THREADS, Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, last_user_text, tool_results
from tests.conftest import BuildGraph, model_env, served

ALICE = Actor("alice", "acme")


@pytest.fixture
def store() -> BaseStore:
    return InMemoryStore()


# --- Tokens ----------------------------------------------------------------------------------------------------------


async def used(store: BaseStore, actor: Actor) -> int:
    return sum(item.value["tokens"] for item in await store.asearch(namespaces.usage(actor)))


async def test_a_turn_beyond_the_budget_is_answered_with_when_there_is_more(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    agent = graph(Settings(daily_tokens=1))
    await agent.turn("hello")
    assert await used(store, ALICE) > 1
    said = await agent.turn("and again")
    assert said[-1].startswith("Today's 1 tokens are used up")
    assert len(model.requests) == 1
    assert (await agent.turn("hello", thread="2", user="bob"))[-1] == "ok"


async def test_a_subagents_calls_count_too(graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore) -> None:
    agent = graph(Settings(daily_tokens=10**9))
    model.script("delegate", [ToolCall("task", {"description": "the subtask", "subagent_type": "writer"})], [Text("done")])
    await agent.turn("delegate this")
    asked = [len(str(body)) // 5 for body in model.requests]
    assert len(asked) == 3
    assert await used(store, ALICE) > sum(asked)


async def test_without_a_budget_nothing_is_counted(graph: BuildGraph, store: BaseStore) -> None:
    await graph().turn("hello")
    assert await used(store, ALICE) == 0


async def test_the_tokens_of_earlier_days_do_not_count_and_go(graph: BuildGraph, store: BaseStore) -> None:
    store.put(namespaces.usage(ALICE), "2026-01-01/run", {"tokens": 10**9})
    settings = Settings(daily_tokens=10**6)
    assert await budget_refusal(store, ALICE, settings) is None
    await graph(settings).turn("hello")
    assert 0 < await used(store, ALICE) < 10**6
    assert next_day(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)


bounded = served(DAILY_TOKENS="1")


@pytest.mark.server
@pytest.mark.proof  # a server of its own
async def test_a_run_beyond_the_budget_is_refused_with_the_time_of_more(bounded: DevServer, alice: str) -> None:
    """A run beyond the budget is refused with the time at which there is more."""
    client = bounded.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    await run_turn(client, thread, "hello")
    body: Any = {"assistant_id": "agent", "input": {"messages": "again"}}
    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=bounded.url, headers=headers, trust_env=False) as http:
        refused = await http.post(f"/threads/{thread}/runs/wait", json=body)
        await http.delete("/memory")
        forgotten = await http.post("/runs/wait", json=body)
    assert refused.status_code == 429
    assert f"{next_day(datetime.now(UTC)):%Y-%m-%dT%H:%MZ}" in refused.json()["detail"]
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert forgotten.status_code == 429, "being forgotten gives no tokens"
    other = bounded.as_user(f"other-{alice}")
    async with asyncio.timeout(30):
        await run_turn(other, str((await other.threads.create())["thread_id"]), "hello")


@pytest.mark.server
@pytest.mark.postgres
async def test_tokens_of_runs_at_once_are_all_counted(
    tmp_path: Path, postgres_uri: str, model: ScriptedAnthropic, alice: str
) -> None:
    """On a server whose runs have an event loop and a thread each."""
    env = {"MEMORY_POSTGRES_URI": postgres_uri, "BG_JOB_ISOLATED_LOOPS": "true", "DAILY_TOKENS": "1000000000"}
    with DevServer(tmp_path, env={**model_env(model), **env}, config=ON_POSTGRES) as server:
        client, took = server.as_user(alice), 0
        threads = [str((await client.threads.create())["thread_id"]) for _ in range(MAX_BUSY_THREADS)]
        for number in range(4):
            for values in await asyncio.gather(*(run_turn(client, thread, f"hello {number}") for thread in threads)):
                took += values["messages"][-1]["usage_metadata"]["total_tokens"]
        namespace = list(namespaces.usage(Actor(alice, "acme")))
        found: Any = await server.as_operator().store.search_items(namespace, limit=1_000)
        assert sum(item["value"]["tokens"] for item in found["items"]) == took
        await server.close_clients()


# --- Refused calls ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, ToolCall] = {
    "by a file tool": ToolCall("edit_file", {"file_path": "/memories/none.md", "old_string": "a", "new_string": "b"}),
    "by permissions": ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"}),
    "by a memory tool": ToolCall("append_memory", {"path": "/elsewhere.md", "text": "x"}),
    "for its arguments": ToolCall("append_memory", {"file": "/memories/a.md"}),
    "for its name": ToolCall("append_to_memory", {"path": "/memories/a.md", "text": "x"}),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=list(REFUSED))
async def test_the_same_call_refused_three_times_in_a_row_ends_the_run_and_says_so(
    graph: BuildGraph, model: ScriptedAnthropic, call: ToolCall
) -> None:
    model.script("do it", *[[call]] * 50)
    agent = graph()
    said = await agent.turn("do it")
    assert len(model.requests) == 3
    assert said[-1].startswith(f"I stopped, because {call.name} was refused three times in a row: ")
    assert said[-2] in said[-1], "the reason"
    assert (await agent.turn("and now"))[-1] == "ok", "the conversation goes on"


async def test_a_subagent_that_repeats_a_refused_call_is_ended_and_so_is_who_sends_it_again(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    model.script("write this down", *[[REFUSED["by permissions"]]] * 50)
    model.script("delegate", *[[ToolCall("task", {"description": "write this down", "subagent_type": "general-purpose"})]] * 50)
    said = await graph().turn("delegate")
    asked = [last_user_text(body) for body in model.requests]
    assert asked.count("write this down") == 3 * 3
    assert len(asked) == 3 * 3 + 3
    assert said[-1].startswith("I stopped, because task was refused three times in a row: I stopped, because write_file was")


async def test_calls_that_differ_or_succeed_or_are_refused_for_another_reason_go_on(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    refused = REFUSED["by a file tool"]
    others = [ToolCall("edit_file", {**refused.args, "old_string": f"try {number}"}) for number in range(5)]
    fine = ToolCall("ls", {"path": "/"})
    there = ToolCall("write_file", {"file_path": refused.args["file_path"], "content": "c"})
    often = [*[[fine]] * 5, *[[refused], [fine]] * 4, [refused], [refused], [there], [refused], [refused]]
    model.script("carry on", *([each] for each in others), *often, [Text("done")])
    assert (await graph().turn("carry on"))[-1] == "done"
    assert len(tool_results(model.requests[-1])) == 1


async def test_what_was_refused_in_an_earlier_turn_does_not_count(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    agent = graph()
    for _ in range(4):
        model.script("once more", [REFUSED["by permissions"]], [Text("it was refused")])
        assert (await agent.turn("once more"))[-1] == "it was refused"


# --- Several in one --------------------------------------------------------------------------------------------------


class Noted(AgentMiddleware[Any, Any, Any]):
    """Notes which calls go through it."""

    name = ""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self.name, self._notes = name, notes

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._notes.append(f"{self.name} model")
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._notes.append(f"{self.name} tool")
        return await handler(request)


class Talking(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_of_several_in_one_the_first_is_the_outermost_as_in_a_list() -> None:
    async def notes(combine: Callable[..., list[Any]]) -> list[str]:
        taken: list[str] = []
        calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
        model = Talking(messages=iter([calls, AIMessage("done")]))
        agent = create_agent(model, [look], middleware=combine(*(Noted(name, taken) for name in "abc")))
        await agent.ainvoke({"messages": [HumanMessage("hello")]})
        return taken

    together = await notes(lambda *parts: [merged(*parts)])
    assert together == await notes(lambda *parts: list(parts))
    assert together == [f"{name} {call}" for call in ("model", "tool", "model") for name in "abc"]


def test_what_would_be_lost_in_one_is_refused() -> None:
    with pytest.raises(TypeError, match=r"TodoListMiddleware has .*; list it by itself"):
        merged(TodoListMiddleware())


def test_a_turn_has_no_nodes_but_deepagents_own(graph: BuildGraph) -> None:
    hooks = {name for name in graph().graph.nodes if "." in name}
    assert hooks == {"_ParentNotifierMiddleware.after_agent", "PatchToolCallsMiddleware.before_agent"}
