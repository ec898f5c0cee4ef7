"""The house, where import contracts cannot see it, and what documents say is there."""

import re
import tomllib
from pathlib import Path

from lasting_memory.settings import VARIABLES, load_settings

ENGINE = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ENGINE / "pyproject.toml").read_text("utf-8"))
CONTRACTS = {
    contract["id"]: contract for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
}


_FENCE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)^ *\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)")


def links(document: Path) -> set[str]:
    """The relative targets of a document's links, without their anchors."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", document.read_text("utf-8")))
    return {
        target.partition("#")[0]
        for target in _LINK.findall(text)
        if not re.match(r"[a-z][a-z0-9+.-]*:|#", target)
    }


def test_the_settings_page_gives_each_variable_and_its_default() -> None:
    lines = (ENGINE / "docs/settings.md").read_text("utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| `")
    ]
    defaults = load_settings({})
    values = {variable: getattr(defaults, variable.lower()) for variable in VARIABLES}
    assert sorted(row[0] for row in rows) == sorted(f"`{name}`" for name in values)
    shown = {f"`{name}`": f"`{value}`" if value else "unset" for name, value in values.items()}
    assert {row[0]: row[1] for row in rows} == shown


def test_the_architecture_has_the_floors_that_import_contracts_hold() -> None:
    layers = CONTRACTS["house"]["layers"]
    table = (
        (ENGINE / "docs/architecture.md")
        .read_text("utf-8")
        .partition("## Floors")[2]
        .partition("\n## ")[0]
    )
    rows = [
        re.findall(r"`(\w+)`", line.split("|")[1])
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    assert rows == [layer.split(" | ") for layer in layers]


def test_every_file_that_a_change_touches_is_there() -> None:
    text = (ENGINE / "docs/architecture.md").read_text("utf-8")
    _, _, behind = text.partition("## What a change touches")
    section, _, _ = behind.partition("\n## ")
    package = ENGINE / "src/lasting_memory"
    folders = (package, package / "http/static", ENGINE)
    of_template = {"deployment.py", "prompts/agent.md", "texts/<tag>.json", ".env.example"}
    for_new_files = {"tests/languages/<tag>.yaml", "tests/histories/<tag>.yaml"}
    named = set(re.findall(r"`([\w./<>-]+\.\w+|[\w./-]+/)`", section))
    named -= of_template | for_new_files | {"__init__.py"}
    missing = [name for name in named if not any((base / name).exists() for base in folders)]
    assert len(named) > 40
    assert missing == []


def test_every_relative_link_within_the_engine_points_to_a_file() -> None:
    """What is outside is the template's, and a fork's may be anything."""
    for document in [*ENGINE.glob("*.md"), *(ENGINE / "docs").glob("**/*.md")]:
        found = {target: (document.parent / target).resolve() for target in links(document)}
        assert [
            target
            for target, path in found.items()
            if path.is_relative_to(ENGINE) and not path.exists()
        ] == [], document


def test_every_module_and_test_that_a_document_names_is_there() -> None:
    named = re.compile(r"`((?:lasting_memory|tests|benchmarks)/[\w/.-]*)`")
    tests = "".join(path.read_text("utf-8") for path in (ENGINE / "tests").glob("**/test_*.py"))
    for document in (ENGINE / "docs").glob("**/*.md"):
        text = document.read_text("utf-8")
        assert [
            name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests
        ] == [], document
        paths = named.findall(text)
        assert [
            path
            for path in paths
            if not any((ENGINE / base / path).exists() for base in ("", "src"))
        ] == [], document
