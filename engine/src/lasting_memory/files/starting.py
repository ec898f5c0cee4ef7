"""The files with which a new person's memory starts, and, under `MEMORY_SCOPE=assistant`, an organization's."""

import logging
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, SearchOp

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.settings import PROJECT
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)

_SEEDS = PROJECT / "seeds" / "memories"


def _texts(folder: Path, pattern: str = "*.*") -> dict[str, str]:
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file() and not path.name.startswith(".")]
    return {f"/{path.relative_to(folder).as_posix()}": path.read_text("utf-8") for path in paths}


# Folders beside these files are for named users (`python -m seeds`); `_assistant/` is for shared memory.
_SEED_FILES = _texts(_SEEDS)
_SHARED_FILES = _texts(_SEEDS / "_assistant")
_OF_ORGANIZATIONS = {unquote(org.name): _texts(org, "**/*") for org in (_SEEDS / "_assistant").glob("*/")}


def starting_memory(actor: identity.Actor, context: Any) -> dict[str, str]:
    """The files that a person without memory gets at the start of their first run, by key, such as `/preferences.md`.

    Change this to make them depend on the person, or on the run's context, in which a client can claim anything.
    """
    return _SEED_FILES


def starting_shared_memory(org_id: str) -> dict[str, str]:
    """The same for an organization's shared memory: `seeds/memories/_assistant/`, overlaid by the organization's own folder."""
    return {**_SHARED_FILES, **_OF_ORGANIZATIONS.get(org_id, {})}


async def starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, deployment: Deployment, context: Any = None, *, write: bool
) -> dict[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back.
    """
    own, author = deployment.memory.namespace(actor, assistant), identity.Author("seed", actor.user_id)
    if any(await store.abatch([SearchOp(begun, limit=1) for begun in (own, namespaces.journals(own))])):
        return {}
    texts = starting_shared_memory(actor.org_id) if deployment.memory.is_shared else starting_memory(actor, context)
    for key, text in texts.items() if write else ():
        try:
            await journal.change(
                store, own, key, partial(_new_file, deployment, key, text, author), author, began=journal.began(actor)
            )
        except RefusedWrite as error:
            logger.warning("A new memory starts without seeds/memories%s: %s", key, error)
    return texts


def _new_file(deployment: Deployment, key: str, text: str, author: identity.Author, before: FileData | None) -> FileData:
    if before is not None:
        raise RefusedWrite("Another run has written it.")
    before_write(deployment, f"/memories{key}", text, author)
    return create_file_data(text)
