"""What the documents say is there: settings, links, commands, and the code that langgraph.json names."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from lasting_memory.settings import PROJECT, VARIABLES, load_settings
from lasting_memory.testing.parts import CONSOLIDATION

README = PROJECT / "README.md"
CONFIG = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))

_FENCE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)^ *\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)")


def links(document: Path) -> set[str]:
    """The relative targets of a document's links, without their anchors."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", document.read_text("utf-8")))
    return {target.partition("#")[0] for target in _LINK.findall(text) if not re.match(r"[a-z][a-z0-9+.-]*:|#", target)}


def test_the_settings_page_gives_each_variable_and_its_default() -> None:
    lines = (PROJECT / "docs/settings.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    defaults = load_settings({})
    values = {variable: getattr(defaults, variable.lower()) for variable in VARIABLES}
    assert sorted(row[0] for row in rows) == sorted(f"`{name}`" for name in values)
    shown = {f"`{name}`": f"`{value}`" if value else "unset" for name, value in values.items()}
    assert {row[0]: row[1] for row in rows} == shown


def test_every_object_that_langgraph_json_names_is_defined_in_its_file() -> None:
    for target in [*CONFIG["graphs"].values(), CONFIG["auth"]["path"], CONFIG["http"]["app"]]:
        file, name = target.rsplit(":", 1)
        assigned = [node for node in ast.parse((PROJECT / file).read_text("utf-8")).body if isinstance(node, ast.Assign)]
        assert name in {getattr(place, "id", "") for node in assigned for place in node.targets}, target


def test_the_platform_is_given_the_graphs_that_clients_name() -> None:
    assert {"agent", *["consolidation_agent"] * CONSOLIDATION} <= set(CONFIG["graphs"])


def test_every_relative_link_points_to_a_file_of_the_project() -> None:
    for document in [README, *(PROJECT / "docs").glob("**/*.md")]:
        found = {target: (document.parent / target).resolve() for target in links(document)}
        broken = [target for target, path in found.items() if not path.is_relative_to(PROJECT) or not path.exists()]
        assert broken == [], document


def test_every_make_command_in_readme_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):(?!=)", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))
    mentioned = set(re.findall(r"(?m)(?:`|^)make ([a-z][a-z-]*)", README.read_text("utf-8")))
    assert "dev" in mentioned
    assert mentioned - targets == set()
