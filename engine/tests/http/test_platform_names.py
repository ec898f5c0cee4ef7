"""The platform's internal names are where this library takes them from, with their signatures."""

import subprocess
import sys

import pytest

from lasting_memory.platform_names import MovedNameError, PlatformName, check_names

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


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        (PlatformName("json", "no_such_name", "(text)"), "json.no_such_name has moved"),
        (PlatformName("no_such_module", "load", "(text)"), "no_such_module.load has moved"),
        (PlatformName("shutil", "move", "(src)"), r"shutil.move is \(src, dst, copy_function\)"),
        (PlatformName("os", "sep", "(self)"), "os.sep is a value"),
    ],
)
def test_a_name_that_has_moved_is_named(moved: PlatformName, told: str) -> None:
    there = PlatformName("shutil", "move", "(src, dst, copy_function)")
    check_names([there])
    with pytest.raises(MovedNameError, match=told):
        check_names([there, moved])
