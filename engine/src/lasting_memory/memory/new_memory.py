"""What a new memory starts with: its first files.

These are the files of a deployment's `seeds/memories/` itself, which all new memories get, and what
the deployment's function `first_files` gives one person.
"""

from collections.abc import Mapping
from pathlib import Path

from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation
from lasting_memory.memory.seeded import (
    SeedError,
    check_quota,
    paths_in,
    read_value,
    refuse_link,
    seed_value,
)
from lasting_memory.people.identity import Actor, Author
from lasting_memory.plain_text import plain

# Seconds that a deployment's function of first files may take.
FIRST_FILES_SECONDS = 5.0

# What `starting_memory` gives, by a deployment's folder. What a run or a request needs was read when
# the graph was built.
_starting: dict[Path, Mapping[str, str]] = {}


def first_files(folder: Path) -> list[Path]:
    """The files that every new memory gets: those in `seeds/memories/` itself. Raises as `paths_in`."""
    seeds = folder / "seeds"
    refuse_link(seeds)
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
    own_texts = deployment.first_files(actor) if deployment.first_files else {}
    if not isinstance(own_texts, Mapping):
        raise SeedError(
            f"first_files returned {own_texts!r:.80}; return texts by path, such as {{'/memories/preferences.md': ...}}."
        )
    if len(own_texts) > deployment.limits.max_files:
        raise SeedError(
            f"first_files returned {len(own_texts):,} files; return {deployment.limits.max_files:,} at most."
        )
    texts = dict[str, str]()
    for path, text in own_texts.items():
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
    all_texts = {**starting_memory(deployment.folder), **texts}
    contents = list(all_texts.values())
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
        value = read_value(path, is_text=True)
        texts[key] = value["content"]
    _starting[folder] = texts
    return texts
