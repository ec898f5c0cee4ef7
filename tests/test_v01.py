"""What version 0.1 left (`tests/fixtures/make_v01.py`) is read, and gone on with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from api import forget as forget_module
from api.forget import forget
from consolidation_agent import build_consolidation_agent
from memory import identity, namespaces
from memory.consolidation import due
from memory.consolidation import run as run_module
from memory.consolidation.positions import positions
from memory.consolidation.run_records import records
from memory.consolidation.sweeping import sweep
from memory.identity import Actor
from memory.journal.log import Journal
from memory.journal.revisions import LoggedFile, Revision
from memory.journal.runners import acarry_out
from memory.recall.index import catch_up
from memory.schema import SCHEMA, SchemaError, migrate
from settings import PROJECT, Settings
from testing.fake_platform import FakePlatform
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from testing.threads import Threads
from tests.conftest import BuildGraph

RECORDED: Mapping[str, Any] = json.loads(gzip.decompress((PROJECT / "tests" / "fixtures" / "v01.json.gz").read_bytes()))
TASK = "Conversations with something new"
ALICE, ODD = Actor("alice@example.com", "acme"), Actor("auth0|42 Zoë/Ω", "globex.example")
ALICE_2, BOB, GONE = Actor("alice@example.com", "globex.example"), Actor("bob", "acme"), Actor("gone", "acme")
PEOPLE = (ALICE, ODD, ALICE_2, BOB)


def files_of(actor: Actor) -> namespaces.Namespace:
    return namespaces.memories(actor, identity.DEFAULT_AGENT_ASSISTANT, Settings())


class Client:
    """The platform's client, of everybody."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.threads.kept = {thread["thread_id"]: dict(thread) for thread in RECORDED["threads"]}


@pytest.fixture
async def old(store: BaseStore) -> BaseStore:
    """A store with what was recorded."""
    for item in RECORDED["store"]:
        await store.aput(tuple(item["namespace"]), item["key"], item["value"], index=False)
    return store


async def texts(store: BaseStore, actor: Actor) -> dict[str, str]:
    return {item.key: str(item.value["content"]) for item in await store.asearch(files_of(actor), limit=100)}


async def history(store: BaseStore, actor: Actor, key: str) -> list[Revision]:
    return await acarry_out(store, Journal(LoggedFile(files_of(actor), key)).history())


async def consolidate(
    graph: BuildGraph, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch, actor: Actor, run_id: str = "new"
) -> str:
    """A run for somebody, on the recorded threads. The model adds a line about dill."""
    client = Client()
    monkeypatch.setattr(identity, "on_server", lambda *_: True)
    monkeypatch.setattr(identity, "names_nobody", lambda *_: False)
    for module in (due, run_module):
        monkeypatch.setattr(module, "get_client", lambda: client)
    model.clear()
    add = ToolCall("append_memory", {"path": "/memories/topics/food.md", "text": "- likes dill"})
    model.script(TASK, [add], [Text("done")])
    built = graph(build=build_consolidation_agent).graph
    config: RunnableConfig = {"configurable": {"thread_id": run_id, "run_id": run_id}}
    context = identity.Context(user_id=actor.user_id, org_id=actor.org_id)
    result = await built.ainvoke({"messages": []}, config, context=context)
    return str(result["messages"][-1].text)


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


async def test_what_a_dead_consolidation_wrote_is_taken_back(
    old: BaseStore, graph: BuildGraph, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dead consolidation wrote is taken back, and what it read is consolidated once."""
    assert {"/topics/herbs.md", "/topics/food.md"} <= (await texts(old, ALICE)).keys()
    said = await consolidate(graph, model, monkeypatch, ALICE)
    assert "consolidated" in said
    shown = tool_results(model.requests[0])[0]
    assert "I like dill, too" in shown
    assert "bee hives" not in shown, "consolidated before"
    now = await texts(old, ALICE)
    assert now["/topics/food.md"] == "- likes fennel\n- likes dill\n"
    assert "/topics/herbs.md" not in now
    assert now["/mine.md"] == "by hand\n"
    assert "Nothing is new" in await consolidate(graph, model, monkeypatch, ALICE, "again")
    newest = await records(old, ALICE)
    assert [record["status"] for record in newest] == ["done", "done", "done"]


async def test_what_a_dead_consolidation_had_decided_stands_and_is_not_read_again(
    old: BaseStore, graph: BuildGraph, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await texts(old, BOB)
    assert before["/topics/herbs.md"] == "- dill\n"
    known = await positions(old, BOB)
    assert "Nothing is new" in await consolidate(graph, model, monkeypatch, BOB)
    assert model.requests == []
    assert await texts(old, BOB) == before
    assert len(await positions(old, BOB)) == len(known) + 1


async def test_where_nothing_was_under_way_the_next_run_finds_nothing_new(
    old: BaseStore, graph: BuildGraph, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    for actor in (ODD, ALICE_2):
        assert len(await records(old, actor)) == 2
        before = {thread["thread_id"] for thread in RECORDED["threads"]}
        assert (await positions(old, actor)).keys() <= before
        said = await consolidate(graph, model, monkeypatch, actor, actor.org_id + actor.user_id)
        assert "Nothing is new" in said


async def test_a_sweep_goes_on_where_the_last_one_was(old: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = FakePlatform()
    platform.threads = [dict(thread) for thread in RECORDED["threads"] if thread["metadata"].get("graph_id") == "agent"]
    platform._by_id = {thread["thread_id"]: thread for thread in platform.threads}
    await sweep(Settings(), platform.client, old)
    started = {(run["context"]["user_id"], run["context"]["org_id"]) for run in platform.all_runs()}
    assert {("alice@example.com", "acme"), ("bob", "acme")} <= started
    known = {item.value["thread_id"] for item in await old.asearch(("schedule",), limit=100)}
    assert {run["thread_id"] for run in platform.all_runs()} <= known, "on the threads there are"


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
        assert {record["undone"] for record in await records(old, actor)} == {0}


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
