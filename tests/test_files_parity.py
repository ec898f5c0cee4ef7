"""`ScopedFiles` beside deepagents' own `StoreBackend`: the same calls, the same results and errors, the same files."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from deepagents.backends import StoreBackend
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory.files import ScopedFiles
from memory.scopes import Author

FILES = ("memories", "acme:alice")
PNG = b"\x89PNG\r\n\xff\x00"
TEXT = "one\ntwo\nthree\nfour\nfive\n"
TREE = {
    "/config.json": "{}",
    "/docs/readme.md": "read me, import nothing",
    "/docs/api/reference.md": "reference",
    "/src/main.py": "import os\nimport sys\n",
    "/src/lib/helper.py": "import sys",
    "/src2/main.py": "another folder with the same beginning",
    "/[a]*?.md": "special",
    "/umlaut/größe 📏.md": "Größe",
}

Call = tuple[Any, ...]
Build = Callable[[BaseStore], StoreBackend]


def plain(store: BaseStore) -> StoreBackend:
    return StoreBackend(namespace=lambda _: FILES, store=store)


def ours(store: BaseStore) -> StoreBackend:
    return ScopedFiles(
        namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: Author("agent"), store=store
    )


def files(**content: Any) -> dict[str, Any]:
    """Values of the store; the names are keys without the slash and the ending."""
    return {f"/{name}.md": value if isinstance(value, dict) else {**create_file_data(value)} for name, value in content.items()}


LEGACY = {"content": ["one", "two"], "created_at": "2025-01-01T00:00:00+00:00", "modified_at": "2025-01-01T00:00:00+00:00"}
BINARY = {"content": "iVBORw==", "encoding": "base64"}
# What is in the store, and what is called then, one after the other.
CASES: dict[str, tuple[dict[str, Any], list[Call]]] = {
    "write, and read back": ({}, [("write", "/a.md", TEXT), ("read", "/a.md")]),
    "write over a file": (files(a="old"), [("write", "/a.md", "new"), ("read", "/a.md")]),
    "write over binary": (files(a=BINARY), [("write", "/a.md", "text"), ("read", "/a.md")]),
    "write nothing": ({}, [("write", "/a.md", ""), ("read", "/a.md"), ("ls", "/")]),
    "write text of all kinds": (
        {},
        [("write", "/a.md", "é 📏 \r\n\t\u2028 end"), ("read", "/a.md"), ("download_files", ["/a.md"])],
    ),
    "write below a file": (files(a="x"), [("write", "/a.md/b.md", "y"), ("ls", "/"), ("read", "/a.md/b.md")]),
    "edit": (files(a="hello store"), [("edit", "/a.md", "hello", "hi"), ("read", "/a.md")]),
    "edit what is not there": (files(a="x"), [("edit", "/missing.md", "a", "b"), ("edit", "/a.md", "missing", "b")]),
    "edit with several places": (
        files(a="foo bar foo"),
        [("edit", "/a.md", "foo", "x"), ("edit", "/a.md", "foo", "x", True), ("edit", "/a.md", "bar", "y"), ("read", "/a.md")],
    ),
    "edit several lines": (files(a=TEXT), [("edit", "/a.md", "two\nthree", "2\n3"), ("read", "/a.md")]),
    "edit to nothing": (files(a="x"), [("edit", "/a.md", "x", ""), ("read", "/a.md")]),
    "edit nothing": (files(a="x", e=""), [("edit", "/a.md", "", "y"), ("edit", "/e.md", "", "y"), ("read", "/e.md")]),
    "edit without a change": (files(a="x"), [("edit", "/a.md", "x", "x"), ("read", "/a.md")]),
    "edit other line ends": (files(a="a\r\nb\r\n"), [("edit", "/a.md", "a\nb", "c"), ("read", "/a.md")]),
    "edit binary": (files(a=BINARY), [("edit", "/a.md", "iVB", "x"), ("edit", "/a.md", "missing", "x")]),
    "edit a legacy file": (files(a=LEGACY), [("edit", "/a.md", "two", "2"), ("read", "/a.md")]),
    "read what is not there": ({}, [("read", "/missing.md"), ("read", "/")]),
    "read from a line on": (
        files(a=TEXT),
        [
            ("read", "/a.md", 1),
            ("read", "/a.md", 1, 2),
            ("read", "/a.md", 4, 9),
            ("read", "/a.md", 99),
            ("read", "/a.md", 0, 0),
        ],
    ),
    "read an empty file": (files(a=""), [("read", "/a.md"), ("read", "/a.md", 3)]),
    "read binary": ({}, [("upload_files", [("/a.png", PNG)]), ("read", "/a.png")]),
    "read a legacy file": (files(a=LEGACY), [("read", "/a.md"), ("ls", "/"), ("grep", "two"), ("download_files", ["/a.md"])]),
    "upload and download": (
        files(old="x"),
        [
            ("upload_files", [("/a.md", b"text"), ("/b.png", PNG), ("/old.md", b"new"), ("/empty.md", b"")]),
            ("download_files", ["/b.png", "/missing.md", "/a.md", "/old.md", "/empty.md"]),
            ("ls", "/"),
        ],
    ),
    "upload and download nothing": ({}, [("upload_files", []), ("download_files", [])]),
    "delete a file": (files(a="x", b="y"), [("delete", "/a.md"), ("read", "/a.md"), ("delete", "/a.md"), ("ls", "/")]),
    "delete a folder": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [("delete", "/src"), ("ls", "/"), ("glob", "**/*.py"), ("delete", "/docs/api"), ("ls", "/docs"), ("delete", "/doc")],
    ),
    "delete by a pattern": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [("delete", "/*"), ("delete", "/[a]*?.md"), ("ls", "/")],
    ),
    "delete, then write again": (files(a="x"), [("delete", "/a.md"), ("write", "/a.md", "y"), ("edit", "/a.md", "y", "z")]),
    "delete what is no file": (files(a={"content": 7}), [("delete", "/a.md"), ("ls", "/")]),
    "list": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [("ls", path) for path in ("/", "/src", "/src/", "/src/lib", "/umlaut", "/missing", "/config.json")],
    ),
    "glob": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [
            ("glob", "*.py"),
            ("glob", "**/*.md"),
            ("glob", "*.py", "/src"),
            ("glob", "missing"),
            ("glob", "/src/*"),
            ("glob", "["),
        ],
    ),
    "grep": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [("grep", "import"), ("grep", "import", "/src"), ("grep", "import", "/", "*.py"), ("grep", "[a"), ("grep", "missing")],
    ),
    "other values are not in the way": (
        files(odd={"content": None}, good="find me"),
        [("ls", "/"), ("grep", "find"), ("glob", "*.md"), ("edit", "/good.md", "find", "found"), ("write", "/new.md", "x")],
    ),
}
STAMPS = {"created_at", "modified_at"}


def bare(value: Any) -> Any:
    """A result without the times in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, bare({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key not in STAMPS}
    return [bare(part) for part in value] if isinstance(value, list) else value


async def call(backend: StoreBackend, name: str, args: Call, *, sync: bool) -> Any:
    if sync:
        return bare(await asyncio.to_thread(getattr(backend, name), *args))
    return bare(await getattr(backend, f"a{name}")(*args))


async def played(build: Build, case: str, *, sync: bool) -> tuple[list[Any], dict[str, Any]]:
    """What the calls of a case returned, and the files in the store afterwards."""
    store, (values, calls) = InMemoryStore(), CASES[case]
    for key, value in values.items():
        store.put(FILES, key, dict(value))
    results = [await call(build(store), name, tuple(args), sync=sync) for name, *args in calls]
    kept = {item.key: (item.value["content"], item.value.get("encoding", "utf-8")) for item in store.search(FILES, limit=100)}
    return results, kept


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES)
async def test_the_same_calls_have_the_same_results_and_leave_the_same_files(case: str, sync: bool) -> None:
    assert await played(ours, case, sync=sync) == await played(plain, case, sync=sync)


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_times_are_kept_as_the_plain_backend_keeps_them(sync: bool) -> None:
    for build in (plain, ours):
        store = InMemoryStore()
        store.put(FILES, "/a.md", dict(LEGACY))
        await call(build(store), "edit", ("/a.md", "two", "2"), sync=sync)
        item = store.get(FILES, "/a.md")
        assert item
        assert item.value["created_at"] == LEGACY["created_at"]
        assert item.value["modified_at"] > LEGACY["modified_at"]


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize(
    "value", [{"content": 7}, {"content": None}, {}, {"content": ["a", 1]}, {"content": "x", "encoding": "?"}]
)
async def test_where_the_plain_backend_raises_or_is_misled_by_a_value_that_is_no_file_ours_says_so(
    value: dict[str, Any], sync: bool
) -> None:
    """The one deliberate difference but for what may not be written: an exception would end the run."""
    store = InMemoryStore()
    store.put(FILES, "/odd.md", value)
    for name, *args in [("read", "/odd.md"), ("write", "/odd.md", "x"), ("edit", "/odd.md", "a", "b")]:
        _, result = await call(ours(store), name, tuple(args), sync=sync)
        assert "not a file" in result["error"]
    ((_, found),) = await call(ours(store), "download_files", (["/odd.md"],), sync=sync)
    assert "not a file" in found["error"]
    item = store.get(FILES, "/odd.md")
    assert item
    assert item.value == value


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_namespace_that_cannot_be_told_is_an_error_before_anything_is_written(sync: bool) -> None:
    def nobody(_: Any) -> tuple[str, ...]:
        raise KeyError("user_id")

    store = InMemoryStore()
    backend = ScopedFiles(namespace=nobody, gate=lambda: None, route="", author=lambda: Author("agent"), store=store)
    with pytest.raises(KeyError):
        await call(backend, "write", ("/a.md", "x"), sync=sync)
    assert store.search(()) == []
