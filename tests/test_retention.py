"""What a person stores is bounded, deleted files and histories included; and nothing goes that must not."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, Item, PutOp
from langgraph.store.memory import InMemoryStore

from memory import consensus, retention, scopes, stored, validation
from memory.consensus import OUTSIDE_SECONDS, LoggedFile, Revision, Steps
from memory.files import ScopedFiles, carry_out
from memory.journal import Journal
from memory.scopes import Author
from memory.validation import RefusedWriteError
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_STORED_BYTES, Settings
from tests.dev_server import DevServer, dev_token
from tests.test_journal import World, throw

FILES = ("memories", "acme:alice")
LARGE = "x" * 250_000


def files(store: BaseStore) -> ScopedFiles:
    return ScopedFiles(
        namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: Author("agent"), store=store
    )


def everything(store: BaseStore) -> list[Item]:
    """All items of the namespace's files and journals."""
    found: list[Item] = []
    for prefix in (FILES, scopes.journals(FILES), scopes.unsettled(FILES)):
        while page := store.search(prefix, limit=1_000, offset=len(found)):
            found += page
            if len(page) < 1_000:
                break
    return found


def size(items: list[Item]) -> int:
    return sum(len(json.dumps(item.value, ensure_ascii=False).encode()) for item in items)


def history(store: BaseStore, path: str) -> list[Revision]:
    return carry_out(store, Journal(LoggedFile(FILES, path)).history())


# --- As deployed ------------------------------------------------------------------------------------------------------


async def test_writing_and_deleting_large_files_again_and_again_stays_within_twice_the_quota(store: BaseStore) -> None:
    await files(store).awrite("/kept.md", "kept")
    for number in range(40):
        assert not (await files(store).awrite(f"/{number}.md", LARGE)).error
        assert not (await files(store).adelete(f"/{number}.md")).error
        if number % 10 == 9:
            assert size(everything(store)) <= MAX_STORED_BYTES
    assert [revision.content for revision in history(store, "/39.md")] == [None, LARGE], "the last deleted can be undone"
    assert [revision.content for revision in history(store, "/0.md")] == [None], "the first went first"
    assert [revision.content for revision in history(store, "/kept.md")] == ["kept"]


async def test_so_does_rewriting_a_few_large_files(store: BaseStore) -> None:
    for number in range(36):
        assert not (await files(store).awrite(f"/{number % 3}.md", f"{number}{LARGE}")).error
        if number % 10 == 9:
            assert size(everything(store)) <= MAX_STORED_BYTES
    kept = [revision.content[:2] for revision in history(store, "/2.md") if revision.content]
    assert kept[0] == "35"
    assert 4 <= len(kept) < 12, "the newest revisions stay"


async def test_a_full_memory_can_still_be_edited_and_keeps_the_newest_revision_of_each_file(store: BaseStore) -> None:
    for number in range(16):
        await files(store).awrite(f"/{number}.md", "y" * 262_000)
    for number in range(8):
        assert not (await files(store).aedit(f"/{number}.md", "y" * 262_000, f"{number}" * 262_000)).error
    for number in range(16):
        (newest, *_) = history(store, f"/{number}.md")
        assert newest.content == (f"{number}" if number < 8 else "y") * 262_000
        assert store.get(FILES, f"/{number}.md").value["content"] == newest.content  # type: ignore[union-attr]
    texts = [
        str((item.value.get("revision") or {}).get("content"))
        for item in store.search(scopes.journals(FILES), limit=100)
        if item.key != "note"
    ]
    assert sum(map(len, texts)) + 16 * 262_000 <= MAX_STORED_BYTES + 200


def test_the_default_bound_is_twice_the_quota() -> None:
    assert MAX_STORED_BYTES == 2 * MAX_MEMORY_BYTES
    assert stored.BUDGET + 2 * MAX_FILE_BYTES == MAX_STORED_BYTES


# --- Hypothesis chooses -----------------------------------------------------------------------------------------------

QUOTA, LARGEST = 3_000, 400
OVERHEAD = 10


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that a few writes fill."""
    monkeypatch.setattr(validation, "MAX_MEMORY_BYTES", QUOTA)
    monkeypatch.setattr(stored, "BUDGET", 2 * QUOTA - 2 * (LARGEST + OVERHEAD))
    monkeypatch.setattr(consensus, "OVERHEAD_BYTES", OVERHEAD)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 9), st.integers(0, LARGEST)),
        st.tuples(st.just("delete"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("outside"), st.integers(0, 9), st.integers(0, LARGEST)),
    ),
    max_size=80,
)


@pytest.mark.usefixtures("small")
@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(steps=STEPS)
def test_whatever_is_written_and_deleted_all_texts_take_twice_the_quota_at_most_and_the_newest_are_there(
    steps: list[tuple[str, int, int]],
) -> None:
    check_steps(InMemoryStore(), steps)


@pytest.mark.usefixtures("small")
async def test_on_both_stores_too(store: BaseStore) -> None:
    dice = random.Random(7)
    kinds = ["write"] * 6 + ["delete"] * 3
    steps = [(dice.choice(kinds), dice.randrange(10), dice.randint(0, LARGEST)) for _ in range(150)]
    await asyncio.to_thread(check_steps, store, steps)


def check_steps(store: BaseStore, steps: list[tuple[str, int, int]]) -> None:
    expected: dict[str, str] = {}
    written = set[str]()  # by us, since other code put it
    for number, (kind, which, length) in enumerate(steps):
        path, text = f"/{which}.md", (f"{number}|" * LARGEST)[:length]
        if kind == "write":
            if files(store).write(path, text).error is None:
                expected[path] = text
                written.add(path)
        elif kind == "delete":
            files(store).delete(path)
            expected.pop(path, None)
        elif sum(map(len, expected.values())) + length - len(expected.get(path, "")) <= QUOTA:
            store.put(FILES, path, {**create_file_data(text)})
            expected[path] = text
            written.discard(path)
        if kind != "outside":
            check_bounds(store)
        assert {item.key: item.value["content"] for item in store.search(FILES, limit=100)} == expected
    for path in expected.keys() & written:
        assert history(store, path)[0].content == expected[path]


def check_bounds(store: BaseStore) -> None:
    texts = [item.value["content"] for item in store.search(FILES, limit=1_000)]
    blocks = [item.value["revision"] for item in store.search(scopes.journals(FILES), limit=1_000) if "slot" in item.value]
    texts += [block["content"] or "" for block in blocks if block]
    assert sum(map(len, texts)) <= 2 * QUOTA


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_anywhere_nothing_is_lost_and_the_next_write_makes_the_room(carried_out: bool) -> None:
    """A writer is stopped before or after each of its batches, in a store in which something has to go."""
    for stop in range(1, 60):
        store = InMemoryStore()
        for number in range(14):
            files(store).write(f"/{number % 4}.md", f"{number}" * 180)
        expected = {item.key: item.value["content"] for item in store.search(FILES, limit=100)}
        steps = Journal(LoggedFile(FILES, "/0.md")).change(lambda _: create_file_data("n" * LARGEST), Author("agent"))
        ended = run_until(store, steps, stop, carried_out=carried_out)
        for path, text in expected.items():
            newest = history(store, path)[0].content
            assert newest == text or (path == "/0.md" and newest == "n" * LARGEST)
        files(store).write("/1.md", "after")
        check_bounds(store)
        if ended:
            return
    raise AssertionError


def run_until(store: BaseStore, steps: Steps[Any], stop: int, *, carried_out: bool) -> bool:
    """Carry out a number of batches, the last one perhaps not; whether that was all."""
    answer: Any = None
    for number in range(1, stop + 1):
        try:
            step = steps.send(answer)
        except StopIteration:
            return True
        if number == stop and not carried_out:
            break
        answer = None if isinstance(step, float) else store.batch(step)
    steps.close()
    return False


# --- Many deleted files -----------------------------------------------------------------------------------------------


class Clock:
    """A clock that is set forward."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def write(store: BaseStore, path: str, text: str | None, clock: Callable[[], datetime]) -> Revision:
    changed = None if text is None else create_file_data(text)
    revision: Revision = carry_out(store, Journal(LoggedFile(FILES, path, clock)).change(lambda _: changed, Author("agent")))
    return revision


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many deleted files are kept."""
    monkeypatch.setattr(retention, "MAX_DELETED_FILES", 8)
    return 8


def journals(store: BaseStore) -> int:
    return len({item.namespace for item in store.search(scopes.journals(FILES), limit=1_000) if "slot" in item.value})


async def test_of_many_deleted_files_the_oldest_are_cleared_away_and_new_ones_are_refused_until_then(
    store: BaseStore, few: int
) -> None:
    def attack() -> None:
        clock, refused = Clock(), 0
        write(store, "/kept.md", "kept", clock)
        for number in range(10 * few):
            try:
                write(store, f"/{number}.md", "tiny", clock)
                write(store, f"/{number}.md", None, clock)
            except RefusedWriteError as error:
                assert "ten minutes" in str(error)  # noqa: PT017  # most are not refused
                refused += 1
                clock.now += timedelta(seconds=OUTSIDE_SECONDS + 1)
                write(store, "/kept.md", "still", clock)
            clock.now += timedelta(seconds=1)
            assert journals(store) <= 2 * few + 2
        assert 1 <= refused <= 20, "who waits goes on"
        assert history(store, "/0.md") == []
        assert history(store, f"/{10 * few - 1}.md") or refused
        assert [revision.content for revision in history(store, "/kept.md")][-1] == "kept"

    await asyncio.to_thread(attack)


async def test_a_file_that_is_being_cleared_away_is_not_made_again_until_it_is_gone_and_then_begins_anew(
    store: BaseStore, few: int
) -> None:
    def again() -> None:
        clock = Clock()
        write(store, "/kept.md", "kept", clock)
        for number in range(few + 1):
            write(store, f"/{number}.md", "text", clock)
            write(store, f"/{number}.md", None, clock)
            clock.now += timedelta(seconds=1)
        with pytest.raises(RefusedWriteError, match=r"'/0\.md' was deleted and is being cleared away"):
            write(store, "/0.md", "again", clock)
        assert write(store, f"/{few}.md", "again", clock).number == 3, "one that was deleted later goes on"
        clock.now += timedelta(seconds=OUTSIDE_SECONDS + 1)
        assert write(store, "/0.md", "again", clock).number == 1
        assert [revision.content for revision in history(store, "/0.md")] == ["again"]

    await asyncio.to_thread(again)


class Lives(World):
    """A file that is deleted, cleared away and made anew, in the journal's world."""

    least = 1
    cleared = 0

    def _arrive(self, batch: Any) -> Any:
        log = scopes.journal(FILES, "/a.md")
        deletes = not isinstance(batch, float) and any(
            isinstance(op, PutOp) and op.namespace == log and op.value is None for op in batch
        )
        chain = self.check_chain() if deletes and self.accepted else []
        answer = super()._arrive(batch)
        for op in () if isinstance(batch, float) else batch:
            if isinstance(op, PutOp) and (item := self.store.get(op.namespace, op.key)):
                item.updated_at = self.now  # the in-memory store's own object
        if deletes and self.accepted and not self.store.search(log):
            assert chain[-1].content is None, "a file that was there was cleared away"
            self.cleared += 1
            for kept in (self.accepted, self.acknowledged, self.refused):
                kept.clear()
            for running in self.running.values():
                running.acknowledged_before = 0
        return answer


@pytest.fixture
def one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single deleted file is one too many, but not twice."""
    monkeypatch.setattr(retention, "MAX_DELETED_FILES", 0.6)


@pytest.mark.usefixtures("one_too_many")
def test_nothing_acknowledged_is_lost_where_deleted_files_are_cleared_away() -> None:
    assert sum(lives(seed) for seed in range(150)) > 20


@pytest.mark.proof
@pytest.mark.usefixtures("one_too_many")
def test_nothing_acknowledged_is_lost_where_deleted_files_are_cleared_away_in_many_more_worlds() -> None:
    assert sum(lives(seed) for seed in range(1_000, 11_000)) > 1_000


def lives(seed: int) -> int:
    """How often a file was cleared away in a world."""
    world = Lives()
    throw(seed, world=world, kinds=["append", "write", "delete", "delete"])
    return world.cleared


# --- Data of version 0.1 ----------------------------------------------------------------------------------------------


def as_version_0_1(store: BaseStore) -> None:
    """Take from files and journals what version 0.1 did not write."""
    for item in store.search((), limit=1_000):
        store.put(item.namespace, item.key, {k: v for k, v in item.value.items() if k not in {"written", "path", "deleted"}})


@pytest.mark.parametrize("there", [False, True])
async def test_what_version_0_1_kept_without_end_goes_with_the_next_write(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    text, bound = "x" * 100_000, 2_000_000
    if there:
        await files(store).awrite("/kept.md", "kept")
    for number in range(30):
        await files(store).awrite(f"/{number}.md", text)
        await files(store).adelete(f"/{number}.md")
    await asyncio.to_thread(as_version_0_1, store)
    assert size(everything(store)) > bound
    monkeypatch.setattr(stored, "BUDGET", bound)
    assert not (await files(store).awrite("/new.md", "new")).error
    assert size(everything(store)) <= bound / 4
    assert [revision.content for revision in history(store, "/29.md")] == [None, text]
    assert not (await files(store).awrite("/0.md", "again")).error
    assert [revision.content for revision in history(store, "/0.md")] == ["again", None]


# --- At the level of the server ---------------------------------------------------------------------------------------


@pytest.mark.server
async def test_who_writes_and_deletes_through_the_server_again_and_again_stores_twice_the_quota_at_most(
    server: DevServer, alice: str
) -> None:
    headers = {"authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        await client.put("/memory/file", params={"path": "/memories/kept.md"}, json={"content": "kept"})
        for number in range(120):
            params = {"path": f"/memories/{number}.md"}
            assert (await client.put("/memory/file", params=params, json={"content": LARGE})).status_code == 200
            assert (await client.delete("/memory/file", params=params)).status_code == 200
        files = (await client.get("/memory")).json()["files"]
        assert [file["path"] for file in files if file["bytes"] > 10_000] == []
        told = (await client.get("/memory/history", params={"path": "/memories/0.md"})).json()
        assert (len(told["revisions"]), told["revisions_dropped"]) == (1, 1)
        newest = (await client.get("/memory/history", params=params)).json()
        assert (len(newest["revisions"]), newest["revisions_dropped"]) == (2, 0)
        assert (await client.post("/memory/undo", json={**params, "revision": 1})).status_code == 200
        exported = (await client.get("/memory/export")).json()
        assert len(exported["deleted_files"]) == 119
        assert {file["path"] for file in exported["deleted_files"]} == {f"/memories/{number}.md" for number in range(119)}
    operator, found, page = server.as_operator(), list[Any](), list[Any]()
    person = scopes.memories(scopes.Actor(alice, "acme"), "", Settings())
    for prefix in (person, scopes.journals(person), scopes.unsettled(person)):
        read = 0
        while page := (await operator.store.search_items(prefix, limit=200, offset=read))["items"]:
            found, read = [*found, *page], read + len(page)
    assert sum(len(json.dumps(item["value"]).encode()) for item in found) <= MAX_STORED_BYTES
