"""The house, where the import contracts of pyproject.toml cannot see it."""

from __future__ import annotations

import ast
import tomllib

import pytest

from lasting_memory.settings import PROJECT

CONTRACTS = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
DOORS = {module.removesuffix(".*") for contract in CONTRACTS for module in contract.get("protected_modules", ())}
LAYERS = [layer for contract in CONTRACTS if contract["id"] == "house" for layer in contract["layers"]]
PACKAGES = {part.strip() for layer in LAYERS for part in layer.split("|")}


@pytest.mark.parametrize("module", sorted(path.stem for path in PROJECT.glob("*.py")))
def test_the_modules_of_the_root_go_through_the_doors_too(module: str) -> None:
    """The contracts are about packages, and see no module of the root."""
    tree = ast.parse((PROJECT / f"{module}.py").read_text("utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in imported if any(name.startswith(f"{door}.") for door in DOORS)] == []


def test_no_module_is_long() -> None:
    product = [*PROJECT.glob("*.py"), *(path for name in PACKAGES for path in (PROJECT / name).rglob("*.py"))]
    lengths = {str(path.relative_to(PROJECT)): len(path.read_text("utf-8").splitlines()) for path in product}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_every_package_that_a_deployment_serves_is_under_contract() -> None:
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"benchmarks", "evals", "testing", "tests"}
    assert packages == PACKAGES
