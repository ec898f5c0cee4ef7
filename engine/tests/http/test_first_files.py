"""First files that depend on the person: what a fork's function gives each of them."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory import platform
from lasting_memory.agent import starting_files
from lasting_memory.deployment import DEFAULTS, Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.new_memory import starting_memory
from lasting_memory.people.identity import Actor
from lasting_memory.people.scopes import ROUTES
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed
from tests.conftest import BuildGraph
from tests.http.conftest import Open, texts

SHARED = deployed(memory_scope="assistant", shared_writes="allow")
MINE = ("memories", "acme:alice")
PREFERENCES = starting_memory(deployed().folder)["/preferences.md"]


def by_person(actor: Actor) -> Mapping[str, str]:
    profile = {"name": actor.user_id.title(), "role": f"works at {actor.org_id}"}
    return {
        "/memories/profile.json": json.dumps(profile),
        "/memories/topics/index.md": "- none yet\n",
    }


def forked(function: Any, **changes: Any) -> Deployment:
    return replace(deployed(), first_files=function, **changes)


async def test_each_person_gets_their_own_first_files_beside_the_seeds(
    graph: BuildGraph, store: BaseStore
) -> None:
    agent = graph(forked(by_person))
    for number, name in enumerate(("alice", "bob")):
        assert name.title() in await agent.shown(user=name, thread=str(number))
        found = await texts(store, ("memories", f"acme:{name}"))
        assert {**found, "/profile.json": json.loads(found["/profile.json"])} == {
            "/preferences.md": PREFERENCES,
            "/profile.json": {"name": name.title(), "role": "works at acme"},
            "/topics/index.md": "- none yet\n",
        }
    (seeded,) = await journal.history(store, MINE, "/profile.json")
    assert (seeded.author.kind, seeded.author.user_id) == ("seed", "alice")


async def test_first_files_of_a_person_take_the_place_of_a_seed_and_come_once(
    graph: BuildGraph, store: BaseStore
) -> None:
    asked: list[Actor] = []

    def function(actor: Actor) -> dict[str, str]:
        asked.append(actor)
        return {"/memories/preferences.md": "- Speaks French.\n"}

    agent = graph(forked(function))
    await agent.turn("hello")
    assert await texts(store, MINE) == {"/preferences.md": "- Speaks French.\n"}
    await agent.turn("hello", thread="2")
    assert asked == [Actor("alice", "acme")], "a memory that has begun asks no more"


async def test_the_page_shows_them_before_the_first_turn(calling: Open, store: BaseStore) -> None:
    async with calling("alice", forked(by_person)) as api:
        blocks = (await api.get("/memory/prompt")).json()["blocks"]
    assert "works at acme" in next(block["text"] for block in blocks if block["name"] == "memory")
    assert await texts(store, MINE) == {}


def broken(actor: Actor) -> Mapping[str, str]:
    raise KeyError(actor.user_id)


BAD: dict[str, Any] = {
    "raises": broken,
    "no mapping": lambda _: ["/memories/a.md"],
    "no text": lambda _: {"/memories/a.md": 1},
    "no path": lambda _: {1: "a"},
    "a policy": lambda _: {"/policies/a.md": "a"},
    "another's": lambda _: {"/memories/../a.md": "a"},
    "a credential": lambda _: {"/memories/a.md": "AKIA" + "ABCDEFGHIJKLMNOP"},
    "no profile": lambda _: {"/memories/profile.json": '{"nickname": "Al"}'},
    "too many": lambda _: {f"/memories/{number}.md": "a" for number in range(DEFAULTS.max_files)},
}


@pytest.mark.parametrize("why", BAD)
async def test_a_function_that_fails_loses_no_turn_and_is_asked_again(
    graph: BuildGraph, store: BaseStore, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    agent = graph(forked(BAD[why]))
    assert "## /memories/preferences.md" in await agent.shown()
    assert "first_files of this deployment failed" in caplog.text
    assert await texts(store, MINE) == {}
    await graph(forked(by_person)).turn("hello", thread="2")
    assert {*await texts(store, MINE)} == {"/preferences.md", "/profile.json", "/topics/index.md"}


async def test_a_function_that_never_returns_loses_no_turn(
    graph: BuildGraph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = threading.Event()

    def waits(_: Actor) -> dict[str, str]:
        ends.wait(300)
        return {}

    monkeypatch.setattr(starting_files, "FIRST_FILES_SECONDS", 0.01)
    try:
        assert "## /memories/preferences.md" in await graph(forked(waits)).shown()
        assert "first_files of this deployment failed" in caplog.text
    finally:
        ends.set()


async def test_functions_that_never_return_take_no_thread_from_others(
    graph: BuildGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = threading.Event()

    def waits(_: Actor) -> dict[str, str]:
        ends.wait(300)
        return {}

    monkeypatch.setattr(starting_files, "FIRST_FILES_SECONDS", 0.01)
    agent = graph(forked(waits))
    try:
        async with asyncio.timeout(120):
            for number in range(40):  # more than there are threads
                await agent.turn("hello", user=f"new{number}", thread=f"t{number}")
            assert await platform.in_thread(len, "abc") == 3
    finally:
        ends.set()


async def unawaited(_: Actor) -> dict[str, str]:
    return {}


@pytest.mark.parametrize(("changes", "fix"), [
    ({"first_files": unawaited}, "use a plain function of one Actor"),
    ({"first_files": lambda: None}, "use a plain function of one Actor"),
    ({"first_files": {"/memories/a.md": "a"}}, "use a plain function of one Actor"),
    ({"first_files": by_person, "settings": SHARED.settings}, "MEMORY_SCOPE=assistant shares it; leave it out"),
    ({"first_files": by_person, "consolidation": None, "routes": {"/policies/": ROUTES["/policies/"]}}, "leave one out"),
])  # fmt: skip
def test_a_function_that_could_give_nobody_first_files_stops_the_start(
    changes: dict[str, Any], fix: str
) -> None:
    with pytest.raises(SettingsError, match=fix):
        replace(deployed(), **changes)
