"""Runs: what a handler may change of their request, their ids, and when they begin.

aegra passes handlers a copy of a run's request, of which it takes config and context back. It has
no runs that begin later, and begins each at once, even while another run of the same thread is
still running. So each new run is planned here: it waits in aegra's list until it is due and no
other run of its thread is active. Then one process claims it, and gives it to aegra's executor.
"""

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypedDict, cast
from uuid import UUID

from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.orm import Run, Thread, get_session_maker
from aegra_api.models.run_job import RunJob
from aegra_api.services.langgraph_service import get_langgraph_service
from aegra_api.settings import settings
from aegra_api.utils.assistants import resolve_assistant_id
from fastapi import HTTPException
from langchain_core.runnables import RunnableConfig
from langsmith import uuid7
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
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
# One look begins at most so many runs.
_MAX_DUE_RUNS = 100
# Seconds between two looks for runs that are due.
LOOK_SECONDS = 0.25
_ACTIVE = ("pending", "running")
# Of a checkpoint that a client names: nothing else of it reaches a run's config.
_CHECKPOINT = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")

# The id of the run that this task makes; None where nobody has chosen one.
_run_id: ContextVar[UUID | None] = ContextVar("run_id", default=None)
# In how many seconds the run begins that this task makes; None: at once.
_begin_after: ContextVar[float | None] = ContextVar("after", default=None)
# What a request said of a run that aegra's own model has no field for.
_sent_fields: ContextVar[Mapping[str, object]] = ContextVar("sent")

# The database session that the request of a run has open; None where it has none.
_session: ContextVar[AsyncSession | None] = ContextVar("session", default=None)


class RunRequest(Protocol):
    """What is read of a run's request, and changed (`aegra_api.models.runs.RunCreate`)."""

    assistant_id: str
    input: object
    command: object
    config: Mapping[str, object] | None
    context: Mapping[str, object] | None
    metadata: Mapping[str, object] | None
    checkpoint: Mapping[str, object] | None
    checkpoint_id: UUID | None
    multitask_strategy: str | None
    interrupt_before: object
    interrupt_after: object
    durability: str | None


class RunKwargs(TypedDict):
    """`kwargs` of a `RunValue`: what the graph is called with."""

    input: object
    command: object
    config: RunnableConfig
    context: dict[str, object]
    interrupt_before: object
    interrupt_after: object
    webhook: object
    durability: str | None


class RunValue(TypedDict):
    """The request of a run as langgraph-api passes it to handlers, which change it in place."""

    thread_id: str
    assistant_id: str
    run_id: str
    metadata: dict[str, object]
    multitask_strategy: str | None
    after_seconds: object
    if_not_exists: str
    kwargs: RunKwargs


class Executor(Protocol):
    """What is asked of aegra's executor."""

    async def submit(self, job: RunJob) -> None: ...


@asynccontextmanager
async def run_session() -> AsyncIterator[AsyncSession]:
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
def sent_fields(fields: Mapping[str, object]) -> Iterator[None]:
    """Within this context, the request of a run also has these fields."""
    token = _sent_fields.set(fields)
    try:
        yield
    finally:
        _sent_fields.reset(token)


def run_id() -> UUID:
    """The id of a new run, with the time at which it was made: forgetting compares these times.

    It is the one that the handlers were asked about, if this task has asked them.
    """
    chosen_id = _run_id.get()
    _run_id.set(None)
    return chosen_id or uuid7()


async def authorize_run(user: users.AegraUser, thread_id: str, request: RunRequest) -> None:
    """Ask the handlers about a run, and copy back into its request what they changed.

    It replaces aegra's `_apply_create_run_auth`. The run belongs to the person whom the handlers
    name: an operator's may be somebody else's. Its thread is made with the run's metadata, as
    langgraph-api does. Raises `UnreadableUserError` where the handlers name nobody.
    """
    session = _session.get()
    if session is not None:
        await session.commit()
    assistant_id, graph_id = _assistant_of(request)
    chosen_id = uuid7()
    value = _handler_value(thread_id, assistant_id, request, str(chosen_id))
    run_context = build_auth_context(user, "threads", "create_run")
    assistant_context = build_auth_context(user, "assistants", "read")
    with whole_value():
        auth_filter = await handle_event(run_context, value)
        await handle_event(assistant_context, {"assistant_id": assistant_id})
    kwargs = value["kwargs"]
    metadata = {**value["metadata"], "graph_id": graph_id, "assistant_id": assistant_id}
    owner = users.label_in(metadata)
    if auth_filter is None:
        # Whoever sees all threads, that is an operator, also begins runs in somebody else's.
        owner = await label_of_thread(thread_id) or owner
    if owner is None:
        raise users.UnreadableUserError("The handlers of auth.py name no person of this run.")
    _set_run_owner(user, kwargs["config"], owner)
    _update_request(request, kwargs, metadata, graph_id=graph_id, assistant_id=assistant_id)
    await _make_thread(thread_id, user.identity, metadata)
    seconds = await _seconds_until_begin(thread_id, request)
    _run_id.set(chosen_id)
    _begin_after.set(seconds)


def _assistant_of(request: RunRequest) -> tuple[str, str]:
    """The ids of a request's assistant and of its graph.

    Raises 404 for an assistant that is not a graph's own.
    """
    graphs = get_langgraph_service().list_graphs()
    assistant_id = str(resolve_assistant_id(request.assistant_id, graphs))
    for graph_id in graphs:
        graph_assistant_id = str(resolve_assistant_id(graph_id, graphs))
        if graph_assistant_id == assistant_id:
            return assistant_id, graph_id
    # Operators make others, each with a config and a context of its own.
    raise HTTPException(404, f"Assistant '{request.assistant_id}' not found")


def _handler_value(
    thread_id: str, assistant_id: str, request: RunRequest, chosen_id: str
) -> RunValue:
    """The request of a run as langgraph-api passes it to handlers. Raises 422 for a wrong config."""
    config = dict(request.config or {})
    client_configurable = config.get("configurable") or {}
    if not isinstance(client_configurable, Mapping):
        raise HTTPException(422, "`config.configurable` must be a mapping")
    configurable = dict(client_configurable)
    checkpoint = request.checkpoint or {}
    for name in _CHECKPOINT:
        if name in checkpoint:
            configurable[name] = checkpoint[name]
    if request.checkpoint_id is not None and "checkpoint_id" not in checkpoint:
        configurable["checkpoint_id"] = str(request.checkpoint_id)
    # Such a user comes from a handler alone.
    configurable.pop("langgraph_auth_user", None)
    config["configurable"] = configurable
    sent = _sent_fields.get({})
    return {
        "thread_id": thread_id,
        "assistant_id": assistant_id,
        "run_id": chosen_id,
        "metadata": dict(request.metadata or {}),
        "multitask_strategy": request.multitask_strategy,
        "after_seconds": sent.get("after_seconds") or 0,
        "if_not_exists": "create",
        "kwargs": {
            "input": request.input,
            "command": request.command,
            "config": cast("RunnableConfig", config),  # handlers check its other fields
            "context": dict(request.context or {}),
            "interrupt_before": request.interrupt_before,
            "interrupt_after": request.interrupt_after,
            "webhook": sent.get("webhook"),
            "durability": request.durability,
        },
    }


def _set_run_owner(user: users.AegraUser, config: RunnableConfig, label: str) -> None:
    """Make the run that of the person with this label, for aegra, by changing its user.

    For this library it is that of the claims: the handlers stamp an operator's into the config.
    """
    claims = config["configurable"].pop("langgraph_auth_user", None)
    if not claims:
        fields = users.user_of(user).to_dict()
        claims = fields["signed_in"]
    owner_fields = users.fields_of(claims, label)
    for name, value in owner_fields.items():
        setattr(user, name, value)


def _update_request(
    request: RunRequest,
    kwargs: RunKwargs,
    metadata: Mapping[str, object],
    *,
    graph_id: str,
    assistant_id: str,
) -> None:
    """Write back into a request what the handlers made of it: `kwargs` and `metadata`."""
    config = kwargs["config"]
    # langgraph-api puts these there: the run's user and the metadata of checkpoints come of it.
    config["configurable"].update(graph_id=graph_id, assistant_id=assistant_id)
    config_metadata = config.get("metadata") or {}
    config["metadata"] = {**config_metadata, **metadata}
    request.config = config
    request.context = kwargs["context"]
    request.input = kwargs["input"]
    request.command = kwargs["command"]
    request.durability = kwargs["durability"]
    request.metadata = dict(metadata)
    request.checkpoint = None
    request.checkpoint_id = None


async def _make_thread(thread_id: str, label: str, metadata: Mapping[str, object]) -> None:
    """Make the thread of a run, unless it is there. Raises 404 for somebody else's."""
    with_owner = {**metadata, "owner": label}
    making = insert(Thread).values(
        thread_id=thread_id, status="idle", metadata_json=with_owner, user_id=label
    )
    making = making.on_conflict_do_nothing(index_elements=["thread_id"])
    owner_query = select(Thread.user_id)
    owner_query = owner_query.where(Thread.thread_id == thread_id)
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(making)
        await session.commit()
        owner = await session.scalar(owner_query)
    if owner != label:
        raise HTTPException(404, f"Thread '{thread_id}' not found")


# --- Runs that begin later


async def _seconds_until_begin(thread_id: str, request: RunRequest) -> float | None:
    """In how many seconds a new run begins: 0 after the active run of its thread, None at once.

    A run that replaces those that wait ("rollback") deletes them. Raises 409 if an active run is
    not to be waited for, or if no Redis is there with which to wait.
    """
    sent = _sent_fields.get({})
    seconds = sent.get("after_seconds")
    if request.multitask_strategy == "rollback":
        await _delete_planned_runs(thread_id)
    if isinstance(seconds, int | float) and seconds > 0:
        return float(seconds)
    query = select(Run.run_id)
    query = query.where(Run.thread_id == thread_id, Run.status.in_(_ACTIVE))
    new_session = get_session_maker()
    async with new_session() as session:
        active_id = await session.scalar(query.limit(1))
    if active_id is None:
        return None
    if request.multitask_strategy == "reject" or not settings.redis.REDIS_BROKER_ENABLED:
        raise HTTPException(409, "A run goes on in this conversation; wait for its end.")
    return 0.0


async def _delete_planned_runs(thread_id: str) -> None:
    """Delete the runs of a thread that have not begun."""
    deletion = delete(Run).where(Run.thread_id == thread_id, Run.claimed_by == _PLANNED)
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(deletion)
        await session.commit()


class PlanningExecutor:
    """aegra's executor, which is not given a run that begins later."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> object:
        return getattr(self._executor, name)

    async def submit(self, job: RunJob) -> None:
        """Have a run begin, now or later. Its task has nothing of the request that makes it.

        One that begins now is planned, too, and claimed: of several that are made at once in one
        thread, on whichever process, one begins.
        """
        new_run_id = job.identity.run_id
        seconds = _begin_after.get()
        _begin_after.set(None)
        await _plan(new_run_id, seconds or 0.0)
        if seconds is not None:
            return
        claimed_job = await _claim_run(new_run_id)
        if claimed_job is not None:
            await _in_new_context(self._executor.submit(job))


async def _in_new_context(work: Coroutine[object, object, None]) -> None:
    """Await work in a context without any variable of this task."""
    context = contextvars.Context()
    await asyncio.create_task(work, context=context)


async def _plan(planned_id: str, seconds: float) -> None:
    """Note when a run begins that aegra has just put into its list."""
    begins = datetime.now(UTC) + timedelta(seconds=seconds)
    query = select(Run).where(Run.run_id == planned_id)
    new_session = get_session_maker()
    async with new_session() as session:
        run = await session.scalar(query)
        if run is None:  # deleted meanwhile
            return
        parameters = run.execution_params or {}
        run.execution_params = {**parameters, _BEGINS: begins.isoformat()}
        run.claimed_by = _PLANNED
        run.lease_expires_at = _NO_LEASE
        await session.commit()


async def begin_due_runs(executor: Executor) -> None:
    """Begin planned runs when they are due, until this task is cancelled. Each process does so."""
    while True:
        started = time.monotonic()
        for due_id in await _due_run_ids():
            job = await _claim_run(due_id)
            if job is not None:
                await executor.submit(job)
        seconds = time.monotonic() - started
        await asyncio.sleep(max(0.0, LOOK_SECONDS - seconds))


async def _due_run_ids() -> list[str]:
    """Ids of planned runs that are due, the oldest first, at most `_MAX_DUE_RUNS`."""
    now = datetime.now(UTC)
    begins = Run.execution_params[_BEGINS].astext
    is_due = begins <= now.isoformat()
    by_age = Run.created_at.asc()
    query = select(Run.run_id)
    query = query.where(Run.status == "pending", Run.claimed_by == _PLANNED, is_due)
    query = query.order_by(by_age)
    query = query.limit(_MAX_DUE_RUNS)
    new_session = get_session_maker()
    async with new_session() as session:
        found = await session.scalars(query)
        return list(found.all())


async def _claim_run(due_id: str) -> RunJob | None:
    """Claim a planned run and return its job: no other process begins it then.

    Returns None if another run of its thread is active, or if the run was claimed or deleted
    meanwhile. If this process dies now, aegra finds a run that waits in its list, and begins it.
    """
    other = aliased(Run)
    active_run = select(other.run_id)
    active_run = active_run.where(
        other.thread_id == Run.thread_id,
        other.run_id != Run.run_id,
        other.status.in_(_ACTIVE),
        func.coalesce(other.claimed_by, "") != _PLANNED,
    )
    thread_is_free = ~active_run.exists()
    is_due_run = Run.run_id == due_id
    claim = update(Run)
    claim = claim.where(
        is_due_run, Run.status == "pending", Run.claimed_by == _PLANNED, thread_is_free
    )
    claim = claim.values(claimed_by=None, lease_expires_at=None)
    claim = claim.returning(Run.run_id)
    claim = claim.execution_options(synchronize_session=False)
    # Two that claim at once would not see each other.
    thread_key = func.hashtext(Run.thread_id)
    locking = select(func.pg_advisory_xact_lock(thread_key))
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(locking.where(is_due_run))
        result = await session.execute(claim)
        claimed_id = result.scalar_one_or_none()
        await session.commit()
        if claimed_id is None:
            return None
        run = await session.scalar(select(Run).where(is_due_run))
        if run is None:
            return None
        return RunJob.from_run_orm(run)
