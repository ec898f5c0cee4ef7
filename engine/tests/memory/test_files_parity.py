"""`ScopedFiles` beside deepagents' own `StoreBackend`: the same calls, the same results and errors, the same files.

What is different on purpose is at the end.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from deepagents.backends import StoreBackend
from deepagents.backends.utils import create_file_data
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.files.backends import ScopedFiles
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.validation import MAX_PATH_BYTES

FILES = ("memories", "acme:alice")
# What is in the store before the calls.
VALUES: dict[str, dict[str, Any]] = {
    "/a.md": {**create_file_data("one\ntwo\nthree\nfour\nfive\n")},
    "/crlf.md": {**create_file_data("a\r\nb\r\n")},
    "/d/e/b.py": {**create_file_data("def __init__(self):\n    x = r'[a-z]+' if y | z else '(.*)'")},
    "/d/empty.md": {**create_file_data("")},
    "/binary.png": {"content": "iVBORw==", "encoding": "base64"},
}
Call = tuple[Any, ...]
Build = Callable[..., StoreBackend]


def plain(store: BaseStore, namespace: Callable[[Any], Any] = lambda _: FILES) -> StoreBackend:
    return StoreBackend(namespace=namespace, store=store)


def ours(store: BaseStore, namespace: Callable[[Any], Any] = lambda _: FILES) -> ScopedFiles:
    return ScopedFiles(
        deployment=deployed(), namespace=namespace, route="/memories", author=lambda: Author("agent"), store=store
    )


def bare(value: Any) -> Any:
    """A result without the times in it, and without the order in which a store gives what it finds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, bare({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key not in {"created_at", "modified_at"}}
    return sorted(map(bare, value), key=repr) if isinstance(value, list) else value


async def outcome(backend: StoreBackend, name: str, *args: Any) -> Any:
    """The result, or which error a caller that knows `StoreBackend` would catch. Named arguments are in a last dictionary."""
    named = args[-1] if args and isinstance(args[-1], dict) else {}
    try:
        return bare(await getattr(backend, f"a{name}")(*args[: len(args) - bool(named)], **named))
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        return next(kind.__name__ for kind in (TypeError, ValueError, KeyError, RuntimeError) if isinstance(error, kind))


async def played(build: Build, values: dict[str, Any], calls: Iterable[Call]) -> tuple[list[Any], dict[str, tuple[Any, ...]]]:
    """What calls returned or raised, and the files in the store afterwards."""
    store = InMemoryStore()
    for key, value in values.items():
        store.put(FILES, key, dict(value))
    results = [await outcome(build(store), *call) for call in calls]
    kept = {item.key: (item.value.get("content"), item.value.get("encoding")) for item in store.search(FILES, limit=100)}
    return results, kept


PATHS = st.sampled_from([*sorted(VALUES), "/a.md/b.md", "/[d]/*.md", "/größe 📏.md", "/clip.mkv", "/missing.md"])
FOLDERS = PATHS | st.sampled_from(["/", "/d", "/d/", "/d/e", "/*"])
WORDS = st.sampled_from(
    ["", "a", "b\n", "two\nthree", "a\r\nb", "é📏", "[a", "(.*)", "x | y", "__init__(", "\t", "x\u2028y\n", "iVB"]
)
TEXTS = st.lists(WORDS, max_size=4).map("".join)
PATTERNS = st.sampled_from(["*", "**", "*.md", "**/*.md", "/d/*", "d/**", "[ab].*", "?", "[", "{a,b}.md", "missing"])
BOUNDS = st.integers(-3, 9)
CALLS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("edit"), PATHS, WORDS, WORDS, st.booleans()),
    st.tuples(st.just("read"), FOLDERS, BOUNDS, BOUNDS),
    st.tuples(st.just("delete"), FOLDERS.filter(lambda path: not path.endswith("/"))),
    st.tuples(st.just("ls"), FOLDERS),
    st.tuples(st.just("glob"), PATTERNS, st.none() | FOLDERS),
    st.tuples(st.just("grep"), WORDS, st.none() | FOLDERS, st.none() | PATTERNS, st.builds(dict, max_count=st.integers(0, 3))),
    st.tuples(st.just("download_files"), st.lists(FOLDERS, max_size=3)),
)


@hypothesis_settings(max_examples=250, deadline=None, derandomize=True)
@given(calls=st.lists(CALLS, max_size=12))
@example(calls=[*(("read", path) for path in VALUES), ("ls", "/"), ("download_files", sorted(VALUES))])
@example(calls=[("delete", "/d"), ("ls", "/"), ("write", "/d/e/b.py", "again"), ("read", "/d/e/b.py")])
def test_any_calls_have_the_same_results_and_leave_the_same_files(calls: list[Call]) -> None:
    async def compared() -> None:
        assert await played(ours, VALUES, calls) == await played(plain, VALUES, calls)

    asyncio.run(compared())


@pytest.mark.parametrize("value", [
    {"content": 7}, {"content": None}, {}, {"content": ["a", 1]}, {"content": "x", "encoding": "?"},
    {"content": "x", "encoding": {}},
])  # fmt: skip
async def test_a_value_that_is_no_file_is_an_error_of_its_own_and_in_nobody_s_way(value: dict[str, Any]) -> None:
    """Where the plain backend raises or is misled, ours says so: an exception would end the run."""
    good = {"/good.md": {**create_file_data("find me")}}
    calls: list[Call] = [("ls", "/"), ("grep", "find"), ("glob", "*.md"), ("edit", "/good.md", "find", "found")]
    assert (await played(ours, {**good, "/odd.md": value}, calls))[0] == (await played(plain, good, calls))[0]
    calls = [("read", "/odd.md"), ("write", "/odd.md", "x"), ("edit", "/odd.md", "a", "b")]
    calls += [("download_files", ["/odd.md"])]
    results, left = await played(ours, {**good, "/odd.md": value}, calls)
    assert all("not a file" in str(result) for result in results)
    assert left["/odd.md"] == (value.get("content"), value.get("encoding"))
    assert [*(await played(ours, {**good, "/odd.md": value}, [("delete", "/odd.md")]))[1]] == ["/good.md"]


@pytest.mark.parametrize("path", [
    *("*", "a.md", "", "/", "/d/", "//a.md", "/./a.md", "/d/../a.md", "/..", "/a\\b.md", "/a\x00b.md", "/a.md\n"),
    *("/\ud800.md", "/\ufffd.md", "/" + "é" * (MAX_PATH_BYTES // 2)),
])  # fmt: skip
async def test_a_file_has_one_spelling_that_begins_with_a_slash(path: str) -> None:
    calls: list[Call] = [("write", path, "x"), ("edit", path, "a", "b"), ("delete", path)]
    results, left = await played(ours, VALUES, calls)
    assert all("rror" in str(result) for result in results)
    assert (await played(ours, VALUES, []))[1] == left


def test_methods_that_do_not_await_write_nothing_around_the_journal() -> None:
    store = InMemoryStore()
    for method in ("write", "edit", "delete", "upload_files", "download_files"):
        with pytest.raises(NotImplementedError, match="await awrite"):
            getattr(ours(store), method)("/a.md")
    assert store.search(()) == []
