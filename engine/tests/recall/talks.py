"""Conversations of Alice's that tests of recall have in common, and what a search of them finds."""

from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore

from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall.format import newest
from lasting_memory.recall.index import Index
from lasting_memory.recall.retrieval import search
from lasting_memory.testing.platform import Platform

ALICE = Actor("alice", "acme")
NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)


def human(text: str) -> dict[str, Any]:
    return {"type": "human", "id": text[:20], "content": text}


def say(
    threads: Platform, thread_id: str, *texts: str, actor: Actor = ALICE, days: float = 1
) -> None:
    """A conversation that ended so many days ago."""
    messages = [{**human(text), "id": str(number)} for number, text in enumerate(texts)]
    threads.put(actor, thread_id, (NOW - timedelta(days)).isoformat(), messages)


async def hits(
    store: BaseStore, threads: Platform, query: str, actor: Actor = ALICE, **kwargs: Any
) -> list[str]:
    told: dict[str, Any] = {"agents": ["agent"], "today": NOW.date(), **kwargs}
    results = await search(store, threads, actor, query, told.pop("limit", 5), **told)
    return [item.conversation.thread_id for item in results.matches]


def many(threads: Platform, count: int, *, start: int = 0) -> None:
    for number in range(start, start + count):
        say(
            threads,
            f"t{number}",
            f"word{number} thing{number % 10}",
            "something usual",
            days=100 - number / 1_000,
        )


async def left(store: BaseStore) -> list[Any]:
    parts: tuple[Any, ...] = ("documents", "new", "segments", "texts", "waiting")
    return [
        item
        for part in parts
        for item in await store.asearch(namespaces.recall(ALICE, part), limit=10)
    ]


def conversations(index: Index) -> int:
    """How many are in an index."""
    table = index.table
    return int((newest(table) & (table["words"] > 0)).sum())
