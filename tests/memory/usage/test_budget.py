"""A person's tokens of a day: what calls took is counted, and beyond the budget none is made."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory import namespaces
from memory.identity import Actor
from memory.usage import budget_refusal, count
from memory.usage.budget import frees_at
from settings import Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph, module_server

ALICE, BOB = Actor("alice", "acme"), Actor("bob", "acme")


@pytest.fixture
def store() -> BaseStore:
    return InMemoryStore()


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


async def test_without_a_budget_nothing_is_counted(graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore) -> None:
    await graph().turn("hello")
    assert await used(store, ALICE) == 0


async def test_yesterdays_tokens_do_not_count(store: BaseStore) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    await count(store, namespaces.usage(ALICE), yesterday, {"tokens": 9}, keep=yesterday)
    assert await budget_refusal(store, ALICE, Settings(daily_tokens=5)) is None


def test_the_next_day_begins_at_midnight_in_utc() -> None:
    assert frees_at(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)


shared_bounded, bounded = module_server("bounded", DAILY_TOKENS="1")


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
    midnight = frees_at(datetime.now(UTC))
    assert refused.status_code == 429
    assert f"{midnight:%Y-%m-%dT%H:%MZ}" in refused.json()["detail"]
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert forgotten.status_code == 429, "being forgotten gives no tokens"
    other = bounded.as_user(f"other-{alice}")
    async with asyncio.timeout(30):
        await run_turn(other, str((await other.threads.create())["thread_id"]), "hello")
