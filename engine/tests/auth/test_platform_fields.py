"""The platform's code: a field or key that a new version adds fails here until it is decided about."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
from langgraph_api import validation  # type: ignore[import-untyped]

from lasting_memory.auth import run_requests
from tests.auth.run_fields import CONFIG, KWARGS


def sources(package: str) -> list[str]:
    """Texts of a package's modules: read, not imported, which takes a server's environment."""
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.origin
    return [file.read_text("utf-8") for file in Path(spec.origin).parent.rglob("*.py")]


def keys_of(source: str, name: str) -> set[str]:
    """Keys by which a module reads, writes or spells out mappings of this name."""
    read = rf"""{name}["']?\]?\)?(?:,\s*{{}}\))?(?: or {{}})?\)?(?:\.(?:get|pop|setdefault)\(|\[)\s*["']([^"']+)["']"""
    spelled = " ".join(re.findall(rf"""{name}["']?\s*[:=]\s*{{([^}}]*)}}""", source))
    return {*re.findall(read, source), *re.findall(r"""["'](\w+)["']\s*:""", spelled)}


# Metadata that is no run's and no thread's: of a message or its parts, an event, a request to
# cancel, a tool's schema.
NOBODY_S_METADATA = {
    *(
        "a2uiClientCapabilities",
        "a2uiClientDataModel",
        "mimeType",
        "inputSchema",
        "input_modes",
        "output_modes",
    ),
    *("run_ids", "status", "metadata", "supportsA2A", "tenant_id", "properties", "required"),
}
# Decided: below `a2a` a client may say what it likes about its tasks, on its own threads.
TYPED_METADATA = {"a2a", "a2ui", "a2ui_active", "a2ui_mime_type"}


@pytest.mark.parametrize("package", ["langgraph_api", "langgraph_runtime_inmem"])
def test_every_key_of_metadata_that_the_platform_knows_is_decided(package: str) -> None:
    known = set().union(*(keys_of(source, "metadata") for source in sources(package)))
    assert {"graph_id", "assistant_id"} <= known
    open_keys = {key for key in known if not run_requests.reserved(key)}
    assert open_keys <= NOBODY_S_METADATA | TYPED_METADATA


def test_keys_that_the_platform_takes_from_metadata_are_taken_here_too() -> None:
    assert set(validation.RESERVED_METADATA_KEYS) <= run_requests.RESERVED_METADATA


(RUN,) = (source for source in sources("langgraph_api") if "class RunCreateDict(" in source)


def test_every_field_that_the_platform_hands_to_a_run_is_decided() -> None:
    (kwargs,) = (
        {key.value for key in node.args[2].keys if isinstance(key, ast.Constant)}
        for node in ast.walk(ast.parse(RUN))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Runs.put"
        and isinstance(node.args[2], ast.Dict)
    )
    assert kwargs == set(KWARGS)


def test_every_field_of_a_run_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
    section = page.partition("## Fields of a request that reach a run")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    decided = {field for row in rows for field in re.findall(r"`([^`]+)`", row)}
    declared = RUN.partition("class RunCreateDict(")[2].partition("\n\n\n")[0]
    asked = {*re.findall(r"^    ([a-z]\w*):", declared, re.MULTILINE)} | keys_of(RUN, "payload")
    for schema in ("RunCreateStateful", "RunCreateStateless"):
        asked |= set(validation.openapi["components"]["schemas"][schema]["properties"])
    assert len(asked) > 20
    assert asked - decided == {"config"}
    assert {f"config.{name}" for name in CONFIG} <= decided
