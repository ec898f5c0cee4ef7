"""What version 0.1 left (`tests/fixtures/make_v01.py`) is read, and gone on with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from api import forget as forget_module
from api.forget import forget
from memory import identity, namespaces
from memory.identity import Actor
from memory.journal.log import Journal
from memory.journal.revisions import LoggedFile, Revision
from memory.journal.runners import acarry_out
from memory.recall.index import catch_up
from memory.schema import SCHEMA, SchemaError, migrate
from settings import Settings
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph
from tests.recorded import ALICE, BOB, GONE, PEOPLE, RECORDED, Client, files_of, fill, texts


@pytest.fixture
async def old(store: BaseStore) -> BaseStore:
    return await fill(store)


async def history(store: BaseStore, actor: Actor, key: str) -> list[Revision]:
    return await acarry_out(store, Journal(LoggedFile(files_of(actor), key)).history())


async def test_files_and_their_histories_are_read_and_undone(old: BaseStore) -> None:
    for actor in PEOPLE:
        name = actor.user_id
        assert f"- {name} wants metric units" in (await texts(old, actor))["/preferences.md"]
        boat = await history(old, actor, "/topics/boat.md")
        assert [revision.content for revision in boat] == [None, "- has a boat\n"]
        bees = await history(old, actor, "/topics/bees.md")
        assert [revision.number for revision in bees] == [*range(len(bees), 0, -1)]
        assert [revision.content for revision in bees][-2:] == ["- two hives\n- in the garden\n", "- two hives\n"]
        files = LoggedFile(files_of(actor), "/topics/boat.md")
        await acarry_out(old, Journal(files).change(lambda _, boat=boat: boat[1].file(), identity.Author("person", name)))  # type: ignore[misc]
        assert (await texts(old, actor))["/topics/boat.md"] == "- has a boat\n"


async def test_past_conversations_are_found_in_the_index_of_then(old: BaseStore) -> None:
    """Past conversations are found in the index of then, without reading any again."""
    for actor in PEOPLE:
        threads = Client().threads
        index = await catch_up(old, threads, actor)
        own = [
            thread
            for thread in RECORDED["threads"]
            if (thread["metadata"]["user_id"], thread["metadata"]["org_id"]) == (actor.user_id, actor.org_id)
            and thread["metadata"]["graph_id"] == "agent"
        ]
        assert int(index.live().sum()) == len(own)
        assert threads.messages < 15, "only what was said after the last search"


class NoThreads:
    """No threads: they are the platform's to delete."""

    async def search(self, **_: Any) -> list[Any]:
        return []


WITHOUT_THREADS: Any = type("WithoutThreads", (), {"threads": NoThreads(), "runs": None})()


async def test_its_store_is_brought_to_this_schema_once(old: BaseStore) -> None:
    before = {(item.namespace, item.key): item.value for item in await old.asearch((), limit=1_000)}
    assert await migrate(old) == 1
    assert await migrate(old) == SCHEMA
    after = {(item.namespace, item.key): item.value for item in await old.asearch((), limit=1_000)}
    assert after.pop((namespaces.schema(), "schema")) == {"version": SCHEMA}
    changed = {place for place in before if before[place] != after[place]}
    assert {namespace[0] for namespace, _ in changed} == {"consolidations"}
    assert after.keys() == before.keys()
    for actor in PEOPLE:
        assert {item.value["undone"] for item in await old.asearch(namespaces.run_records(actor), limit=100)} == {0}


async def test_who_is_forgotten_during_the_migration_does_not_come_back(
    old: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = BaseStore.aput

    async def forget_first(store: BaseStore, namespace: tuple[str, ...], key: str, value: Any, **options: Any) -> None:
        if namespace == namespaces.run_records(BOB):
            await forget(old, WITHOUT_THREADS, BOB, Settings())
        await put(store, namespace, key, value, **options)

    monkeypatch.setattr(forget_module, "FORGET_GRACE_SECONDS", 0)
    monkeypatch.setattr(BaseStore, "aput", forget_first)
    await migrate(old)
    assert await old.asearch(namespaces.run_records(BOB)) == []
    assert await old.asearch(namespaces.run_records(ALICE))


async def test_what_a_later_version_wrote_stops_the_start_with_one_line(old: BaseStore) -> None:
    await old.aput(namespaces.schema(), "schema", {"version": SCHEMA + 1})
    with pytest.raises(SchemaError, match=f"The store has schema {SCHEMA + 1}, and this version knows {SCHEMA}: deploy"):
        await migrate(old)


async def test_being_forgotten_leaves_nothing_of_anybody(old: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_module, "FORGET_GRACE_SECONDS", 0.01)

    assert (await old.aget(namespaces.epoch(GONE), namespaces.EPOCH)) is not None
    for actor in (*PEOPLE, GONE):
        await forget(old, WITHOUT_THREADS, actor, Settings())
    left = {item.namespace[0] for item in await old.asearch((), limit=1_000)}
    assert left == {"epoch", "policies", "skills", "sweep", "due"}


async def test_shared_memory_goes_on_in_each_organization_and_then_apart(
    store: BaseStore, graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    before = namespaces.shared_memories_v01(identity.DEFAULT_AGENT_ASSISTANT)
    await store.aput(before, "/preferences.md", dict(create_file_data("- of all\n")))
    agent = graph(Settings(memory_scope="assistant", shared_writes="allow"))
    add = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- of Acme"})
    model.script("note", [add], [Text("done")])
    await agent.turn("note", thread="1", org="acme")
    model.clear()
    await agent.turn("hello", thread="2", org="globex")
    shown = json.dumps(model.requests[0]["system"])
    assert "- of all" in shown
    assert "- of Acme" not in shown
    await agent.turn("hello", thread="3", org="acme")
    assert "- of Acme" in json.dumps(model.requests[1]["system"])
