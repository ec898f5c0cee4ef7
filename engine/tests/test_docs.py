"""The house, where import contracts cannot see it; what documents say is there; versions above published fixes."""

import ast
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from lasting_memory.settings import ENGINE as SOURCE
from lasting_memory.settings import VARIABLES, load_settings

ENGINE = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ENGINE / "pyproject.toml").read_text("utf-8"))
CONTRACTS = {contract["id"]: contract for contract in PYPROJECT["tool"]["importlinter"]["contracts"]}
FLOORS = {layer.strip() for row in CONTRACTS["house"]["layers"] for layer in row.split("|")}
# What production imports nothing of. Nothing of it is served.
BESIDE = {"dev", "postgres", "testing"}


def imported_by(path: Path) -> set[str]:
    """Every module that a file names in an import, wherever in it: also within a function."""
    tree = ast.walk(ast.parse(path.read_text("utf-8")))
    found = set()
    for node in tree:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_module_is_long() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_every_module_is_under_contract() -> None:
    """The floors are all there is, and what is no development's is held to import nothing of it."""
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    modules.remove("__init__")
    assert modules == FLOORS
    held = {module.removeprefix("lasting_memory.") for module in CONTRACTS["production"]["source_modules"]}
    assert modules - BESIDE - held <= {"deployment"}
    assert {module.removeprefix("lasting_memory.") for module in CONTRACTS["production"]["forbidden_modules"]} == BESIDE


def test_the_engine_imports_nothing_of_the_template_and_none_of_its_own_tests() -> None:
    template = {"agent", "auth", "benchmarks", "consolidation_agent", "deployment", "http_api", "seeds", "tests"}
    named = {str(path): {name.partition(".")[0] for name in imported_by(path)} & template for path in SOURCE.rglob("*.py")}
    assert {path: names for path, names in named.items() if names} == {}


_FENCE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)^ *\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)")


def links(document: Path) -> set[str]:
    """The relative targets of a document's links, without their anchors."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", document.read_text("utf-8")))
    return {target.partition("#")[0] for target in _LINK.findall(text) if not re.match(r"[a-z][a-z0-9+.-]*:|#", target)}


def test_the_settings_page_gives_each_variable_and_its_default() -> None:
    lines = (ENGINE / "docs/settings.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    defaults = load_settings({})
    values = {variable: getattr(defaults, variable.lower()) for variable in VARIABLES}
    assert sorted(row[0] for row in rows) == sorted(f"`{name}`" for name in values)
    shown = {f"`{name}`": f"`{value}`" if value else "unset" for name, value in values.items()}
    assert {row[0]: row[1] for row in rows} == shown


def test_the_architecture_has_the_floors_that_import_contracts_hold() -> None:
    layers = CONTRACTS["house"]["layers"]
    table = (ENGINE / "docs/architecture.md").read_text("utf-8").partition("## Floors")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    assert rows == [layer.split(" | ") for layer in layers]


def test_every_relative_link_within_the_engine_points_to_a_file() -> None:
    """What is outside is the template's, and a fork's may be anything."""
    for document in [*ENGINE.glob("*.md"), *(ENGINE / "docs").glob("**/*.md")]:
        found = {target: (document.parent / target).resolve() for target in links(document)}
        assert [target for target, path in found.items() if path.is_relative_to(ENGINE) and not path.exists()] == [], document


def test_every_module_and_test_that_a_document_names_is_there() -> None:
    named = re.compile(r"`((?:lasting_memory|tests|benchmarks)/[\w/.-]*)`")
    tests = "".join(path.read_text("utf-8") for path in (ENGINE / "tests").glob("**/test_*.py"))
    for document in (ENGINE / "docs").glob("**/*.md"):
        text = document.read_text("utf-8")
        assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == [], document
        paths = named.findall(text)
        assert [path for path in paths if not any((ENGINE / base / path).exists() for base in ("", "src"))] == [], document


# The first version without the flaw, and what the flaw was.
FIXES = {
    "langgraph-sdk": ("0.4.4", "CVE-2026-104873: auth.on.*(actions=) was ignored"),
    "langgraph-api": ("0.15", "CVE-2026-118668"),
    "langgraph-checkpoint-postgres": ("3.1.1", "CVE-2026-71433: namespace a matched ab, and _ matched anything"),
}


@pytest.mark.parametrize("package", FIXES)
def test_installed_versions_are_above_the_published_fixes(package: str) -> None:
    fixed, flaw = FIXES[package]
    assert Version(version(package)) >= Version(fixed), flaw
