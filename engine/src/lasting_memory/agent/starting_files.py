"""The files with which a new memory starts, and who gets them: a memory that has not begun yet."""

import asyncio
import logging
from collections.abc import Mapping

from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, SearchOp

from lasting_memory import platform
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.folder import Folder
from lasting_memory.memory.journal import Change
from lasting_memory.memory.new_memory import FIRST_FILES_SECONDS, own_first_files, starting_memory
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace

logger = logging.getLogger(__name__)


async def starting_files(
    store: BaseStore, actor: Actor, assistant: str, deployment: Deployment, *, write: bool
) -> Mapping[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they
    become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back. Shared memory
    starts so, too, with whoever comes first. Where the deployment's own function fails, nothing is
    written, and the next run asks it again.
    """
    namespace = deployment.memory.namespace(actor, assistant)
    author = Author("seed", actor.user_id)
    if deployment.memory.is_shared:
        author = Author("seed")
    if await _has_begun(store, namespace):
        return {}
    # Without a graph it reads files the first time.
    texts = await platform.in_thread(starting_memory, deployment.folder)
    try:
        async with asyncio.timeout(FIRST_FILES_SECONDS):
            own_texts = await platform.in_thread_of_forks(own_first_files, deployment, actor)
        texts = {**texts, **own_texts}
    except (
        Exception
    ):  # a fork's function raises whatever it comes across; nobody loses a turn by it
        logger.exception(
            "first_files of this deployment failed; a new memory goes on without them for now."
        )
        return texts
    if not write:
        return texts
    writer = journal.writer_of_run(actor)
    folder = Folder(deployment, store, namespace, "/memories", author, writer)
    for key, text in texts.items():
        try:
            await folder.change(key, _creation(text), expect="", is_bounded=False)
        except (RefusedWrite, journal.MovedError) as error:  # moved: another run has written it
            logger.warning("A new memory starts without seeds/memories%s: %r", key, error)
    return texts


async def _has_begun(store: BaseStore, namespace: Namespace) -> bool:
    """Whether a memory has files, or had some."""
    searches = list[SearchOp]()
    for prefix in (namespace, namespaces.journals(namespace)):
        searches.append(SearchOp(prefix, limit=1))
    results = await store.abatch(searches)
    return any(results)


def _creation(text: str) -> Change:
    """The change that makes a new file of a text."""
    return lambda _: create_file_data(text)
