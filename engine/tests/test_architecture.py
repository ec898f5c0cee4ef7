"""The house, where the import contracts of pyproject.toml cannot see it."""

import ast
import tomllib
from pathlib import Path

from lasting_memory.settings import ENGINE

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
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
    lengths = {str(path.relative_to(ENGINE)): len(path.read_text("utf-8").splitlines()) for path in ENGINE.rglob("*.py")}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_every_module_is_under_contract() -> None:
    """The floors are all there is, and what is no development's is held to import nothing of it."""
    modules = {path.stem for path in ENGINE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    modules.remove("__init__")
    assert modules == FLOORS
    held = {module.removeprefix("lasting_memory.") for module in CONTRACTS["production"]["source_modules"]}
    assert modules - BESIDE - held <= {"deployment"}
    assert {module.removeprefix("lasting_memory.") for module in CONTRACTS["production"]["forbidden_modules"]} == BESIDE


def test_the_engine_imports_nothing_of_the_template_and_none_of_its_own_tests() -> None:
    template = {"agent", "auth", "benchmarks", "consolidation_agent", "deployment", "http_api", "seeds", "tests"}
    named = {str(path): {name.partition(".")[0] for name in imported_by(path)} & template for path in ENGINE.rglob("*.py")}
    assert {path: names for path, names in named.items() if names} == {}
