"""The repository's policies, skills and first memories, by store key, checked before any is written.

A file that cannot be seeded raises `SeedError`: its text must be UTF-8, and `check_policy` or `before_write` must accept it.
Folder names of organizations and people may be percent-encoded.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deepagents.backends.utils import create_file_data

from memory.identity import Author
from memory.validation import RefusedWriteError, before_write, check_path, check_policy

Files = dict[str, dict[str, Any]]
# The key for all organizations: an organization's name is never empty.
EVERYBODY = ""


class SeedError(ValueError):
    """A file that cannot be seeded. The message names it and the fault."""


def policies(root: Path) -> dict[str, Files]:
    """The files of each organization, from `policies/<org>/**/*.md`."""
    return {unquote(org.name): _folder(org, "**/*.md", "/policies") for org in _folders(root / "policies")}


def skills(root: Path) -> Files:
    """The files in `seeds/skills/<name>/`. Each of these folders needs a SKILL.md with valid front matter."""
    files: Files = {}
    for folder in _folders(root / "seeds" / "skills"):
        if not (folder / "SKILL.md").is_file():
            raise SeedError(f"{folder} has no SKILL.md; add one, or move the folder away.")
        files |= {f"/{folder.name}{key}": value for key, value in _folder(folder, "**/*", f"/skills/{folder.name}").items()}
    return files


def shared_memories(root: Path) -> dict[str, Files]:
    """The files of each organization, from `seeds/memories/_assistant/<org>/`; `EVERYBODY` has the files at its top."""
    root = root / "seeds" / "memories" / "_assistant"
    of_all = {EVERYBODY: top} if (top := _folder(root, "*.*", "/memories")) else {}
    return of_all | {unquote(org.name): _folder(org, "**/*", "/memories") for org in _folders(root)}


def memories(root: Path) -> dict[tuple[str, str], Files]:
    """The files of each (organization, identity), from `seeds/memories/<org>/<identity>/`.

    Files at the top of `seeds/memories/` are for everyone. Named people get them too, unless their own folder has a file of
    that name; others get them with their first conversation.
    """
    everyone = _folder(root / "seeds" / "memories", "*.*", "/memories")
    return {
        (unquote(org.name), unquote(person.name)): {**everyone, **_folder(person, "**/*", "/memories")}
        for org in _folders(root / "seeds" / "memories")
        for person in _folders(org)
    }


def _folders(path: Path) -> Iterator[Path]:
    paths = sorted(path.iterdir()) if path.is_dir() else []
    return (folder for folder in paths if folder.is_dir() and not folder.name.startswith((".", "_")))


def _folder(folder: Path, pattern: str, route: str) -> Files:
    """The files of a folder by key, checked for writing under `route`."""
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file() and not path.name.startswith(".")]
    return {key: _value(path, f"{route}{key}") for path in paths if (key := f"/{path.relative_to(folder).as_posix()}")}


def _value(path: Path, target: str) -> dict[str, Any]:
    raw, is_policy = path.read_bytes(), target.startswith("/policies/")
    try:
        value: dict[str, Any] = {**create_file_data(raw.decode())}
    except UnicodeDecodeError:
        if path.suffix == ".md" or not target.startswith("/skills/"):
            raise SeedError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        value = {**create_file_data(base64.b64encode(raw).decode(), encoding="base64")}
    try:
        if is_policy:
            check_policy(target.removeprefix("/policies"), value)
        else:
            check_path(target)
            before_write(target, value["content"], Author("seed"))
    except RefusedWriteError as error:
        raise SeedError(f"{path} cannot be seeded. {error}") from None
    return value
