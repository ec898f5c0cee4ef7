"""The files with which a new person's memory starts, and, under `MEMORY_SCOPE=assistant`, an organization's."""

import asyncio
import logging
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from urllib.parse import unquote

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, SearchOp

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)

# By folder: files, those of shared memory, and those of each organization's. They do not change while a process runs.
_Seeds = tuple[Mapping[str, str], Mapping[str, str], Mapping[str, Mapping[str, str]]]


@cache
def _seeds(folder: Path) -> _Seeds:
    """What a deployment's folder gives new memories. Folders for named users are put there by `python -m seeds`."""
    root = folder / "seeds" / "memories"
    organizations = {unquote(org.name): _texts(org, "**/*") for org in (root / "_assistant").glob("*/")}
    return _texts(root), _texts(root / "_assistant"), organizations


def _texts(folder: Path, pattern: str = "*.*") -> dict[str, str]:
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file() and not path.name.startswith(".")]
    return {f"/{path.relative_to(folder).as_posix()}": path.read_text("utf-8") for path in paths}


def starting_memory(deployment: Deployment) -> Mapping[str, str]:
    """The files that a person without memory gets at the start of their first run, by key, such as `/preferences.md`."""
    return _seeds(deployment.folder)[0]


def starting_shared_memory(deployment: Deployment, org_id: str) -> dict[str, str]:
    """The same for an organization's shared memory: `seeds/memories/_assistant/`, overlaid by the organization's own folder."""
    _, shared, organizations = _seeds(deployment.folder)
    return {**shared, **organizations.get(org_id, {})}


async def starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, deployment: Deployment, *, write: bool
) -> Mapping[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back.
    """
    own, author = deployment.memory.namespace(actor, assistant), identity.Author("seed", actor.user_id)
    if any(await store.abatch([SearchOp(begun, limit=1) for begun in (own, namespaces.journals(own))])):
        return {}
    shared = deployment.memory.is_shared
    named = partial(starting_shared_memory, deployment, actor.org_id) if shared else partial(starting_memory, deployment)
    texts = await asyncio.to_thread(named)  # the first time it reads files
    for key, text in texts.items() if write else ():
        try:
            await journal.change(
                store,
                own,
                key,
                partial(_new_file, deployment, key, text, author),
                author,
                began=journal.began(actor),
                limits=deployment.limits,
            )
        except RefusedWrite as error:
            logger.warning("A new memory starts without seeds/memories%s: %s", key, error)
    return texts


def _new_file(deployment: Deployment, key: str, text: str, author: identity.Author, before: FileData | None) -> FileData:
    if before is not None:
        raise RefusedWrite("Another run has written it.")
    before_write(deployment, f"/memories{key}", text, author)
    return create_file_data(text)
