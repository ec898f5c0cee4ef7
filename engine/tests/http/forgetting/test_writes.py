"""What is put behind a request, or by another process, while its person is forgotten."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, IndexConfig, Op, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import checkpoints, platform
from lasting_memory.consolidation import Owner, drafts, positions, record_keeping, sweep
from lasting_memory.consolidation.due import find_due
from lasting_memory.consolidation.record import Record
from lasting_memory.deployment import DEFAULT_CONSOLIDATION
from lasting_memory.http import consolidation, conversations
from lasting_memory.http import forget as forget_route
from lasting_memory.memory import controls, journal
from lasting_memory.memory.proposals import Changed, Memory, Proposal
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author
from lasting_memory.recall import catch_up, drop, embedding, retrieval
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.stores import SUBJECTS, WrappedStore, embed
from tests.http.forgetting.conftest import ALICE, BOTH, DEFAULTS, MEMORIES, OTHER, left
from tests.recall.talks import say

# Seconds after which something that is waited for will not come, on any machine.
LONG = 300


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


Write = Callable[[BaseStore, journal.Writer], Awaitable[object]]


async def index_write(store: BaseStore, writer: journal.Writer) -> None:
    threads = Platform()
    say(threads, "t", "a puppy")
    await catch_up(store, threads, ALICE, agents=["agent"], writer=writer)


async def index_drop(store: BaseStore, writer: journal.Writer) -> None:
    await drop(store, ALICE, ["t"], writer)


async def write_controls(store: BaseStore, writer: journal.Writer) -> None:
    await controls.set_controls(store, ALICE, {"paused": True}, writer)


async def write_seen(store: BaseStore, writer: journal.Writer) -> None:
    await controls.set_seen(store, ALICE, writer.at, writer)


async def write_file(store: BaseStore, writer: journal.Writer) -> None:
    with suppress(RefusedWrite):
        file = create_file_data("late")
        await journal.change(
            store,
            BOTH.memory.namespace(ALICE, OTHER),
            "/a.md",
            lambda _: file,
            Author("agent"),
            writer=writer,
        )


async def propose(store: BaseStore, writer: journal.Writer) -> None:
    memory = Memory(store, ALICE, MEMORIES, DEFAULTS, writer)
    proposal = Proposal(
        "1", writer.at, MEMORIES[-1], Author("agent"), [Changed("/a.md", "", "late")], []
    )
    with suppress(RefusedWrite):
        await memory.propose(proposal)


async def read_due(store: BaseStore, writer: journal.Writer) -> None:
    threads = Platform()
    threads.put(
        ALICE, "t", "2026-01-01T00:00:00+00:00"
    )  # nothing is new in it: its position is noted, and how far one has read
    owner = Owner(ALICE)
    await find_due(DEFAULTS, threads, store, owner, writer)  # type: ignore[arg-type]


async def keep_record(store: BaseStore, writer: journal.Writer) -> None:
    record = Record("run", writer.at)
    draft = drafts.Draft(Owner(ALICE), record, Memory(store, ALICE, MEMORIES, DEFAULTS, writer))
    await record_keeping.keep_record(draft, record.ended("done"), {"t": positions.Position("now")})


BYPASSING: list[Write] = [
    index_write, index_drop, write_controls, write_seen, write_file, propose, read_due, keep_record,
]  # fmt: skip


@pytest.mark.parametrize("write", BYPASSING, ids=lambda write: write.__name__)
async def test_an_item_put_after_its_writer_looked_is_taken_back(write: Write) -> None:
    inner, writer = InMemoryStore(), journal.Writer(ALICE)
    await write(forgetting_before_put(inner), writer)
    assert journal.Writer(ALICE).at > writer.at
    assert inner.get(namespaces.forgotten(ALICE), namespaces.FORGOTTEN), (
        "she was forgotten meanwhile"
    )
    assert not left(inner)
    # Not forgotten meanwhile, all of these leave something.
    other = InMemoryStore()
    await write(other, writer)
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
    inner, writer = InMemoryStore(), journal.Writer(ALICE)
    place = namespaces.controls(ALICE)

    async def forgotten_and_back(ops: list[Op]) -> None:
        if any(isinstance(op, PutOp) and op.key == "paused" for op in ops):
            store.after = None
            await forget_elsewhere(inner)
            await inner.aput(place, "paused", {"on": False, "at": "now"})

    store = WrappedStore(inner, after=forgotten_and_back)
    put = PutOp(place, "paused", {"on": True, "at": "before"}, index=False)
    assert not await journal.put_unless_forgotten(store, [put], writer)
    assert left(inner) == {(place, "paused"): {"on": False, "at": "now"}}


async def test_a_write_that_is_cancelled_is_taken_back_too() -> None:
    inner, writer, put_it = InMemoryStore(), journal.Writer(ALICE), asyncio.Event()

    async def wait_after_put(ops: list[Op]) -> None:
        if any(isinstance(op, PutOp) and op.key == "paused" and op.value for op in ops):
            put_it.set()
            await asyncio.Event().wait()

    store = WrappedStore(inner, after=wait_after_put)
    writing = asyncio.create_task(controls.set_controls(store, ALICE, {"paused": True}, writer))
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
