"""Calls on `ScopedFiles` and on deepagents' own `StoreBackend`, side by side, and what they return and leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from deepagents.backends import StoreBackend
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory.files import ScopedFiles
from memory.identity import Author

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
Build = Callable[..., StoreBackend]


def constant(_: Any) -> Any:
    return FILES


def plain(store: BaseStore, namespace: Callable[[Any], Any] = constant) -> StoreBackend:
    return StoreBackend(namespace=namespace, store=store)


def ours(store: BaseStore, namespace: Callable[[Any], Any] = constant) -> ScopedFiles:
    return ScopedFiles(namespace=namespace, gate=lambda: None, route="/memories", author=lambda: Author("agent"), store=store)


def files(**content: Any) -> dict[str, Any]:
    """Values of the store; the names are keys without the slash and the ending."""
    return {f"/{name}.md": value if isinstance(value, dict) else {**create_file_data(value)} for name, value in content.items()}


SYMBOLS = {
    "/code.py": "def __init__(self):\n    pass",
    "/types.py": "def f(x: str | int) -> None: ...",
    "/shapes.py": "shape = r'[a-z]+'\nany_text = '(.*)'",
    "/config.json": '{"api.key": 1}',
    "/sums.py": "x * y + a^2 = $z\\d",
}
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
    "read from before the first line on, and no line": (
        files(a="one\ntwo\nthree"),
        [("read", "/a.md", -1, 2), ("read", "/a.md", -1, 0), ("read", "/a.md", 0, -3), ("read", "/a.md", 1, 2)],
    ),
    "read a video as it is": ({}, [("write", "/clip.mkv", "one line of bytes"), ("read", "/clip.mkv", 5, 10)]),
    "read a legacy file with an empty last line": (
        files(a={**LEGACY, "content": ["one", "two", ""]}),
        [("read", "/a.md"), ("ls", "/"), ("grep", "two"), ("glob", "*.md"), ("download_files", ["/a.md"])],
    ),
    "write over a legacy file": (files(a=LEGACY), [("write", "/a.md", "new"), ("read", "/a.md")]),
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
    "grep for symbols": (
        {path: {**create_file_data(text)} for path, text in SYMBOLS.items()},
        [
            ("grep", text, "/")
            for text in ("def __init__(", "str | int", "[a-z]", "(.*)", "api.files.key", "x * y", "a^2", "$z", "\\d", "[", "")
        ],
    ),
    "grep for no more than so many": (
        {path: {**create_file_data(text)} for path, text in TREE.items()},
        [("grep", "import", None, None, {"max_count": count}) for count in (0, 1, 2, 99)],
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


async def call(backend: StoreBackend, name: str, args: Call) -> Any:
    """The result of a method; of its arguments the last one, if it is a dictionary, holds those with a name."""
    named = args[-1] if args and isinstance(args[-1], dict) else {}
    args = args[:-1] if named else args
    return bare(await getattr(backend, f"a{name}")(*args, **named))


async def outcome(backend: StoreBackend, name: str, args: Call) -> Any:
    """The result, or which error a caller that knows `StoreBackend` would catch."""
    try:
        return await call(backend, name, args)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        return next(kind.__name__ for kind in (TypeError, ValueError, KeyError, RuntimeError) if isinstance(error, kind))


async def played(build: Build, values: dict[str, Any], calls: Iterable[Call]) -> tuple[list[Any], dict[str, tuple[Any, ...]]]:
    """What calls returned or raised, and the files in the store afterwards."""
    store = InMemoryStore()
    for key, value in values.items():
        store.put(FILES, key, dict(value))
    results = [await outcome(build(store), name, tuple(args)) for name, *args in calls]
    kept = {item.key: (item.value.get("content"), item.value.get("encoding")) for item in store.search(FILES, limit=100)}
    return results, kept
