"""Files of a deployment's folder that it puts into its store, read and checked before anything is
written.

`policies/` has the policies of organizations, and `seeds/` has skills and first memories. First
files are those with which a new memory starts: the files of `seeds/memories/` itself, which all new
memories get, and what the deployment's function `first_files` gives one person.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from deepagents.backends.protocol import FileData
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


def paths_in(folder: Path) -> list[Path]:
    """The files and folders in a folder, by name; none if it is not there. Hidden ones are nobody's
    seeds.

    Raises `SeedError` for a link, which may lead to files that are not meant for everybody, such as
    `.env`.
    """
    _refuse_link(folder)
    if not folder.is_dir():
        return []
    paths = list[Path]()
    for path in sorted(folder.iterdir()):
        is_hidden = path.name.startswith(".")
        if is_hidden or path.name in _NOBODYS:
            continue
        _refuse_link(path)
        is_file_or_folder = path.is_file() or path.is_dir()
        if not is_file_or_folder:
            raise SeedError(f"{path} is neither a file nor a folder; move it away.")
        paths.append(path)
    return paths


def _refuse_link(path: Path) -> None:
    """Raises `SeedError` for a link."""
    if path.is_symlink():
        raise SeedError(f"{path} is a link; put what it leads to in its place, or move it away.")


def files_below(folder: Path) -> list[Path]:
    """The files in a folder and in the folders below it. Raises as `paths_in`."""
    files = list[Path]()
    for path in paths_in(folder):
        if path.is_dir():
            files += files_below(path)
        else:
            files.append(path)
    return files


def folders_in(path: Path) -> list[Path]:
    """The folders in a folder, but those whose names begin with an underscore. Raises as `paths_in`."""
    below = list[Path]()
    for folder in paths_in(path):
        has_underscore = folder.name.startswith("_")
        if folder.is_dir() and not has_underscore:
            below.append(folder)
    return below


def shared_seeds(deployment: Deployment) -> list[str]:
    """Which of "policies" and "skills" this folder has files of, for `python -m seeds` to put into
    a deployment.

    Raises as `paths_in`.
    """
    parts = list[str]()
    policy_files = list[Path]()
    for organization in folders_in(deployment.folder / "policies"):
        policy_files += files_below(organization)
    if any(path.suffix == ".md" for path in policy_files):
        parts.append("policies")
    skills = deployment.folder / "seeds" / "skills"
    has_skills = "/skills/" in deployment.routes and folders_in(skills)
    if has_skills:
        parts.append("skills")
    return parts


def seed_value(path: Path, target: str, deployment: Deployment) -> FileData:
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
            check(
                deployment,
                target,
                content=value["content"],
                author=Author("seed"),
                encoding=value["encoding"],
            )
    except validation.RefusedWrite as error:
        raise SeedError(f"{path} cannot be seeded. {error}") from None
    return value


def _value(path: Path, *, is_text: bool) -> FileData:
    """A file as the store's value, checked for nothing but that it can be read. Raises `SeedError`
    for one that cannot, and with `is_text` for one that is no UTF-8.
    """
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
        return create_file_data(encoded, encoding="base64")
    return create_file_data(plain(text))


def check_quota(source: object, contents: list[str], limits: Limits) -> None:
    """Raise `SeedError` for more files, with these contents, than the memory of one person may hold.
    `source` is what the error names: where they come from.
    """
    size = 0
    for content in contents:
        size += len(content.encode())
    count = len(contents)
    if count <= limits.max_files and size <= limits.max_bytes:
        return
    most = f"{limits.max_files} files and {limits.max_bytes:,} bytes are the limit"
    raise SeedError(
        f"{source} has {count} files with {size:,} bytes for one person, and {most}; seed fewer."
    )


# --- What a new memory starts with

# Seconds that a deployment's function of first files may take.
FIRST_FILES_SECONDS = 5.0

# What `starting_memory` gives, by a deployment's folder. What a run or a request needs was read when
# the graph was built.
_starting: dict[Path, Mapping[str, str]] = {}


def first_files(folder: Path) -> list[Path]:
    """The files that every new memory gets: those in `seeds/memories/` itself. Raises as `paths_in`."""
    seeds = folder / "seeds"
    _refuse_link(seeds)
    files = list[Path]()
    for path in paths_in(seeds / "memories"):
        if path.is_file() and "." in path.name:
            files.append(path)
    return files


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
    source = folder / "seeds" / "memories"
    contents = list(texts.values())
    check_quota(source, contents, deployment.limits)
    _starting[folder] = texts


def own_first_files(deployment: Deployment, actor: Actor) -> Mapping[str, str]:
    """What `Deployment.first_files` gives this person, by key. Raises `SeedError` for what may not
    be written. Blocks.
    """
    returned = deployment.first_files(actor) if deployment.first_files else {}
    if not isinstance(returned, Mapping):
        raise SeedError(
            f"first_files returned {returned!r:.80}; return texts by path, such as {{'/memories/preferences.md': ...}}."
        )
    if len(returned) > deployment.limits.max_files:
        raise SeedError(
            f"first_files returned {len(returned):,} files; return {deployment.limits.max_files:,} at most."
        )
    texts = dict[str, str]()
    for path, text in returned.items():
        key = _key_of_first_file(path, text)
        texts[key] = plain(text)
        try:
            validation.check_path(path)
            validation.before_write(
                deployment,
                path,
                content=texts[key],
                author=Author("seed", actor.user_id),
            )
        except validation.RefusedWrite as error:
            raise SeedError(
                f"first_files returned a file that cannot be written. {error}"
            ) from None
    everything = {**starting_memory(deployment.folder), **texts}
    contents = list(everything.values())
    check_quota("first_files", contents, deployment.limits)
    return texts


def _key_of_first_file(path: object, text: object) -> str:
    """The key of what `Deployment.first_files` gives for a path. Raises `SeedError` for what is no
    path of memory, or no text.
    """
    is_text = isinstance(text, str)
    if is_text and isinstance(path, str) and path.startswith("/memories/"):
        return path.removeprefix("/memories")
    raise SeedError(
        f"first_files returned {path!r:.80}: {text!r:.80}; use paths under /memories/, and texts."
    )


def starting_memory(folder: Path) -> Mapping[str, str]:
    """The files that a memory without any gets at the start of its first run, by key, such as
    `/preferences.md`: those of a deployment's `seeds/memories/`. Folders for named users are put
    there by `python -m seeds`.

    They are read once, and do not change while a process runs. Raises `SeedError` for what is no
    text.
    """
    if folder in _starting:
        return _starting[folder]
    texts = dict[str, str]()
    for path in first_files(folder):
        key = f"/{path.name}"
        value = _value(path, is_text=True)
        texts[key] = value["content"]
    _starting[folder] = texts
    return texts
