"""Items of the store that are not what was written there: one person's are nobody else's, and go when they are forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
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
# What another writer, or somebody with SQL, may have left in place of a value.
VALUES: list[Any] = [[], None, "text"]
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


def furnish(rows: Rows, user: str, value: Any, furnished: dict[str, list[tuple[str, str, Any]]]) -> None:
    """Give somebody what the furnished one has; all of it is this value but the files that they do not ask for."""
    for place, found in furnished.items():
        own = rows.of(places(user)[place]) if place in {"memories", "journal.memories"} else []
        for prefix, key, given in own or json.loads(json.dumps(found).replace(PATTERN, user.partition("@")[0])):
            rows.put(prefix, key, value if place != "memories" or key == "/notes.md" else given)


async def asked(damaged: DevServer, user: str, *door: Any) -> list[str]:
    """What is wrong with the answer at a door."""
    method, path, params, body = door
    async with http_as(damaged, user) as http:
        try:
            answer = await http.request(method, path, params=params, **({"json": body} if body else {}))
        except httpx.HTTPError as error:
            return [f"{user}: {method} {path}: {error!r}"]
    fine = answer.is_success or (path, answer.status_code) in TOLD
    return [] if fine else [f"{user}: {method} {path}: {answer.status_code} {answer.text[:200]}"]


async def turn(damaged: DevServer, user: str, assistant: str) -> list[str]:
    client = damaged.as_user(user)
    try:
        await run_turn(client, str((await client.threads.create())["thread_id"]), "hello", assistant=assistant)
    except LangGraphError as error:
        return [f"{user}: {assistant}: {error!r}"]
    return []


# They stay when a person is forgotten.
STAY = {"forgotten", "usage"}


async def test_somebody_whose_every_item_is_damaged_is_alone_with_it_and_is_forgotten(
    damaged: DevServer, rows: Rows, furnished: Any
) -> None:
    """Items that are no objects fail no door of their person's, nor anybody else's; forgetting the person leaves no row."""
    people = {f"all{number}@example.com": value for number, value in enumerate(VALUES)}

    async def visit(user: str, value: Any) -> list[str]:
        await give_files(damaged, user)
        furnish(rows, user, value, furnished)
        wrong = [reason for graph in ("agent", "consolidation_agent") for reason in await turn(damaged, user, graph)]
        for door in DOORS:
            wrong += await asked(damaged, user, *door)
        furnish(rows, user, value, furnished)  # as it was, also where the damage is repaired by now
        return wrong

    async def forget(user: str) -> list[str]:
        wrong = await asked(damaged, user, "DELETE", "/memory", {}, None)
        left = [row[:2] for place, prefix in places(user).items() for row in rows.of(prefix) if place not in STAY]
        return [*wrong, *(f"{user}: left {row}" for row in left)]

    wrong = await asyncio.gather(*(visit(user, value) for user, value in people.items()))
    wrong.append(await asked(damaged, "root", "GET", "/memory/operations", {}, None))
    wrong.append(await asked(damaged, "root", "GET", "/memory", {"user_id": f"{PATTERN}@example.com"}, None))
    swept: Any = await damaged.as_operator().runs.wait(None, "consolidation_agent", input={"messages": []}, raise_error=False)
    assert "messages" in swept
    wrong += await asyncio.gather(*map(forget, people))
    assert [reason for reasons in wrong for reason in reasons] == []
