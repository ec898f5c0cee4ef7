"""The house: its picture is current, its doors are small, and what the import contracts cannot see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from settings import PROJECT
from testing.architecture import PAGE, contracts, doors, drawn

DOORS = sorted(door for door in doors() if PROJECT.joinpath(*door.split(".")).is_dir())  # a part may be taken off


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_the_picture_is_drawn_from_the_contracts() -> None:
    page = PAGE.read_text("utf-8")
    assert page == drawn(page), "run `python -m testing.architecture`"


@pytest.mark.parametrize("module", sorted(path.stem for path in PROJECT.glob("*.py")))
def test_the_modules_of_the_root_go_through_the_doors_too(module: str) -> None:
    """The contracts are about packages, and see no module of the root."""
    tree = ast.parse((PROJECT / f"{module}.py").read_text("utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in imported if any(name.startswith(f"{door}.") for door in DOORS)] == []


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_read_at_a_glance(door: str) -> None:
    assert lines(PROJECT.joinpath(*door.split("."), "__init__.py")) <= 90


def test_memory_shows_few_modules_beside_its_packages() -> None:
    assert len([path for path in (PROJECT / "memory").glob("*.py") if path.name != "__init__.py"]) <= 14


def test_no_module_is_long() -> None:
    packages = [part.strip() for layer in contracts()["house"]["layers"] for part in layer.split("|")]
    product = [*PROJECT.glob("*.py"), *(path for name in packages for path in (PROJECT / name).rglob("*.py"))]
    assert {str(path.relative_to(PROJECT)): lines(path) for path in product if lines(path) > 400} == {}


def test_every_package_that_a_deployment_serves_is_under_contract() -> None:
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"benchmarks", "evals", "testing", "tests"}
    house = {part.strip() for layer in contracts()["house"]["layers"] for part in layer.split("|")}
    assert packages == house
