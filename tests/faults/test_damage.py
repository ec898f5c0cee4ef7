"""Items of the store that were damaged: what is acknowledged stays, and nobody is stuck with them."""

from __future__ import annotations

from typing import Any

import pytest
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory import journal, namespaces
from memory.identity import Actor, Author
from settings import Settings

FILES = namespaces.memories(Actor("alice", "acme"), "", Settings())
PATH = "/a.md"
LOG = namespaces.journal(FILES, PATH)
AUTHOR = Author("person", "alice")
DAMAGES: list[dict[str, Any]] = [{}, {"content": 7}, {"content": "x", "author": None}, {"number": None}]


def line(text: str) -> Any:
    def append(before: FileData | None) -> FileData:
        return create_file_data(f"{before['content'] if before else ''}{text}\n")

    return append


async def append(store: BaseStore, *lines: str) -> None:
    for text in lines:
        await journal.change(store, FILES, PATH, line(text), AUTHOR)


async def content(store: BaseStore) -> str:
    item = await store.aget(FILES, PATH)
    assert item
    return str(item.value["content"])


async def damage(store: BaseStore, value: Any, newest: int = 1) -> None:
    """Replace the newest items of the journal, or what they say of their revision."""
    items = sorted(await store.asearch(LOG, limit=100), key=lambda item: item.key)
    for item in items[-newest:]:
        revision = item.value["revision"] or {}
        broken = {**item.value, "revision": {**revision, **value}} if value else {"slot": item.value["slot"]}
        await store.aput(LOG, item.key, broken, index=False)


@pytest.mark.parametrize("value", DAMAGES, ids=repr)
@pytest.mark.parametrize(("lines", "newest"), [(3, 1), (3, 2), (1, 1)])
async def test_an_append_after_unreadable_items_loses_no_acknowledged_line(
    store: BaseStore, value: Any, lines: int, newest: int
) -> None:
    """An append after the newest items became unreadable loses no acknowledged line."""
    said = [f"- {number}" for number in range(lines)]
    await append(store, *said)
    await damage(store, value, newest)
    await append(store, "- after", "- and again")
    assert (await content(store)).splitlines() == [*said, "- after", "- and again"]
    history = await journal.history(store, FILES, PATH)
    assert history[0].content == await content(store)
    assert [revision.author.kind for revision in history[:2]] == ["person", "person"]


@pytest.mark.parametrize("value", DAMAGES, ids=repr)
async def test_a_damaged_item_fails_neither_history_nor_a_deletion_nor_a_new_file(store: BaseStore, value: Any) -> None:
    await append(store, "- 1", "- 2")
    await damage(store, value)
    history = await journal.history(store, FILES, PATH)
    assert [revision.content for revision in history] == ["- 1\n"]
    await journal.change(store, FILES, PATH, lambda _: None, AUTHOR)
    await damage(store, value)
    await append(store, "- anew")
    assert (await content(store)).endswith("- anew\n")


@pytest.mark.parametrize("at", [None, "soon", [1]], ids=repr)
async def test_a_damaged_time_of_being_forgotten_refuses_nothing(at: Any) -> None:
    store, actor = InMemoryStore(), Actor("alice", "acme")
    await store.aput(namespaces.forgotten(actor), namespaces.FORGOTTEN, {"at": at})
    await journal.change(store, FILES, PATH, line("- 1"), AUTHOR, began=journal.began_now(actor))
    assert await content(store) == "- 1\n"
