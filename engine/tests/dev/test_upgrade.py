"""`make upgrade-engine`: another engine in place of the one in use."""

import json
import tomllib
from pathlib import Path

import pytest

from lasting_memory.dev.engine_source import UpgradeError
from lasting_memory.dev.upgrade import upgrade_engine
from tests.dev.conftest import NEWER, OWN, TEMPLATE, held, write


@pytest.mark.parametrize("whole", [False, True], ids=["the engine", "a whole template"])
def test_a_folder_takes_the_engines_place_and_nothing_else_changes(
    template: Path, newer: Path, whole: bool
) -> None:
    source = (
        write(newer.parent / "whole", {f"engine/{name}": text for name, text in NEWER.items()})
        if whole
        else newer
    )
    said = upgrade_engine(template, source, "0.2.0")
    assert held(template) == OWN | {
        f"engine/{name}": text for name, text in NEWER.items() if "__pycache__" not in name
    }
    assert said.startswith("## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.")
    assert "Old." not in said


@pytest.mark.parametrize(
    "of_a_fork", ["", "\n[tool.uv]\nmanaged = false\n"], ids=["no table of uv", "a fork's own"]
)
def test_a_wheel_takes_the_folders_place_and_is_pinned_and_a_folder_brings_everything_back(
    template: Path, wheel: Path, newer: Path, of_a_fork: str
) -> None:
    pyproject = template / "pyproject.toml"
    pyproject.write_text(TEMPLATE["pyproject.toml"] + of_a_fork)
    said = upgrade_engine(template, wheel, "0.2.0")
    assert said.startswith("## 0.3.0\n\nRename `a`.")
    assert "Old." not in said
    assert not (template / "engine").exists()
    assert [path.name for path in (template / "wheels").iterdir()] == [wheel.name]
    assert json.loads((template / "langgraph.json").read_text())["dependencies"] == ["."]
    pinned = pyproject.read_text()
    project = tomllib.loads(pinned)
    assert project["project"]["dependencies"] == ["lasting-memory==0.3.0", "a[b]>=1"]
    assert project["tool"]["uv"] == {
        "find-links": ["./wheels"],
        **({"managed": False} if of_a_fork else {}),
    }
    upgrade_engine(template, wheel, "0.3.0")
    assert pyproject.read_text() == pinned
    upgrade_engine(template, newer, "0.3.0")
    own = {name: text for name, text in held(template).items() if not name.startswith("engine/")}
    assert own == {**OWN, "pyproject.toml": TEMPLATE["pyproject.toml"] + of_a_fork}
    assert (template / "engine/src/lasting_memory/__init__.py").read_text() == "new = True\n"


OF_UV = """
[dependency-groups]
dev = ["lasting-memory[tests]", "mine"]

[tool.uv]
constraint-dependencies = [
  "a==1",
]

[tool.uv.sources]
mine = {path = "../mine"}
lasting-memory = {path = "./engine", editable = true}
"""


def test_uv_is_told_of_the_wheel_in_place_of_the_folder_and_back(
    template: Path, wheel: Path, newer: Path
) -> None:
    pyproject = template / "pyproject.toml"
    as_folder = TEMPLATE["pyproject.toml"] + OF_UV
    pyproject.write_text(as_folder)
    upgrade_engine(template, wheel, "0.2.0")
    project = tomllib.loads(pyproject.read_text())
    assert project["project"]["dependencies"] == ["lasting-memory==0.3.0", "a[b]>=1"]
    assert project["dependency-groups"] == {"dev": ["lasting-memory[dev]", "mine"]}
    assert project["tool"]["uv"] == {
        "find-links": ["./wheels"],
        "constraint-dependencies": ["a==1"],
        "sources": {
            "mine": {"path": "../mine"},
            "lasting-memory": {"path": f"./wheels/{wheel.name}"},
        },
    }
    upgrade_engine(template, newer, "0.3.0")
    assert pyproject.read_text() == as_folder


def test_an_engine_that_cannot_be_replaced_is_left_alone(
    template: Path, newer: Path, tmp_path: Path
) -> None:
    before = held(template)
    for source in (Path(), tmp_path / "nowhere", template / "agent.py"):
        with pytest.raises(
            UpgradeError, match=r"name a folder or a wheel \(\.whl\) of lasting-memory"
        ):
            upgrade_engine(template, source, "0.2.0")
    edited = template / "engine" / "notes.md"
    edited.write_text("edited = True\n")
    with pytest.raises(UpgradeError, match="changes that are not committed"):
        upgrade_engine(template, newer, "0.2.0")
    edited.unlink()
    (template / "langgraph.json").write_text("{}")
    with pytest.raises(UpgradeError, match="write them so"):
        upgrade_engine(template, newer, "0.2.0")
    assert held(template) == {**before, "langgraph.json": "{}"}
