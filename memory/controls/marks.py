"""Marks in a thread's metadata: threads without memory, and threads that memory ignores. Only the server sets them.

The platform copies a thread's metadata to its runs, and to copies of the thread.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.config import get_config
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

import settings
from memory import identity

# On a thread that its creator asked to leave nothing behind.
TEMPORARY = "temporary"
# On a thread in which something was said while its person's memory was paused.
HELD_WHILE_PAUSED = "held_while_paused"
# Set while this process marks a thread. An in-process call carries it to `auth.py`, and no other request can set it.
stamping: ContextVar[bool] = ContextVar("stamping", default=False)
# Metadata of the runs that consolidation's triggers create, as `creating_run` says; other requests may not use it.
RUN_METADATA = ("trigger", "since")
creating_run: ContextVar[bool] = ContextVar("creating", default=False)
_PAGE = 100
_FIELDS: list[Any] = ["thread_id", "updated_at", "status", "metadata"]


def is_temporary(thread: Mapping[str, Any]) -> bool:
    """Whether a thread, read with its metadata, is a temporary conversation."""
    return bool((thread.get("metadata") or {}).get(TEMPORARY))


def stays_out(thread: Mapping[str, Any]) -> bool:
    """Whether a thread is never consolidated."""
    return is_temporary(thread) or bool((thread.get("metadata") or {}).get(HELD_WHILE_PAUSED))


async def keep_out(thread_id: str, metadata: Mapping[str, Any] | None) -> None:
    """Keep a conversation out of consolidation, for ever. `metadata`: the thread's, or that of a run on it."""
    if (metadata or {}).get(HELD_WHILE_PAUSED):
        return
    token = stamping.set(True)
    try:
        with suppress(NotFoundError):  # a stateless run, whose thread is gone
            await get_client().threads.update(thread_id, metadata={HELD_WHILE_PAUSED: True})
    finally:
        stamping.reset(token)


def in_temporary_conversation() -> bool:
    """Whether the current run belongs to a temporary conversation. False outside of runs."""
    try:
        return bool((get_config().get("metadata") or {}).get(TEMPORARY))
    except RuntimeError:
        return False


async def delete_temporary(client: LangGraphClient, actor: identity.Actor | None = None, now: datetime | None = None) -> int:
    """Delete temporary conversations, the actor's or all, `TEMPORARY_HOURS` after their last turn. Returns their number."""
    before = (now or datetime.now(UTC)) - timedelta(hours=settings.TEMPORARY_HOURS)
    wanted: dict[str, Any] = {TEMPORARY: True} | ({"user_id": actor.user_id, "org_id": actor.org_id} if actor else {})
    return len(await delete_idle(client, wanted, before))


async def delete_idle(
    client: LangGraphClient,
    wanted: Mapping[str, Any],
    before: datetime,
    spared: Callable[[list[Any]], Awaitable[Collection[str]]] | None = None,
) -> list[Any]:
    """Delete the idle threads with this metadata that have not changed since then. Returns them.

    `spared` gives the ids of those, of a page, that stay for now.
    """
    deleted, left = list[Any](), 0
    while True:
        page: list[Any] = await client.threads.search(
            metadata=dict(wanted), limit=_PAGE, offset=left, sort_by="updated_at", sort_order="asc", select=_FIELDS
        )
        over = [thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) < before]
        stays = await spared(over) if spared else ()
        known = len(deleted)
        for thread in over:
            if thread["status"] != "busy" and thread["thread_id"] not in stays:
                with suppress(ConflictError, NotFoundError):  # another request deleted it, or continues it
                    await client.threads.delete(str(thread["thread_id"]))
                    deleted.append(thread)
        if len(over) < _PAGE:
            return deleted
        left += len(over) - (len(deleted) - known)
