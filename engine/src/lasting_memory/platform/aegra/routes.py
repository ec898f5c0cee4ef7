"""The routes of langgraph-api that aegra lacks, or answers otherwise. They come before aegra's.

The handlers of `auth/handlers.py` decide about each request. Their answer is a filter (`auth_filter`):
metadata that a thread must have for the caller to see it, or None if the caller sees all threads.
A `row` is a thread or a run as it is in the database.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NotRequired, Protocol, TypedDict
from uuid import uuid4

from aegra_api.api import runs as aegra_runs
from aegra_api.api import stateless_runs as aegra_stateless_runs
from aegra_api.core.auth_deps import get_current_user
from aegra_api.core.auth_filters import build_metadata_filter
from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.database import db_manager
from aegra_api.core.health import health_check
from aegra_api.core.orm import Run, Thread, get_session_maker
from aegra_api.core.serializers import GeneralSerializer
from aegra_api.models.runs import RunCreate
from aegra_api.services.langgraph_service import create_thread_config, get_langgraph_service
from aegra_api.utils.jsonb import jsonb_patch, jsonb_shallow_merge
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from langgraph.types import StateUpdate
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import Select, func, select, update
from sqlalchemy.dialects.postgresql import insert
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lasting_memory.platform.aegra.handlers import whole_value
from lasting_memory.platform.aegra.runs import run_session, sent_fields
from lasting_memory.platform.aegra.users import AegraUser, is_nobody, label_in

router = APIRouter()
_serialize = GeneralSerializer().serialize
# One search reads the states of so many threads at the same time.
_MAX_STATE_READS = 8
# One search or deletion has at most so many threads, as on langgraph-api.
_MAX_THREADS = 1_000
_SORT_COLUMNS = {
    "thread_id": Thread.thread_id,
    "status": Thread.status,
    "created_at": Thread.created_at,
    "updated_at": Thread.updated_at,
}
_User = Depends(get_current_user)


async def _ok(request: Request) -> Response:
    """Answer that the server runs. With `check_db` it raises an error if the database does not answer."""
    if request.query_params.get("check_db"):
        await health_check(request)
    return JSONResponse({"ok": True})


def public_routes() -> list[BaseRoute]:
    """Routes that say nothing of anybody: they need no sign-in."""
    return [Route("/ok", _ok, methods=["GET"])]


# --- Threads


class NewThread(BaseModel):
    metadata: dict[str, object] | None = None
    thread_id: str | None = Field(None, min_length=1, max_length=255)
    if_exists: Literal["raise", "do_nothing"] | None = "raise"
    supersteps: list[object] | None = None


class ChangedThread(BaseModel):
    metadata: dict[str, object] | None = None


class ThreadSearch(BaseModel):
    """Which threads are searched for, in which order, and what of them is shown."""

    ids: list[str] | None = None
    metadata: dict[str, object] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(10, ge=1, le=_MAX_THREADS)
    offset: int = Field(0, ge=0)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


class ThreadPruning(BaseModel):
    thread_ids: list[str] = Field(max_length=_MAX_THREADS)
    strategy: Literal["delete", "keep_latest"] = "delete"


class ThreadRow(Protocol):
    """What is read of a thread's row (`aegra_api.core.orm.Thread`)."""

    thread_id: str
    status: str
    metadata_json: Mapping[str, object] | None
    created_at: datetime
    updated_at: datetime


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
        old_row = await _find_thread(thread_id, user, auth_filter)
        if old_row is None or thread.if_exists != "do_nothing":
            raise HTTPException(409, f"Thread '{thread_id}' already exists")
        return _thread_json(old_row)
    if thread.supersteps:
        await _write_supersteps(new_row, thread.supersteps)
    return _thread_json(new_row)


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
        auth_filter = await _auth_filter(user, action, value)
    return auth_filter, dict(value["metadata"])


async def _auth_filter(
    user: AegraUser, action: str, value: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The filter of the handlers for an action on threads. They may change `value`, in place.

    Raises 403 if they refuse the action.
    """
    context = build_auth_context(user, "threads", action)
    auth_filter: Mapping[str, object] | None = await handle_event(context, value)
    return auth_filter


@router.patch("/threads/{thread_id}")
async def update_thread(
    thread_id: str, change: ChangedThread, user: AegraUser = _User
) -> dict[str, object]:
    """Change a thread's metadata, as far as the handlers let it."""
    value: _ThreadValue = {"thread_id": thread_id, "metadata": dict(change.metadata or {})}
    auth_filter, metadata = await _ask_about_metadata(user, "update", value)
    await _visible_thread(thread_id, user, auth_filter)
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
    row = await _visible_thread(thread_id, user, auth_filter)
    return _thread_json(row)


@router.get("/threads/{thread_id}")
async def get_thread(thread_id: str, user: AegraUser = _User) -> dict[str, object]:
    """A thread with its values."""
    auth_filter = await _auth_filter(user, "read", {"thread_id": thread_id})
    row = await _visible_thread(thread_id, user, auth_filter)
    state = await _read_state(row)
    return {**_thread_json(row), **state}


@router.post("/threads/search")
async def search_threads(search: ThreadSearch, user: AegraUser = _User) -> list[dict[str, object]]:
    """Threads that fit, with what is selected of them."""
    value = search.model_dump(exclude_none=True)
    auth_filter = await _auth_filter(user, "search", value)
    sort_column = _SORT_COLUMNS[search.sort_by or "created_at"]
    order = sort_column.desc()
    if search.sort_order == "asc":
        order = sort_column.asc()
    by_id = Thread.thread_id.asc()
    query = _visible_threads(select(Thread), search, user, auth_filter)
    query = query.order_by(order, by_id)
    query = query.offset(search.offset)
    query = query.limit(search.limit)
    rows: list[ThreadRow] = await _rows(query)
    state_reads = asyncio.Semaphore(_MAX_STATE_READS)
    entries = [_search_entry(row, search, state_reads) for row in rows]
    return list(await asyncio.gather(*entries))


async def _rows(query: Select) -> list[Thread | Run]:
    """The rows that a query finds."""
    new_session = get_session_maker()
    async with new_session() as session:
        found = await session.scalars(query)
        return list(found.all())


async def _first_row(query: Select) -> Thread | Run | None:
    """The first row that a query finds; None if it finds nothing."""
    new_session = get_session_maker()
    async with new_session() as session:
        return await session.scalar(query)


@router.post("/threads/count")
async def count_threads(search: ThreadSearch, user: AegraUser = _User) -> int:
    """How many threads fit."""
    value = search.model_dump(exclude_none=True)
    auth_filter = await _auth_filter(user, "search", value)
    counting = select(func.count())
    counting = counting.select_from(Thread)
    query = _visible_threads(counting, search, user, auth_filter)
    new_session = get_session_maker()
    async with new_session() as session:
        count = await session.scalar(query)
    return int(count or 0)


@router.post("/threads/prune")
async def prune_threads(pruned: ThreadPruning, user: AegraUser = _User) -> dict[str, int]:
    """Delete these threads, with their runs and checkpoints.

    Where one of them is not the caller's nothing is deleted: 404. Operators and nobody may name
    threads that are gone.
    """
    value = {"thread_ids": pruned.thread_ids}
    with whole_value():
        auth_filter = await _auth_filter(user, "delete", value)
    search = ThreadSearch(ids=pruned.thread_ids)
    query = _visible_threads(select(Thread), search, user, auth_filter)
    checkpointer = db_manager.get_checkpointer()
    new_session = get_session_maker()
    async with new_session() as session:
        found = await session.scalars(query)
        rows = found.all()
        some_are_missing = len(rows) < len(set(pruned.thread_ids))
        if auth_filter is not None and some_are_missing:
            raise HTTPException(404, "At least one thread was not found.")
        if pruned.strategy != "delete":
            raise HTTPException(422, "This platform prunes by the strategy 'delete' alone.")
        for row in rows:
            # As aegra does: what a thread without its row had, nobody would find.
            await checkpointer.adelete_thread(row.thread_id)
            await session.delete(row)
        await session.commit()
    return {"pruned_count": len(rows)}


def _visible_threads(
    query: Select,
    search: ThreadSearch,
    user: AegraUser,
    auth_filter: Mapping[str, object] | None,
) -> Select:
    """The query, limited to the threads that fit the search and that the caller may see.

    Operators and nobody have no filter: they see everybody's threads.
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


async def _find_thread(
    thread_id: str, user: AegraUser, auth_filter: Mapping[str, object] | None
) -> ThreadRow | None:
    """The row of a thread; None if there is none, or the caller may not see it."""
    search = ThreadSearch(ids=[thread_id])
    query = _visible_threads(select(Thread), search, user, auth_filter)
    row: ThreadRow | None = await _first_row(query)
    return row


async def _visible_thread(
    thread_id: str, user: AegraUser, auth_filter: Mapping[str, object] | None
) -> ThreadRow:
    """The row of a thread. Raises 404 if there is none, or the caller may not see it."""
    row = await _find_thread(thread_id, user, auth_filter)
    if row is None:
        raise HTTPException(404, f"Thread '{thread_id}' not found")
    return row


def _thread_json(row: ThreadRow) -> dict[str, object]:
    """A thread as it is answered, without its values."""
    return {
        "thread_id": row.thread_id,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "metadata": row.metadata_json or {},
        "status": row.status,
    }


async def _search_entry(
    row: ThreadRow, search: ThreadSearch, state_reads: asyncio.Semaphore
) -> dict[str, object]:
    """What a search shows of a thread: the selected fields (all if none are), and what it extracts."""
    entry = _thread_json(row)
    selected = search.select
    shows_state = selected is None or "values" in selected or "interrupts" in selected
    if shows_state or search.extract:
        async with state_reads:
            state = await _read_state(row)
        entry.update(state)
    if search.extract:
        extracted = dict[str, object]()
        for name, path in search.extract.items():
            extracted[name] = _value_at(path, entry)
        entry["extracted"] = extracted
    if selected is None:
        return entry
    answered = {*selected, "extracted"}
    return {field: entry[field] for field in entry if field in answered}


async def _read_state(row: ThreadRow) -> dict[str, object]:
    """The values of a thread, and its interrupts by the task that waits for an answer.

    A thread without a graph that is served here has neither.
    """
    metadata = row.metadata_json or {}
    graph_id = metadata.get("graph_id")
    service = get_langgraph_service()
    if graph_id not in service.list_graphs():
        return {"values": None, "interrupts": {}}
    config = create_thread_config(row.thread_id, None)
    opening = service.get_graph(graph_id, config=config, access_context="threads.read")
    async with opening as graph:
        state = await graph.aget_state(config)
    interrupts = dict[str, object]()
    for task in state.tasks:
        if task.interrupts:
            interrupts[task.id] = _serialize([*task.interrupts])
    values = _serialize(state.values) or None
    return {"values": values, "interrupts": interrupts}


def _value_at(path: str, entry: Mapping[str, object]) -> object:
    """What a path such as values.messages[-1].content leads to; None if that is not there."""
    value: object = entry
    for name in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, list):
            value = _item_at(name, value)
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def _item_at(number: str, items: Sequence[object]) -> object:
    """The item of a list with this number; None if it is not there, or that is no number."""
    try:
        return items[int(number)]
    except (IndexError, ValueError):
        return None


# --- Runs


class _Behavior(TypedDict):
    multitask_strategy: NotRequired[str | None]


class _RunParameters(TypedDict):
    """What is read of how a run is executed (`aegra_api.models.run_job.RunJob`)."""

    behavior: NotRequired[_Behavior | None]
    run_metadata: NotRequired[dict[str, object] | None]


class RunRow(Protocol):
    """What is read of a run's row (`aegra_api.core.orm.Run`)."""

    run_id: str
    thread_id: str
    assistant_id: str | None
    status: str
    input: object
    context: object
    execution_params: _RunParameters | None
    created_at: datetime
    updated_at: datetime


@router.post("/threads/{thread_id}/runs")
async def create_run(
    thread_id: str, request: Request, user: AegraUser = _User
) -> dict[str, object] | None:
    """Make a run, which may begin later (`after_seconds`)."""
    body = await request.json()
    with sent_fields(body):
        async with run_session() as session:
            run_request = _run_request(body)
            run = await aegra_runs.create_run(thread_id, run_request, user, session)
    return await _find_run(thread_id, run.run_id)


@router.post("/runs")
async def create_stateless_run(
    request: Request, user: AegraUser = _User
) -> dict[str, object] | None:
    """Make a run without a thread, which may begin later."""
    body = await request.json()
    with sent_fields(body):
        async with run_session() as session:
            run_request = _run_request(body)
            run = await aegra_stateless_runs.stateless_create_run(run_request, user, session)
    return await _find_run(run.thread_id, run.run_id)


def _run_request(body: object) -> RunCreate:
    """The request of a run, as aegra has it. Raises an error that is answered with 422 for a wrong body."""
    try:
        return RunCreate.model_validate(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: str,
    limit: int = 10,
    offset: int = 0,
    status: str | None = None,
    user: AegraUser = _User,
) -> list[dict[str, object]]:
    """The runs of a thread, the newest first. Their metadata and what they were sent is with them."""
    auth_filter = await _auth_filter(user, "read", {"thread_id": thread_id})
    await _visible_thread(thread_id, user, auth_filter)
    query = _runs_of_thread(thread_id)
    query = query.where(Run.user_id == user.identity)
    if status:
        query = query.where(Run.status == status)
    by_age = Run.created_at.desc()
    query = query.order_by(by_age)
    query = query.offset(max(0, offset))
    page_size = min(max(1, limit), _MAX_THREADS)
    rows: list[RunRow] = await _rows(query.limit(page_size))
    return [_run_json(row) for row in rows]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: str, run_id: str, user: AegraUser = _User) -> dict[str, object]:
    """One run."""
    await _auth_filter(user, "read", {"thread_id": thread_id, "run_id": run_id})
    run = await _find_run(thread_id, run_id, user.identity)
    if run is None:
        raise HTTPException(404, f"Run '{run_id}' not found")
    return run


def _runs_of_thread(thread_id: str) -> Select:
    """The query of a thread's runs."""
    return select(Run).where(Run.thread_id == thread_id)


async def _find_run(
    thread_id: str, run_id: str, owner: str | None = None
) -> dict[str, object] | None:
    """A run as it is answered; None if there is none, or it is not this owner's."""
    query = _runs_of_thread(thread_id)
    query = query.where(Run.run_id == run_id)
    if owner is not None:
        query = query.where(Run.user_id == owner)
    row: RunRow | None = await _first_row(query)
    if row is None:
        return None
    return _run_json(row)


def _run_json(row: RunRow) -> dict[str, object]:
    """A run as it is answered."""
    parameters = row.execution_params or {}
    behavior = parameters.get("behavior") or {}
    return {
        "run_id": row.run_id,
        "thread_id": row.thread_id,
        "assistant_id": row.assistant_id,
        "status": row.status,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "metadata": parameters.get("run_metadata") or {},
        "multitask_strategy": behavior.get("multitask_strategy"),
        "kwargs": {"input": row.input, "context": row.context},
    }
