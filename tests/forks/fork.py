"""A copy of the project that a script changes as a fork's owner would, and whose checks and fast tests it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from settings import PROJECT, VARIABLES

FAST = "not server and not postgres and not proof and not forks"
_SKIPPED = [".venv", ".git", ".env", ".langgraph_api", ".postgres", ".hypothesis", "*.egg-info", ".*_cache"]
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
# What a fork's owner has in a shell must not decide.
_CLEAN = {name: value for name, value in os.environ.items() if name not in VARIABLES and name != "LANGSERVE_GRAPHS"}


class Fork:
    """A copy in `folder`, which must not exist. Paths are from its root."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*_SKIPPED)))

    def text(self, path: str) -> str:
        return (self.folder / path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        """Add a file, or replace all of it."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, "utf-8")

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        """Replace texts of a file. Raises `ValueError` unless each is there once: the recipe has to follow the project."""
        text = self.text(path)
        for old, new in changes:
            if text.count(old) != 1:
                raise ValueError(f"{path} has {text.count(old)} times {old!r}; change the recipe with it.")
            text = text.replace(old, new)
        self.write(path, text)

    def insert(self, path: str, added: str, before: str) -> None:
        """Put text before another, which must be there once."""
        self.edit(path, (before, f"{added}{before}"))

    def take(self, path: str, *texts: str) -> None:
        """Take texts out of a file, each of which must be there once."""
        self.edit(path, *((text, "") for text in texts))

    def delete(self, *paths: str) -> None:
        """Take away files or folders."""
        for path in paths:
            place = self.folder / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()

    def folders(self, name: str) -> list[str]:
        """The folders with this name, from the project's root."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob(name) if path.is_dir())

    def run(self, *command: str) -> str:
        """What a command of Python in the copy prints, which must succeed; it imports the copy's modules."""
        env = {**_CLEAN, "PYTHONPATH": str(self.folder)}
        done = subprocess.run([sys.executable, *command], cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}:\n{done.stdout[-8_000:]}\n{done.stderr[-4_000:]}"
        return done.stdout

    def check(self, *, types: bool) -> None:
        """What `make check` runs: mypy only where `types` says so, with what it knows of the unchanged modules."""
        self.run("-m", "ruff", "check", "--no-cache", "--quiet", ".")
        self.run("-m", "ruff", "format", "--no-cache", "--check", ".")
        self.run("-c", LINT_IMPORTS, "--no-logo", "--no-cache")
        if not types:
            return
        if (known := PROJECT / ".mypy_cache").is_dir():
            shutil.copytree(known, self.folder / ".mypy_cache", dirs_exist_ok=True)
        self.run("-m", "mypy")

    def test(self, tests: Sequence[str], marked: str = FAST) -> None:
        """Run the fast ones of these tests, or those with other marks."""
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "--tb=short", "-m", marked, *tests)
