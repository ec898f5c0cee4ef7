"""The threads that a caller may see: the handlers of `auth/handlers.py` decide about each request.

Their answer is a filter (`auth_filter`): metadata that a thread must have for the caller to see it,
or None if the caller sees all threads.
"""

from collections.abc import Mapping
from typing import Literal

from aegra_api.core.auth_filters import build_metadata_filter
from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.orm import Thread
from fastapi import HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Select, select

from lasting_memory.platform.aegra.rows import ThreadRow, first_row
from lasting_memory.platform.aegra.users import AegraUser

# One search or deletion has at most so many threads, as on langgraph-api.
MAX_THREADS = 1_000


class ThreadSearch(BaseModel):
    """Which threads are searched for, in which order, and what of them is shown."""

    ids: list[str] | None = None
    metadata: dict[str, object] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(10, ge=1, le=MAX_THREADS)
    offset: int = Field(0, ge=0)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


async def auth_filter_for(
    user: AegraUser, action: str, value: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The filter of the handlers for an action on threads. They may change `value`, in place.

    Raises 403 if they refuse the action.
    """
    context = build_auth_context(user, "threads", action)
    auth_filter: Mapping[str, object] | None = await handle_event(context, value)
    return auth_filter


def visible_threads(
    query: Select,
    search: ThreadSearch,
    user: AegraUser,
    auth_filter: Mapping[str, object] | None,
) -> Select:
    """The query, limited to the threads that fit the search and that the caller may see.

    Operators, and the server's own calls (`users.is_nobody`), have no filter: they see everybody's
    threads.
    """
    if auth_filter is not None:
        has_metadata = build_metadata_filter(Thread.metadata_json, auth_filter)
        query = query.where(Thread.user_id == user.identity)
        query = query.where(has_metadata)
    if search.ids is not None:
        is_one_of_them = Thread.thread_id.in_(search.ids)
        query = query.where(is_one_of_them)
    if search.metadata:
        contains = Thread.metadata_json.op("@>")
        query = query.where(contains(search.metadata))
    if search.status:
        query = query.where(Thread.status == search.status)
    return query


async def find_thread(
    thread_id: str, user: AegraUser, auth_filter: Mapping[str, object] | None
) -> ThreadRow | None:
    """The row of a thread; None if there is none, or the caller may not see it."""
    search = ThreadSearch(ids=[thread_id])
    query = visible_threads(select(Thread), search, user, auth_filter)
    row: ThreadRow | None = await first_row(query)
    return row


async def visible_thread(
    thread_id: str, user: AegraUser, auth_filter: Mapping[str, object] | None
) -> ThreadRow:
    """The row of a thread. Raises 404 if there is none, or the caller may not see it."""
    row = await find_thread(thread_id, user, auth_filter)
    if row is None:
        raise HTTPException(404, f"Thread '{thread_id}' not found")
    return row
