"""Names by which a request could mean a place: keys from the server's document and from the source, and what of hers they take.

Nothing here knows of a hole: a key that a new version of the platform reads is tried by itself.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testing.dev_server import PROJECT

Json = Any

PLATFORM = ("langgraph_api", "langgraph_runtime_inmem", "langgraph", "langgraph_sdk")
OURS = ("*.py", "access/**/*.py", "api/**/*.py", "dev/**/*.py", "memory/**/*.py")
_KEY = re.compile(r"[a-z_]\w+")

# What of hers a key of this name could take. The first that fits the end of the name, in snake case, counts.
PLACES: dict[str, list[Json]] = {
    r"checkpoint_map": [{"": "<her checkpoint>"}],
    r"checkpoint_ns": ["", "<her thread>"],
    r"checkpoint": [{"thread_id": "<her thread>", "checkpoint_id": "<her checkpoint>", "checkpoint_ns": ""}],
    r"checkpoint_ids?": ["<her checkpoint>"],
    r"tasks?(_id)?": ["<her thread>:<her run>", "<her run>"],
    r"(threads?|context)(_ids?)?": ["<her thread>", "<her planned thread>"],
    r"runs?(_ids?)?": ["<her run>", "<her planned run>"],
    r"assistants?(_ids?)?": ["<her assistant>"],
    r"graphs?(_ids?)?": ["consolidation_agent", "agent"],
    r"crons?(_ids?)?": ["<her cron>"],
    r"namespaces?|prefix|ns": ["<her memory>", "<her memory.>", ["memories"], []],
    r"permissions": [["memory:operate"]],
    r"(user|owner)": [{"identity": "<her owner>", "org_id": "<her org>", "permissions": ["memory:operate"]}, "<her owner>"],
    r"user_ids?|identity|sub": ["<her owner>"],
    r"(org|organization|tenant)(_ids?)?": ["<her org>"],
    r"label": ["<her memory:1>"],
    r"__pregel_\w+|ids?|map": ["<her thread>", "<her run>", "<her checkpoint>", "<her owner>", {"thread_id": "<her thread>"}],
}
_KINDS = {kind: re.compile(rf"(.*_)?({kind})") for kind in PLACES}


def kind_of(key: str) -> str | None:
    """Which kind of place a key of this name could name; None for no place."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(snake)), None)


def keys(schemas: Json) -> dict[str, Counter[str]]:
    """Keys by the kind of place they could name, and how often they occur: in schemas, and in the source as keys of dicts."""
    names = Counter(_properties(schemas))
    files = [file for pattern in OURS for file in PROJECT.glob(pattern)]
    for package in PLATFORM:
        spec = importlib.util.find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        files += [file for folder in folders or () for file in Path(folder).rglob("*.py")]
    for file in sorted(files):
        names.update(_keys_of(_parsed(file)))
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in PLACES}
    for name, count in names.items():
        if kind := kind_of(name):
            counts[kind][name] += count
    return {kind: of for kind, of in counts.items() if of}


def _parsed(file: Path) -> ast.AST:
    text = file.read_text("utf-8")
    try:
        return ast.parse(text)
    except SystemError:  # CPython 3.11 counts wrongly where another thread parses at the same time (python/cpython#106905)
        return ast.parse(text)


def _properties(schema: Json) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _properties(inner)


def _keys_of(source: ast.AST) -> Iterator[str]:
    """Texts that name an entry: subscripts, keys of dict displays, first arguments of methods such as get, interned ones."""
    for node in ast.walk(source):
        entries: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript):
            entries = [node.slice]
        elif isinstance(node, ast.Dict):
            entries = list(node.keys)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            entries = list(node.args[:1]) if node.func.attr in {"get", "pop", "setdefault", "intern"} else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "intern":
            entries = list(node.args[:1])
        for entry in entries:
            if isinstance(entry, ast.Constant) and isinstance(entry.value, str) and _KEY.fullmatch(entry.value):
                yield entry.value
