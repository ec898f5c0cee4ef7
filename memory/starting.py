"""The files with which a new person's memory starts, and, under `MEMORY_SCOPE=assistant`, an organization's."""

import logging
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, Item, SearchOp

from memory import identity, journal, namespaces
from memory.validation import RefusedWriteError, before_write
from settings import PROJECT, Settings

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

    Change this to make them depend on the person, or on what your front end knows of them: add fields to `identity.Context` and
    send them with the run, whose context this is. A client can claim anything there.
    """
    return _SEED_FILES


def starting_shared_memory(org_id: str) -> dict[str, str]:
    """The same for an organization's shared memory: `seeds/memories/_assistant/`, overlaid by the organization's own folder."""
    return {**_SHARED_FILES, **_OF_ORGANIZATIONS.get(org_id, {})}


async def starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, settings: Settings, context: Any = None
) -> dict[str, FileData]:
    """The files with which this memory starts, by key; none if it has begun. Invalid ones are logged and left out.

    It has begun if it has files, or had some: who deletes all of them gets none back. To be forgotten is to begin anew.
    """
    own = namespaces.memories(actor, assistant, settings)
    if any(await store.abatch([SearchOp(begun, limit=1) for begun in (own, namespaces.journals(own))])):
        return {}
    shared, files = settings.memory_scope == "assistant", dict[str, FileData]()
    for key, text in (starting_shared_memory(actor.org_id) if shared else starting_memory(actor, context)).items():
        try:
            before_write(f"/memories{key}", text, identity.Author("seed", actor.user_id))
        except RefusedWriteError as error:
            logger.warning("A new memory starts without seeds/memories%s: %s", key, error)
        else:
            files[key] = create_file_data(text)
    return files


async def starting_items(store: BaseStore, actor: identity.Actor, assistant: str, settings: Settings) -> dict[str, Item]:
    """`starting_files` as the store would give them now."""
    files, now = await starting_files(store, actor, assistant, settings), datetime.now(UTC)
    stamps: dict[str, Any] = {"namespace": ("starting",), "created_at": now, "updated_at": now}
    return {key: Item(key=key, value={**file}, **stamps) for key, file in files.items()}


async def write_starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, settings: Settings, context: Any
) -> bool:
    """Write the starting files into a memory that has not begun; files that another run has written meanwhile stay.

    Returns whether there are any. A failure is logged, because it must not stop the run.
    """
    namespace, author = namespaces.memories(actor, assistant, settings), identity.Author("seed", actor.user_id)
    try:
        files = await starting_files(store, actor, assistant, settings, context)
        for key, file in files.items():
            with suppress(RefusedWriteError):
                await journal.change(store, namespace, key, partial(_new_file, file), author, began=journal.began(actor))
    except Exception:  # a store raises what its driver raises
        logger.exception("The first memory of a new user could not be written.")
        return False
    return bool(files)


def _new_file(file: FileData, before: FileData | None) -> FileData:
    if before is not None:
        raise RefusedWriteError("The file is there.")
    return file
