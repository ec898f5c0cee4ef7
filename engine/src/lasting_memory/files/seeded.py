"""Files of this folder that a deployment puts into its store, read and checked before anything is written."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepagents.backends.utils import create_file_data

from lasting_memory import validation
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.people.identity import Author
from lasting_memory.settings import SettingsError


class SeedError(SettingsError):
    """A file or folder that cannot be seeded. The message is one line that names it and the fault."""


def entries(folder: Path) -> list[Path]:
    """The files and folders in a folder, by name; none if it is not there. Hidden ones are nobody's seeds.

    Raises `SeedError` for a link, which may lead to files that are not meant for everybody, such as `.env`.
    """
    _refuse_link(folder)
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        _refuse_link(path)
        if not (path.is_dir() or path.is_file()):
            raise SeedError(f"{path} is neither a file nor a folder; move it away.")
        found.append(path)
    return found


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise SeedError(f"{path} is a link; put what it leads to in its place, or move it away.")


def all_files(folder: Path) -> list[Path]:
    """The files in a folder and in the folders below it. Raises as `entries`."""
    files = list[Path]()
    for path in entries(folder):
        files += all_files(path) if path.is_dir() else [path]
    return files


def seed_value(path: Path, target: str, deployment: Deployment) -> dict[str, Any]:
    """A file as the store's value for a path that the agent sees. Raises `SeedError` if it may not be written there."""
    value = _value(path, is_text=path.suffix == ".md" or not target.startswith("/skills/"))
    try:
        if target.startswith("/policies/"):
            validation.check_policy(target.removeprefix("/policies"), value)
        else:
            validation.check_path(target)
            validation.before_write(deployment, target, value["content"], Author("seed"), value["encoding"])
    except validation.RefusedWrite as error:
        raise SeedError(f"{path} cannot be seeded. {error}") from None
    return value


def _value(path: Path, *, is_text: bool) -> dict[str, Any]:
    """A file's content, checked for nothing but that it can be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SeedError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return {**create_file_data(raw.decode())}
    except UnicodeDecodeError:
        if is_text:
            raise SeedError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        return {**create_file_data(base64.b64encode(raw).decode(), encoding="base64")}


def check_quota(folder: Path, contents: list[str], limits: Limits) -> None:
    """Raise `SeedError` for more than the memory of one person may hold."""
    size = sum(len(content.encode()) for content in contents)
    if len(contents) > limits.max_files or size > limits.max_bytes:
        most = f"{limits.max_files} files and {limits.max_bytes:,} bytes are the limit"
        raise SeedError(f"{folder} has {len(contents)} files with {size:,} bytes for one person, and {most}; seed fewer.")


# --- What a new memory starts with

# By a deployment's folder. What a run or a request needs was read when the graph was built.
_starting: dict[Path, Mapping[str, str]] = {}


def first_files(folder: Path) -> list[Path]:
    """The files that every new person gets: those in `seeds/memories/` itself. Raises as `entries`."""
    _refuse_link(folder / "seeds")
    return [path for path in entries(folder / "seeds" / "memories") if path.is_file() and "." in path.name]


def load_starting_memory(deployment: Deployment) -> None:
    """Read and check what a new memory starts with. Called where graphs are built, because each run of a new person needs it.

    Raises `SeedError`, which names the file that could not be written.
    """
    folder = deployment.folder
    texts = dict[str, str]()
    for path in first_files(folder):
        texts[f"/{path.name}"] = seed_value(path, f"/memories/{path.name}", deployment)["content"]
    check_quota(folder / "seeds" / "memories", list(texts.values()), deployment.limits)
    _starting[folder] = texts


def starting_memory(folder: Path) -> Mapping[str, str]:
    """The files that a person without memory gets at the start of their first run, by key, such as `/preferences.md`: those of
    a deployment's `seeds/memories/`. Folders for named users are put there by `python -m seeds`.

    They are read once, and do not change while a process runs. Raises `SeedError` for what is no text.
    """
    if folder not in _starting:
        _starting[folder] = {f"/{path.name}": _value(path, is_text=True)["content"] for path in first_files(folder)}
    return _starting[folder]
