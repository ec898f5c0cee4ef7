"""A run that is still going writes nothing after its person was forgotten, or its conversation or
itself deleted.
"""

import asyncio
import threading
import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7
from langgraph.store.base import BaseStore
from starlette.exceptions import HTTPException

from lasting_memory.http.forget import forget
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author, Context
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    after,
    tool_results,
)
from tests.conftest import BUILDERS, SUBAGENTS, BuildGraph, Graph
from tests.http.forgetting.conftest import ALICE, DEFAULTS, MEMORIES, client, furnish, left


async def turn(agent: Graph, text: str, **configurable: str) -> None:
    """A turn as the platform runs it, with a run id."""
    ids = {"thread_id": str(uuid.uuid4()), "run_id": str(uuid7()), **configurable}
    config: RunnableConfig = {"configurable": ids}
    message = {"messages": [{"role": "user", "content": text}]}
    await agent.graph.ainvoke(message, config, context=Context(user_id="alice", org_id="acme"))


APPEND = ToolCall("append_memory", {"path": "/memories/topics/more.md", "text": "late"})
WRITES = [
    ToolCall("write_file", {"file_path": "/memories/topics/new.md", "content": "late"}),
    ToolCall(
        "edit_file",
        {"file_path": "/memories/preferences.md", "old_string": "one", "new_string": "late"},
    ),
    ToolCall("save_profile", {"profile": {"name": "late"}}),
    APPEND,
]


async def forgotten_while(
    model: ScriptedAnthropic,
    store: BaseStore,
    agent: Graph,
    *calls: ToolCall,
    going: tuple[str, ...] = (),
) -> Any:
    """What the model was told, where its person was forgotten between its being asked and its
    answering.
    """
    await furnish(store, MEMORIES)
    question = f"take your time {uuid.uuid4()}"
    model.script(question, Slow(1.0, calls), [Text("done")])
    run = asyncio.create_task(turn(agent, question))
    await model.asked(question)
    with pytest.raises(HTTPException) if going else nullcontext():
        await forget(store, client(busy=going), ALICE, DEFAULTS)
    assert not left(store)
    await run
    assert not left(store)
    return tool_results(model.requests_for(question)[-1])


@pytest.mark.parametrize("going", [(), ("a run that cannot be stopped",)])
@pytest.mark.parametrize("build", BUILDERS)
async def test_a_run_from_before_writes_nothing_afterwards(
    graph: BuildGraph,
    model: ScriptedAnthropic,
    store: BaseStore,
    build: str,
    going: tuple[str, ...],
) -> None:
    agent = graph(build=BUILDERS[build])
    calls = WRITES if build == "agent" else [APPEND]
    told = await forgotten_while(model, store, agent, *calls, going=going)
    assert ["was deleted since this run began" in each for each in told] == [True] * len(calls)
    if build == "agent":
        model.script("again", [APPEND], [Text("done")])
        await turn(agent, "again")
        assert store.get(MEMORIES, "/topics/more.md"), "a run that began afterwards writes"


@pytest.mark.parametrize("subagent", SUBAGENTS)
async def test_a_subagent_that_began_before_or_begins_after_writes_nothing(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, subagent: str
) -> None:
    model.script("do as told", [APPEND], [Text("done")])
    task = ToolCall("task", {"description": "do as told", "subagent_type": subagent})
    await forgotten_while(model, store, graph(build=build_agent), task)
    assert "was deleted since this run began" in str(model.requests_for("do as told"))


async def test_a_run_of_a_conversation_that_was_deleted_meanwhile_writes_nothing(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    await furnish(store, MEMORIES)
    before, thread, agent = left(store), str(uuid.uuid4()), graph(build=build_agent)
    model.script("take your time", Slow(1.0, WRITES), [Text("done")])
    run = asyncio.create_task(turn(agent, "take your time", thread_id=thread))
    await model.asked("take your time")
    await journal.note_deleted(store, ALICE, [thread])
    await run
    told = tool_results(model.requests_for("take your time")[-1])
    assert ["conversation was deleted since its run began" in each for each in told] == [
        True
    ] * len(WRITES)
    noted = namespaces.deleted_threads(ALICE)
    assert {place: value for place, value in left(store).items() if place[0] != noted} == before
    for later in (str(uuid.uuid4()), thread):
        model.script(f"again {later}", [APPEND], [Text("done")])
        await turn(agent, f"again {later}", thread_id=later)
        assert store.get(MEMORIES, "/topics/more.md"), (
            "another's run writes, and a later one of the same id"
        )
        store.delete(MEMORIES, "/topics/more.md")


async def test_a_run_that_was_deleted_meanwhile_writes_nothing_and_others_of_its_conversation_do(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    await furnish(store, MEMORIES)
    before, thread, agent = left(store), str(uuid.uuid4()), graph(build=build_agent)
    over, run_id = threading.Event(), str(uuid7())
    model.script("take your time", after(over, WRITES), [Text("done")])
    run = asyncio.create_task(turn(agent, "take your time", thread_id=thread, run_id=run_id))
    await model.asked("take your time")
    await journal.note_deleted(store, ALICE, [run_id])
    over.set()
    await run
    told = tool_results(model.requests_for("take your time")[-1])
    assert ["run was deleted since it began" in each for each in told] == [True] * len(WRITES)
    noted = namespaces.deleted_threads(ALICE)
    assert {place: value for place, value in left(store).items() if place[0] != noted} == before
    model.script("again", [APPEND], [Text("done")])
    await turn(agent, "again", thread_id=thread)
    assert store.get(MEMORIES, "/topics/more.md")


async def test_a_run_s_writes_are_taken_back_as_if_it_had_not_been(store: BaseStore) -> None:
    await furnish(store, MEMORIES)
    before = await journal.history(store, MEMORIES, "/preferences.md")
    for path in ("/preferences.md", "/new.md"):
        author = Author("consolidation", "alice", run_id="a run")
        await journal.change(store, MEMORIES, path, lambda _: create_file_data("late"), author)
        await journal.withdraw_run(store, MEMORIES, path, "a run")
    assert await journal.history(store, MEMORIES, "/preferences.md") == before
    kept = store.get(MEMORIES, "/preferences.md")
    assert kept
    assert kept.value["content"] == "two"
    assert store.get(MEMORIES, "/new.md") is None
    assert await journal.history(store, MEMORIES, "/new.md") == []
