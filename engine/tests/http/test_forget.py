"""Being forgotten: nothing is left, nothing of anybody else's is touched, and what was going writes nothing afterwards."""

import asyncio
import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7
from langgraph.store.base import BaseStore, PutOp
from starlette.exceptions import HTTPException

from lasting_memory import journal
from lasting_memory.http import export_and_forget
from lasting_memory.http.export_and_forget import forget
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, tool_results
from tests.conftest import BUILDERS, SUBAGENTS, BuildGraph, Graph

ALICE = Actor("alice", "acme")
MEMORIES = ("memories", "acme:alice")
OTHER = "11111111-2222-3333-4444-555555555555"
DEFAULTS = deployed()
BOTH = deployed(memory_scope="user+assistant")
SHARED = deployed(memory_scope="assistant", shared_writes="allow")


def client(*ids: str, busy: tuple[str, ...] = ()) -> Any:
    """The platform's client, where alice has these conversations. In busy ones a run goes on that nobody can stop."""
    platform = Platform()
    for thread_id in (*ids, *busy):
        platform.talk("alice", thread_id=thread_id)["status"] = "busy" if thread_id in busy else "idle"
    return platform


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_and_forget, "FORGET_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(export_and_forget, "STOP_SECONDS", 0.2)


def left(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    """What is in the store, but for the time of that."""
    items = store.search((), limit=1000)
    return {(item.namespace, item.key): item.value for item in items if item.namespace[0] != "forgotten"}


async def furnish(store: BaseStore, namespace: namespaces.Namespace, actor: Actor = ALICE) -> None:
    """Files with a history, and a position, as runs of that person leave them."""
    for key in ("/preferences.md", "/topics/a.md"):
        for text in ("one", "two"):
            file = create_file_data(text)
            await journal.change(store, namespace, key, lambda _, file=file: file, Author("agent"))  # type: ignore[misc]
    await store.abatch([PutOp(namespaces.positions(actor), "thread", {"message_id": "1"}, index=False)])


async def test_everything_goes_is_counted_and_nobody_else_s_is_touched(store: BaseStore) -> None:
    for name in ("alic", "alicea", "a_ice", "a%"):
        await furnish(store, DEFAULTS.memory.namespace(Actor(name, "acme"), ""), Actor(name, "acme"))
    await furnish(store, DEFAULTS.memory.namespace(Actor("alice", "globex"), ""), Actor("alice", "globex"))
    store.put(("policies", "acme"), "/rule.md", {**create_file_data("rule")})
    others = left(store)
    await furnish(store, MEMORIES)
    counts = await forget(store, client("1", "2"), ALICE, DEFAULTS)
    assert left(store) == others
    assert counts == {"threads": 2, "memories": 2, "journal": 4, "consolidation": 1}
    assert not await forget(store, client(), ALICE, DEFAULTS), "the second time there is nothing"


async def test_memory_with_every_assistant_goes_also_where_only_its_history_is_left(store: BaseStore) -> None:
    bob = BOTH.memory.namespace(Actor("bob", "acme"), OTHER)
    await furnish(store, bob, Actor("bob", "acme"))
    others = left(store)
    for assistant in (AGENT, OTHER, "22222222-2222-3333-4444-555555555555"):
        await furnish(store, BOTH.memory.namespace(ALICE, assistant))
    gone = BOTH.memory.namespace(ALICE, OTHER)
    for key in ("/preferences.md", "/topics/a.md"):
        await journal.change(store, gone, key, lambda _: None, Author("agent"))
    await furnish(store, MEMORIES)  # from before MEMORY_SCOPE was changed
    counts = await forget(store, client(), ALICE, BOTH)
    assert left(store) == others
    assert counts["memories"] == 6


async def test_shared_memory_stays(store: BaseStore) -> None:
    shared = SHARED.memory.namespace(ALICE, AGENT)
    store.put(shared, "/preferences.md", {**create_file_data("everybody's")})
    others = left(store)
    store.put(namespaces.positions(ALICE), "thread", {"message_id": "1"})
    assert await forget(store, client("1"), ALICE, SHARED) == {"threads": 1, "consolidation": 1}
    assert left(store) == others


async def test_what_lands_a_moment_later_goes_too(store: BaseStore) -> None:
    await furnish(store, MEMORIES)
    forgetting = asyncio.create_task(forget(store, client(), ALICE, DEFAULTS))
    while not store.search(("forgotten",)):  # noqa: ASYNC110  # the store tells nobody
        await asyncio.sleep(0.005)
    await store.aput(MEMORIES, "/late.md", {**create_file_data("late")})
    assert (await forgetting)["memories"] == 3
    assert not left(store)


# --- A run that is still going ---------------------------------------------------------------------------------------


async def turn(agent: Graph, text: str, **configurable: str) -> None:
    """A turn as the platform runs it, with a run id."""
    ids = {"thread_id": str(uuid.uuid4()), "run_id": str(uuid7()), **configurable}
    config: RunnableConfig = {"configurable": ids}
    message = {"messages": [{"role": "user", "content": text}]}
    await agent.graph.ainvoke(message, config, context=Context(user_id="alice", org_id="acme"))


APPEND = ToolCall("append_memory", {"path": "/memories/topics/more.md", "text": "late"})
WRITES = [
    ToolCall("write_file", {"file_path": "/memories/topics/new.md", "content": "late"}),
    ToolCall("edit_file", {"file_path": "/memories/preferences.md", "old_string": "one", "new_string": "late"}),
    ToolCall("save_profile", {"profile": {"name": "late"}}),
    APPEND,
]


async def forgotten_while(
    model: ScriptedAnthropic, store: BaseStore, agent: Graph, *calls: ToolCall, going: tuple[str, ...] = ()
) -> Any:
    """What the model was told, where its person was forgotten between its being asked and its answering."""
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
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, build: str, going: tuple[str, ...]
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
async def test_neither_does_a_subagent_that_began_before_or_begins_after(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, subagent: str
) -> None:
    model.script("do as told", [APPEND], [Text("done")])
    task = ToolCall("task", {"description": "do as told", "subagent_type": subagent})
    await forgotten_while(model, store, graph(build=build_agent), task)
    assert "was deleted since this run began" in str(model.requests_for("do as told"))
