"""Product code gives foreign data the type `object`, so that mypy sees what is done with it
unchecked. `Any` would switch that off.
"""

import ast
from pathlib import Path

PRODUCT = Path(__file__).parents[1] / "src" / "lasting_memory"
# Where a framework's generic takes whatever a fork's agents have, and no exact type would fit them.
ALIASES = {
    "agent/skills.py": "the middleware of skills, which `skills(d)` returns",
    "agent/stack.py": "the type of a middleware",
    "consolidation/run.py": "the graph that `build_consolidation_agent` returns: its state is ours",
    "platform/__init__.py": "the type of a graph that the server has loaded",
}


def test_product_code_names_any_only_in_generics_that_forks_fill() -> None:
    naming = set[str]()
    for path in PRODUCT.rglob("*.py"):
        place = path.relative_to(PRODUCT)
        if place.parts[0] == "testing":
            continue
        if _names_any(path.read_text("utf-8")):
            naming.add(place.as_posix())
    assert naming == ALIASES.keys()


def _names_any(text: str) -> bool:
    """Whether a module names `Any` in code; an annotation within a string counts, prose does not."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id == "Any":
            return True
        if isinstance(node, ast.Attribute) and node.attr == "Any":
            return True
        if isinstance(node, ast.alias) and node.name == "Any":
            return True
    return False


def test_a_module_that_names_any_is_seen() -> None:
    assert _names_any("from typing import Any\n")
    assert _names_any("import typing as t\nvalue: t.Any\n")
    assert not _names_any('"""Any file."""\n')
