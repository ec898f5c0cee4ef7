"""`make upgrade-engine`: another engine in place of the one in use, and nothing else of a fork."""

import json
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from lasting_memory.dev.upgrade import UpgradeError, upgrade

TEMPLATE = {
    "langgraph.json": '{\n  "dependencies": ["./engine", "."],\n  "graphs": {}\n}\n',
    "pyproject.toml": '[project]\nname = "mine"\n# My\ndependencies = [\n  "a[b]>=1",  #\n]\n\n[tool.mypy]\npretty = true\n',
    "agent.py": "mine = True\n",
    "engine/pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.2.0"\n',
    "engine/CHANGELOG.md": "# Changelog\n\n## 0.2.0\n\nOld.\n",
    "engine/src/lasting_memory/__init__.py": "",
    "engine/src/lasting_memory/gone.py": "",
}
NEWER = {
    "pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.3.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.\n\n## 0.2.0\n\nOld.\n",
    "src/lasting_memory/__init__.py": "new = True\n",
    "src/lasting_memory/__pycache__/x.pyc": "",
}
METADATA = "Metadata-Version: 2.4\nName: lasting-memory\nVersion: 0.3.0\n\n# Lasting memory\n\nWhat it is.\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = write(tmp_path / "mine", TEMPLATE)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Mine")
    return folder


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return write(tmp_path / "newer", NEWER)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "lasting_memory-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lasting_memory-0.3.0.dist-info/METADATA", METADATA + NEWER["CHANGELOG.md"])
    return path


def held(folder: Path) -> dict[str, str]:
    """The files of a folder, but git's."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts and path.suffix != ".whl")
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize("whole", [False, True], ids=["the engine", "a whole template"])
def test_a_folder_takes_the_engines_place_and_nothing_else_changes(template: Path, newer: Path, whole: bool) -> None:
    source = write(newer.parent / "whole", {f"engine/{name}": text for name, text in NEWER.items()}) if whole else newer
    said = upgrade(template, source, "0.2.0")
    own = {name: text for name, text in TEMPLATE.items() if not name.startswith("engine/")}
    assert held(template) == own | {f"engine/{name}": text for name, text in NEWER.items() if "__pycache__" not in name}
    assert said.startswith("## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.")
    assert "Old." not in said


def test_a_wheel_takes_the_folders_place_and_is_pinned(template: Path, wheel: Path) -> None:
    said = upgrade(template, wheel, "0.2.0")
    assert not (template / "engine").exists()
    assert [path.name for path in (template / "wheels").iterdir()] == [wheel.name]
    assert json.loads((template / "langgraph.json").read_text())["dependencies"] == ["."]
    project = tomllib.loads((template / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["lasting-memory==0.3.0", "a[b]>=1"]
    assert project["tool"]["uv"]["find-links"] == ["./wheels"]
    assert said.startswith("## 0.3.0\n\nRename `a`.")
    assert "Old." not in said


def test_a_wheel_follows_a_wheel_and_a_folder_brings_everything_back(template: Path, wheel: Path, newer: Path) -> None:
    upgrade(template, wheel, "0.2.0")
    text = (template / "pyproject.toml").read_text()
    upgrade(template, wheel, "0.3.0")
    assert (template / "pyproject.toml").read_text() == text
    upgrade(template, newer, "0.3.0")
    own = {name: text for name, text in TEMPLATE.items() if not name.startswith("engine/")}
    assert {name: text for name, text in held(template).items() if not name.startswith("engine/")} == own
    assert (template / "engine/src/lasting_memory/__init__.py").read_text() == "new = True\n"


def test_a_table_of_uv_that_a_fork_has_is_kept(template: Path, wheel: Path, newer: Path) -> None:
    own = TEMPLATE["pyproject.toml"] + "\n[tool.uv]\nmanaged = false\n"
    (template / "pyproject.toml").write_text(own)
    upgrade(template, wheel, "0.2.0")
    assert tomllib.loads((template / "pyproject.toml").read_text())["tool"]["uv"] == {
        "find-links": ["./wheels"],
        "managed": False,
    }
    upgrade(template, newer, "0.3.0")
    assert (template / "pyproject.toml").read_text() == own


def test_an_edited_engine_is_not_replaced(template: Path, newer: Path) -> None:
    (template / "engine" / "notes.md").write_text("edited = True\n")
    before = held(template)
    with pytest.raises(UpgradeError, match=r"^engine/ has changes that are not committed \(.*\); commit or undo them first\.$"):
        upgrade(template, newer, "0.2.0")
    assert held(template) == before


def test_what_is_no_engine_is_refused(template: Path, tmp_path: Path) -> None:
    for source in (tmp_path / "nowhere", template / "agent.py"):
        with pytest.raises(UpgradeError, match=r"name a folder or a wheel \(\.whl\) of lasting-memory"):
            upgrade(template, source, "0.2.0")


def test_a_template_that_has_no_place_for_the_engine_is_left_alone(template: Path, newer: Path) -> None:
    (template / "langgraph.json").write_text("{}")
    with pytest.raises(UpgradeError, match="write them so"):
        upgrade(template, newer, "0.2.0")
    assert (template / "engine/src/lasting_memory/gone.py").is_file()
