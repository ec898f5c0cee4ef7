"""What people use up: tokens of a day are counted, and room; and middleware in one."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore, Item
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.usage import next_day
from lasting_memory.controls import NEARLY_FULL, usage_of
from lasting_memory.limits import DEFAULTS
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import BuildGraph, Scripted, served

ALICE = Actor("alice", "acme")


@pytest.fixture
def store() -> BaseStore:
    return InMemoryStore()


async def used(store: BaseStore, actor: Actor) -> int:
    return sum(item.value["tokens"] for item in await store.asearch(namespaces.usage(actor)))


async def test_a_turn_beyond_the_budget_is_answered_with_when_there_is_more(graph: BuildGraph) -> None:
    agent = graph(deployed(daily_tokens=1))
    await agent.turn("hello")
    assert await used(agent.store, ALICE) > 1
    said = await agent.turn("and again")
    assert said[-1].startswith("Today's 1 tokens are used up")
    assert len(agent.model.requests) == 1
    assert (await agent.turn("hello", thread="2", user="bob"))[-1] == "ok"


async def test_a_subagents_calls_count_too_and_earlier_days_do_not(graph: BuildGraph) -> None:
    agent = graph(deployed(daily_tokens=10**9))
    agent.store.put(namespaces.usage(ALICE), "2026-01-01/run", {"tokens": 10**10})
    await agent.called(ToolCall("task", {"description": "the subtask", "subagent_type": "writer"}))
    asked = [len(str(body)) // 5 for body in agent.model.requests]
    assert len(asked) == 3
    assert sum(asked) < await used(agent.store, ALICE) < 10**9, "those of earlier days are gone"


async def test_without_a_budget_nothing_is_counted(agent: Scripted) -> None:
    await agent.turn("hello")
    assert await used(agent.store, ALICE) == 0


bounded = served(DAILY_TOKENS="1")


@pytest.mark.server
@pytest.mark.proof  # a server of its own
async def test_a_run_beyond_the_budget_is_refused_with_the_time_of_more(bounded: DevServer, alice: str) -> None:
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


@pytest.mark.parametrize(("files", "size", "nearly_full"), [
    (1, int(NEARLY_FULL * DEFAULTS.max_bytes) - 1, False), (1, int(NEARLY_FULL * DEFAULTS.max_bytes) + 1, True),
    (int(NEARLY_FULL * DEFAULTS.max_files) - 1, 0, False), (int(NEARLY_FULL * DEFAULTS.max_files), 0, True),
])  # fmt: skip
def test_memory_is_nearly_full_by_its_bytes_or_by_its_files(files: int, size: int, nearly_full: bool) -> None:
    now = datetime.now(UTC)
    item = Item(value={"content": "x" * size}, key="/a.md", namespace=("memories",), created_at=now, updated_at=now)
    assert usage_of([item] * files, DEFAULTS)["nearly_full"] is nearly_full
