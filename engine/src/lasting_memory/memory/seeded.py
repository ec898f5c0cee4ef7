"""Files of this folder that a deployment puts into its store, read and checked before anything is
written.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepagents.backends.utils import create_file_data

from lasting_memory.deployment import Deployment, Limits
from lasting_memory.memory import validation
from lasting_memory.people.identity import Actor, Author
from lasting_memory.plain_text import plain
from lasting_memory.settings import SettingsError

# Folders that tools make, beside hidden ones. What is in them nobody wrote.
_NOBODYS = {"__pycache__", "node_modules"}


class SeedError(SettingsError):
    """A file or folder that cannot be seeded. The message is one line that names it and the fault."""


def entries(folder: Path) -> list[Path]:
    """The files and folders in a folder, by name; none if it is not there. Hidden ones are nobody's
    seeds.

    Raises `SeedError` for a link, which may lead to files that are not meant for everybody, such as
    `.env`.
    """
    _refuse_link(folder)
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _NOBODYS:
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


def folders(path: Path) -> list[Path]:
    """The folders in a folder, but those whose names begin with an underscore. Raises as `entries`."""
    found = list[Path]()
    for folder in entries(path):
        if folder.is_dir() and not folder.name.startswith("_"):
            found.append(folder)
    return found


def shared_seeds(deployment: Deployment) -> list[str]:
    """Which of "policies" and "skills" this folder has files of, for `python -m seeds` to put into
    a deployment.

    Raises as `entries`.
    """
    found = list[str]()
    policies = list[Path]()
    for organization in folders(deployment.folder / "policies"):
        policies += all_files(organization)
    if any(path.suffix == ".md" for path in policies):
        found.append("policies")
    if "/skills/" in deployment.routes and folders(deployment.folder / "seeds" / "skills"):
        found.append("skills")
    return found


def seed_value(path: Path, target: str, deployment: Deployment) -> dict[str, Any]:
    """A file as the store's value for a path that the agent sees. Raises `SeedError` if it may not
    be written there.

    The deployment's own checks judge skills and policies later, when what is there is known
    (`seeding.file_changes`).
    """
    is_of_skill = target.startswith("/skills/")
    is_text = path.suffix == ".md" or not is_of_skill
    value = _value(path, is_text=is_text)
    try:
        if target.startswith("/policies/"):
            validation.check_policy(target.removeprefix("/policies"), value)
        else:
            validation.check_path(target)
            check = validation.check_file if is_of_skill else validation.before_write
            check(deployment, target, value["content"], Author("seed"), value["encoding"])
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
        text = raw.decode()
    except UnicodeDecodeError:
        if is_text:
            raise SeedError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        encoded = base64.b64encode(raw).decode()
        return {**create_file_data(encoded, encoding="base64")}
    return {**create_file_data(plain(text))}


def check_quota(source: object, contents: list[str], limits: Limits) -> None:
    """Raise `SeedError` for more than the memory of one person may hold."""
    size = 0
    for content in contents:
        size += len(content.encode())
    if len(contents) > limits.max_files or size > limits.max_bytes:
        most = f"{limits.max_files} files and {limits.max_bytes:,} bytes are the limit"
        raise SeedError(
            f"{source} has {len(contents)} files with {size:,} bytes for one person, and {most}; seed fewer."
        )


# --- What a new memory starts with

# Seconds that a deployment's function of first files may take.
FIRST_FILES_SECONDS = 5.0

# By a deployment's folder. What a run or a request needs was read when the graph was built.
_starting: dict[Path, Mapping[str, str]] = {}


def first_files(folder: Path) -> list[Path]:
    """The files that every new memory gets: those in `seeds/memories/` itself. Raises as `entries`."""
    _refuse_link(folder / "seeds")
    found = list[Path]()
    for path in entries(folder / "seeds" / "memories"):
        if path.is_file() and "." in path.name:
            found.append(path)
    return found


def load_starting_memory(deployment: Deployment) -> None:
    """Read and check what a new memory starts with. Called where graphs are built, because each run
    of a new person needs it.

    Raises `SeedError`, which names the file that could not be written.
    """
    if not deployment.has_memory:
        return
    folder = deployment.folder
    texts = dict[str, str]()
    for path in first_files(folder):
        key = f"/{path.name}"
        value = seed_value(path, f"/memories{key}", deployment)
        texts[key] = value["content"]
    check_quota(folder / "seeds" / "memories", list(texts.values()), deployment.limits)
    _starting[folder] = texts


def own_first_files(deployment: Deployment, actor: Actor) -> Mapping[str, str]:
    """What `Deployment.first_files` gives this person, by key. Raises `SeedError` for what may not
    be written. Blocks.
    """
    given = deployment.first_files(actor) if deployment.first_files else {}
    if not isinstance(given, Mapping):
        raise SeedError(
            f"first_files returned {given!r:.80}; return texts by path, such as {{'/memories/preferences.md': ...}}."
        )
    if len(given) > deployment.limits.max_files:
        raise SeedError(
            f"first_files returned {len(given):,} files; return {deployment.limits.max_files:,} at most."
        )
    texts = dict[str, str]()
    for path, text in given.items():
        is_text = isinstance(path, str) and isinstance(text, str)
        if not is_text or not path.startswith("/memories/"):
            raise SeedError(
                f"first_files returned {path!r:.80}: {text!r:.80}; use paths under /memories/, and texts."
            )
        kept_text = plain(text)
        try:
            validation.check_path(path)
            validation.before_write(deployment, path, kept_text, Author("seed", actor.user_id))
        except validation.RefusedWrite as error:
            raise SeedError(
                f"first_files returned a file that cannot be written. {error}"
            ) from None
        texts[path.removeprefix("/memories")] = kept_text
    everything = {**starting_memory(deployment.folder), **texts}
    check_quota("first_files", list(everything.values()), deployment.limits)
    return texts


def starting_memory(folder: Path) -> Mapping[str, str]:
    """The files that a memory without any gets at the start of its first run, by key, such as
    `/preferences.md`: those of a deployment's `seeds/memories/`. Folders for named users are put
    there by `python -m seeds`.

    They are read once, and do not change while a process runs. Raises `SeedError` for what is no
    text.
    """
    if folder not in _starting:
        texts = dict[str, str]()
        for path in first_files(folder):
            value = _value(path, is_text=True)
            texts[f"/{path.name}"] = value["content"]
        _starting[folder] = texts
    return _starting[folder]
