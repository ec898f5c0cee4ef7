"""The routes of runs: they are made, now or later, listed and read."""

from aegra_api.api import runs as aegra_runs
from aegra_api.api import stateless_runs as aegra_stateless_runs
from aegra_api.core.auth_deps import get_current_user
from aegra_api.core.orm import Run
from aegra_api.models.runs import RunCreate
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy import Select, select

from lasting_memory.platform.aegra.rows import RunRow, first_row, rows_of
from lasting_memory.platform.aegra.run_requests import run_session, sent_fields
from lasting_memory.platform.aegra.users import AegraUser
from lasting_memory.platform.aegra.visible_threads import auth_filter_for, visible_thread

router = APIRouter()
# One list has at most so many runs.
_MAX_RUNS = 1_000
_User = Depends(get_current_user)


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
    auth_filter = await auth_filter_for(user, "read", {"thread_id": thread_id})
    await visible_thread(thread_id, user, auth_filter)
    query = _runs_of_thread(thread_id)
    query = query.where(Run.user_id == user.identity)
    if status:
        query = query.where(Run.status == status)
    by_age = Run.created_at.desc()
    query = query.order_by(by_age)
    query = query.offset(max(0, offset))
    page_size = min(max(1, limit), _MAX_RUNS)
    rows: list[RunRow] = await rows_of(query.limit(page_size))
    return [_run_json(row) for row in rows]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: str, run_id: str, user: AegraUser = _User) -> dict[str, object]:
    """One run."""
    await auth_filter_for(user, "read", {"thread_id": thread_id, "run_id": run_id})
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
    row: RunRow | None = await first_row(query)
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
