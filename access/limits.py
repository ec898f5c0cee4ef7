"""Limits of one person, checked before a run or a thread is created for them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError

from access.admission import ADMISSION, Person
from environment import CONSOLIDATION_GRAPH
from memory import identity, langgraph_internals
from memory.controls import creating_run
from memory.usage import budget_refusal
from settings import MAX_BUSY_THREADS, MAX_INPUT_BYTES, MAX_WAITING_RUNS, Settings

HTTPException = Auth.exceptions.HTTPException
# `user_id` and `org_id`, as stamped on threads.
Owner = Mapping[str, str]
# Busy threads of one person to count: twice the limits of conversations and consolidations together.
_BUSY_COUNTED = 4 * MAX_BUSY_THREADS


async def check_thread(owner: Owner) -> None:
    """Return when a thread may be created. Raises `HTTPException` 429 if the owner may have no further run."""
    await ADMISSION.thread(_person(owner), partial(_too_many_busy, owner))


def _person(owner: Owner) -> Person:
    return owner["org_id"], owner["user_id"]


def check_size(value: Mapping[str, Any]) -> None:
    """Raise `HTTPException` 413 for a run with too large an input. Call it first: other checks look at every part of it."""
    sent = [value["kwargs"].get(name) for name in ("input", "command", "context")]
    size = len(json.dumps(sent, ensure_ascii=False).encode(errors="replace"))
    if size > MAX_INPUT_BYTES:
        raise HTTPException(413, f"A run may be sent {MAX_INPUT_BYTES:,} bytes, not {size:,}; send less.")


async def check_run(owner: Owner, value: Mapping[str, Any], settings: Settings, *, consolidates: bool) -> None:
    """Return when a run may be created. Consolidation slots bound the runs of this project's own triggers. Raises
    `HTTPException` 429 if the owner is at a limit of runs or of the day's tokens.
    """
    if creating_run.get():
        return
    if settings.daily_tokens:
        actor = identity.Actor(owner["user_id"], owner["org_id"])
        if spent := await budget_refusal(await langgraph_internals.store(), actor, settings):
            raise HTTPException(429, spent[0], {"Retry-After": str(spent[1])})

    async def refusal() -> str | None:
        if value["thread_id"] is not None and value["multitask_strategy"] == "enqueue":
            await _check_waiting(value["thread_id"])
        full = await _too_many_busy(owner, value["thread_id"], consolidates=consolidates)
        if full and consolidates:  # not to be repeated for a conversation's run
            raise HTTPException(429, full)
        return full

    await ADMISSION.run(_person(owner), refusal)


async def _too_many_busy(owner: Owner, thread_id: object = None, *, consolidates: bool = False) -> str | None:
    """The reason why this person may have no further run; None if they may.

    The platform counts busy threads, not runs, and a thread with a run planned for later is busy. Conversations and
    consolidation are counted separately, so that neither blocks the other.
    """
    crowded = ADMISSION.crowded(_person(owner))
    consolidation = {**owner, "graph_id": CONSOLIDATION_GRAPH}
    busy = await _busy_threads(consolidation if consolidates else owner)
    if str(thread_id) in busy:
        crowded[str(thread_id)] = consolidates
    if len(busy) >= MAX_BUSY_THREADS and not consolidates:
        busy -= set(sorted(await _busy_threads(consolidation))[:MAX_BUSY_THREADS])
    for crowd in [crowd for crowd, of in crowded.items() if of == consolidates and crowd not in busy]:
        if await _has_runs(crowd):
            busy.add(crowd)
        else:
            del crowded[crowd]
    if len(busy) < MAX_BUSY_THREADS:
        return None
    return f"{len(busy)} of your conversations have a run going; wait until one of them ends."


async def _busy_threads(metadata: Owner) -> set[str]:
    busy = await get_client().threads.search(metadata=dict(metadata), status="busy", limit=_BUSY_COUNTED, select=["thread_id"])
    return {str(thread["thread_id"]) for thread in busy}


async def _has_runs(thread_id: str) -> bool:
    """Whether a run of the thread is under way or queued. The thread's status may say otherwise."""
    runs = get_client().runs
    with suppress(NotFoundError):
        return bool(
            await runs.list(thread_id, status="running", limit=1) or await runs.list(thread_id, status="pending", limit=1)
        )
    return False


async def _check_waiting(thread_id: object) -> None:
    """Bound the queued runs of a thread: the platform looks at them first, which delays other people's runs."""
    with suppress(NotFoundError):
        waiting = await get_client().runs.list(str(thread_id), status="pending", limit=MAX_WAITING_RUNS, select=["run_id"])
        if len(waiting) >= MAX_WAITING_RUNS:
            raise HTTPException(429, f"{len(waiting)} runs wait already on thread {thread_id}; wait until one of them begins.")
