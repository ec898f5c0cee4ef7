"""What a person stores is bounded, deleted files and histories included; and nothing goes that must not."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, Item
from langgraph.store.memory import InMemoryStore

from memory import identity, namespaces
from memory.files import ScopedFiles
from memory.identity import Author
from memory.journal.log import Journal
from memory.journal.revisions import OVERHEAD_BYTES, Bounds, LoggedFile, Steps
from memory.validation import RefusedWriteError, check_room
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_STORED_BYTES, Settings
from testing.dev_server import DevServer, dev_token
from testing.steps import carry_out
from tests.memory.journal.world import FILES, history

LARGE = "x" * 250_000


def files(store: BaseStore) -> ScopedFiles:
    return ScopedFiles(
        namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: Author("agent"), store=store
    )


def everything(store: BaseStore) -> list[Item]:
    """All items of the namespace's files and journals."""
    items: list[Item] = []
    for prefix in (FILES, namespaces.journals(FILES), namespaces.unsettled(FILES)):
        while page := store.search(prefix, limit=1_000, offset=len(items)):
            items += page
            if len(page) < 1_000:
                break
    return items


def size(items: list[Item]) -> int:
    return sum(len(json.dumps(item.value, ensure_ascii=False).encode()) for item in items)


# --- As deployed ------------------------------------------------------------------------------------------------------


async def test_writing_and_deleting_large_files_stays_within_twice_the_quota(store: BaseStore) -> None:
    """Writing and deleting large files again and again stays within twice the quota."""
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


async def test_a_full_memory_can_still_be_edited(store: BaseStore) -> None:
    """A full memory can still be edited, and keeps the newest revision of each file."""
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
        for item in store.search(namespaces.journals(FILES), limit=100)
        if item.key != "note"
    ]
    assert sum(map(len, texts)) + 16 * 262_000 <= MAX_STORED_BYTES + 200


def test_the_default_bound_is_twice_the_quota() -> None:
    assert MAX_STORED_BYTES == 2 * MAX_MEMORY_BYTES
    assert Bounds().bytes + 2 * MAX_FILE_BYTES == MAX_STORED_BYTES


# --- Hypothesis chooses -----------------------------------------------------------------------------------------------

# A quota that a few writes fill.
QUOTA, LARGEST = 300_000, 40_000
SMALL = Bounds(bytes=2 * QUOTA - 2 * (LARGEST + OVERHEAD_BYTES))


def put(store: BaseStore, path: str, text: str | None, bounds: Bounds = SMALL, quota: int = QUOTA) -> bool:
    """Write a file within the quota, or delete it; whether that was not refused."""

    def room(items: Sequence[Item], file: FileData) -> None:
        check_room(items, path, len(file["content"].encode()), quota)

    file = None if text is None else create_file_data(text)
    try:
        carry_out(store, Journal(LoggedFile(FILES, path, bounds=bounds)).change(lambda _: file, Author("agent"), room))
    except RefusedWriteError:
        return False
    return True


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 9), st.integers(0, LARGEST)),
        st.tuples(st.just("delete"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("outside"), st.integers(0, 9), st.integers(0, LARGEST)),
    ),
    max_size=80,
)


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(steps=STEPS)
def test_whatever_is_written_all_texts_take_twice_the_quota_at_most(
    steps: list[tuple[str, int, int]],
) -> None:
    """Whatever is written and deleted, all texts take twice the quota at most, and the newest are there."""
    check_steps(InMemoryStore(), steps)


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
            if put(store, path, text):
                expected[path] = text
                written.add(path)
        elif kind == "delete":
            if store.get(FILES, path):
                put(store, path, None)
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


def test_a_clock_that_was_once_ahead_refuses_no_new_file_for_good() -> None:
    store, bounds, ahead = InMemoryStore(), Bounds(deleted_files=2), datetime.now(UTC) + timedelta(days=400)

    def put_ahead(*texts: tuple[str, str | None]) -> None:
        for path, text in texts:
            file = LoggedFile(FILES, path, clock=lambda: ahead, bounds=bounds)
            change = lambda _, text=text: create_file_data(text) if text else None  # noqa: E731
            carry_out(store, Journal(file).change(change, Author("agent")))

    put_ahead(("/kept.md", "kept"))
    with pytest.raises(RefusedWriteError, match="Too many files were deleted here"):
        put_ahead(*((f"/{number}.md", text) for number in range(10) for text in ("x", None)))
    assert put(store, "/new.md", "new", bounds)


def check_bounds(store: BaseStore) -> None:
    texts = [item.value["content"] for item in store.search(FILES, limit=1_000)]
    blocks = [item.value["revision"] for item in store.search(namespaces.journals(FILES), limit=1_000) if "slot" in item.value]
    texts += [block["content"] or "" for block in blocks if block]
    assert sum(map(len, texts)) <= 2 * QUOTA


@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_anywhere_nothing_is_lost_and_the_next_write_makes_the_room(carried_out: bool) -> None:
    """A writer is stopped before or after each of its batches, in a store in which something has to go."""
    for stop in range(1, 60):
        store = InMemoryStore()
        for number in range(14):
            put(store, f"/{number % 4}.md", f"{number}" * 18_000)
        expected = {item.key: item.value["content"] for item in store.search(FILES, limit=100)}
        steps = Journal(LoggedFile(FILES, "/0.md", bounds=SMALL)).change(
            lambda _: create_file_data("n" * LARGEST), Author("agent")
        )
        ended = run_until(store, steps, stop, carried_out=carried_out)
        for path, text in expected.items():
            newest = history(store, path)[0].content
            assert newest == text or (path == "/0.md" and newest == "n" * LARGEST)
        put(store, "/1.md", "after")
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


# --- Data of version 0.1 ----------------------------------------------------------------------------------------------


def as_version_0_1(store: BaseStore) -> None:
    """Take from files and journals what version 0.1 did not write."""
    for item in store.search((), limit=1_000):
        store.put(item.namespace, item.key, {k: v for k, v in item.value.items() if k not in {"written", "path", "deleted"}})


@pytest.mark.parametrize("there", [False, True])
async def test_what_version_0_1_kept_without_end_goes_with_the_next_write(store: BaseStore, there: bool) -> None:
    text, bound = LARGE, Bounds().bytes
    if there:
        await files(store).awrite("/kept.md", "kept")
    for number in range(34):
        for content in (text, None):
            await asyncio.to_thread(put, store, f"/{number}.md", content, Bounds(bytes=4 * bound), MAX_MEMORY_BYTES)
    await asyncio.to_thread(as_version_0_1, store)
    assert size(everything(store)) > bound
    assert not (await files(store).awrite("/new.md", "new")).error
    assert size(everything(store)) <= bound / 4
    assert [revision.content for revision in history(store, "/33.md")] == [None, text]
    assert not (await files(store).awrite("/0.md", "again")).error
    assert [revision.content for revision in history(store, "/0.md")] == ["again", None]


# --- At the level of the server ---------------------------------------------------------------------------------------


@pytest.mark.server
async def test_through_the_server_one_stores_twice_the_quota_at_most(server: DevServer, alice: str) -> None:
    """Who writes and deletes through the server again and again stores twice the quota at most."""
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
    operator, items, page = server.as_operator(), list[Any](), list[Any]()
    person = namespaces.memories(identity.Actor(alice, "acme"), "", Settings())
    for prefix in (person, namespaces.journals(person), namespaces.unsettled(person)):
        read = 0
        while page := (await operator.store.search_items(prefix, limit=200, offset=read))["items"]:
            items, read = [*items, *page], read + len(page)
    assert sum(len(json.dumps(item["value"]).encode()) for item in items) <= MAX_STORED_BYTES
