"""Marks in the metadata of threads, which only the server sets.

The platform copies a thread's metadata to its runs, and to copies of the thread.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from langgraph.config import get_config
from langgraph_sdk.errors import NotFoundError

from lasting_memory.platform import get_client

# On a thread that its creator asked to leave nothing behind.
TEMPORARY = "temporary"
# On a thread in which something was said while its person's memory was paused.
HELD_WHILE_PAUSED = "held_while_paused"
# On a conversation that was imported: it is read and searched, never continued, and never
# consolidated. And when it began and ended, in ISO format, UTC, where the document says so.
IMPORTED = "imported"
IMPORTED_BEGAN = "imported_began"
IMPORTED_ENDED = "imported_ended"
# Metadata of the runs that consolidation's triggers create.
RUN_METADATA = ("trigger", "consolidates")
# Metadata that only this process may set, while it does: an in-process call carries this to
# `auth.py`, no request can set it.
setting: ContextVar[Collection[str]] = ContextVar("setting", default=())


@contextmanager
def may_set(*names: str) -> Iterator[None]:
    """Meanwhile, this task's own calls may set this metadata."""
    token = setting.set(names)
    try:
        yield
    finally:
        setting.reset(token)


def is_temporary(thread: Mapping[str, Any]) -> bool:
    """Whether a thread, read with its metadata, is a temporary conversation."""
    return bool((thread.get("metadata") or {}).get(TEMPORARY))


def is_imported(thread: Mapping[str, Any]) -> bool:
    """Whether a thread, read with its metadata, is an imported conversation."""
    return bool((thread.get("metadata") or {}).get(IMPORTED))


def stays_out(thread: Mapping[str, Any]) -> bool:
    """Whether a thread is never consolidated."""
    return (
        is_temporary(thread)
        or is_imported(thread)
        or bool((thread.get("metadata") or {}).get(HELD_WHILE_PAUSED))
    )


async def keep_out(thread_id: str, metadata: Mapping[str, Any] | None) -> None:
    """Mark a thread, so that consolidation skips what was said during the pause. `metadata`: its
    own, or a run's.
    """
    if (metadata or {}).get(HELD_WHILE_PAUSED):
        return
    with (
        may_set(HELD_WHILE_PAUSED),
        suppress(NotFoundError),
    ):  # a stateless run, whose thread is gone
        await get_client().threads.update(thread_id, metadata={HELD_WHILE_PAUSED: True})


def in_temporary_conversation() -> bool:
    """Whether the current run belongs to a temporary conversation. False outside of runs."""
    try:
        return bool((get_config().get("metadata") or {}).get(TEMPORARY))
    except RuntimeError:
        return False
