"""Deletes conversations some time after their last turn: temporary ones, and those too old to keep."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from lasting_memory.conversations.marks import TEMPORARY
from lasting_memory.conversations.stopping import note_deleted
from lasting_memory.people import identity

_PAGE = 100
_FIELDS: list[Any] = ["thread_id", "updated_at", "status", "metadata"]


async def delete_temporary(
    client: LangGraphClient, hours: float, actor: identity.Actor | None = None
) -> None:
    """Delete temporary conversations, the actor's or all, so many hours after their last turn."""
    metadata: dict[str, Any] = {TEMPORARY: True}
    if actor:
        metadata |= asdict(actor)
    await delete_idle(client, metadata, before=datetime.now(UTC) - timedelta(hours=hours))


async def delete_idle(
    client: LangGraphClient,
    metadata: Mapping[str, Any],
    before: datetime,
    spared: Callable[[list[Any]], Awaitable[Collection[str]]] | None = None,
    store: BaseStore | None = None,
) -> list[Any]:
    """Delete the idle threads with this metadata that have not changed since then. Returns them.

    `spared` gives the ids of those, of a page, that stay for now. With a `store`, what their runs
    still try to write is refused: one may go on although its thread is called idle, or begin at
    this moment.
    """
    deleted = list[Any]()
    number_left = 0
    while True:
        old = await _old_threads(client, metadata, before, skip=number_left)
        stays = await spared(old) if spared else ()
        goes = list[Any]()
        for thread in old:
            if thread["status"] != "busy" and thread["thread_id"] not in stays:
                goes.append(thread)
        if store is not None:
            await note_deleted(store, goes)
        deleted_now = await _delete(client, goes)
        deleted += deleted_now
        number_left += len(old) - len(deleted_now)
        if len(old) < _PAGE:
            return deleted


async def _old_threads(
    client: LangGraphClient, metadata: Mapping[str, Any], before: datetime, *, skip: int
) -> list[Any]:
    """A page of the threads that have not changed since then, oldest first."""
    page: list[Any] = await client.threads.search(
        metadata=dict(metadata),
        limit=_PAGE,
        offset=skip,
        sort_by="updated_at",
        sort_order="asc",
        select=_FIELDS,
    )
    return [thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) < before]


async def _delete(client: LangGraphClient, threads: Iterable[Any]) -> list[Any]:
    """Delete these threads. Returns those that it deleted."""
    deleted = list[Any]()
    for thread in threads:
        # Another request may have deleted it, or continue it.
        with suppress(ConflictError, NotFoundError):
            await client.threads.delete(str(thread["thread_id"]))
            deleted.append(thread)
    return deleted
