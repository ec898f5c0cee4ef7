"""Files of a deployment's folder that it puts into its store, read and checked before anything is
written.

`policies/` has the policies of organizations, and `seeds/` has skills and first memories
(`new_memory.py`).
"""

import base64
from pathlib import Path

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data

from lasting_memory.deployment import Deployment, Limits
from lasting_memory.memory import validation
from lasting_memory.people.identity import Author
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
    refuse_link(folder)
    if not folder.is_dir():
        return []
    paths = list[Path]()
    for path in sorted(folder.iterdir()):
        is_hidden = path.name.startswith(".")
        if is_hidden or path.name in _NOBODYS:
            continue
        refuse_link(path)
        is_file_or_folder = path.is_file() or path.is_dir()
        if not is_file_or_folder:
            raise SeedError(f"{path} is neither a file nor a folder; move it away.")
        paths.append(path)
    return paths


def refuse_link(path: Path) -> None:
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
    folders = list[Path]()
    for folder in paths_in(path):
        has_underscore = folder.name.startswith("_")
        if folder.is_dir() and not has_underscore:
            folders.append(folder)
    return folders


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
    value = read_value(path, is_text=is_text)
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


def read_value(path: Path, *, is_text: bool) -> FileData:
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
        base64_text = base64.b64encode(raw).decode()
        return create_file_data(base64_text, encoding="base64")
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
    quota = f"{limits.max_files} files and {limits.max_bytes:,} bytes are the limit"
    raise SeedError(
        f"{source} has {count} files with {size:,} bytes for one person, and {quota}; seed fewer."
    )
