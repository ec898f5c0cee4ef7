"""Being forgotten: nothing is left, nothing of anybody else's is touched, and what was going writes
nothing afterwards.
"""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7
from langgraph.store.base import BaseStore, IndexConfig, Op, PutOp
from langgraph.store.memory import InMemoryStore
from starlette.exceptions import HTTPException

from lasting_memory import checkpoints, platform
from lasting_memory.consolidation import Owner, drafts, positions, record_keeping, sweep
from lasting_memory.consolidation.due import find_due
from lasting_memory.consolidation.record import Record
from lasting_memory.deployment import DEFAULT_CONSOLIDATION
from lasting_memory.http import consolidation, conversations
from lasting_memory.http import forget as forget_route
from lasting_memory.http.forget import forget
from lasting_memory.memory import controls, journal
from lasting_memory.memory.proposals import Changed, Memory, Proposal
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, Context
from lasting_memory.recall import catch_up, drop, embedding, retrieval
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT, SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    after,
    tool_results,
)
from lasting_memory.testing.stores import SUBJECTS, WrappedStore, embed
from tests.conftest import BUILDERS, SUBAGENTS, BuildGraph, Graph
from tests.recall.talks import say

ALICE = Actor("alice", "acme")
MEMORIES = ("memories", "acme:alice")
OTHER = "11111111-2222-3333-4444-555555555555"
DEFAULTS = deployed()
BOTH = deployed(memory_scope="user+assistant")
SHARED = deployed(memory_scope="assistant", shared_writes="allow")
# Seconds after which something that is waited for will not come, on any machine.
LONG = 300


def client(*ids: str, busy: tuple[str, ...] = ()) -> Any:
    """The platform's client, where alice has these conversations. In busy ones a run goes on that
    nobody can stop.
    """
    platform = Platform()
    for thread_id in (*ids, *busy):
        platform.talk("alice", thread_id=thread_id)["status"] = (
            "busy" if thread_id in busy else "idle"
        )
    return platform


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_route, "FORGET_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(forget_route, "STOP_SECONDS", 0.2)


def left(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    """What is in the store, but for the time of that."""
    items = store.search((), limit=1000)
    return {
        (item.namespace, item.key): item.value for item in items if item.namespace[0] != "forgotten"
    }


async def furnish(store: BaseStore, namespace: namespaces.Namespace, actor: Actor = ALICE) -> None:
    """Files with a history, and a position, as runs of that person leave them."""
    for key in ("/preferences.md", "/topics/a.md"):
        for text in ("one", "two"):
            file = create_file_data(text)
            await journal.change(store, namespace, key, lambda _, file=file: file, Author("agent"))  # type: ignore[misc]
    await store.abatch(
        [PutOp(namespaces.positions(actor), "thread", {"message_id": "1"}, index=False)]
    )


async def test_items_of_a_forgotten_person_are_counted_and_nobody_else_s_are_touched(
    store: BaseStore,
) -> None:
    for name in ("alic", "alicea", "a_ice", "a%"):
        await furnish(
            store, DEFAULTS.memory.namespace(Actor(name, "acme"), ""), Actor(name, "acme")
        )
    await furnish(
        store, DEFAULTS.memory.namespace(Actor("alice", "globex"), ""), Actor("alice", "globex")
    )
    store.put(("policies", "acme"), "/rule.md", {**create_file_data("rule")})
    others = left(store)
    await furnish(store, MEMORIES)
    counts = await forget(store, client("1", "2"), ALICE, DEFAULTS)
    assert left(store) == others
    assert counts == {"threads": 2, "memories": 2, "journal": 4, "consolidation": 1}
    assert not await forget(store, client(), ALICE, DEFAULTS), "the second time there is nothing"


async def test_memory_with_every_assistant_goes_also_where_only_its_history_is_left(
    store: BaseStore,
) -> None:
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


async def test_a_file_that_lands_a_moment_later_goes_too(store: BaseStore) -> None:
    await furnish(store, MEMORIES)
    forgetting = asyncio.create_task(forget(store, client(), ALICE, DEFAULTS))
    while not store.search(("forgotten",)):  # noqa: ASYNC110  # the store tells nobody
        await asyncio.sleep(0.005)
    await store.aput(MEMORIES, "/late.md", {**create_file_data("late")})
    assert (await forgetting)["memories"] == 3
    assert not left(store)


# --- A run that is still going
# ---------------------------------------------------------------------------------------


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


# --- What is put behind a request, or by another process, while its person is forgotten
# ------------------------------------


def embedding_store(may_go_on: asyncio.Event, asked: asyncio.Event) -> InMemoryStore:
    """A store whose provider of embeddings takes as long for passages of conversations as a test
    wants.
    """

    async def slowly(texts: Sequence[str]) -> list[list[float]]:
        if any(text.startswith("user:") for text in texts):
            asked.set()
            await may_go_on.wait()
        return embed(texts)

    return InMemoryStore(index=IndexConfig(embed=slowly, dims=len(SUBJECTS), fields=["content"]))


@pytest.mark.parametrize("other_process", [False, True])
async def test_texts_embedded_behind_a_search_do_not_come_back(
    monkeypatch: pytest.MonkeyPatch, other_process: bool
) -> None:
    may_go_on, asked, threads = asyncio.Event(), asyncio.Event(), Platform()
    store = embedding_store(may_go_on, asked)
    say(threads, "t1", "my puppy is called Zoe")
    say(threads, "t2", "the oven is hot")
    for module in (conversations, forget_route):
        monkeypatch.setattr(module, "get_client", lambda: threads)
    monkeypatch.setattr(retrieval, "EMBED_SECONDS", 0.01)
    monkeypatch.setattr(checkpoints, "delete_checkpoints", AsyncMock(return_value=0))
    if other_process:
        monkeypatch.setattr(forget_route, "stop_embedding", AsyncMock())
    async with http_client(
        DEFAULTS, store, SignedIn(identity="alice", org_id="acme", permissions=[])
    ) as client:
        async with asyncio.timeout(LONG):
            found = await client.get("/memory/search?q=puppy")
            assert found.json()["outstanding"] == 2
            await asked.wait()
            going = [*embedding._tasks.values()]
            answer = await client.delete("/memory")
        assert answer.status_code == 200, answer.text
        assert not left(store)
        may_go_on.set()
        async with asyncio.timeout(LONG):
            await asyncio.wait(going)
        assert [task.cancelled() for task in going] == [not other_process]
        assert not left(store)
        # The person came back: what they say now is embedded.
        say(threads, "t3", "a puppy again", days=0)
        assert (await client.get("/memory/search?q=puppy")).json()["outstanding"] == 0
    assert "a puppy again" in str(
        [value for (space, _), value in left(store).items() if space[0] == "recall_texts"]
    )


async def forget_elsewhere(store: BaseStore) -> None:
    """Another process forgets alice, from the first to the last step."""
    await journal.forget(store, ALICE)
    for namespace, key in left(store):
        await store.adelete(namespace, key)


def forgetting_before_put(inner: InMemoryStore, *, times: int = 1) -> WrappedStore:
    """A store whose first put of something of alice's waits so long that she is forgotten
    meanwhile.
    """
    done = 0

    async def forget_first(ops: list[Op]) -> None:
        nonlocal done
        puts = [
            op
            for op in ops
            if isinstance(op, PutOp) and op.value is not None and op.namespace[0] != "forgotten"
        ]
        if puts and done < times:
            done += 1
            await forget_elsewhere(inner)

    return WrappedStore(inner, before=forget_first)


Write = Callable[[BaseStore, journal.Began], Awaitable[object]]


async def index_write(store: BaseStore, began: journal.Began) -> None:
    threads = Platform()
    say(threads, "t", "a puppy")
    await catch_up(store, threads, ALICE, agents=["agent"], began=began)


async def index_drop(store: BaseStore, began: journal.Began) -> None:
    await drop(store, ALICE, ["t"], began)


async def write_controls(store: BaseStore, began: journal.Began) -> None:
    await controls.set_controls(store, ALICE, {"paused": True}, began)


async def write_seen(store: BaseStore, began: journal.Began) -> None:
    await controls.set_seen(store, ALICE, began.at, began)


async def write_file(store: BaseStore, began: journal.Began) -> None:
    with suppress(RefusedWrite):
        file = create_file_data("late")
        await journal.change(
            store,
            BOTH.memory.namespace(ALICE, OTHER),
            "/a.md",
            lambda _: file,
            Author("agent"),
            began=began,
        )


async def propose(store: BaseStore, began: journal.Began) -> None:
    memory = Memory(store, ALICE, MEMORIES, DEFAULTS, began)
    proposal = Proposal(
        "1", began.at, MEMORIES[-1], Author("agent"), [Changed("/a.md", "", "late")], []
    )
    with suppress(RefusedWrite):
        await memory.propose(proposal)


async def read_due(store: BaseStore, began: journal.Began) -> None:
    threads = Platform()
    threads.put(
        ALICE, "t", "2026-01-01T00:00:00+00:00"
    )  # nothing is new in it: its position is noted, and how far one has read
    owner = Owner(ALICE)
    await find_due(DEFAULTS, threads, store, owner, began)  # type: ignore[arg-type]


async def keep_record(store: BaseStore, began: journal.Began) -> None:
    record = Record("run", began.at)
    draft = drafts.Draft(Owner(ALICE), record, Memory(store, ALICE, MEMORIES, DEFAULTS, began))
    await record_keeping.keep_record(draft, record.ended("done"), {"t": positions.Position("now")})


BYPASSING: list[Write] = [
    index_write, index_drop, write_controls, write_seen, write_file, propose, read_due, keep_record,
]  # fmt: skip


@pytest.mark.parametrize("write", BYPASSING, ids=lambda write: write.__name__)
async def test_an_item_put_after_its_writer_looked_is_taken_back(write: Write) -> None:
    inner, began = InMemoryStore(), journal.Began(ALICE)
    await write(forgetting_before_put(inner), began)
    assert journal.Began(ALICE).at > began.at
    assert inner.get(namespaces.forgotten(ALICE), namespaces.FORGOTTEN), (
        "she was forgotten meanwhile"
    )
    assert not left(inner)
    # Not forgotten meanwhile, all of these leave something.
    other = InMemoryStore()
    await write(other, began)
    assert left(other)


async def test_a_sweep_leaves_nothing_of_somebody_forgotten_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tidies = replace(DEFAULTS, consolidation=replace(DEFAULT_CONSOLIDATION, tidy_days=1))
    inner, threads = InMemoryStore(), Platform()
    say(threads, "t", "a puppy")

    async def forget_first(name: str, _: Any) -> None:
        if name == "runs.create":
            await forget_elsewhere(inner)
            threads.remove("t")

    threads.before = forget_first
    assert await sweep(tidies, threads, inner) == 0  # type: ignore[arg-type]
    assert threads.kept == {}
    assert {namespace for namespace, _ in left(inner)} == {("sweep",)}


async def test_a_person_s_write_after_they_came_back_stays() -> None:
    inner, began = InMemoryStore(), journal.Began(ALICE)
    place = namespaces.controls(ALICE)

    async def forgotten_and_back(ops: list[Op]) -> None:
        if any(isinstance(op, PutOp) and op.key == "paused" for op in ops):
            store.after = None
            await forget_elsewhere(inner)
            await inner.aput(place, "paused", {"on": False, "at": "now"})

    store = WrappedStore(inner, after=forgotten_and_back)
    put = PutOp(place, "paused", {"on": True, "at": "before"}, index=False)
    assert not await journal.put_unless_forgotten(store, [put], began)
    assert left(inner) == {(place, "paused"): {"on": False, "at": "now"}}


async def test_a_write_that_is_cancelled_is_taken_back_too() -> None:
    inner, began, put_it = InMemoryStore(), journal.Began(ALICE), asyncio.Event()

    async def wait_after_put(ops: list[Op]) -> None:
        if any(isinstance(op, PutOp) and op.key == "paused" and op.value for op in ops):
            put_it.set()
            await asyncio.Event().wait()

    store = WrappedStore(inner, after=wait_after_put)
    writing = asyncio.create_task(controls.set_controls(store, ALICE, {"paused": True}, began))
    async with asyncio.timeout(LONG):
        await put_it.wait()
        await journal.forget(inner, ALICE)
        writing.cancel()
        await asyncio.wait([writing])
    assert writing.cancelled()
    assert not left(inner)


@pytest.mark.parametrize(("path", "body"), [
    ("controls", {"paused": True}), ("seen", {"until": "2026-01-01T00:00:00Z"}),
])  # fmt: skip
async def test_a_request_of_somebody_forgotten_meanwhile_is_refused_and_leaves_nothing(
    path: str, body: Any
) -> None:
    inner = InMemoryStore()
    user = SignedIn(identity="alice", org_id="acme", permissions=[])
    async with http_client(DEFAULTS, forgetting_before_put(inner), user) as client:
        assert (await client.put(f"/memory/{path}", json=body)).status_code == 409
        assert not left(inner)
        assert (await client.put(f"/memory/{path}", json=body)).status_code == 200


async def test_a_consolidation_asked_for_by_somebody_forgotten_meanwhile_is_not_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner, threads = InMemoryStore(), Platform()

    async def forget_first(name: str, _: Any) -> None:
        if name == "runs.create":
            await forget_elsewhere(inner)

    threads.before = forget_first
    monkeypatch.setattr(consolidation, "get_client", lambda: threads)
    monkeypatch.setattr(platform, "acting_as_caller", lambda _: nullcontext_async())
    async with http_client(
        DEFAULTS, inner, SignedIn(identity="alice", org_id="acme", permissions=[])
    ) as client:
        answer = await client.post("/memory/consolidate")
        assert answer.status_code == 409, answer.text
        assert threads.kept == {}


@asynccontextmanager
async def nullcontext_async() -> AsyncIterator[None]:
    yield


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
