"""Marks in the metadata of threads, which only the server sets.

The platform copies a thread's metadata to its runs, and to copies of the thread.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from langgraph.config import get_config
from langgraph_sdk.errors import NotFoundError

from lasting_memory.platform import get_client

# On a thread that its creator asked to leave nothing behind.
TEMPORARY = "temporary"
# On a thread in which something was said while its person's memory was paused.
HELD_WHILE_PAUSED = "held_while_paused"
# On a conversation that was imported: it is read and searched, never continued and never
# consolidated. The other two say when it began and ended, in ISO format, UTC, where its document
# does.
IMPORTED = "imported"
IMPORTED_BEGAN = "imported_began"
IMPORTED_ENDED = "imported_ended"
# Metadata of the runs that consolidation's triggers create.
RUN_METADATA = ("trigger", "consolidates")
# Metadata that only this process may set. The names are here while an in-process call sets it, so
# that `auth.py` sees them; no request can set them.
setting: ContextVar[Collection[str]] = ContextVar("setting", default=())


@contextmanager
def may_set(*names: str) -> Iterator[None]:
    """Within this context, this task's own calls may set metadata of these names."""
    token = setting.set(names)
    try:
        yield
    finally:
        setting.reset(token)


def is_temporary(thread: Mapping[str, object]) -> bool:
    """Whether a thread, read with its metadata, is a temporary conversation."""
    return _has_mark(thread, TEMPORARY)


def is_imported(thread: Mapping[str, object]) -> bool:
    """Whether a thread, read with its metadata, is an imported conversation."""
    return _has_mark(thread, IMPORTED)


def stays_out(thread: Mapping[str, object]) -> bool:
    """Whether a thread, read with its metadata, is never consolidated."""
    marks = (TEMPORARY, IMPORTED, HELD_WHILE_PAUSED)
    return any(_has_mark(thread, mark) for mark in marks)


def _has_mark(holder: Mapping[str, object], mark: str) -> bool:
    """Whether the metadata of a thread, or of a run's config, has a mark."""
    metadata = holder.get("metadata")
    if not isinstance(metadata, Mapping):
        return False
    return bool(metadata.get(mark))


async def keep_out(thread_id: str, metadata: Mapping[str, object] | None) -> None:
    """Marks a thread, so that consolidation skips what was said during the pause.

    `metadata` is the thread's own, or a run's. A thread that has the mark is left as it is.
    """
    if metadata and metadata.get(HELD_WHILE_PAUSED):
        return
    mark = {HELD_WHILE_PAUSED: True}
    client = get_client()
    # The thread of a stateless run may be deleted already.
    with may_set(HELD_WHILE_PAUSED), suppress(NotFoundError):
        await client.threads.update(thread_id, metadata=mark)


def in_temporary_conversation() -> bool:
    """Whether the current run belongs to a temporary conversation. False outside of runs."""
    try:
        config = get_config()
    except RuntimeError:
        return False
    return _has_mark(config, TEMPORARY)
