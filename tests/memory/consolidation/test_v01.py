"""What a consolidation of version 0.1 left is finished or taken back, and gone on with."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from consolidation_agent import build_consolidation_agent
from memory import identity
from memory.consolidation import due
from memory.consolidation import run as run_module
from memory.consolidation.positions import positions
from memory.consolidation.run_records import records
from memory.consolidation.sweeping import sweep
from memory.identity import Actor
from settings import Settings
from testing.fake_platform import FakePlatform
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from tests.conftest import BuildGraph
from tests.recorded import ALICE, ALICE_2, BOB, ODD, RECORDED, Client, fill, texts

TASK = "Conversations with something new"


@pytest.fixture
async def old(store: BaseStore) -> BaseStore:
    return await fill(store)


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
