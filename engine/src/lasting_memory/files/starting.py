"""The files with which a new person's memory starts. Shared memory starts empty."""

import asyncio
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, SearchOp

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.validation import RefusedWrite, before_write

logger = logging.getLogger(__name__)


@cache  # they do not change while a process runs
def starting_memory(folder: Path) -> Mapping[str, str]:
    """The files that a person without memory gets at the start of their first run, by key, such as `/preferences.md`: those of
    a deployment's `seeds/memories/`. Folders for named users are put there by `python -m seeds`.
    """
    paths = sorted((folder / "seeds" / "memories").glob("*.*"))
    return {f"/{path.name}": path.read_text("utf-8") for path in paths if path.is_file() and not path.name.startswith(".")}


async def starting_files(
    store: BaseStore, actor: identity.Actor, assistant: str, deployment: Deployment, *, write: bool
) -> Mapping[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back.
    """
    own, author = deployment.memory.namespace(actor, assistant), identity.Author("seed", actor.user_id)
    begun = [SearchOp(place, limit=1) for place in (own, namespaces.journals(own))]
    if deployment.memory.is_shared or any(await store.abatch(begun)):
        return {}
    texts = await asyncio.to_thread(starting_memory, deployment.folder)  # the first time it reads files
    for key, text in texts.items() if write else ():
        new, began = _new(text), journal.began(actor)
        try:
            before_write(deployment, f"/memories{key}", text, author)
            await journal.change(store, own, key, new, author, expect="", began=began, limits=deployment.limits)
        except (RefusedWrite, journal.MovedError) as error:  # moved: another run has written it
            logger.warning("A new memory starts without seeds/memories%s: %r", key, error)
    return texts


def _new(text: str) -> journal.Change:
    return lambda _: create_file_data(text)
