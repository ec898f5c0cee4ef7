"""Deletes conversations some time after their last turn: temporary ones, and those too old to keep."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError
from langgraph_sdk.schema import Thread, ThreadSelectField

from lasting_memory.conversations.marks import TEMPORARY
from lasting_memory.conversations.stopping import note_deleted
from lasting_memory.people import identity

_PAGE = 100
_FIELDS: list[ThreadSelectField] = ["thread_id", "updated_at", "status", "metadata"]


async def delete_temporary(
    client: LangGraphClient, hours: float, actor: identity.Actor | None = None
) -> None:
    """Deletes temporary conversations, the actor's or all, so many hours after their last turn."""
    metadata: dict[str, object] = {TEMPORARY: True}
    if actor:
        metadata |= asdict(actor)
    now = datetime.now(UTC)
    before = now - timedelta(hours=hours)
    await delete_idle(client, metadata, before=before)


async def delete_idle(
    client: LangGraphClient,
    metadata: Mapping[str, object],
    before: datetime,
    spared: Callable[[list[Thread]], Awaitable[Collection[str]]] | None = None,
    store: BaseStore | None = None,
) -> list[Thread]:
    """Deletes the idle threads with this metadata that have not changed since `before`. Returns
    those that it deleted.

    `spared` takes a page of threads and gives the ids of those that stay for now. With a `store`,
    what the threads' runs still try to write is refused: one may go on although its thread is
    called idle, or begin at this moment.
    """
    deleted = list[Thread]()
    # These come first in the next search, because they are the oldest.
    staying_count = 0
    while True:
        page = await _old_threads(client, metadata, before, skip=staying_count)
        spared_ids: Collection[str] = ()
        if spared:
            spared_ids = await spared(page)
        due = list[Thread]()
        for thread in page:
            is_busy = thread["status"] == "busy"
            is_spared = thread["thread_id"] in spared_ids
            if not is_busy and not is_spared:
                due.append(thread)
        if store is not None:
            await note_deleted(store, due)
        deleted_now = await _delete(client, due)
        deleted += deleted_now
        staying_count += len(page) - len(deleted_now)
        is_last_page = len(page) < _PAGE
        if is_last_page:
            return deleted


async def _old_threads(
    client: LangGraphClient, metadata: Mapping[str, object], before: datetime, *, skip: int
) -> list[Thread]:
    """A page of the threads with this metadata that have not changed since `before`, oldest first,
    after the first `skip` threads.
    """
    page = await client.threads.search(
        metadata=dict(metadata),
        limit=_PAGE,
        offset=skip,
        sort_by="updated_at",
        sort_order="asc",
        select=_FIELDS,
    )
    old = list[Thread]()
    for thread in page:
        updated_at = str(thread["updated_at"])
        if datetime.fromisoformat(updated_at) < before:
            old.append(thread)
    return old


async def _delete(client: LangGraphClient, threads: Iterable[Thread]) -> list[Thread]:
    """Deletes these threads. Returns those that it deleted: others continue, or deleted, the rest."""
    deleted = list[Thread]()
    for thread in threads:
        # Another request may have deleted it, or continue it.
        thread_id = str(thread["thread_id"])
        with suppress(ConflictError, NotFoundError):
            await client.threads.delete(thread_id)
            deleted.append(thread)
    return deleted
