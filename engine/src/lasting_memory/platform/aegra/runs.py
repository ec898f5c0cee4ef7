"""Runs: what a handler may change of their request, their ids, and when they begin.

aegra passes handlers a copy of a run's request, of which it takes config and context back. It has
no runs that begin later, and begins each at once, even while another run of the same thread is still running.
"""

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.orm import Run, Thread, get_session_maker
from aegra_api.models.run_job import RunJob
from aegra_api.services.langgraph_service import get_langgraph_service
from aegra_api.settings import settings
from aegra_api.utils.assistants import resolve_assistant_id
from fastapi import HTTPException
from langsmith import uuid7
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased

from lasting_memory.platform.aegra import users
from lasting_memory.platform.aegra.client import label_of_thread
from lasting_memory.platform.aegra.handlers import whole_value

# `claimed_by` of a run that begins later. None of aegra's workers takes a run that has such a name.
# Its lease has ended, so aegra cancels it like one whose worker died.
_PLANNED = "planned"
_NO_LEASE = datetime.fromtimestamp(0, UTC)
# In `execution_params` of a planned run: when it begins, in ISO format, UTC.
_BEGINS = "begins"
# Runs that are begun at once.
_MOST = 100
# Seconds between two looks for runs that are due.
LOOK_SECONDS = 0.25
_ACTIVE = ("pending", "running")
# Of a checkpoint that a client names: nothing else of it reaches a run's config.
_CHECKPOINT = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")

# The id of the run that this task makes; None where nobody has chosen one.
_run_id: ContextVar[UUID | None] = ContextVar("run_id", default=None)
# In how many seconds the run begins that this task makes; None: at once.
_after: ContextVar[float | None] = ContextVar("after", default=None)
# What a request said of a run that aegra's own model has no field for.
_sent: ContextVar[Mapping[str, Any]] = ContextVar("sent")

# The database session that the request of a run has open; None where it has none.
_session: ContextVar[Any] = ContextVar("session", default=None)


@asynccontextmanager
async def run_session() -> AsyncIterator[Any]:
    """A database session for the request of a run.

    It gives its connection back while the handlers are asked, which need connections themselves:
    where all are in use, requests would wait for each other.
    """
    async with get_session_maker()() as session:
        token = _session.set(session)
        try:
            yield session
        finally:
            _session.reset(token)


@contextmanager
def sent_fields(fields: Mapping[str, Any]) -> Iterator[None]:
    """Within this context, the request of a run also has these fields."""
    token = _sent.set(fields)
    try:
        yield
    finally:
        _sent.reset(token)


def run_id() -> UUID:
    """The id of a new run, with the time at which it was made: forgetting compares these times."""
    chosen = _run_id.get()
    _run_id.set(None)
    return chosen or uuid7()


async def authorize_run(user: Any, thread_id: str, request: Any) -> None:
    """Ask the handlers about a run, and copy back into its request what they changed.

    It replaces aegra's `_apply_create_run_auth`. The run belongs to the person whom the handlers
    name: an operator's may be somebody else's. Its thread is made with the run's metadata, as
    langgraph-api does.
    """
    session = _session.get()
    if session is not None:
        await session.commit()
    assistant_id, graph_id = _assistant_of(request)
    chosen = uuid7()
    value = _value_of(thread_id, assistant_id, request, str(chosen))
    with whole_value():
        filters = await handle_event(build_auth_context(user, "threads", "create_run"), value)
        about = {"assistant_id": assistant_id}
        await handle_event(build_auth_context(user, "assistants", "read"), about)
    kwargs = value["kwargs"]
    metadata = {**value["metadata"], "graph_id": graph_id, "assistant_id": assistant_id}
    # Whoever sees all threads, that is an operator, also begins runs in somebody else's.
    thread_owner = await label_of_thread(thread_id) if filters is None else ""
    label = thread_owner or users.label_of(metadata["user_id"], metadata["org_id"])
    _set_run_owner(user, kwargs["config"], label)
    _put_back(request, kwargs, metadata, graph_id=graph_id, assistant_id=assistant_id)
    await _make_thread(thread_id, user.identity, metadata)
    _run_id.set(chosen)
    _after.set(await _begins_after(thread_id, request))


def _assistant_of(request: Any) -> tuple[str, str]:
    """The id of a request's assistant, and that of its graph; "" for one that no graph has made."""
    graphs = get_langgraph_service().list_graphs()
    assistant_id = str(resolve_assistant_id(str(request.assistant_id), graphs))
    for graph_id in graphs:
        if str(resolve_assistant_id(graph_id, graphs)) == assistant_id:
            return assistant_id, graph_id
    # Operators make others, each with a config and a context of its own.
    raise HTTPException(404, f"Assistant '{request.assistant_id}' not found")


def _value_of(thread_id: str, assistant_id: str, request: Any, chosen: str) -> dict[str, Any]:
    """The request of a run as langgraph-api passes it to handlers."""
    config = dict(request.config or {})
    configurable = config.get("configurable") or {}
    if not isinstance(configurable, Mapping):
        raise HTTPException(422, "`config.configurable` must be a mapping")
    named = {
        name: field for name, field in (request.checkpoint or {}).items() if name in _CHECKPOINT
    }
    if request.checkpoint_id is not None:
        named.setdefault("checkpoint_id", str(request.checkpoint_id))
    config["configurable"] = {**configurable, **named}
    # Such a user comes from a handler alone.
    config["configurable"].pop("langgraph_auth_user", None)
    return {
        "thread_id": thread_id,
        "assistant_id": assistant_id,
        "run_id": chosen,
        "metadata": dict(request.metadata or {}),
        "multitask_strategy": request.multitask_strategy,
        "after_seconds": _sent.get({}).get("after_seconds") or 0,
        "if_not_exists": "create",
        "kwargs": {
            "input": request.input,
            "command": request.command,
            "config": config,
            "context": dict(request.context or {}),
            "interrupt_before": request.interrupt_before,
            "interrupt_after": request.interrupt_after,
            "webhook": _sent.get({}).get("webhook"),
            "durability": request.durability,
        },
    }


def _set_run_owner(user: Any, config: Mapping[str, Any], label: str) -> None:
    """Make the run that of the person with this label, for aegra.

    For this library it is that of the claims: the handlers stamp an operator's into the config.
    """
    stamped = config["configurable"].pop("langgraph_auth_user", None)
    claims = stamped or users.user_of(user).to_dict()["signed_in"]
    for name, field in users.fields_of(claims, label).items():
        setattr(user, name, field)


def _put_back(
    request: Any,
    kwargs: Mapping[str, Any],
    metadata: Mapping[str, Any],
    *,
    graph_id: str,
    assistant_id: str,
) -> None:
    """Make a request what the handlers left of it."""
    config = kwargs["config"]
    # langgraph-api puts these there: the run's user and the metadata of checkpoints come of it.
    config["configurable"].update(graph_id=graph_id, assistant_id=assistant_id)
    config["metadata"] = {**(config.get("metadata") or {}), **metadata}
    request.config = config
    request.context = kwargs["context"]
    request.input = kwargs["input"]
    request.command = kwargs["command"]
    request.durability = kwargs["durability"]
    request.metadata = dict(metadata)
    request.checkpoint = None
    request.checkpoint_id = None


async def _make_thread(thread_id: str, label: str, metadata: Mapping[str, Any]) -> None:
    """Make the thread of a run, unless it is there. Raises 404 for somebody else's."""
    kept = {**metadata, "owner": label}
    made = insert(Thread).values(
        thread_id=thread_id, status="idle", metadata_json=kept, user_id=label
    )
    async with get_session_maker()() as session:
        await session.execute(made.on_conflict_do_nothing(index_elements=["thread_id"]))
        await session.commit()
        owner = await session.scalar(select(Thread.user_id).where(Thread.thread_id == thread_id))
    if owner != label:
        raise HTTPException(404, f"Thread '{thread_id}' not found")


# --- Runs that begin later


async def _begins_after(thread_id: str, request: Any) -> float | None:
    """In how many seconds a new run begins; None: at once.

    A run waits for others of its thread. One that replaces those that wait deletes them.
    """
    seconds = float(_sent.get({}).get("after_seconds") or 0)
    if request.multitask_strategy == "rollback":
        await _delete_planned(thread_id)
    if seconds > 0:
        return seconds
    async with get_session_maker()() as session:
        active = await session.scalar(
            select(Run.run_id).where(Run.thread_id == thread_id, Run.status.in_(_ACTIVE)).limit(1)
        )
    if active is None:
        return None
    if request.multitask_strategy == "reject" or not settings.redis.REDIS_BROKER_ENABLED:
        raise HTTPException(409, "A run goes on in this conversation; wait for its end.")
    return 0.0


async def _delete_planned(thread_id: str) -> None:
    async with get_session_maker()() as session:
        await session.execute(
            delete(Run).where(Run.thread_id == thread_id, Run.claimed_by == _PLANNED)
        )
        await session.commit()


class PlanningExecutor:
    """aegra's executor, which is not given a run that begins later."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def submit(self, job: Any) -> None:
        """Have a run begin, now or later. Its task has nothing of the request that makes it.

        One that begins now is planned, too, and claimed: of several that are made at once in one
        thread, on whichever process, one begins.
        """
        seconds = _after.get()
        _after.set(None)
        await _plan(job.identity.run_id, seconds or 0.0)
        if seconds is None and await _claimed(job.identity.run_id) is not None:
            await _in_new_context(self._executor.submit(job))


async def _in_new_context(work: Any) -> None:
    await asyncio.create_task(work, context=contextvars.Context())


async def _plan(planned_id: str, seconds: float) -> None:
    """Note when a run begins that aegra has just put into its list."""
    begins = datetime.now(UTC) + timedelta(seconds=seconds)
    async with get_session_maker()() as session:
        run = await session.scalar(select(Run).where(Run.run_id == planned_id))
        if run is None:  # deleted meanwhile
            return
        run.execution_params = {**(run.execution_params or {}), _BEGINS: begins.isoformat()}
        run.claimed_by = _PLANNED
        run.lease_expires_at = _NO_LEASE
        await session.commit()


async def begin_due_runs(executor: Any) -> None:
    """Begin planned runs when they are due, until this task is cancelled. Each process does so."""
    while True:
        started = time.monotonic()
        for due_id in await _due():
            job = await _claimed(due_id)
            if job is not None:
                await executor.submit(job)
        await asyncio.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - started)))


async def _due() -> list[str]:
    """Ids of planned runs that are due, the oldest first."""
    now = datetime.now(UTC).isoformat()
    begins = Run.execution_params[_BEGINS].astext
    due = select(Run.run_id).where(
        Run.status == "pending", Run.claimed_by == _PLANNED, begins <= now
    )
    async with get_session_maker()() as session:
        found = await session.scalars(due.order_by(Run.created_at.asc()).limit(_MOST))
        return [*found.all()]


async def _claimed(due_id: str) -> Any:
    """The job of a planned run, which nobody else begins then; None where another goes on.

    If this process dies now, aegra finds a run that waits in its list, and begins it.
    """
    other = aliased(Run)
    goes_on = (
        select(other.run_id)
        .where(
            other.thread_id == Run.thread_id,
            other.run_id != Run.run_id,
            other.status.in_(_ACTIVE),
            func.coalesce(other.claimed_by, "") != _PLANNED,
        )
        .exists()
    )
    claim = (
        update(Run)
        .where(Run.run_id == due_id, Run.status == "pending", Run.claimed_by == _PLANNED, ~goes_on)
        .values(claimed_by=None, lease_expires_at=None)
        .returning(Run.run_id)
        .execution_options(synchronize_session=False)
    )
    # Two that claim at once would not see each other.
    alone = select(func.pg_advisory_xact_lock(func.hashtext(Run.thread_id)))
    async with get_session_maker()() as session:
        await session.execute(alone.where(Run.run_id == due_id))
        claimed = (await session.execute(claim)).scalar_one_or_none()
        await session.commit()
        if claimed is None:
            return None
        run = await session.scalar(select(Run).where(Run.run_id == due_id))
        return RunJob.from_run_orm(run) if run is not None else None
