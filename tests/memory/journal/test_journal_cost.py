"""What the journal costs in store operations, who its history says it was, and where it works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from deepagents.backends import StoreBackend
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

from memory import namespaces
from memory.files import ScopedFiles
from memory.identity import DEFAULT_AGENT_ASSISTANT, Author
from memory.journal.log import Journal
from memory.journal.revisions import LoggedFile, Revision
from memory.journal.runners import acarry_out
from settings import MAX_FILE_BYTES, MAX_MEMORY_FILES, MAX_PATH_BYTES, Settings
from testing.hostile import skill
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph

FILES = ("memories", "acme:alice")


class Counting(InMemoryStore):
    """Counts every operation of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        self.ops += (batch := list(ops))
        return super().batch(batch)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.ops += (batch := list(ops))
        return await super().abatch(batch)


def plain(store: BaseStore) -> StoreBackend:
    return StoreBackend(namespace=lambda _: FILES, store=store)


def ours(store: BaseStore) -> StoreBackend:
    return ScopedFiles(
        namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: Author("agent"), store=store
    )


async def counted(build: Any, *calls: tuple[Any, ...]) -> int:
    """Operations of the last call."""
    store = Counting()
    for name, *args in calls:
        store.ops.clear()
        await getattr(build(store), name)(*args)
    return len(store.ops)


WRITTEN = ("awrite", "/a.md", "one two")


@pytest.mark.parametrize("calls", [
    [WRITTEN, ("aedit", "/a.md", "one", "1")],
    [WRITTEN, ("aedit", "/a.md", "missing", "1")],
    [WRITTEN, WRITTEN],
    [WRITTEN],
    [WRITTEN, ("adelete", "/a.md")],
])  # fmt: skip
async def test_a_write_that_meets_nobody_takes_few_operations(calls: Any) -> None:
    """A write that meets nobody takes three times the plain backend's operations, and one."""
    assert await counted(ours, *calls) <= 3 * await counted(plain, *calls) + 1


@pytest.mark.parametrize("call", [
    ("aread", "/a.md"), ("als", "/"), ("agrep", "one"), ("aglob", "*.md"), ("adownload_files", ["/a.md"]),
])  # fmt: skip
async def test_reading_takes_what_it_takes_the_plain_backend(call: Any) -> None:
    assert await counted(ours, WRITTEN, call) == await counted(plain, WRITTEN, call)


async def test_the_fiftieth_edit_takes_no_more_than_the_first_but_for_compaction() -> None:
    store, counts = Counting(), []
    await ours(store).awrite("/a.md", "")
    for _ in range(120):
        store.ops.clear()
        await ours(store).aedit("/a.md", "", "")
        await ours(store).awrite("/a.md", "x")
        counts.append(len(store.ops))
    assert counts[0] == min(counts)
    assert sorted(counts)[len(counts) * 9 // 10] == counts[0]
    assert len(store.search(namespaces.journals(FILES), limit=1_000)) < 100


async def test_who_has_written_much_pays_two_operations_more_for_an_edit() -> None:
    """Who has written much pays two operations more for an edit, and a count now and then."""
    store, counts = Counting(), []
    await ours(store).awrite("/b.md", "b")
    for number in range(100):
        store.ops.clear()
        await ours(store).awrite("/a.md", f"{number}" + "x" * 200_000)
        await ours(store).awrite("/b.md", f"{number}")
        counts.append(len(store.ops))
    first, usual = counts[1], sorted(counts)[len(counts) * 8 // 10]
    assert (first, usual <= first + 2 * 2) == (2 * 6, True)
    assert sum(counts) <= len(counts) * (first + 6)


# --- Who --------------------------------------------------------------------------------------------------------------


async def history(store: BaseStore, namespace: tuple[str, ...], path: str) -> list[Revision]:
    revisions: list[Revision] = await acarry_out(store, Journal(LoggedFile(namespace, path)).history())
    return revisions


def write(path: str, content: str = "x") -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


async def test_history_says_who_wrote_and_in_which_thread(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    """History says which graph or subagent wrote, and in which thread."""
    task = ToolCall("task", {"description": "helper, note it", "subagent_type": "general-purpose"})
    model.script("note it yourself", [write("/memories/a.md", "1")], [Text("done")])
    await graph().turn("note it yourself", thread="t1")
    model.script("let somebody note it", [task], [Text("done")])
    model.script("helper, note it", [write("/memories/a.md", "2")], [Text("noted")])
    await graph().turn("let somebody note it", thread="t2")
    revisions = await history(store, FILES, "/a.md")
    assert [(revision.content, revision.author.kind, revision.author.user_id) for revision in revisions] == [
        ("2", "subagent", "alice"),
        ("1", "agent", "alice"),
    ]
    assert [revision.author.thread_id for revision in revisions] == ["t2", "t1"]


async def test_every_writing_tool_leaves_one_revision_with_its_author(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    calls = [
        [write("/memories/a.md", "one")],
        [ToolCall("edit_file", {"file_path": "/memories/a.md", "old_string": "one", "new_string": "two"})],
        [ToolCall("append_memory", {"path": "/memories/a.md", "text": "three"})],
        [ToolCall("delete", {"file_path": "/memories/a.md"})],
    ]
    model.script("go", *calls, [Text("done")])
    await graph().turn("go")
    revisions = await history(store, FILES, "/a.md")
    assert [revision.content for revision in revisions] == [None, "two\nthree\n", "two", "one"]
    assert {(revision.author.kind, revision.author.thread_id) for revision in revisions} == {("agent", "1")}
    assert store.get(FILES, "/a.md") is None


async def test_writes_of_skills_have_a_history_too(graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script("teach", [write("/skills/letters/SKILL.md", skill())], [Text("done")])
    await graph(Settings(shared_writes="allow")).turn("teach")
    (revision,) = await history(store, ("skills", DEFAULT_AGENT_ASSISTANT), "/letters/SKILL.md")
    assert (revision.content, revision.author.user_id) == (skill(), "alice")


# --- Where it runs ------------------------------------------------------------------------------------------------------


class Cancelling(InMemoryStore):
    """Cancels its caller before or after a batch, as a run that is cancelled in the middle of a write."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.carried_out = -1, False

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.left -= 1
        if self.left == 0 and not self.carried_out:
            raise asyncio.CancelledError
        results = await super().abatch(ops)
        if self.left == 0:
            raise asyncio.CancelledError
        return results


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("after", range(1, 7))
async def test_a_write_that_is_cancelled_anywhere_is_whole_or_not_there(after: int, carried_out: bool) -> None:
    """A write that is cancelled anywhere is whole or not there, and holds nobody up."""
    store = Cancelling()
    await ours(store).awrite("/a.md", "one\n")
    store.left, store.carried_out = after, carried_out
    with pytest.raises(asyncio.CancelledError):
        await ours(store).aedit("/a.md", "one", "one and two")
    store.left = -1
    assert not (await ours(store).aedit("/a.md", "one", "1")).error
    assert (await history(store, FILES, "/a.md"))[0].content in {"1\n", "1 and two\n"}
    assert store.get(FILES, "/a.md").value["content"] == (await history(store, FILES, "/a.md"))[0].content  # type: ignore[union-attr]


class OneAtATime(InMemoryStore):
    """As a database does it. langgraph's own fails where one thread searches while another puts."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        with self._lock:
            return super().batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)


async def test_threads_and_tasks_that_write_one_file_at_once_lose_nothing() -> None:
    store = OneAtATime()
    await ours(store).awrite("/a.md", "<top>\n")
    tags = [f"<{number}>" for number in range(24)]
    results = await asyncio.gather(
        *(ours(store).aedit("/a.md", "<top>\n", f"<top>\n{tag}\n") for tag in tags[:12]),
        *(asyncio.to_thread(asyncio.run, ours(store).aedit("/a.md", "<top>\n", f"<top>\n{tag}\n")) for tag in tags[12:]),
    )
    assert [result.error for result in results] == [None] * len(tags)
    item = store.get(FILES, "/a.md")
    assert item
    assert sorted(item.value["content"].split()) == sorted(["<top>", *tags])


@pytest.mark.parametrize(
    "path", ["/größe 📏.md", "/a%b_c*[d]?.md", "/a'; DROP TABLE store;--.md", "/" + "x" * (MAX_PATH_BYTES - 1)]
)
async def test_any_name_and_the_largest_file_have_a_history(store: BaseStore, path: str) -> None:
    large = "é" * (MAX_FILE_BYTES // 2)
    assert not (await ours(store).awrite(path, large)).error
    assert not (await ours(store).awrite(path, "small")).error
    assert [revision.content for revision in await history(store, FILES, path)] == ["small", large]


async def test_with_as_many_files_as_there_may_be_each_can_be_written(store: BaseStore) -> None:
    await store.abatch([PutOp(FILES, f"/{number}.md", {**create_file_data("x")}) for number in range(MAX_MEMORY_FILES)])
    assert not (await ours(store).aedit("/499.md", "x", "y")).error
    assert [revision.content for revision in await history(store, FILES, "/499.md")] == ["y", "x"]
