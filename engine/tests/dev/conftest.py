"""Templates, and engines of other versions, for tests of `make upgrade-engine`."""

import subprocess
import zipfile
from pathlib import Path

import pytest

TEMPLATE = {
    "langgraph.json": '{\n  "dependencies": ["./engine", "."],\n  "graphs": {}\n}\n',
    "pyproject.toml": '[project]\nname = "mine"\n# My\ndependencies = [\n  "a[b]>=1",  #\n]\n\n[tool.mypy]\npretty = true\n',
    "agent.py": "mine = True\n",
    "engine/pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.2.0"\n',
    "engine/CHANGELOG.md": "# Changelog\n\n## 0.2.0\n\nOld.\n",
    "engine/src/lasting_memory/__init__.py": "",
    "engine/src/lasting_memory/gone.py": "",
}
OWN = {name: text for name, text in TEMPLATE.items() if not name.startswith("engine/")}
NEWER = {
    "pyproject.toml": '[project]\nname = "lasting-memory"\nversion = "0.3.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 0.3.0\n\nRename `a`.\n\n## 0.2.1\n\nMended.\n\n## 0.2.0\n\nOld.\n",
    "src/lasting_memory/__init__.py": "new = True\n",
    "src/lasting_memory/__pycache__/x.pyc": "",
}
METADATA = "Metadata-Version: 2.4\nName: lasting-memory\nVersion: 0.3.0\n\n# Lasting memory\n\nWhat it is.\n"
INFO = "lasting_memory-0.3.0.dist-info/METADATA"
IGNORED = {
    ".env": "KEY=1\n",
    "notes/private.txt": "mine\n",
    ".venv/bin/x": "",
    "src/lasting_memory/local.cfg": "a\n",
}
CACHES = {
    "src/lasting_memory/__pycache__/a.pyc": "",
    ".mypy_cache/x": "",
    "a.egg-info/PKG-INFO": "",
    "build/lib/x": "",
}
GITIGNORE = ".env\nnotes/\n.venv\n*.cfg\n__pycache__/\n.mypy_cache/\n*.egg-info/\nbuild/\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def committed(folder: Path) -> Path:
    """A folder as a git repository: an upgrade wants to be able to go back."""
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Mine"]):
        command = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def held(folder: Path) -> dict[str, str]:
    """The files of a folder, but git's."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts and path.suffix != ".whl"
    )
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def everything(folder: Path) -> dict[str, str | None]:
    """Each path below a folder but git's, with a file's text and where a link leads."""
    found = dict[str, str | None]()
    for path in folder.rglob("*"):
        if ".git" not in path.relative_to(folder).parts:
            text = (
                str(path.readlink())
                if path.is_symlink()
                else path.read_bytes().decode("latin-1")
                if path.is_file()
                else None
            )
            found[path.relative_to(folder).as_posix()] = text
    return found


def wheel_of(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return committed(write(tmp_path / "mine", TEMPLATE))


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A template whose engine's folder holds what git ignores."""
    template = committed(write(tmp_path / "used", {**TEMPLATE, ".gitignore": GITIGNORE}))
    return write(template, {f"engine/{name}": text for name, text in {**IGNORED, **CACHES}.items()})


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return write(tmp_path / "newer", NEWER)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "lasting_memory-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "lasting_memory-0.3.0.dist-info/METADATA", METADATA + NEWER["CHANGELOG.md"]
        )
    return path
