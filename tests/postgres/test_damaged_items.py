"""Items of the store that are not what was written there: one person's are nobody else's, and go when they are forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psycopg
import pytest
from langgraph_sdk.errors import LangGraphError

from memory import namespaces
from memory.identity import Actor
from settings import Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.parts import ON_POSTGRES, needs_consolidation
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import model_env

pytestmark = [pytest.mark.postgres, pytest.mark.server, needs_consolidation]
NOTES = {"path": "/memories/notes.md"}
WRITE = ToolCall("write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"})
# What another writer, or somebody with SQL, may have left in place of a value, or of one of its fields.
VALUES: list[Any] = [[], None, "text"]
FIELDS: list[Any] = [None, -(10**30), "text", {"a": [1]}]
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
]
# What a damaged file is answered with: that it is none, and what to do.
TOLD = {("/memory/file", 404), ("/memory/file", 409), ("/memory/file", 422), ("/memory/history", 404)}


@dataclass(frozen=True)
class Damage:
    """What is wrong in somebody's store: all values of a namespace (None: of each), or one field of them, are this."""

    user: str
    place: str | None
    field: str | None
    value: Any

    def of(self, value: Any) -> Any:
        return {**value, self.field: self.value} if self.field and isinstance(value, dict) else self.value

    def __str__(self) -> str:
        return f"{self.place or 'everything'}{f'.{self.field}' if self.field else ''} is {self.value!r}"


class Rows:
    """The store's rows in Postgres, where a value can be any JSON."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def of(self, prefix: str) -> list[tuple[str, str, Any]]:
        query = "SELECT prefix, key, value FROM store WHERE prefix = %s OR starts_with(prefix, %s) ORDER BY 1, 2"
        return self._connection.execute(query, (prefix, f"{prefix}.")).fetchall()

    def put(self, prefix: str, key: str, value: Any) -> None:
        query = """INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s::jsonb)
            ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value"""
        self._connection.execute(query, (prefix, key, json.dumps(value)))


@pytest.fixture
def rows(postgres_uri: str) -> Iterator[Rows]:
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture(scope="module")
def shared_damaged(shared_model: ScriptedAnthropic, postgres_uri: str) -> Iterator[DevServer]:
    env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": postgres_uri, "OPERATORS": "root", "DAILY_TOKENS": "10000000"}
    with TemporaryDirectory() as folder, DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
        yield server


@pytest.fixture
async def damaged(shared_damaged: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:
    yield shared_damaged
    await shared_damaged.close_clients()


def http_as(server: DevServer, user: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {dev_token('acme', user)}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60)


def places(user: str) -> dict[str, str]:
    """The prefixes of all of somebody's rows, by what is in them."""
    actor = Actor(user, "acme")
    known = [*namespaces.namespaces_of(actor, [namespaces.memories(actor, "", Settings())]), namespaces.usage(actor)]
    return {".".join(namespace[:-1]): ".".join(namespace) for namespace in [*known, namespaces.forgotten(actor)]}


@pytest.fixture
async def furnished(damaged: DevServer, model: ScriptedAnthropic, rows: Rows) -> dict[str, list[tuple[str, str, Any]]]:
    """The rows of somebody with something in every namespace, by place."""
    user = f"{PATTERN}@example.com"
    model.script("Conversations with something new", [WRITE], [Text("done")])
    async with http_as(damaged, user) as http:
        await http.put("/memory/file", params=NOTES, json={"content": "- tea\n"})
        await http.put("/memory/controls", json={"review": True})
        client = damaged.as_user(user)
        talk, consolidation = [str((await client.threads.create())["thread_id"]) for _ in range(2)]
        await run_turn(client, talk, "metric units, please")
        await http.get("/memory/search", params={"q": "units"})
        await run_turn(client, consolidation, "consolidate", assistant="consolidation_agent")
        await http.post("/memory/consolidate")
    found = {place: rows.of(prefix) for place, prefix in places(user).items()}
    assert len([place for place, some in found.items() if some]) > len(found) // 2, found
    # What is there for a moment only, or after other work.
    seldom: dict[str, tuple[str, Any]] = {"forgotten": ("last", {"at": "2026-01-01"}), "recall_segments": ("a", {"format": 2})}
    for place in [place for place, some in found.items() if not some]:
        found[place] = [(places(user)[place], *seldom.get(place, ("/notes.md", {"at": "2026-01-01"})))]
    return found


PATTERN = "pattern"


async def give_files(damaged: DevServer, user: str) -> None:
    async with http_as(damaged, user) as http:
        for path in (NOTES, {"path": "/memories/there.md"}):
            assert (await http.put("/memory/file", params=path, json={"content": "- tea\n"})).status_code == 200


def furnish(rows: Rows, damage: Damage, furnished: Mapping[str, list[tuple[str, str, Any]]]) -> None:
    """Give the damage's person, beside their files, what the furnished one has, and damage it."""
    name = damage.user.partition("@")[0]
    for place, found in furnished.items():
        own = rows.of(places(damage.user)[place]) if place in {"memories", "journal.memories"} else []
        for prefix, key, value in own or json.loads(json.dumps(found).replace(PATTERN, name)):
            is_notes = place != "memories" or key == "/notes.md"
            rows.put(prefix, key, damage.of(value) if damage.place in {place, None} and is_notes else value)


async def asked(damaged: DevServer, damage: Damage, *door: Any) -> list[str]:
    """What is wrong with the answer at a door."""
    method, path, params, body = door
    async with http_as(damaged, damage.user) as http:
        try:
            answer = await http.request(method, path, params=params, **({"json": body} if body else {}))
        except httpx.HTTPError as error:
            return [f"{damage}: {method} {path}: {error!r}"]
    if path == "/memory/export" and answer.is_success:
        answer.json()
    fine = answer.is_success or (path, answer.status_code) in TOLD
    return [] if fine else [f"{damage}: {method} {path}: {answer.status_code} {answer.text[:200]}"]


async def turn(damaged: DevServer, damage: Damage, assistant: str) -> list[str]:
    client = damaged.as_user(damage.user)
    try:
        await run_turn(client, str((await client.threads.create())["thread_id"]), "hello", assistant=assistant)
    except LangGraphError as error:
        return [f"{damage}: {assistant}: {error!r}"]
    return []


async def whole(damaged: DevServer, rows: Rows, damages: list[Damage], furnished: Any, *, graphs: tuple[str, ...]) -> list[str]:
    """What goes wrong at any door for people with these damages, for an operator, and for somebody else; then forget them."""
    room, wrong = asyncio.Semaphore(6), list[str]()

    async def visit(damage: Damage) -> None:
        async with room:
            await give_files(damaged, damage.user)
            furnish(rows, damage, furnished)
            for graph in graphs:
                wrong.extend(await turn(damaged, damage, graph))
            for door in DOORS:
                wrong.extend(await asked(damaged, damage, *door))
            furnish(rows, damage, furnished)  # as it was, also where the damage is repaired by now

    async def forget(damage: Damage) -> None:
        async with room:
            wrong.extend(await asked(damaged, damage, "DELETE", "/memory", {}, None))
            left = [row[:2] for place, prefix in places(damage.user).items() for row in rows.of(prefix) if place not in STAY]
            wrong.extend([f"{damage}: left {left}"] if left else [])

    await asyncio.gather(*map(visit, damages))
    nobody = Damage("root", "nowhere", None, None)
    wrong += await asked(damaged, nobody, "GET", "/memory/operations", {}, None)
    wrong += await asked(damaged, nobody, "GET", "/memory", {"user_id": f"{PATTERN}@example.com"}, None)
    swept: Any = await damaged.as_operator().runs.wait(None, "consolidation_agent", input={"messages": []}, raise_error=False)
    wrong += [] if "messages" in swept else [f"the sweep: {swept}"]
    await asyncio.gather(*map(forget, damages))
    return wrong


# They stay when a person is forgotten.
STAY = {"forgotten", "usage"}


async def test_somebody_whose_every_item_is_damaged_is_alone_with_it_and_is_forgotten(
    damaged: DevServer, rows: Rows, furnished: Any
) -> None:
    """Items that are no objects fail no door of their person's, nor anybody else's; forgetting the person leaves no row."""
    damages = [Damage(f"all{n}@example.com", None, None, value) for n, value in enumerate(VALUES)]
    assert await whole(damaged, rows, damages, furnished, graphs=("agent", "consolidation_agent")) == []


@pytest.mark.proof
async def test_so_it_is_with_each_place_and_each_field(damaged: DevServer, rows: Rows, furnished: Any) -> None:
    fields = sorted({(place, field) for place, some in furnished.items() for _, _, value in some for field in value})
    pairs = [(place, None, value) for place in furnished for value in VALUES]
    pairs += [(place, field, value) for place, field in fields for value in FIELDS]
    damages = [Damage(f"part{n}@example.com", *pair) for n, pair in enumerate(pairs)]
    assert await whole(damaged, rows, damages, furnished, graphs=()) == []
