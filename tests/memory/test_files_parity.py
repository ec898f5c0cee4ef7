"""`ScopedFiles` beside deepagents' own `StoreBackend`: the same calls, the same results and errors, the same files.

What is different on purpose is at the end, each by its name; so is what a caller is told instead of an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from deepagents.middleware.filesystem import FilesystemMiddleware
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.store.base import Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

from memory.files import ScopedFiles
from memory.identity import Author
from tests.memory.parity import (
    CASES,
    FILES,
    LEGACY,
    PNG,
    Call,
    call,
    files,
    ours,
    outcome,
    plain,
    played,
)


@pytest.mark.parametrize("case", CASES)
async def test_the_same_calls_have_the_same_results_and_leave_the_same_files(case: str) -> None:
    assert await played(ours, *CASES[case]) == await played(plain, *CASES[case])


PATHS = st.sampled_from(["/a.md", "/a.md/b.md", "/d/a.md", "/d/e/b.py", "/d/e/c.txt", "/[d]/*.md", "/größe 📏.md", "/x.png"])
FOLDERS = PATHS | st.sampled_from(["/", "/d", "/d/", "/d/e", "/missing", "/*"])
WORDS = st.sampled_from(["", "a", "b\n", "a b", "a\r\nb", "é📏", "(a", "\t", "x\u2028y\n"])
TEXTS = st.lists(WORDS, max_size=4).map("".join)
PATTERNS = st.sampled_from(["*", "**", "*.md", "**/*.md", "/d/*", "d/**", "[ab].*", "?", "[", "{a,b}.md", "missing"])
BOUNDS = st.integers(-2, 5)
CALLS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("edit"), PATHS, WORDS, WORDS, st.booleans()),
    st.tuples(st.just("read"), FOLDERS, BOUNDS, BOUNDS),
    st.tuples(st.just("delete"), FOLDERS.filter(lambda path: path != "/" and not path.endswith("d/"))),
    st.tuples(st.just("ls"), FOLDERS),
    st.tuples(st.just("glob"), PATTERNS, st.none() | FOLDERS),
    st.tuples(st.just("grep"), WORDS, st.none() | FOLDERS, st.none() | PATTERNS),
    st.tuples(st.just("upload_files"), st.lists(st.tuples(PATHS, TEXTS.map(str.encode) | st.just(PNG)), max_size=3)),
    st.tuples(st.just("download_files"), st.lists(FOLDERS, max_size=3)),
)


@hypothesis_settings(max_examples=150, deadline=None, derandomize=True)
@given(calls=st.lists(CALLS, max_size=12))
def test_any_calls_have_the_same_results_and_leave_the_same_files(calls: list[Call]) -> None:
    """Any calls, one after the other, have the same results and leave the same files."""

    async def compared() -> None:
        assert await played(ours, {}, calls) == await played(plain, {}, calls)

    asyncio.run(compared())


async def test_times_are_kept_as_the_plain_backend_keeps_them() -> None:
    for build in (plain, ours):
        store = InMemoryStore()
        store.put(FILES, "/a.md", dict(LEGACY))
        await call(build(store), "edit", ("/a.md", "two", "2"))
        item = store.get(FILES, "/a.md")
        assert item
        assert item.value["created_at"] == LEGACY["created_at"]
        assert item.value["modified_at"] > LEGACY["modified_at"]


# --- Namespaces -------------------------------------------------------------------------------------------------------


def unknown(_: Any) -> Any:
    raise KeyError("user_id")


NAMESPACES: dict[str, Callable[[Any], Any]] = {
    "nobody is known": unknown,
    "of the run": lambda runtime: (runtime.server_info.user.identity, "files"),
    "a wildcard": lambda _: ("files", "*"),
    "a character of no namespace": lambda _: ("files", "a b"),
    "empty": lambda _: (),
    "an empty part": lambda _: ("files", ""),
    "no text": lambda _: ("files", 7),
    "of one part": lambda _: ("files",),
    "of many": lambda _: ("workspace", "ws-123", "user", "bob+x@acme", "a:b~c"),
}
EVERY_METHOD: list[Call] = [
    ("write", "/a.md", "x"),
    ("edit", "/a.md", "x", "y"),
    ("read", "/a.md"),
    ("ls", "/"),
    ("grep", "y"),
    ("glob", "*"),
    ("upload_files", [("/b.md", b"x")]),
    ("upload_files", []),
    ("download_files", ["/a.md"]),
    ("download_files", []),
    ("delete", "/a.md"),
]


@pytest.mark.parametrize("name", NAMESPACES)
async def test_a_namespace_that_cannot_be_used_is_raised_by_every_method(name: str) -> None:
    """A namespace that cannot be used is raised by every method before anything is written."""
    theirs, own = InMemoryStore(), InMemoryStore()
    for method, *args in EVERY_METHOD:
        expected = await outcome(plain(theirs, NAMESPACES[name]), method, tuple(args))
        assert await outcome(ours(own, NAMESPACES[name]), method, tuple(args)) == expected
    written = {item.namespace for item in theirs.search((), limit=9)}
    assert written == {item.namespace for item in own.search((), limit=99) if item.namespace[0] in {"files", "workspace"}}


async def test_the_error_of_a_namespace_says_what_theirs_says() -> None:
    for name in ("of the run", "a wildcard", "empty", "no text"):
        with pytest.raises((RuntimeError, ValueError, TypeError)) as expected:
            await plain(InMemoryStore(), NAMESPACES[name]).awrite("/a.md", "x")
        with pytest.raises(expected.type) as raised:
            await ours(InMemoryStore(), NAMESPACES[name]).awrite("/a.md", "x")
        assert str(raised.value) == str(expected.value)


def test_a_namespace_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="namespace"):
        ScopedFiles(gate=lambda: None, route="", author=lambda: Author("agent"), store=InMemoryStore())  # type: ignore[call-arg]


async def test_two_namespaces_of_one_store_share_nothing() -> None:
    store = InMemoryStore()
    alice, bob = (ours(store, lambda _, user=user: ("files", user)) for user in ("alice", "bob"))  # type: ignore[misc]
    for backend, text in ((alice, "of alice"), (bob, "of bob")):
        await call(backend, "write", ("/notes.md", text))
    assert "of alice" in str(await call(alice, "read", ("/notes.md",)))
    assert "of bob" in str(await call(bob, "read", ("/notes.md",)))
    assert len(store.search(("files", "alice"))) == 1
    await call(alice, "delete", ("/notes.md",))
    assert "of bob" in str(await call(bob, "grep", ("of",)))


# --- What middleware stores -------------------------------------------------------------------------------------------


async def test_a_large_result_of_a_tool_is_kept_as_a_file() -> None:
    """A large result of a tool is kept as a file, and the rest of its message is not lost."""
    message = ToolMessage(
        "y" * 5000,
        tool_call_id="call_7",
        name="report",
        id="m7",
        artifact={"kind": "structured"},
        status="error",
        additional_kwargs={"trace": "abc"},
        response_metadata={"provider": "made-up"},
    )
    request = ToolCallRequest({"name": "report", "args": {}, "id": "call_7", "type": "tool_call"}, None, {}, None)  # type: ignore[arg-type]

    async def given_back(_: ToolCallRequest) -> ToolMessage:
        return message

    results = []
    for build in (plain, ours):
        store = InMemoryStore()
        middleware = FilesystemMiddleware(backend=build(store), tool_token_limit_before_evict=1000)
        result = await middleware.awrap_tool_call(request, given_back)
        item = store.get(FILES, "/large_tool_results/call_7")
        assert item
        assert item.value["content"] == message.content
        results.append(result)
    assert results[0] == results[1]
    assert "too large" in str(results[1])


# --- A value that is no file ------------------------------------------------------------------------------------------

ONE_FILE: list[Call] = [("read", "/odd.md"), ("write", "/odd.md", "x"), ("edit", "/odd.md", "a", "b")]


@pytest.mark.parametrize("value", [{"content": 7}, {"content": ["a", 1]}, {"content": None}, {}])
async def test_a_malformed_value_is_in_nobody_s_way(value: dict[str, Any]) -> None:
    """What lists and searches leaves it out, also where theirs would raise a `TypeError`; it can be deleted."""
    calls: list[Call] = [("ls", "/"), ("grep", "find"), ("glob", "*.md"), ("edit", "/good.md", "find", "found")]
    without, _ = await played(plain, files(good="find me"), calls)
    with_it, _ = await played(ours, files(odd=value, good="find me"), calls)
    assert with_it == without
    _, left = await played(ours, files(odd=value, good="find me"), [("delete", "/odd.md")])
    assert [*left] == ["/good.md"]


@pytest.mark.parametrize("value", [
    {"content": 7}, {"content": None}, {}, {"content": ["a", 1]}, {"content": {"a": "b"}}, {"content": "x", "encoding": "?"},
    {"content": "x", "encoding": {}},
])  # fmt: skip
async def test_a_value_that_is_no_file_is_an_error_of_its_own(value: dict[str, Any]) -> None:
    """Where the plain backend raises or is misled, ours says so: an exception would end the run."""
    store = InMemoryStore()
    store.put(FILES, "/odd.md", value)
    store.put(FILES, "/good.md", {**create_file_data("good")})
    for name, *args in [("read", "/odd.md"), ("write", "/odd.md", "x"), ("edit", "/odd.md", "a", "b")]:
        _, result = await call(ours(store), name, tuple(args))
        assert "not a file" in result["error"]
    (_, result), (_, good) = await call(ours(store), "download_files", (["/odd.md", "/good.md"],))
    assert "not a file" in result["error"]
    assert good["content"] == b"good"
    item = store.get(FILES, "/odd.md")
    assert item
    assert item.value == value


async def test_a_namespace_that_cannot_be_told_is_an_error_at_once() -> None:
    """A namespace that cannot be told is an error before anything is written."""

    def nobody(_: Any) -> tuple[str, ...]:
        raise KeyError("user_id")

    store = InMemoryStore()
    backend = ScopedFiles(namespace=nobody, gate=lambda: None, route="", author=lambda: Author("agent"), store=store)
    with pytest.raises(KeyError):
        await call(backend, "write", ("/a.md", "x"))
    assert store.search(()) == []


# --- Different on purpose ---------------------------------------------------------------------------------------------


class Recorded(InMemoryStore):
    """A store that keeps the operations it was given, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Op]] = []

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        self.batches.append([*ops])
        return super().batch(self.batches[-1])

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.batches.append([*ops])
        return await super().abatch(self.batches[-1])

    def deletions(self) -> list[list[str]]:
        """The files that were deleted, batch by batch."""
        deleted = [
            [op.key for op in ops if isinstance(op, PutOp) and op.namespace == FILES and op.value is None]
            for ops in self.batches
        ]
        return [keys for keys in deleted if keys]


@pytest.mark.parametrize("path", ["*", "a.md", "", "/", "/d/", "//a.md", "/./a.md", "/d/../a.md", "/a\\b.md", "/a\x00b.md"])
async def test_a_wildcard_alone_is_no_path_and_neither_is_another_spelling(path: str) -> None:
    """`StoreBackend` takes any text for a key. Here a file has one spelling, beginning with a slash."""
    values = {"/a.md": {**create_file_data("a")}, "/d/a.md": {**create_file_data("d")}}
    calls: list[Call] = [("write", path, "x"), ("edit", path, "a", "b"), ("delete", path), ("upload_files", [(path, b"x")])]
    results, left = await played(ours, values, calls)
    assert all("rror" in str(result) for result in results)
    assert (await played(ours, values, []))[1] == left


async def test_a_folder_is_deleted_file_by_file() -> None:
    """Each file has a journal of its own; `StoreBackend` deletes a folder's files in one batch.

    What that is for, that nothing beside them is touched, holds here as well.
    """
    deletions = []
    for build in (plain, ours):
        store = Recorded()
        for path in ("/work/a.txt", "/work/sub/b.txt", "/keep.txt"):
            await call(build(store), "write", (path, "x"))
        await call(build(store), "delete", ("/work",))
        deletions.append(store.deletions())
    assert deletions == [[["/work/a.txt", "/work/sub/b.txt"]], [["/work/a.txt"], ["/work/sub/b.txt"]]]


async def test_an_upload_does_not_replace_what_is_no_file_unseen() -> None:
    values = files(odd={"content": 7})
    (((_, uploaded),),), left = await played(ours, values, [("upload_files", [("/odd.md", b"x")])])
    assert "not a file" in uploaded["error"]
    assert left["/odd.md"][0] == 7


async def test_an_encoding_that_there_is_not_is_no_file() -> None:
    """`StoreBackend` shows its content as text."""
    results, _ = await played(ours, files(odd={"content": "x", "encoding": "?"}), [*ONE_FILE])
    assert "not a file" in results[0][1]["error"]
    assert "not a file" in results[1][1]["error"]


def test_methods_that_do_not_await_write_nothing_around_the_journal() -> None:
    store = InMemoryStore()
    for method, *args in EVERY_METHOD:
        if method in {"write", "edit", "delete", "upload_files", "download_files"}:
            with pytest.raises(NotImplementedError, match="await awrite"):
                getattr(ours(store), method)(*args)
    assert store.search(()) == []
