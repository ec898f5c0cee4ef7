"""Others who write while a fact is deleted for good do not bring it back."""

import asyncio
from typing import Any

import httpx
import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Op, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed, Proposal
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.testing.stores import WrappedStore
from tests.http.conftest import MEMORIES, NOTES, Open, put
from tests.http.fact_deletion.conftest import (
    AGENT,
    ALICE,
    FACT,
    delete,
    deleted,
    memory,
    opened_on,
    stored,
)


def acting_before(inner: BaseStore, wanted: str, do: Any) -> WrappedStore:
    """A store before whose first put of something with this word something happens."""
    done = False

    async def first(ops: list[Op]) -> None:
        nonlocal done
        puts = [str(op) for op in ops if isinstance(op, PutOp) and op.value is not None]
        if not done and any(wanted in each for each in puts):
            done = True
            await do()

    return WrappedStore(inner, before=first)


async def deleted_elsewhere(store: InMemoryStore) -> None:
    """Another process, which has its own locks, deletes it."""

    async def there() -> None:
        async with opened_on(store) as api:
            await deleted(api)

    await asyncio.to_thread(asyncio.run, there())


async def test_a_writer_in_another_process_who_had_read_it_does_not_bring_it_back() -> None:
    store = InMemoryStore()
    async with opened_on(store) as api:
        await put(api, f"- {FACT}\n- Likes tea\n")
    slow = acting_before(store, "Has a dog", lambda: deleted_elsewhere(store))
    writer = journal.Writer(ALICE)

    def adds(file: FileData | None) -> FileData:
        return FileData(
            content=(file["content"] if file else "") + "- Has a dog\n", encoding="utf-8"
        )

    with pytest.raises(RefusedWrite, match="deleted for good"):
        await journal.change(slow, MEMORIES, "/notes.md", adds, AGENT, writer=writer)
    assert "tulip" not in stored(store)
    async with opened_on(store) as api:
        assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "- Likes tea\n"
        await journal.change(
            store, MEMORIES, "/notes.md", adds, AGENT, writer=journal.Writer(ALICE)
        )
        assert (await api.get("/memory/file", params=NOTES)).json()[
            "content"
        ] == "- Likes tea\n- Has a dog\n"


async def test_a_fact_that_another_process_puts_meanwhile_is_deleted_too(
    calling: Open, store: BaseStore
) -> None:
    async def other() -> None:
        writer = journal.Writer(ALICE)
        file = FileData(content=f"- {FACT}\n- Has a dog\n", encoding="utf-8")
        await journal.change(store, MEMORIES, "/late.md", lambda _: file, AGENT, writer=writer)
        await memory(store).propose(
            Proposal("p", "2026", MEMORIES[-1], AGENT, [Changed("/a.md", "", f"{FACT}\n")], [])
        )

    async with calling() as api:
        await put(api, f"- {FACT}\n- Likes tea\n")
    async with opened_on(acting_before(store, "'facts'", other)) as api:
        await deleted(api)
        assert (await api.get("/memory/file", params={"path": "/memories/late.md"})).json()[
            "content"
        ] == "- Has a dog\n"
    assert "tulip" not in stored(store)


async def test_a_proposal_and_a_record_of_a_run_from_before_are_not_kept(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, f"- {FACT}\n- Likes tea\n")
    writer = journal.Writer(ALICE)
    proposal = Proposal("p", "2026", MEMORIES[-1], AGENT, [Changed("/a.md", "", f"{FACT}\n")], [])
    slow = acting_before(store, "/a.md", lambda: deleted(api))
    with pytest.raises(RefusedWrite, match="deleted for good"):
        await memory(slow, writer).propose(proposal)
    with pytest.raises(RefusedWrite, match="deleted for good"):
        await memory(store, writer).propose(proposal)
    assert "tulip" not in stored(store)
    await memory(store, journal.Writer(ALICE)).propose(proposal)


async def test_two_deletions_at_once_both_count(api: httpx.AsyncClient, store: BaseStore) -> None:
    others = [f"Fact number {n} about ships" for n in range(5)]
    await put(api, "".join(f"- {line}\n" for line in (FACT, *others, "Likes tea")))
    answers = await asyncio.gather(*(delete(api, text=line) for line in (FACT, *others)))
    assert [answer.status_code for answer in answers] == [200] * 6, [
        answer.text for answer in answers
    ]
    assert not [word for word in ("tulip", "ships") if word in stored(store)]
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "- Likes tea\n"
