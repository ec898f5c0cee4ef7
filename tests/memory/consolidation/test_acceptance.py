"""Accepted batches: whoever is killed at any point, and whoever writes meanwhile, each is applied whole and once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.memory import InMemoryStore

from memory import journal, namespaces
from memory.consolidation import acceptance, hooks
from memory.consolidation.acceptance import Acceptance, OvertakenError, accept, finish_accepted
from memory.consolidation.guard import Changed
from memory.consolidation.positions import Position, positions
from memory.consolidation.run_records import Record, records
from memory.identity import Author
from testing.scripted_anthropic import ScriptedAnthropic, system_text
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import ALICE, FILES, Mortal, write

KEY = f"/{FILES[-1]}"
MOVED = {"t": Position("1", "m", ("a", "b"))}
BEGAN = "2026-01-01T00:00:00+00:00"
# A fact moves from one file to another, a file goes, and one is new.
CHANGES = [
    Changed("/a.md", "one\ntwo\nthree\n", "one\nthree\n"),
    Changed("/b.md", "four\n", "four\ntwo\n"),
    Changed("/gone.md", "old\n", "", deleted=True),
    Changed("/new.md", "", "five\n"),
]
AFTER = {"/a.md": "one\nthree\n", "/b.md": "four\ntwo\n", "/new.md": "five\n"}


class Jittery(BaseStore):
    """A store that takes its time, so that those who use it meet in every order."""

    def __init__(self, store: BaseStore, random: Random) -> None:
        self._store, self._random = store, random

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)
        return await self._store.abatch(ops)


def batch(batch_id: str = "b1", changes: list[Changed] = CHANGES, run_id: str = "r1") -> Acceptance:  # only read
    report = Record(run_id, BEGAN, conversations=1, files={change.path: change.diff() for change in changes})
    author = Author("consolidation", "alice", run_id)
    return Acceptance(batch_id, datetime.now(UTC).isoformat(), author, changes, MOVED, report)


async def furnished() -> InMemoryStore:
    store = InMemoryStore()
    for change in CHANGES:
        for line in change.before.splitlines():
            await write(store, change.key, line)
    return store


async def texts(store: BaseStore) -> dict[str, str]:
    return {item.key: str(item.value["content"]) for item in await store.asearch(FILES)}


async def revisions(store: BaseStore, key: str) -> int:
    """How many revisions of a file are consolidation's."""
    history = await journal.history(store, FILES, key)
    return sum(revision.author.kind == "consolidation" for revision in history)


@pytest.mark.parametrize("others", [False, True])
async def test_a_run_that_dies_at_any_point_has_changed_nothing_or_is_finished_once(others: bool) -> None:
    deaths, done = 0, False
    while not done:
        store = await furnished()
        before = await texts(store)
        try:
            await accept(Mortal(store, deaths), ALICE, FILES, batch(), "")
            done = True
        except ConnectionError:
            deaths += 1
        if others:
            await write(store, "/a.md", "mine")
        for_whom = {**AFTER, "/a.md": f"{AFTER['/a.md']}mine\n"} if others else AFTER
        pending = (await acceptance.STATE.read(store, ALICE, FILES)).is_unfinished()
        follows = await finish_accepted(store, ALICE, FILES)
        if follows == "":
            assert await texts(store) == ({**before, "/a.md": f"{before['/a.md']}mine\n"} if others else before)
            assert await positions(store, ALICE) == {}
            assert not pending
            try:
                await accept(store, ALICE, FILES, batch("b2"), follows)
            except OvertakenError:  # the dead one's block was in the journal, and counts from now on
                assert await finish_accepted(store, ALICE, FILES) == "b1"
        assert await texts(store) == for_whom
        assert [await revisions(store, change.key) for change in CHANGES] == [1, 1, 1, 1]
        assert await positions(store, ALICE) == MOVED
        assert [record["conversations"] for record in await records(store, ALICE)] == [1]
        assert not (await acceptance.STATE.read(store, ALICE, FILES)).is_unfinished()
    assert deaths > 20


async def test_who_finishes_may_die_at_any_point_as_well() -> None:
    for deaths in range(60):
        store = await furnished()
        with pytest.raises(ConnectionError):
            await accept(Mortal(store, 9), ALICE, FILES, batch(), "")
        assert (await acceptance.STATE.read(store, ALICE, FILES)).is_unfinished()
        mortal = Mortal(store, deaths)
        while True:
            try:
                await finish_accepted(mortal, ALICE, FILES)
                break
            except ConnectionError:
                mortal.left = deaths + 1  # the next one gets a little further, and at last through
                deaths += 1  # noqa: PLW2901
        assert await texts(store) == AFTER
        assert [await revisions(store, change.key) for change in CHANGES] == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(30))
async def test_three_who_finish_it_at_once_apply_it_once_and_lose_nothing(seed: int) -> None:
    """Three who finish it at once while others write apply it once, and lose nothing."""
    store, random = await furnished(), Random(seed)
    with pytest.raises(ConnectionError):
        await accept(Mortal(store, random.randrange(7, 14)), ALICE, FILES, batch(), "")
    jittery = Jittery(store, random)
    keys = [change.key for change in CHANGES]
    writing = [write(jittery, key, f"{key}{number}") for key in keys for number in range(3)]
    await asyncio.gather(*(finish_accepted(jittery, ALICE, FILES) for _ in range(3)), *writing)
    now = await texts(store)
    for key in keys:
        written = {f"{key}{number}" for number in range(3)}
        assert sorted(now[key].splitlines()) == sorted([*AFTER.get(key, "").splitlines(), *written])
        assert await revisions(store, key) <= 1


@pytest.mark.parametrize("seed", range(10))
async def test_of_batches_that_began_at_the_same_point_one_is_accepted(seed: int, store: BaseStore) -> None:
    jittery = Jittery(store, Random(seed))
    batches = [batch(f"b{n}", [Changed(f"/{n}.md", "", f"{n}\n"), Changed("/a.md", "", f"{n}\n")], f"r{n}") for n in range(4)]
    results = await asyncio.gather(*(accept(jittery, ALICE, FILES, each, "") for each in batches), return_exceptions=True)
    (won,) = [n for n, result in enumerate(results) if isinstance(result, Record)]
    assert all(isinstance(result, OvertakenError) for n, result in enumerate(results) if n != won)
    assert await texts(store) == {f"/{won}.md": f"{won}\n", "/a.md": f"{won}\n"}
    assert await finish_accepted(store, ALICE, FILES) == f"b{won}"


async def test_what_is_added_comes_before_what_is_removed() -> None:
    move = [Changed("/a.md", "two\n", ""), Changed("/z.md", "x\n", "x\ntwo\n")]
    for deaths in range(50):
        store = InMemoryStore()
        await write(store, "/a.md", "two")
        await write(store, "/z.md", "x")
        with suppress(ConnectionError):
            await accept(Mortal(store, deaths), ALICE, FILES, batch(changes=move), "")
        assert any("two" in text for text in (await texts(store)).values()), "no moment without it"
    assert await texts(store) == {"/a.md": "", "/z.md": "x\ntwo\n"}


async def test_a_change_that_cannot_be_made_any_more_is_named_in_the_record(store: BaseStore) -> None:
    """A change that cannot be made any more is named in the record, and the others are made."""
    await write(store, "/a.md", "one")
    await store.aput(FILES, "/profile.json", {"content": "[]", "encoding": "utf-8"})
    changes = [Changed("/a.md", "one\n", "one\ntwo\n"), Changed("/profile.json", "{}", '{"name": "Ann"}')]
    report = await accept(store, ALICE, FILES, batch(changes=changes), "")
    assert (await texts(store))["/a.md"] == "one\ntwo\n"
    assert report.status == "undone"
    assert "/memories/profile.json" in report.reason
    (record,) = await records(store, ALICE)
    assert (record["reason"], list(record["files"])) == (report.reason, ["/memories/a.md"])
    assert await finish_accepted(store, ALICE, FILES) == "b1"


async def test_where_the_history_no_longer_tells_nothing_is_applied_a_second_time(store: BaseStore) -> None:
    old = batch(changes=[Changed("/a.md", "", "two\n")])
    await accept(store, ALICE, FILES, old, "")
    for number in range(90):
        await write(store, "/a.md", str(number))
    report = await acceptance.complete(store, ALICE, FILES, old)
    assert "its history does not say" in report.reason
    assert (await texts(store))["/a.md"].count("two") == 1


LEASE: dict[str, Any] = {
    "run_id": "r",
    "until": "2027-12-31T00:00:00+00:00",
    "worker": "r",
    "base": {},
    "moved": None,
    "decided": None,
}
CONTENTS: list[Any] = [
    *(7, [], "x", None, {"last": [1]}, {"pending": 7}, {"pending": {"id": "x"}}, {"pending": {"id": 1, "changes": 3}}),
    *(LEASE, {**LEASE, "base": None}, {**LEASE, "base": 7}, {**LEASE, "base": {"/a": "b"}}, {**LEASE, "moved": []}),
    *({**LEASE, "moved": {"t": 1}}, {**LEASE, "until": 3}, {"run_id": "r"}),
]
MALFORMED: list[Any] = [
    *({"content": 7}, {"nonsense": True}, {"content": "[" * 100_000, "encoding": "utf-8"}),
    *({"content": json.dumps(content), "encoding": "utf-8"} for content in CONTENTS),
]


@pytest.mark.parametrize("value", MALFORMED, ids=lambda value: str(value)[:60])
async def test_a_malformed_item_or_a_lease_of_version_01_until_2027_stops_nobody(store: BaseStore, value: Any) -> None:
    await store.aput(namespaces.lease(ALICE), KEY, value)
    follows = await finish_accepted(store, ALICE, FILES)
    await accept(store, ALICE, FILES, batch(changes=[Changed("/a.md", "", "two\n")]), follows)
    assert await texts(store) == {"/a.md": "two\n"}
    assert await finish_accepted(store, ALICE, FILES) == "b1"


async def test_no_conversation_begins_with_half_a_batch(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    change = [Changed("/preferences.md", "one\n", "one\ntwo\n"), Changed("/topics/index.md", "", "- x.md: x and y and z\n")]
    for deaths in range(8, 30):
        store = InMemoryStore()
        await write(store, "/preferences.md", "one")
        with pytest.raises(ConnectionError):
            await accept(Mortal(store, deaths), ALICE, FILES, batch(changes=change), "")
        if len(await texts(store)) > 1:
            break
    assert "two" not in (await texts(store))["/preferences.md"], "the other file is there, and this is not"
    agent = graph()
    agent.graph.store = store
    await agent.turn("hello")
    prompt = system_text(model.requests[-1])
    assert "two" in prompt
    assert "x and y and z" in prompt


async def test_a_conversation_goes_on_where_a_batch_cannot_be_finished(
    graph: BuildGraph, store: BaseStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> str:
        raise ConnectionError

    monkeypatch.setattr(hooks, "finish_accepted", fail)
    assert await graph().turn("hello")
    assert "could not be finished" in caplog.text
