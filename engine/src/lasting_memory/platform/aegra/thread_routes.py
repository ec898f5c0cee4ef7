"""The routes of threads: they are made, changed, read, searched, counted and pruned."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NotRequired, TypedDict
from uuid import uuid4

from aegra_api.core.auth_deps import get_current_user
from aegra_api.core.database import db_manager
from aegra_api.core.orm import Thread, get_session_maker
from aegra_api.services.langgraph_service import create_thread_config, get_langgraph_service
from aegra_api.utils.jsonb import jsonb_patch, jsonb_shallow_merge
from fastapi import APIRouter, Depends, HTTPException
from langgraph.types import StateUpdate
from pydantic import BaseModel, Field
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from lasting_memory.platform.aegra.handlers import whole_value
from lasting_memory.platform.aegra.rows import ThreadRow, rows_of
from lasting_memory.platform.aegra.thread_answers import read_state, search_entry, thread_json
from lasting_memory.platform.aegra.users import AegraUser, is_nobody, label_in
from lasting_memory.platform.aegra.visible_threads import (
    MAX_THREADS,
    ThreadSearch,
    auth_filter_for,
    find_thread,
    visible_thread,
    visible_threads,
)

router = APIRouter()
# One search reads the states of so many threads at the same time.
_MAX_STATE_READS = 8
_SORT_COLUMNS = {
    "thread_id": Thread.thread_id,
    "status": Thread.status,
    "created_at": Thread.created_at,
    "updated_at": Thread.updated_at,
}
_User = Depends(get_current_user)


class NewThread(BaseModel):
    metadata: dict[str, object] | None = None
    thread_id: str | None = Field(None, min_length=1, max_length=255)
    if_exists: Literal["raise", "do_nothing"] | None = "raise"
    supersteps: list[object] | None = None


class ChangedThread(BaseModel):
    metadata: dict[str, object] | None = None


class ThreadPruning(BaseModel):
    thread_ids: list[str] = Field(max_length=MAX_THREADS)
    strategy: Literal["delete", "keep_latest"] = "delete"


class _ThreadValue(TypedDict):
    """What handlers are asked about a thread that is made or changed. They change it in place."""

    thread_id: str
    metadata: dict[str, object]
    if_exists: NotRequired[str | None]


class _NodeUpdate(BaseModel):
    """What is written into a state in the name of a node."""

    values: dict[str, object] | None = None
    as_node: str | None = None


class _Superstep(BaseModel):
    """One step of a new thread's state."""

    updates: list[_NodeUpdate]


@router.post("/threads")
async def create_thread(thread: NewThread, user: AegraUser = _User) -> dict[str, object]:
    """Make a thread. The handlers decide its metadata.

    Answers 409 if there is a thread with this id, unless the caller sees it and `if_exists` is
    "do_nothing": then this thread is the answer.
    """
    if thread.supersteps and not is_nobody(user):
        raise HTTPException(422, "supersteps are not for clients on this platform; leave them out.")
    thread_id = thread.thread_id
    if not thread_id:
        thread_id = str(uuid4())
    value: _ThreadValue = {
        "thread_id": thread_id,
        "metadata": dict(thread.metadata or {}),
        "if_exists": thread.if_exists,
    }
    auth_filter, metadata = await _ask_about_metadata(user, "create", value)
    owner = label_in(metadata) or user.identity
    metadata["owner"] = owner
    new_row = await _insert_thread(thread_id, owner, metadata)
    if new_row is None:
        old_row = await find_thread(thread_id, user, auth_filter)
        if old_row is None or thread.if_exists != "do_nothing":
            raise HTTPException(409, f"Thread '{thread_id}' already exists")
        return thread_json(old_row)
    if thread.supersteps:
        await _write_supersteps(new_row, thread.supersteps)
    return thread_json(new_row)


async def _insert_thread(
    thread_id: str, owner: str, metadata: dict[str, object]
) -> ThreadRow | None:
    """Write a new thread into the database. Returns its row, or None if the id is taken."""
    statement = insert(Thread).values(
        thread_id=thread_id, status="idle", metadata_json=metadata, user_id=owner
    )
    statement = statement.on_conflict_do_nothing(index_elements=["thread_id"])
    new_session = get_session_maker()
    async with new_session() as session:
        rows = await session.scalars(statement.returning(Thread))
        row: ThreadRow | None = rows.first()
        await session.commit()
    return row


async def _write_supersteps(row: ThreadRow, supersteps: Sequence[object]) -> None:
    """Write the state of a new thread: what each superstep says, one after the other."""
    metadata = dict(row.metadata_json or {})
    config = create_thread_config(row.thread_id, None)
    config["metadata"] = metadata
    steps = list[list[StateUpdate]]()
    for superstep in supersteps:
        step = _Superstep.model_validate(superstep)
        updates = [StateUpdate(change.values, change.as_node) for change in step.updates]
        steps.append(updates)
    graph_id = metadata["graph_id"]
    service = get_langgraph_service()
    opening = service.get_graph(graph_id, config=config, access_context="threads.update")
    async with opening as graph:
        await graph.abulk_update_state(config, steps)


async def _ask_about_metadata(
    user: AegraUser, action: str, value: _ThreadValue
) -> tuple[Mapping[str, object] | None, dict[str, object]]:
    """Ask the handlers about a request with metadata. Returns their filter, and what they made of
    the metadata.
    """
    with whole_value():
        auth_filter = await auth_filter_for(user, action, value)
    return auth_filter, dict(value["metadata"])


@router.patch("/threads/{thread_id}")
async def update_thread(
    thread_id: str, change: ChangedThread, user: AegraUser = _User
) -> dict[str, object]:
    """Change a thread's metadata, as far as the handlers let it."""
    value: _ThreadValue = {"thread_id": thread_id, "metadata": dict(change.metadata or {})}
    auth_filter, metadata = await _ask_about_metadata(user, "update", value)
    await visible_thread(thread_id, user, auth_filter)
    patch = jsonb_patch(metadata, "metadata_patch")
    merged_metadata = jsonb_shallow_merge(Thread.metadata_json, patch)
    now = datetime.now(UTC)
    statement = update(Thread)
    statement = statement.where(Thread.thread_id == thread_id)
    statement = statement.values(metadata_json=merged_metadata, updated_at=now)
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(statement)
        await session.commit()
    row = await visible_thread(thread_id, user, auth_filter)
    return thread_json(row)


@router.get("/threads/{thread_id}")
async def get_thread(thread_id: str, user: AegraUser = _User) -> dict[str, object]:
    """A thread with its values."""
    auth_filter = await auth_filter_for(user, "read", {"thread_id": thread_id})
    row = await visible_thread(thread_id, user, auth_filter)
    state = await read_state(row)
    return {**thread_json(row), **state}


@router.post("/threads/search")
async def search_threads(search: ThreadSearch, user: AegraUser = _User) -> list[dict[str, object]]:
    """Threads that fit, with what is selected of them."""
    value = search.model_dump(exclude_none=True)
    auth_filter = await auth_filter_for(user, "search", value)
    sort_column = _SORT_COLUMNS[search.sort_by or "created_at"]
    order = sort_column.desc()
    if search.sort_order == "asc":
        order = sort_column.asc()
    by_id = Thread.thread_id.asc()
    query = visible_threads(select(Thread), search, user, auth_filter)
    query = query.order_by(order, by_id)
    query = query.offset(search.offset)
    query = query.limit(search.limit)
    rows: list[ThreadRow] = await rows_of(query)
    state_reads = asyncio.Semaphore(_MAX_STATE_READS)
    entries = [search_entry(row, search, state_reads) for row in rows]
    return list(await asyncio.gather(*entries))


@router.post("/threads/count")
async def count_threads(search: ThreadSearch, user: AegraUser = _User) -> int:
    """How many threads fit."""
    value = search.model_dump(exclude_none=True)
    auth_filter = await auth_filter_for(user, "search", value)
    count_query = select(func.count())
    count_query = count_query.select_from(Thread)
    query = visible_threads(count_query, search, user, auth_filter)
    new_session = get_session_maker()
    async with new_session() as session:
        count = await session.scalar(query)
    return int(count or 0)


@router.post("/threads/prune")
async def prune_threads(pruning: ThreadPruning, user: AegraUser = _User) -> dict[str, int]:
    """Delete these threads, with their runs and checkpoints.

    Where one of them is not the caller's nothing is deleted: 404. Operators, and the server's own
    calls (`is_nobody`), may delete everybody's, and name threads that are gone.
    """
    value = {"thread_ids": pruning.thread_ids}
    with whole_value():
        auth_filter = await auth_filter_for(user, "delete", value)
    search = ThreadSearch(ids=pruning.thread_ids)
    query = visible_threads(select(Thread), search, user, auth_filter)
    checkpointer = db_manager.get_checkpointer()
    new_session = get_session_maker()
    async with new_session() as session:
        result = await session.scalars(query)
        rows = result.all()
        some_are_missing = len(rows) < len(set(pruning.thread_ids))
        if auth_filter is not None and some_are_missing:
            raise HTTPException(404, "At least one thread was not found.")
        if pruning.strategy != "delete":
            raise HTTPException(422, "This platform prunes by the strategy 'delete' alone.")
        for row in rows:
            # The row goes last, as in aegra: without it nobody would find what else is left.
            await checkpointer.adelete_thread(row.thread_id)
            await session.delete(row)
        await session.commit()
    return {"pruned_count": len(rows)}
