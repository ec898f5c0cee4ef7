"""Whether a person's run may be created now: limits of their runs, and of the day's tokens."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Literal
from uuid import uuid4

from langgraph_sdk.errors import NotFoundError
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.agent.budget import budget_refusal
from lasting_memory.auth.current_request import current_request
from lasting_memory.auth.handler_values import RunRequest
from lasting_memory.auth.share import RETRY_AFTER, RUN_IN_REQUESTS, AdmittedRun, Share, share_of
from lasting_memory.conversations.marks import RUN_METADATA, setting
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Actor, assistant_of
from lasting_memory.platform import get_client
from lasting_memory.settings import CONSOLIDATION_GRAPH

# Busy threads of one person that are looked at: with MEMORY_SCOPE=user+assistant each assistant has
# one to consolidate.
_BUSY_COUNTED = 100


async def check_run(person: Actor, value: RunRequest, deployment: Deployment) -> None:
    """Return when a person's run may be created.

    From then on the run counts: until its request is answered as admitted, then as the platform
    lists it. Raises `HTTPException` 429 at a limit of the person's runs or of the day's tokens.
    """
    if RUN_METADATA[0] in setting.get():  # of consolidation, whose slots bound it
        return
    await _check_budget(person, deployment)
    share = share_of(person, deployment.limits)
    share.charge(RUN_IN_REQUESTS)
    thread_id = None
    if value["thread_id"]:
        thread_id = str(value["thread_id"])
    assistant_id = str(value["assistant_id"])
    is_consolidation = assistant_id == assistant_of(CONSOLIDATION_GRAPH)
    limits = deployment.limits
    # One by one, so that each run is counted before the next.
    async with platform.lock_of("runs", person):
        busy_threads = await _busy_threads(person, share, thread_id)
        if thread_id in busy_threads:  # another has no runs that wait, or is not there yet
            await _check_waiting(share, thread_id, limits.waiting_runs)
        _check_busy(busy_threads, limits.busy_threads, is_consolidation=is_consolidation)
        run_id = value.get("run_id") or uuid4()
        run = AdmittedRun(thread_id, is_consolidation)
        _count_admitted(share, str(run_id), run)


def _count_admitted(share: Share, run_id: str, run: AdmittedRun) -> None:
    """Count a run until its request is answered; outside of a request, nobody would end that."""
    request = current_request()
    if request is None:
        return
    share.admitted_runs[run_id] = run
    request.admitted_runs.append((share, run_id))


async def _check_budget(person: Actor, deployment: Deployment) -> None:
    """Raise `HTTPException` 429 if the person has spent the day's tokens."""
    if not deployment.settings.daily_tokens:
        return
    store = await platform.store()
    refusal = await budget_refusal(store, person, deployment)
    if refusal:
        detail, retry_after = refusal
        raise HTTPException(429, detail, {"Retry-After": str(retry_after)})


def _check_busy(busy_threads: Mapping[str, bool], limit: int, *, is_consolidation: bool) -> None:
    """Raise `HTTPException` 429 if so many threads are busy with consolidation, or with other runs.

    `busy_threads` are as `_busy_threads` returns them.
    """
    kinds = list(busy_threads.values())
    if kinds.count(is_consolidation) >= limit:
        raise HTTPException(
            429, f"{limit} of your conversations have a run going; wait for one.", RETRY_AFTER
        )


async def _check_waiting(share: Share, thread_id: str, limit: int) -> None:
    """Raise `HTTPException` 429 if so many runs wait on a thread.

    The platform looks at queued runs first, which delays other people's.
    """
    # The request of one of these may be answered before the list, which is older, arrives.
    runs_before = share.admitted_on(thread_id)
    pending_runs = await _listed_runs(thread_id, "pending", limit)
    admitted_runs = runs_before | share.admitted_on(thread_id)
    unlisted_runs = admitted_runs - pending_runs
    if unlisted_runs:
        unlisted_runs -= await _listed_runs(thread_id, "running", 1)
    if len(pending_runs) + len(unlisted_runs) >= limit:
        raise HTTPException(429, f"{limit} runs wait already on this thread.", RETRY_AFTER)


async def _listed_runs(
    thread_id: str, status: Literal["pending", "running"], limit: int
) -> set[str]:
    """Ids of the runs that the platform lists for a thread; none if there is no such thread."""
    with suppress(NotFoundError):
        runs = await get_client().runs.list(thread_id, status=status, limit=limit)
        return {str(run["run_id"]) for run in runs}
    return set()


async def _busy_threads(person: Actor, share: Share, thread_id: str | None) -> dict[str, bool]:
    """The person's threads with a run under way, queued or admitted, by their ids.

    The values say whether the run is consolidation's, which is counted apart. An admitted run whose
    thread has no id yet is a thread by itself, under the run's id.
    """
    # The request of one of these may be answered before the list, which is older, arrives.
    runs_before = dict(share.admitted_runs)
    threads = await get_client().threads.search(
        metadata=asdict(person),
        status="busy",
        limit=_BUSY_COUNTED,
        select=["thread_id", "metadata"],
    )
    busy_threads = dict[str, bool]()
    for thread in threads:
        metadata = thread["metadata"] or {}
        listed_id = str(thread["thread_id"])
        busy_threads[listed_id] = metadata.get("graph_id") == CONSOLIDATION_GRAPH
    admitted_runs = {**runs_before, **share.admitted_runs}
    unlisted_runs = share.take_unlisted(admitted_runs, busy_threads)
    for run_id, run in unlisted_runs.items():
        busy_id = run.thread_id or run_id
        busy_threads.setdefault(busy_id, run.is_consolidation)
    if thread_id in busy_threads:
        share.crowded_threads.add(thread_id)
    for crowded_id in share.crowded_threads - busy_threads.keys():
        if await _has_active_runs(crowded_id):
            busy_threads[crowded_id] = False
        else:
            share.crowded_threads.discard(crowded_id)
    return busy_threads


async def _has_active_runs(thread_id: str) -> bool:
    """Whether the platform lists a run of a thread as running or pending."""
    runs = get_client().runs
    with suppress(NotFoundError):
        running_runs = await runs.list(thread_id, status="running", limit=1)
        pending_runs = await runs.list(thread_id, status="pending", limit=1)
        return bool(running_runs or pending_runs)
    return False
