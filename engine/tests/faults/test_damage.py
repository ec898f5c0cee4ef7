"""Items of the store that were damaged: what is acknowledged stays, and nobody is stuck with them."""

from typing import Any

import pytest
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn

FILES = deployed().memory.namespace(Actor("alice", "acme"), "")
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
@pytest.mark.parametrize(("lines", "newest"), [(3, 2), (1, 1)])
async def test_an_append_after_unreadable_items_loses_no_acknowledged_line(
    store: BaseStore, value: Any, lines: int, newest: int
) -> None:
    said = [f"- {number}" for number in range(lines)]
    await append(store, *said)
    await damage(store, value, newest)
    await append(store, "- after", "- and again")
    assert (await content(store)).splitlines() == [*said, "- after", "- and again"]
    history = await journal.history(store, FILES, PATH)
    assert history[0].content == await content(store)
    assert [revision.author.kind for revision in history[:2]] == ["person", "person"]


@pytest.mark.parametrize("at", [None, "soon", [1]], ids=repr)
async def test_a_damaged_time_of_being_forgotten_refuses_nothing(at: Any) -> None:
    store, actor = InMemoryStore(), Actor("alice", "acme")
    await store.aput(namespaces.forgotten(actor), namespaces.FORGOTTEN, {"at": at})
    await journal.change(store, FILES, PATH, line("- 1"), AUTHOR, began=journal.began_now(actor))
    assert await content(store) == "- 1\n"


NOTES = {"path": "/memories/notes.md"}
DOORS: list[tuple[str, str, dict[str, str], Any]] = [
    ("GET", "/memory", {}, None),
    ("GET", "/memory/file", NOTES, None),
    ("GET", "/memory/history", NOTES, None),
    ("GET", "/memory/me", {}, None),
    ("GET", "/memory/search", {"q": "units"}, None),
    ("GET", "/memory/prompt", {}, None),
    ("GET", "/memory/controls", {}, None),
    ("GET", "/memory/proposals", {}, None),
    ("GET", "/memory/consolidations", {}, None),
    ("GET", "/memory/export", {}, None),
    ("PUT", "/memory/file", {"path": "/memories/another.md"}, {"content": "- y\n"}),
    ("DELETE", "/memory/file", {"path": "/memories/another.md"}, None),
    ("PUT", "/memory/file", NOTES, {"content": "- z\n"}),
    ("POST", "/memory/import", {}, {"version": 1, "files": []}),
    ("POST", "/memory/consolidate", {}, None),
    ("DELETE", "/memory", {}, None),
]
# What a damaged file is answered with: that it is none, and what to do.
TOLD = {("/memory/file", 404), ("/memory/file", 409), ("/memory/file", 422), ("/memory/history", 404)}


@pytest.mark.server
async def test_somebody_whose_every_item_is_damaged_is_alone_with_it_and_is_forgotten(faulty: DevServer, alice: str) -> None:
    """Damaged items fail no door of their person's, nor the sweep; forgetting the person leaves none."""
    client, store, actor = faulty.as_user(alice), faulty.as_operator().store, Actor(alice, "acme")
    http, places = client.http, namespaces.namespaces_of(actor, [deployed().memory.namespace(actor, "")])

    async def items() -> list[Any]:
        return [item for place in places for item in (await store.search_items(list(place), limit=100))["items"]]

    await http.put("/memory/file", params=NOTES, json={"content": "- tea\n"})
    await http.put("/memory/controls", json={"review": True})
    for graph in ("agent", "consolidation_agent"):
        await run_turn(client, str((await client.threads.create())["thread_id"]), "hello", assistant=graph)
    await http.get("/memory/search", params={"q": "units"})
    damaged = await items()
    assert len({tuple(item["namespace"]) for item in damaged}) > len(places) // 2
    for item in damaged:
        sorted_by = {
            name: value for name, value in item["value"].items() if name == "slot"
        }  # the in-memory store fails without
        await store.put_item(item["namespace"], item["key"], {"damaged": [1], **sorted_by})
    wrong = []
    for method, path, params, body in DOORS:
        answer = await http.client.request(method, path, params=params, **({"json": body} if body else {}))
        if not answer.is_success and (path, answer.status_code) not in TOLD:
            wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        if path == "/memory/consolidate":
            for graph in ("agent", "consolidation_agent"):
                await run_turn(client, str((await client.threads.create())["thread_id"]), "hello", assistant=graph)
            nothing: Any = {"messages": []}
            await faulty.as_operator().runs.wait(None, "consolidation_agent", input=nothing)
    assert wrong == []
    assert await items() == []
