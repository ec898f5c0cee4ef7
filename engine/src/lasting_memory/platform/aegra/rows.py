"""Rows of aegra's database: threads and runs, as far as this package reads them."""

from collections.abc import Mapping
from datetime import datetime
from typing import NotRequired, Protocol, TypedDict

from aegra_api.core.orm import Run, Thread, get_session_maker
from sqlalchemy import Select


class ThreadRow(Protocol):
    """What is read of a thread's row (`aegra_api.core.orm.Thread`)."""

    thread_id: str
    status: str
    metadata_json: Mapping[str, object] | None
    created_at: datetime
    updated_at: datetime


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


async def rows_of(query: Select) -> list[Thread | Run]:
    """The rows that a query finds."""
    new_session = get_session_maker()
    async with new_session() as session:
        rows = await session.scalars(query)
        return list(rows.all())


async def first_row(query: Select) -> Thread | Run | None:
    """The first row that a query finds; None if it finds nothing."""
    new_session = get_session_maker()
    async with new_session() as session:
        return await session.scalar(query)
