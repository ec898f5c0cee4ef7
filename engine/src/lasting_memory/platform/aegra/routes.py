"""The routes of langgraph-api that aegra lacks, or answers otherwise. They come before aegra's."""

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal
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
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lasting_memory.platform.aegra.handlers import whole_value
from lasting_memory.platform.aegra.runs import run_session, sent_fields
from lasting_memory.platform.aegra.users import is_nobody, label_of

router = APIRouter()
_serialize = GeneralSerializer().serialize
# Conversations that are read from their checkpoints at once.
_READ = 8
# Most threads of one search or deletion, as on langgraph-api.
_MOST = 1_000
_SORTED = {
    "thread_id": Thread.thread_id,
    "status": Thread.status,
    "created_at": Thread.created_at,
    "updated_at": Thread.updated_at,
}
_User = Depends(get_current_user)


async def _ok(request: Request) -> Response:
    """Whether the server answers; with `check_db`, whether its database does, too."""
    if request.query_params.get("check_db"):
        await health_check(request)
    return JSONResponse({"ok": True})


def public_routes() -> list[BaseRoute]:
    """Routes that say nothing of anybody: they need no sign-in."""
    return [Route("/ok", _ok, methods=["GET"])]


# --- Threads


class NewThread(BaseModel):
    metadata: dict[str, Any] | None = None
    thread_id: str | None = Field(None, min_length=1, max_length=255)
    if_exists: Literal["raise", "do_nothing"] | None = "raise"
    supersteps: list[Any] | None = None


class ChangedThread(BaseModel):
    metadata: dict[str, Any] | None = None


class Wanted(BaseModel):
    """What is searched for."""

    ids: list[str] | None = None
    metadata: dict[str, Any] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(10, ge=1, le=_MOST)
    offset: int = Field(0, ge=0)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: dict[str, str] | None = Field(None, max_length=10)


class Pruned(BaseModel):
    thread_ids: list[str] = Field(max_length=_MOST)
    strategy: Literal["delete", "keep_latest"] = "delete"


@router.post("/threads")
async def create_thread(thread: NewThread, user: Any = _User) -> Any:
    """Make a thread. The handlers decide its metadata."""
    if thread.supersteps and not is_nobody(user):
        raise HTTPException(422, "supersteps are not for clients on this platform; leave them out.")
    thread_id = thread.thread_id or str(uuid4())
    value: dict[str, Any] = {"thread_id": thread_id, "metadata": dict(thread.metadata or {})}
    found = await _ask(user, "create", {**value, "if_exists": thread.if_exists}, value)
    metadata = dict(value["metadata"])
    owner = _owner_of(metadata, user)
    metadata["owner"] = owner
    row = await _inserted(thread_id, owner, metadata)
    if row is None:
        row = await _thread(thread_id, user, found)
        if row is None or thread.if_exists != "do_nothing":
            raise HTTPException(409, f"Thread '{thread_id}' already exists")
        return _shown(row)
    if thread.supersteps:
        await _put_state(row, thread.supersteps)
    return _shown(row)


async def _inserted(thread_id: str, owner: str, metadata: dict[str, Any]) -> Any:
    """A new thread; None where one with this id is there."""
    made = insert(Thread).values(
        thread_id=thread_id, status="idle", metadata_json=metadata, user_id=owner
    )
    added = made.on_conflict_do_nothing(index_elements=["thread_id"]).returning(Thread)
    async with get_session_maker()() as session:
        rows = await session.scalars(added)
        row = rows.first()
        await session.commit()
    return row


async def _put_state(row: Any, supersteps: list[Any]) -> None:
    """Give a new thread a state, step by step."""
    config = create_thread_config(row.thread_id, None)
    config["metadata"] = dict(row.metadata_json)
    steps = list[list[StateUpdate]]()
    for superstep in supersteps:
        updates = list[StateUpdate]()
        for change in superstep["updates"]:
            update_of_state = StateUpdate(change.get("values"), change.get("as_node"))
            updates.append(update_of_state)
        steps.append(updates)
    graph_id = row.metadata_json["graph_id"]
    service = get_langgraph_service()
    reading = service.get_graph(graph_id, config=config, access_context="threads.update")
    async with reading as graph:
        await graph.abulk_update_state(config, steps)


def _owner_of(metadata: Mapping[str, Any], user: Any) -> str:
    """The label of a new thread's owner: whom its metadata names, as the handlers left it."""
    user_id = metadata.get("user_id")
    org_id = metadata.get("org_id")
    if isinstance(user_id, str) and isinstance(org_id, str):
        return label_of(user_id, org_id)
    return str(user.identity)


async def _ask(user: Any, action: str, asked: dict[str, Any], value: dict[str, Any]) -> Any:
    """The filter of the handlers; `value["metadata"]` is what they left of it."""
    with whole_value():
        found = await _filter(user, action, asked)
    value["metadata"] = asked["metadata"]
    return found


async def _filter(user: Any, action: str, asked: dict[str, Any]) -> Any:
    """The filter of the handlers for an action on threads. They may change what they are asked."""
    context = build_auth_context(user, "threads", action)
    return await handle_event(context, asked)


@router.patch("/threads/{thread_id}")
async def update_thread(thread_id: str, change: ChangedThread, user: Any = _User) -> Any:
    """Change a thread's metadata, as far as the handlers let it."""
    value: dict[str, Any] = {"metadata": dict(change.metadata or {})}
    found = await _ask(user, "update", {"thread_id": thread_id, **value}, value)
    await _thread_seen(thread_id, user, found)
    patch = jsonb_patch(value["metadata"], "metadata_patch")
    merged = jsonb_shallow_merge(Thread.metadata_json, patch)
    now = datetime.now(UTC)
    of_thread = update(Thread).where(Thread.thread_id == thread_id)
    changed = of_thread.values(metadata_json=merged, updated_at=now)
    async with get_session_maker()() as session:
        await session.execute(changed)
        await session.commit()
    row = await _thread(thread_id, user, found)
    return _shown(row)


@router.get("/threads/{thread_id}")
async def get_thread(thread_id: str, user: Any = _User) -> Any:
    """A thread with its values."""
    found = await _filter(user, "read", {"thread_id": thread_id})
    row = await _thread_seen(thread_id, user, found)
    state = await _state_of(row)
    return {**_shown(row), **state}


@router.post("/threads/search")
async def search_threads(wanted: Wanted, user: Any = _User) -> list[dict[str, Any]]:
    """Threads that fit, with what is selected of them."""
    found = await _filter(user, "search", wanted.model_dump(exclude_none=True))
    column = _SORTED[wanted.sort_by or "created_at"]
    order = column.desc()
    if wanted.sort_order == "asc":
        order = column.asc()
    query = _matching(select(Thread), wanted, user, found)
    query = query.order_by(order, Thread.thread_id.asc())
    page = query.offset(wanted.offset).limit(wanted.limit)
    async with get_session_maker()() as session:
        found_rows = await session.scalars(page)
        rows = found_rows.all()
    reading = asyncio.Semaphore(_READ)
    selections = [_selected(row, wanted, reading) for row in rows]
    return list(await asyncio.gather(*selections))


@router.post("/threads/count")
async def count_threads(wanted: Wanted, user: Any = _User) -> int:
    """How many threads fit."""
    found = await _filter(user, "search", wanted.model_dump(exclude_none=True))
    counted = select(func.count()).select_from(Thread)
    query = _matching(counted, wanted, user, found)
    async with get_session_maker()() as session:
        count = await session.scalar(query)
    return int(count or 0)


@router.post("/threads/prune")
async def prune_threads(pruned: Pruned, user: Any = _User) -> dict[str, int]:
    """Delete these threads, with their runs and checkpoints.

    Where one of them is not the caller's nothing is deleted: 404. Operators and nobody may name
    threads that are gone.
    """
    value: dict[str, Any] = {"thread_ids": pruned.thread_ids}
    with whole_value():
        found = await _filter(user, "delete", value)
    ids = {*pruned.thread_ids}
    query = _matching(select(Thread), Wanted(ids=pruned.thread_ids), user, found)
    checkpointer = db_manager.get_checkpointer()
    async with get_session_maker()() as session:
        found_rows = await session.scalars(query)
        rows = found_rows.all()
        if found is not None and len(rows) < len(ids):
            raise HTTPException(404, "At least one thread was not found.")
        if pruned.strategy != "delete":
            raise HTTPException(422, "This platform prunes by the strategy 'delete' alone.")
        for row in rows:
            # As aegra does: what a thread without its row had, nobody would find.
            await checkpointer.adelete_thread(row.thread_id)
            await session.delete(row)
        await session.commit()
    return {"pruned_count": len(rows)}


def _matching(query: Any, wanted: Wanted, user: Any, found: Mapping[str, Any] | None) -> Any:
    """A query of the threads that fit, and that the caller may see.

    Without a filter of the handlers, that is an operator or nobody, they are everybody's.
    """
    if found is not None:
        has_metadata = build_metadata_filter(Thread.metadata_json, found)
        query = query.where(Thread.user_id == user.identity)
        query = query.where(has_metadata)
    if wanted.ids is not None:
        query = query.where(Thread.thread_id.in_(wanted.ids))
    if wanted.metadata:
        contains = Thread.metadata_json.op("@>")
        query = query.where(contains(wanted.metadata))
    if wanted.status:
        query = query.where(Thread.status == wanted.status)
    return query


async def _thread(thread_id: str, user: Any, found: Mapping[str, Any] | None) -> Any:
    """A thread that the caller may see; None for others."""
    query = _matching(select(Thread), Wanted(ids=[thread_id]), user, found)
    async with get_session_maker()() as session:
        return await session.scalar(query)


async def _thread_seen(thread_id: str, user: Any, found: Mapping[str, Any] | None) -> Any:
    """A thread that the caller may see. Raises 404 for others."""
    row = await _thread(thread_id, user, found)
    if row is None:
        raise HTTPException(404, f"Thread '{thread_id}' not found")
    return row


def _shown(row: Any) -> dict[str, Any]:
    """A thread without its values."""
    return {
        "thread_id": row.thread_id,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "metadata": row.metadata_json or {},
        "status": row.status,
    }


async def _selected(row: Any, wanted: Wanted, reading: asyncio.Semaphore) -> dict[str, Any]:
    """What a search shows of a thread."""
    shown = _shown(row)
    names = wanted.select
    shows_state = names is None or not {"values", "interrupts"}.isdisjoint(names)
    if shows_state or wanted.extract:
        async with reading:
            state = await _state_of(row)
        shown.update(state)
    if wanted.extract:
        extracted = {name: _at(path, shown) for name, path in wanted.extract.items()}
        shown["extracted"] = extracted
    if names is None:
        return shown
    kept = {*names, "extracted"}
    return {name: part for name, part in shown.items() if name in kept}


async def _state_of(row: Any) -> dict[str, Any]:
    """The values of a thread, and what waits there for an answer."""
    metadata = row.metadata_json or {}
    graph_id = metadata.get("graph_id")
    service = get_langgraph_service()
    if graph_id not in service.list_graphs():
        return {"values": None, "interrupts": {}}
    config = create_thread_config(row.thread_id, None)
    async with service.get_graph(graph_id, config=config, access_context="threads.read") as graph:
        state = await graph.aget_state(config)
    interrupts = dict[str, Any]()
    for task in state.tasks:
        if task.interrupts:
            interrupts[task.id] = _serialize([*task.interrupts])
    values = _serialize(state.values) or None
    return {"values": values, "interrupts": interrupts}


def _at(path: str, shown: Mapping[str, Any]) -> Any:
    """What a path such as values.messages[-1].content leads to; None if that is not there."""
    part: Any = shown
    for name in re.findall(r"[^.\[\]]+", path):
        try:
            part = part[int(name)] if isinstance(part, list) else part[name]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return part


# --- Runs


@router.post("/threads/{thread_id}/runs")
async def create_run(thread_id: str, request: Request, user: Any = _User) -> Any:
    """Make a run, which may begin later (`after_seconds`)."""
    body = await request.json()
    with sent_fields(body):
        async with run_session() as session:
            made = await aegra_runs.create_run(thread_id, _run_of(body), user, session)
    return await _run(thread_id, made.run_id)


@router.post("/runs")
async def create_stateless_run(request: Request, user: Any = _User) -> Any:
    """Make a run without a thread, which may begin later."""
    body = await request.json()
    with sent_fields(body):
        async with run_session() as session:
            made = await aegra_stateless_runs.stateless_create_run(_run_of(body), user, session)
    return await _run(made.thread_id, made.run_id)


def _run_of(body: Any) -> Any:
    """The request of a run, as aegra has it."""
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
    user: Any = _User,
) -> list[dict[str, Any]]:
    """The runs of a thread, the newest first. Their metadata and what they were sent is with them."""
    found = await _filter(user, "read", {"thread_id": thread_id})
    await _thread_seen(thread_id, user, found)
    query = select(Run).where(Run.thread_id == thread_id)
    query = query.where(Run.user_id == user.identity)
    if status:
        query = query.where(Run.status == status)
    query = query.order_by(Run.created_at.desc())
    first = max(0, offset)
    most = min(max(1, limit), _MOST)
    page = query.offset(first).limit(most)
    async with get_session_maker()() as session:
        found_rows = await session.scalars(page)
        rows = found_rows.all()
    return [_shown_run(row) for row in rows]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: str, run_id: str, user: Any = _User) -> Any:
    """One run."""
    await _filter(user, "read", {"thread_id": thread_id, "run_id": run_id})
    shown = await _run(thread_id, run_id, user.identity)
    if shown is None:
        raise HTTPException(404, f"Run '{run_id}' not found")
    return shown


async def _run(thread_id: str, run_id: str, label: str | None = None) -> dict[str, Any] | None:
    query = select(Run).where(Run.thread_id == thread_id)
    query = query.where(Run.run_id == run_id)
    if label is not None:
        query = query.where(Run.user_id == label)
    async with get_session_maker()() as session:
        row = await session.scalar(query)
    if row is None:
        return None
    return _shown_run(row)


def _shown_run(row: Any) -> dict[str, Any]:
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
