"""Items of the store that were damaged: what is acknowledged stays, and nobody is stuck with them."""

from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from tests.journal import world

FILES, PATH = deployed().memory.namespace(Actor("alice", "acme"), ""), "/a.md"
AUTHOR = Author("person", "alice")


async def append(store: BaseStore, *lines: str) -> None:
    for line in lines:
        await journal.change(store, FILES, PATH, world.append(line), AUTHOR)


@pytest.mark.parametrize(
    "value", [{}, {"content": 7}, {"content": "x", "author": None}, {"number": None}], ids=repr
)
@pytest.mark.parametrize(("lines", "newest"), [(3, 2), (1, 1)])
async def test_an_append_after_unreadable_items_loses_no_acknowledged_line(
    store: BaseStore, value: dict[str, Any], lines: int, newest: int
) -> None:
    said, log = [f"- {number}" for number in range(lines)], namespaces.journal(FILES, PATH)
    await append(store, *said)
    for item in sorted(await store.asearch(log, limit=100), key=lambda item: item.key)[-newest:]:
        revision = {**(item.value["revision"] or {}), **value}
        broken = {**item.value, "revision": revision} if value else {"slot": item.value["slot"]}
        await store.aput(log, item.key, broken, index=False)
    await append(store, "- after", "- and again")
    file = await store.aget(FILES, PATH)
    assert file
    assert file.value["content"].splitlines() == [*said, "- after", "- and again"]
    history = await journal.history(store, FILES, PATH)
    assert history[0].content == file.value["content"]
    assert [revision.author.kind for revision in history[:2]] == ["person", "person"]


@pytest.mark.parametrize("at", [None, "soon", [1]], ids=repr)
async def test_a_damaged_time_of_being_forgotten_refuses_nothing(at: Any) -> None:
    store, actor = InMemoryStore(), Actor("alice", "acme")
    await store.aput(namespaces.forgotten(actor), namespaces.FORGOTTEN, {"at": at})
    await journal.change(
        store, FILES, PATH, world.append("- 1"), AUTHOR, writer=journal.Writer(actor)
    )
    assert await store.aget(FILES, PATH)


NOTES, ANOTHER = "/memory/file?path=/memories/notes.md", "/memory/file?path=/memories/another.md"
READ = ["me", "search?q=units", "prompt", "controls", "proposals", "consolidations", "export"]
DOORS: list[tuple[str, str, Any]] = [
    *(
        ("GET", path, None)
        for path in (
            "/memory",
            NOTES,
            NOTES.replace("file", "history"),
            *(f"/memory/{of}" for of in READ),
        )
    ),
    ("PUT", ANOTHER, {"content": "- y\n"}),
    ("DELETE", ANOTHER, None),
    ("PUT", NOTES, {"content": "- z\n"}),
    ("POST", "/memory/import", {"version": 1, "files": []}),
    ("GET", "/memory/dream", None),
    ("POST", "/memory/consolidate?from=beginning", None),
    ("POST", "/memory/consolidate", None),
    ("DELETE", "/memory", None),
]
# What a damaged file is answered with: that it is none, and what to do.
TOLD = {(NOTES, 404), (NOTES, 409), (NOTES, 422), (NOTES.replace("file", "history"), 404)}


async def run_both(person: Person) -> None:
    for graph in ("agent", "consolidation_agent"):
        await person.turn(await person.thread(), "hello", graph)


@pytest.mark.server
async def test_a_person_with_damaged_items_is_alone_with_them_and_is_forgotten(
    server: DevServer, alice: str
) -> None:
    """Damaged items fail no door of their person's, nor the sweep; forgetting the person leaves
    none.
    """
    person, store, actor = server.person(alice), server.as_operator().store, Actor(alice, "acme")
    places = namespaces.namespaces_of(actor, [deployed().memory.namespace(actor, "")])

    async def items() -> list[Any]:
        return [
            item
            for place in places
            for item in (await store.search_items(list(place), limit=100))["items"]
        ]

    await person.made("PUT", NOTES, {"content": "- tea\n"})
    await person.made("PUT", "/memory/controls", {"review": True})
    await run_both(person)
    await person.made("GET", "/memory/search?q=units")
    again = "/memory/consolidate?from=beginning"
    tokens = (await person.made("POST", again))["tokens"]
    await person.made("POST", f"{again}&tokens={tokens}")
    damaged = await items()
    assert len({tuple(item["namespace"]) for item in damaged}) > len(places) // 2
    for item in damaged:  # the in-memory store sorts by the slot, and fails without
        slot = {name: value for name, value in item["value"].items() if name == "slot"}
        await store.put_item(item["namespace"], item["key"], {"damaged": [1], **slot})
    wrong = []
    for method, path, body in DOORS:
        answer = await person.ask(method, path, body)
        if not answer.is_success and (path, answer.status_code) not in TOLD:
            wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        if path == "/memory/consolidate":
            await run_both(person)
            nothing: Any = {"messages": []}
            await server.as_operator().runs.wait(None, "consolidation_agent", input=nothing)
    assert wrong == []
    assert await items() == []
