"""Planned runs: each new run waits in aegra's list until it begins.

aegra has no runs that begin later, and begins each at once, even while another run of the same
thread is still running. So each new run is planned here: it waits in aegra's list until it is due
and no other run of its thread is active. Then one process claims it, and gives it to aegra's
executor.
"""

import asyncio
import contextvars
import time
from collections.abc import Coroutine
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Protocol

from aegra_api.core.orm import Run, get_session_maker
from aegra_api.models.run_job import RunJob
from aegra_api.settings import settings
from fastapi import HTTPException
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import aliased

# `claimed_by` of a run that begins later. None of aegra's workers takes a run that has such a name.
# Its lease has ended, so aegra cancels it like one whose worker died.
_PLANNED_CLAIM = "planned"
_NO_LEASE = datetime.fromtimestamp(0, UTC)
# In `execution_params` of a planned run: when it begins, in ISO format, UTC.
_BEGIN_TIME_FIELD = "begins"
# One look begins at most so many runs.
_MAX_DUE_RUNS = 100
# Seconds between two looks for runs that are due.
LOOK_SECONDS = 0.25
_ACTIVE_STATUSES = ("pending", "running")

# In how many seconds the run begins that this task makes; None: at once.
_begin_after: ContextVar[float | None] = ContextVar("after", default=None)


async def choose_begin(thread_id: str, strategy: str | None, seconds: object) -> None:
    """Choose when the run begins that this task makes: in so many seconds, where that is a number
    above 0; otherwise after the active run of its thread, or at once where there is none.

    A run that replaces those that wait (the multitask strategy "rollback") deletes them. Raises 409
    if an active run is not to be waited for, or if no Redis is there with which to wait.
    """
    if strategy == "rollback":
        await _delete_planned_runs(thread_id)
    begin_seconds = await _seconds_until_begin(thread_id, strategy, seconds)
    _begin_after.set(begin_seconds)


async def _seconds_until_begin(
    thread_id: str, strategy: str | None, seconds: object
) -> float | None:
    """In how many seconds a new run begins: 0 after the active run of its thread, None at once."""
    if isinstance(seconds, int | float) and seconds > 0:
        return float(seconds)
    query = select(Run.run_id)
    query = query.where(Run.thread_id == thread_id, Run.status.in_(_ACTIVE_STATUSES))
    new_session = get_session_maker()
    async with new_session() as session:
        active_id = await session.scalar(query.limit(1))
    if active_id is None:
        return None
    if strategy == "reject" or not settings.redis.REDIS_BROKER_ENABLED:
        raise HTTPException(409, "A run goes on in this conversation; wait for its end.")
    return 0.0


async def _delete_planned_runs(thread_id: str) -> None:
    """Delete the runs of a thread that have not begun."""
    deletion = delete(Run).where(Run.thread_id == thread_id, Run.claimed_by == _PLANNED_CLAIM)
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(deletion)
        await session.commit()


class Executor(Protocol):
    """What is asked of aegra's executor."""

    async def submit(self, job: RunJob) -> None: ...


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
    begin_time = datetime.now(UTC) + timedelta(seconds=seconds)
    query = select(Run).where(Run.run_id == planned_id)
    new_session = get_session_maker()
    async with new_session() as session:
        run = await session.scalar(query)
        if run is None:  # deleted meanwhile
            return
        parameters = run.execution_params or {}
        run.execution_params = {**parameters, _BEGIN_TIME_FIELD: begin_time.isoformat()}
        run.claimed_by = _PLANNED_CLAIM
        run.lease_expires_at = _NO_LEASE
        await session.commit()


async def begin_due_runs(executor: Executor) -> None:
    """Begin planned runs when they are due, until this task is cancelled. Each process does so."""
    while True:
        start = time.monotonic()
        for due_id in await _due_run_ids():
            job = await _claim_run(due_id)
            if job is not None:
                await executor.submit(job)
        seconds = time.monotonic() - start
        await asyncio.sleep(max(0.0, LOOK_SECONDS - seconds))


async def _due_run_ids() -> list[str]:
    """Ids of planned runs that are due, the oldest first, at most `_MAX_DUE_RUNS`."""
    now = datetime.now(UTC)
    begin_time = Run.execution_params[_BEGIN_TIME_FIELD].astext
    is_due = begin_time <= now.isoformat()
    by_age = Run.created_at.asc()
    query = select(Run.run_id)
    query = query.where(Run.status == "pending", Run.claimed_by == _PLANNED_CLAIM, is_due)
    query = query.order_by(by_age)
    query = query.limit(_MAX_DUE_RUNS)
    new_session = get_session_maker()
    async with new_session() as session:
        run_ids = await session.scalars(query)
        return list(run_ids.all())


async def _claim_run(due_id: str) -> RunJob | None:
    """Claim a planned run and return its job: no other process begins it then.

    Returns None if another run of its thread is active, or if the run was claimed or deleted
    meanwhile. If this process dies now, aegra finds a run that waits in its list, and begins it.
    """
    other_run = aliased(Run)
    active_run = select(other_run.run_id)
    active_run = active_run.where(
        other_run.thread_id == Run.thread_id,
        other_run.run_id != Run.run_id,
        other_run.status.in_(_ACTIVE_STATUSES),
        func.coalesce(other_run.claimed_by, "") != _PLANNED_CLAIM,
    )
    thread_is_free = ~active_run.exists()
    is_due_run = Run.run_id == due_id
    claim = update(Run)
    claim = claim.where(
        is_due_run, Run.status == "pending", Run.claimed_by == _PLANNED_CLAIM, thread_is_free
    )
    claim = claim.values(claimed_by=None, lease_expires_at=None)
    claim = claim.returning(Run.run_id)
    claim = claim.execution_options(synchronize_session=False)
    # Two that claim at once would not see each other_run.
    thread_key = func.hashtext(Run.thread_id)
    lock_query = select(func.pg_advisory_xact_lock(thread_key))
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(lock_query.where(is_due_run))
        result = await session.execute(claim)
        claimed_id = result.scalar_one_or_none()
        await session.commit()
        if claimed_id is None:
            return None
        run = await session.scalar(select(Run).where(is_due_run))
        if run is None:
            return None
        return RunJob.from_run_orm(run)
