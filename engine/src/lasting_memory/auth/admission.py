"""One person's share of a server, so that a flood slows down its sender only.

Requests and bytes, sent and answered, are taken from one bucket. What exceeds it waits. Each process gives each person this
share, and keeps it in memory. The installation's whole load, and callers without a valid token, are a proxy's business.
"""

import asyncio
import math
from asyncio import sleep
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from time import monotonic
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.agent.usage import budget_refusal
from lasting_memory.controls import RUN_METADATA, setting
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.people.identity import Actor, assistant_of
from lasting_memory.settings import CONSOLIDATION_GRAPH

# Bytes, sent or answered, that count as a request; some routes count more (`http/middleware.py`).
BYTES_PER_REQUEST = 131_072
# What a run and a new thread count beyond their request, in requests.
RUN_IN_REQUESTS, THREAD_IN_REQUESTS = 6, 3
# Longest wait of a request, in seconds. A request that would wait longer is refused afterwards.
MAX_REQUEST_WAIT_SECONDS = 30
# People in memory: the last callers.
PEOPLE = 10_000
# Seconds until an admitted run is in the platform's counts. The person's next run waits that long.
_CREATION_SECONDS = 0.05
# Busy threads of one person that are looked at: with MEMORY_SCOPE=user+assistant each assistant has one to consolidate.
_BUSY_COUNTED = 100
_RETRY_AFTER = {"Retry-After": "1"}


class Share:
    """A person's remaining share of this process, within these limits, and what of theirs is under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._under_way = limits, Counter[str]()
        self._at, self._left = monotonic(), float(limits.requests_at_once)
        # Threads that got a run while they had another: the platform calls them idle when one of the two is cancelled.
        self.crowded = set[str]()

    def _refill(self) -> None:
        now = monotonic()
        self._left = min(self._limits.requests_at_once, self._left + (now - self._at) * self._limits.requests_per_second)
        self._at = now

    def charge(self, requests: float) -> None:
        """Take so many requests, for which the next one waits. At most another whole share is owed."""
        self._refill()
        self._left = max(self._left - requests, min(self._left, -self._limits.requests_at_once))

    async def request(self, requests: float = 1) -> None:
        """Return when so many requests may proceed; 429 after the longest wait: an early refusal would invite retries."""
        self._refill()
        wait = max((requests - self._left) / self._limits.requests_per_second, 0)
        if wait > MAX_REQUEST_WAIT_SECONDS:
            await sleep(MAX_REQUEST_WAIT_SECONDS)
            raise HTTPException(429, "You have sent or asked for too much; slow down.", {"Retry-After": str(math.ceil(wait))})
        self._left -= requests
        if wait > 0:
            await sleep(wait)

    @contextmanager
    def under_way(self, what: str, most: int = 1) -> Iterator[None]:
        """One of at most so many of its kind that the person has under way. Raises `HTTPException` 429 if there are as many."""
        if self._under_way[what] >= most:
            raise HTTPException(429, f"You have {most} of this under way: {what}; wait until one ends.", _RETRY_AFTER)
        self._under_way[what] += 1
        try:
            yield
        finally:
            self._under_way[what] -= 1


@lru_cache(PEOPLE)
def share_of(_: Actor, limits: Limits) -> Share:
    """A person's share of this process: sign-in and the app, which are loaded apart, take from the same."""
    return Share(limits)


async def check_run(person: Actor, value: Mapping[str, Any], deployment: Deployment) -> None:
    """Return when a run may be created. Raises `HTTPException` 429 at a limit of the owner's runs or of the day's tokens."""
    if RUN_METADATA[0] in setting.get():  # of consolidation, whose slots bound it
        return
    if deployment.settings.daily_tokens and (spent := await budget_refusal(await platform.store(), person, deployment)):
        raise HTTPException(429, spent[0], {"Retry-After": str(spent[1])})
    thread_id, runs = value["thread_id"] and str(value["thread_id"]), get_client().runs
    limits, share = deployment.limits, share_of(person, deployment.limits)
    share.charge(RUN_IN_REQUESTS)
    checking = platform.lock_of("runs", person)  # one by one, so that each is counted before the next
    await checking.acquire()
    try:
        busy, most = await _busy_threads(person, share.crowded, thread_id), limits.waiting_runs
        if thread_id in busy:  # another has no runs that wait, or is not there yet
            with suppress(NotFoundError):  # the platform looks at queued runs first, which delays other people's
                if len(await runs.list(thread_id, status="pending", limit=most)) >= most:
                    raise HTTPException(429, f"{most} runs wait already on this thread.", _RETRY_AFTER)
        most, consolidates = limits.busy_threads, str(value["assistant_id"]) == assistant_of(CONSOLIDATION_GRAPH)
        if sum(consolidating == consolidates for consolidating in busy.values()) >= most:
            raise HTTPException(429, f"{most} of your conversations have a run going; wait for one.", _RETRY_AFTER)
    finally:
        asyncio.get_running_loop().call_later(_CREATION_SECONDS, checking.release)


async def _busy_threads(person: Actor, crowded: set[str], thread_id: str | None) -> dict[str, bool]:
    """The owner's threads with a run under way or queued, and whether each is consolidation's, which is counted apart."""
    client = get_client()
    found = await client.threads.search(
        metadata=asdict(person), status="busy", limit=_BUSY_COUNTED, select=["thread_id", "metadata"]
    )
    busy = {str(one["thread_id"]): (one["metadata"] or {}).get("graph_id") == CONSOLIDATION_GRAPH for one in found}
    if thread_id in busy:
        crowded.add(thread_id)
    for crowd in crowded - busy.keys():
        with suppress(NotFoundError):
            states = [await client.runs.list(crowd, status=status, limit=1) for status in ("running", "pending")]
            if any(states):
                busy[crowd] = False
                continue
        crowded.discard(crowd)
    return busy
