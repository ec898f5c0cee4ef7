"""Counts of many processes: nothing is lost, and old ones go."""

from __future__ import annotations

import asyncio

from langgraph.store.base import BaseStore

from memory.namespaces import operations
from memory.usage import count, counted


async def test_what_processes_count_at_once_adds_up(store: BaseStore) -> None:
    for process in ("one", "two"):
        await asyncio.gather(
            *(
                count(store, operations(), "2026-01-02", {"runs": 1, "tokens": 5}, "2026-01-01", writer=process)
                for _ in range(9)
            )
        )
    assert await counted(store, operations(), "2026-01-02") == {"runs": 18, "tokens": 90}


async def test_counts_of_periods_that_are_over_go_when_a_new_one_begins(store: BaseStore) -> None:
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        await count(store, operations(), day, {"runs": 1}, keep="2026-01-02")
    assert await counted(store, operations(), "") == {"runs": 2}
    assert await counted(store, operations(), "2026-01-03") == {"runs": 1}
