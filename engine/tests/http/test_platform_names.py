"""The platform's internal names are where this library takes them from, with their signatures."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lasting_memory
from lasting_memory.platform_names import (
    ANY_FUNCTION,
    IN_MEMORY_RUNTIME,
    SERVER,
    MovedNameError,
    PlatformName,
    check_names,
)

# In a process of its own: the platform's modules read the environment when they are imported.
CHECK = """
from lasting_memory.people import identity
from lasting_memory.platform_names import IN_MEMORY_RUNTIME, SERVER, check_names
check_names([*SERVER, *IN_MEMORY_RUNTIME])
from langgraph_api.graph import NAMESPACE_GRAPH
assert identity._PLATFORM == NAMESPACE_GRAPH
"""
ENVIRONMENT = {
    "DATABASE_URI": ":memory:",
    "REDIS_URI": "fake",
    "MIGRATIONS_PATH": "__inmem",
    "LANGGRAPH_RUNTIME_EDITION": "inmem",
}


def test_every_internal_name_is_where_it_is_taken_from() -> None:
    checked = subprocess.run(
        [sys.executable, "-c", CHECK],
        env={**ENVIRONMENT, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr[-2_000:]


def imported(tree: ast.AST) -> Iterator[str]:
    """What a module imports from others, with the names of these."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_internal(name: str) -> bool:
    package, *parts = name.split(".")
    if package.startswith(("langgraph_api", "langgraph_runtime")):
        return True
    return package == "langgraph" and any(part.startswith("_") for part in parts)


def test_every_internal_name_that_is_imported_is_in_the_list() -> None:
    listed = [str(name) for name in (*SERVER, *IN_MEMORY_RUNTIME)]
    modules = sorted(Path(lasting_memory.__file__).parent.rglob("*.py"))
    names = {name for path in modules for name in imported(ast.parse(path.read_text("utf-8")))}
    internal = {name for name in names if is_internal(name)}
    assert "langgraph_runtime_inmem.ops" in internal
    assert {
        name for name in internal if not any(f"{of}.".startswith(f"{name}.") for of in listed)
    } == set()


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        (PlatformName("json", "no_such_name", "(text)"), "json.no_such_name has moved"),
        (PlatformName("no_such_module", "load", "(text)"), "no_such_module.load has moved"),
        (PlatformName("shutil", "move", "(src)"), r"shutil.move is \(src, dst, copy_function\)"),
        (PlatformName("os", "sep", "(self)"), "os.sep is a value"),
        (PlatformName("os", "sep", ANY_FUNCTION), "os.sep is a value"),
    ],
)
def test_a_name_that_has_moved_is_named(moved: PlatformName, told: str) -> None:
    there = PlatformName("shutil", "move", "(src, dst, copy_function)")
    check_names([there])
    with pytest.raises(MovedNameError, match=told):
        check_names([there, moved])
