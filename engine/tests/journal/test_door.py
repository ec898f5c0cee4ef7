"""One door: a file is put by `memory/folder.py` alone, behind the gate. Import contracts cannot see
single functions.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from lasting_memory.settings import ENGINE

SOURCE = Path(ENGINE)
# Where the rules stand, and where they are asked before anything is put: seeds and first files,
# before a server starts, and a text that somebody brings, of which lines are left out.
GATED = {"memory/folder.py", "memory/new_memory.py", "consolidation/bringing.py"}


def calls() -> Iterator[tuple[str, str]]:
    """Each call of the library: its file, and what is called, as it is spelled."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield path.relative_to(SOURCE).as_posix(), ast.unparse(node.func)


def test_a_file_is_put_by_a_folder_alone() -> None:
    made = {file for file, name in calls() if name in {"journal.change", "writing.change"}}
    assert made == {"memory/folder.py"}


def test_the_gate_is_asked_where_files_are_put_and_before_a_server_starts() -> None:
    asked = {file for file, name in calls() if name.rpartition(".")[2] == "before_write"}
    assert asked == GATED
