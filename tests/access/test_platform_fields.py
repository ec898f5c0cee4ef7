"""The platform's code: a field or key that a new version adds fails here until somebody decides about it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph_api import validation  # type: ignore[import-untyped]

import settings
from access import run_requests
from tests.access.decided_fields import CONFIG, KWARGS

# --- The platform's code: a field or key that a new version adds fails here until somebody decides about it ---------


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


# Read, not imported: it takes a server's environment.
RUN = ast.parse((_folder("langgraph_api") / "models" / "run.py").read_text("utf-8"))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name(node: ast.AST) -> str:
    """The last name of what is read from: `metadata` of `thread["metadata"]`, `run.metadata`, `value.get("metadata") or {}`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key) | ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[key, *_]):
            return _text(key) or ""
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
    return ""


def _keys_of(tree: ast.AST, of: str) -> set[str]:
    """Keys by which a module reads, writes or spells out mappings of this name."""
    fields: set[str | None] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, slice=key) if _name(value).endswith(of):
                fields.add(_text(key))
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop" | "setdefault"), args=[key, *_]) if _name(
                value
            ).endswith(of):
                fields.add(_text(key))
            case ast.keyword(arg=name, value=ast.Dict(keys=keys)) if name == of:
                fields |= {_text(key) for key in keys}
            case ast.Assign(targets=[target, *_], value=ast.Dict(keys=keys)) if _name(target).endswith(of):
                fields |= {_text(key) for key in keys}
            case ast.Dict(keys=keys, values=values):
                inner = [value for key, value in zip(keys, values, strict=True) if _text(key) == of]
                fields |= {_text(key) for value in inner if isinstance(value, ast.Dict) for key in value.keys}
    return {key for key in fields if key}


def _modules(package: str) -> Iterator[ast.AST]:
    for file in _folder(package).rglob("*.py"):
        yield ast.parse(file.read_text("utf-8"))


# Metadata that is no run's and no thread's: of a message or its parts, an event, a request to cancel, a tool's schema.
NOBODY_S_METADATA = {
    *("a2uiClientCapabilities", "a2uiClientDataModel", "mimeType", "inputSchema", "input_modes", "output_modes"),
    *("run_ids", "status", "metadata"),
}
# Decided: below `a2a` a client may say what it likes about its tasks, on its own threads.
TYPED_METADATA = {"a2a", "a2ui", "a2ui_active", "a2ui_mime_type"}


@pytest.mark.parametrize("package", ["langgraph_api", "langgraph_runtime_inmem"])
def test_every_key_of_metadata_that_the_platform_knows_is_decided(package: str) -> None:
    known = set().union(*(_keys_of(tree, "metadata") for tree in _modules(package)))
    assert {"graph_id", "assistant_id"} <= known
    open_keys = {key for key in known if not run_requests.reserved(key)}
    assert open_keys <= NOBODY_S_METADATA | TYPED_METADATA


def test_what_the_platform_itself_takes_from_metadata_is_taken_here_too() -> None:
    assert set(validation.RESERVED_METADATA_KEYS) <= run_requests.RESERVED_METADATA


def test_every_field_that_the_platform_hands_to_a_run_is_decided() -> None:
    (kwargs,) = (
        {_text(key) for key in node.args[2].keys}
        for node in ast.walk(RUN)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Runs.put" and isinstance(node.args[2], ast.Dict)
    )
    assert kwargs == set(KWARGS)


def fields_in_the_docs() -> set[str]:
    """The fields of a run that docs/security.md decides about: the first column of its table."""
    text = (settings.PROJECT / "docs" / "security.md").read_text("utf-8")
    section = text.partition("## Fields of a request that reach a run")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {field for row in rows for field in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_a_run_is_in_the_docs() -> None:
    (declared,) = (node for node in ast.walk(RUN) if isinstance(node, ast.ClassDef) and node.name == "RunCreateDict")
    asked = {ast.unparse(line.target) for line in declared.body if isinstance(line, ast.AnnAssign)} | _keys_of(RUN, "payload")
    for schema in ("RunCreateStateful", "RunCreateStateless"):
        asked |= set(validation.openapi["components"]["schemas"][schema]["properties"])
    decided = fields_in_the_docs()
    assert asked - decided == {"config"}
    assert {f"config.{name}" for name in CONFIG} <= decided


def test_every_field_of_a_cron_is_decided() -> None:
    schemas = validation.openapi["components"]["schemas"]
    asked = {name for schema in ("CronCreate", "CronPatch", "ThreadCronCreate") for name in schemas[schema]["properties"]}
    assert asked - {*run_requests.CRON, "config"} == set()
