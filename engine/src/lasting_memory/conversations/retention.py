"""Deleting conversations some time after their last turn: temporary ones, and those too old to keep."""

from collections.abc import Awaitable, Callable, Collection, Mapping
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
    of_actor = asdict(actor) if actor else {}
    await delete_idle(
        client, {TEMPORARY: True, **of_actor}, datetime.now(UTC) - timedelta(hours=hours)
    )


async def delete_idle(
    client: LangGraphClient,
    wanted: Mapping[str, Any],
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
    left = 0
    while True:
        page: list[Any] = await client.threads.search(
            metadata=dict(wanted),
            limit=_PAGE,
            offset=left,
            sort_by="updated_at",
            sort_order="asc",
            select=_FIELDS,
        )
        over = [
            thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) < before
        ]
        stays = await spared(over) if spared else ()
        goes = [
            thread
            for thread in over
            if thread["status"] != "busy" and thread["thread_id"] not in stays
        ]
        if store is not None:
            await note_deleted(store, goes)
        for thread in over:
            left += 1
            if thread in goes:
                with suppress(
                    ConflictError, NotFoundError
                ):  # another request deleted it, or continues it
                    await client.threads.delete(str(thread["thread_id"]))
                    deleted.append(thread)
                    left -= 1
        if len(over) < _PAGE:
            return deleted
