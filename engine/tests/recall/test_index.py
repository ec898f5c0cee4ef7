"""The recall index: nothing is missed, nothing is lost, and it can be made again at any time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall import index as segments
from lasting_memory.recall.index import catch_up, forget
from lasting_memory.recall.retrieval import search
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, conversations, hits, human, left, many, say


async def test_many_conversations_are_in_few_items_and_each_is_found(store: BaseStore, threads: Platform) -> None:
    many(threads, 700)
    assert conversations(await catch_up(store, threads, ALICE, agents=["agent"])) == 703
    new = await store.asearch(namespaces.recall(ALICE, "new"), limit=1_000)
    headers = await store.asearch(namespaces.recall(ALICE, "segments"), limit=1_000)
    assert len(new) < segments.MERGE_AT
    assert len(headers) <= 4
    for number in (0, 63, 64, 350, 699):
        assert await hits(store, threads, f"Word{number}") == [f"t{number}"]
    assert len(await hits(store, threads, "thing3", limit=20)) == 20
    # What is said in one of them later is found, what is no longer said in it is not, and each is there once.
    say(threads, "t64", "a zebra", days=0)
    assert await hits(store, threads, "zebra") == ["t64"]
    assert await hits(store, threads, "word64") == []
    many(threads, 100)
    assert (await search(store, threads, ALICE, "word64", 5, agents=["agent"])).searched == 703


async def test_a_search_asks_for_few_threads_and_a_long_backlog_is_worked_off(store: BaseStore) -> None:
    threads = Platform()
    many(threads, 230)
    first = await search(store, threads, ALICE, "word229", 5, agents=["agent"])
    assert [item.conversation.thread_id for item in first.matches] == ["t229"]
    assert first.outstanding == 130
    await search(store, threads, ALICE, "x", 5, agents=["agent"])
    assert await hits(store, threads, "word0") == ["t0"]
    threads.messages = threads.calls["threads.search"] = 0
    await hits(store, threads, "word7")
    assert (threads.calls["threads.search"], threads.messages) == (2, 2)


@pytest.mark.parametrize("damage", [{}, {"format": 0}, {"table": 7, "postings": "AAAA", "words": "!"}], ids=str)
@pytest.mark.parametrize("part", ["documents", "new", "segments"])
async def test_an_item_that_is_damaged_or_of_another_format_is_made_again(part: Any, damage: dict[str, Any]) -> None:
    store, threads = InMemoryStore(), Platform()
    for start, count in ((0, segments.MERGE_AT), (segments.MERGE_AT, 10)):
        many(threads, count, start=start)
        await catch_up(store, threads, ALICE, agents=["agent"])
    items = await store.asearch(namespaces.recall(ALICE, part), limit=1_000)
    assert items
    for item in items:
        await store.aput(item.namespace, item.key, {**item.value, **damage} if damage else {}, index=False)
    for number in (0, segments.MERGE_AT + 9):
        await hits(store, threads, f"word{number}")  # notices
        assert await hits(store, threads, f"word{number}") == [f"t{number}"]
    assert (await search(store, threads, ALICE, "usual", 5, agents=["agent"])).searched == segments.MERGE_AT + 10


async def test_forget_leaves_nothing_and_the_next_search_makes_it_again(store: BaseStore, threads: Platform) -> None:
    many(threads, 100)
    say(threads, "bob", "puppies", actor=Actor("bob", "acme"))
    await hits(store, threads, "puppies", Actor("bob", "acme"))
    await catch_up(store, threads, ALICE, agents=["agent"])
    await forget(store, ALICE)
    assert await left(store) == []
    assert conversations(await catch_up(store, threads, ALICE, agents=["agent"])) == 103
    assert await hits(store, threads, "puppies") == ["dog"]


async def test_a_clock_that_was_once_ahead_hides_nothing_that_is_said_later(store: BaseStore) -> None:
    threads, now = Platform(), datetime.now(UTC)
    threads.put(ALICE, "ahead", (now + timedelta(days=400)).isoformat(), [human("said when the clock was ahead")])
    for number in range(30):
        threads.put(ALICE, f"t{number}", (now - timedelta(days=number + 1)).isoformat(), [human(f"word{number}")])
    assert await hits(store, threads, "ahead") == ["ahead"]
    for number in range(30):
        threads.put(ALICE, f"new{number}", (now - timedelta(seconds=number)).isoformat(), [human(f"later{number}")])
    assert await hits(store, threads, "later0") == ["new0"]
    assert await hits(store, threads, "later29") == ["new29"]
