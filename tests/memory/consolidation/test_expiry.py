"""Memory that ages: old conversations go where that is set, and the oldest topics are shortened where memory is large."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph_sdk.errors import NotFoundError

import settings
from memory import identity, namespaces
from memory.consolidation.positions import Position, commit, positions
from memory.consolidation.sweeping import delete_old
from memory.consolidation.tasks import shorten
from memory.controls import SHORTEN_ABOVE_BYTES
from memory.recall import catch_up
from testing.dev_server import DevServer, run_turn
from testing.platform import Platform
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from tests.memory.test_quota import NOW, topic
from tests.memory.test_temporary import new_thread

ALICE, BOB = identity.Actor("alice", "acme"), identity.Actor("bob", "acme")
DAYS = 30
SETTINGS = settings.Settings()


async def test_old_conversations_go_with_their_index_and_positions_and_memory_stays(store: BaseStore) -> None:
    platform: Any = Platform()
    said = [{"type": "human", "id": "1", "content": "a zebra"}]
    old = {"a-old": ALICE, "b-old": BOB, "a-busy": ALICE}
    for thread_id, actor in {**old, "a-new": ALICE}.items():
        platform.put(actor, thread_id, "2026-01-01T12:00:00+00:00" if thread_id in old else "2026-02-27T12:00:00+00:00", said)
        platform.kept[thread_id]["status"] = "busy" if thread_id == "a-busy" else "idle"
    for actor in (ALICE, BOB):
        await catch_up(store, platform, actor)
        await commit(
            store, actor, {thread_id: Position("x") for thread_id, of in {**old, "a-new": ALICE}.items() if of == actor}
        )
    file = namespaces.memories(ALICE, identity.DEFAULT_AGENT_ASSISTANT, settings.Settings())
    await store.aput(file, "/food.md", {"content": "- dill"})
    assert await delete_old(SETTINGS, platform, store, NOW) == 0, "off by default"
    assert await delete_old(SETTINGS, platform, store, NOW, DAYS) == 2
    assert await delete_old(SETTINGS, platform, store, NOW, DAYS) == 0
    assert set(platform.kept) == {"a-busy", "a-new"}
    assert set(await positions(store, ALICE)) == {"a-busy", "a-new"}
    assert await positions(store, BOB) == {}
    assert [len([item for item in await store.asearch(namespaces.recall(actor, "documents"), limit=99)
                 if item.key.startswith("conversation/")]) for actor in (ALICE, BOB)] == [2, 0]  # fmt: skip
    assert await store.aget(file, "/food.md")


async def test_a_conversation_that_is_due_is_consolidated_before_its_age_deletes_it(store: BaseStore) -> None:
    """It goes with a later sweep, and a week later in any case; however many are due, others go at once."""
    platform: Any = Platform()
    at = NOW - timedelta(days=DAYS + 1)
    many = {f"due-{number}": ALICE for number in range(101)}
    for number, (thread_id, actor) in enumerate({**many, "b-read": BOB}.items()):
        platform.put(actor, thread_id, (at + timedelta(seconds=number)).isoformat(), [])
        platform.kept[thread_id]["status"] = "idle"
        platform.kept[thread_id]["metadata"] |= {"assistant_id": identity.DEFAULT_AGENT_ASSISTANT}

    async def consolidated(thread_id: str) -> None:
        await commit(store, many.get(thread_id, BOB), {thread_id: Position(platform.kept[thread_id]["updated_at"])})

    await consolidated("b-read")
    assert await delete_old(SETTINGS, platform, store, NOW, DAYS) == 1
    assert set(platform.kept) == set(many)
    await consolidated("due-7")
    assert await delete_old(SETTINGS, platform, store, NOW, DAYS) == 1
    assert set(platform.kept) == set(many) - {"due-7"}
    assert await delete_old(SETTINGS, platform, store, NOW + timedelta(days=8), DAYS) == 100
    assert platform.kept == {}


@pytest.mark.server
async def test_a_deleted_conversation_is_not_found_any_more(
    server: DevServer, model: ScriptedAnthropic, alice: str, store: BaseStore
) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    old, bobs = await new_thread(client, {}), await new_thread(bob, {})
    for who, thread in ((client, old), (bob, bobs)):
        await run_turn(who, thread, "a zebra called Zoe")
    # As the sweep does it, with somebody who sees only their own.
    assert await delete_old(SETTINGS, client, store, datetime.now(UTC) + timedelta(days=DAYS + 8), DAYS) == 1
    with pytest.raises(NotFoundError):
        await client.threads.get(old)
    assert await bob.threads.get(bobs)
    model.script("what of the animal", [ToolCall("search_past_conversations", {"query": "zebra"})], [Text("done")])
    await run_turn(client, await new_thread(client, {}), "what of the animal")
    assert "Zoe" not in tool_results(model.requests[-1])[0]


def test_consolidation_is_asked_to_shorten_the_oldest_topics() -> None:
    """Consolidation is asked to shorten the oldest topics where memory is over its budget."""
    topics = [topic(f"/topics/{n}.md", SHORTEN_ABOVE_BYTES // 8, f"2026-01-0{n}") for n in (7, 3, 5, 1, 2, 4, 6)]
    files = {item.key: item for item in [*topics, topic("/topics/index.md", 10, "2025"), topic("/preferences.md", 10, "2025")]}
    assert shorten(files) == ""
    files["/topics/8.md"] = topic("/topics/8.md", SHORTEN_ABOVE_BYTES // 4, "2026-01-08")
    asked = shorten(files)
    assert ", ".join(f"/memories/topics/{n}.md" for n in range(1, 6)) in asked
    assert "topics/6.md" not in asked
    assert "{" not in asked
