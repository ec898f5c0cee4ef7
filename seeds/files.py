"""What the repository has to seed: policies, skills and first memories, checked before anything is written."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deepagents.backends.utils import create_file_data

from memory.front_matter import SKILL_FILE, SkillError, front_matter, read_skill

Files = dict[str, dict[str, Any]]


class SeedError(ValueError):
    """A file that cannot be seeded. The message names it and says what is wrong."""


def policies(root: Path) -> dict[str, Files]:
    """Organization to store key to value, from `policies/<org>/**/*.md`.

    Raises:
        SeedError: a file is not UTF-8 text.
    """
    return {unquote(org.name): _folder(org, "**/*.md") for org in _folders(root / "policies")}


def skills(root: Path) -> Files:
    """Store key to value, from `seeds/skills/<name>/`, each with a valid SKILL.md.

    Raises:
        SeedError: a skill has no SKILL.md, or one without valid front matter.
    """
    found: Files = {}
    for folder in _folders(root / "seeds" / "skills"):
        _check_skill(folder)
        found |= {f"/{folder.name}{key}": value for key, value in _folder(folder, "**/*", binary=True).items()}
    return found


def memories(root: Path) -> dict[tuple[str, str], Files]:
    """(Organization, identity) to store key to value, from `seeds/memories/<org>/<identity>/`.

    What is at the top of `seeds/memories/` is for everyone and comes to each named person too, where their own folder has
    no file of that name; others get it with their first conversation. Folder names may be percent-encoded.

    Raises:
        SeedError: a file is not UTF-8 text.
    """
    everyone = _folder(root / "seeds" / "memories", "*.*")
    return {
        (unquote(org.name), unquote(person.name)): {**everyone, **_folder(person, "**/*")}
        for org in _folders(root / "seeds" / "memories")
        for person in _folders(org)
    }


def _folders(path: Path) -> Iterator[Path]:
    paths = sorted(path.iterdir()) if path.is_dir() else []
    return (folder for folder in paths if folder.is_dir() and not folder.name.startswith((".", "_")))


def _folder(folder: Path, pattern: str, *, binary: bool = False) -> Files:
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file() and not path.name.startswith(".")]
    return {f"/{path.relative_to(folder).as_posix()}": _value(path, binary=binary) for path in paths}


def _value(path: Path, *, binary: bool) -> dict[str, Any]:
    raw = path.read_bytes()
    try:
        return {**create_file_data(raw.decode())}
    except UnicodeDecodeError:
        if not binary or path.suffix == ".md":
            raise SeedError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        return {**create_file_data(base64.b64encode(raw).decode(), encoding="base64")}


def _check_skill(folder: Path) -> None:
    path = folder / SKILL_FILE
    if not path.is_file():
        raise SeedError(f"{folder} has no SKILL.md; add one, or move the folder away.")
    try:
        read_skill(f"/{folder.name}/{SKILL_FILE}", front_matter(path.read_bytes()))
    except SkillError as error:
        raise SeedError(f"{path} is no skill. {error}") from None
