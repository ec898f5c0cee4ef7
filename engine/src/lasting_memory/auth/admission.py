"""One person's share of a server, so that a flood slows down its sender only.

Requests and bytes, sent and answered, are taken from one bucket. What exceeds it waits. Each
process gives each person this share, and keeps it in memory. The installation's whole load, and
callers without a valid token, are a proxy's business.
"""

import math
from asyncio import sleep
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from time import monotonic
from typing import Any
from uuid import uuid4

from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.agent.budget import budget_refusal
from lasting_memory.controls import RUN_METADATA, setting
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.people.caller import Caller
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
# Busy threads of one person that are looked at: with MEMORY_SCOPE=user+assistant each assistant has
# one to consolidate.
_BUSY_COUNTED = 100
_RETRY_AFTER = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A run that a request may create, on a thread or on a new one."""

    thread_id: str | None
    consolidates: bool


class Share:
    """A person's remaining share of this process, within these limits, and what of theirs is under
    way.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._under_way = limits, Counter[str]()
        self._at, self._left = monotonic(), float(limits.requests_at_once)
        # Threads that got a run while they had another: the platform calls them idle when one of
        # the two is cancelled.
        self.crowded = set[str]()
        # Runs that may be created and of which the platform may know nothing yet, by id; and the
        # busy threads it listed last.
        self.admitted = dict[str, Admitted]()
        self.listed = frozenset[str]()

    def unlisted(
        self, admitted: Mapping[str, Admitted], busy: Collection[str]
    ) -> dict[str, Admitted]:
        """Of these admitted runs those that are not among the busy threads that the platform lists
        now.

        A thread that is new among these may be that of a run which was to create its own: such a
        run is listed from now on.
        """
        named = {run.thread_id for run in admitted.values()}
        appeared = {*busy} - self.listed - named
        unnamed = [run_id for run_id, run in admitted.items() if run.thread_id is None]
        listed = unnamed[: len(appeared)]
        for run_id in listed:
            self.admitted.pop(run_id, None)
        self.listed = frozenset(busy)
        return {run_id: run for run_id, run in admitted.items() if run_id not in listed}

    def admitted_on(self, thread_id: str) -> set[str]:
        """Ids of the admitted runs on a thread."""
        return {run_id for run_id, run in self.admitted.items() if run.thread_id == thread_id}

    def _refill(self) -> None:
        now = monotonic()
        self._left = min(
            self._limits.requests_at_once,
            self._left + (now - self._at) * self._limits.requests_per_second,
        )
        self._at = now

    def charge(self, requests: float) -> None:
        """Take so many requests, for which the next one waits. At most another whole share is owed."""
        self._refill()
        self._left = max(self._left - requests, min(self._left, -self._limits.requests_at_once))

    async def request(self, requests: float = 1) -> None:
        """Return when so many requests may proceed; 429 after the longest wait: an early refusal
        would invite retries.
        """
        self._refill()
        wait = max((requests - self._left) / self._limits.requests_per_second, 0)
        if wait > MAX_REQUEST_WAIT_SECONDS:
            await sleep(MAX_REQUEST_WAIT_SECONDS)
            raise HTTPException(
                429,
                "You have sent or asked for too much; slow down.",
                {"Retry-After": str(math.ceil(wait))},
            )
        self._left -= requests
        if wait > 0:
            await sleep(wait)

    @contextmanager
    def under_way(self, what: str, most: int = 1) -> Iterator[None]:
        """One of at most so many of its kind that the person has under way. Raises `HTTPException`
        429 if there are as many.
        """
        if self._under_way[what] >= most:
            raise HTTPException(
                429,
                f"You have {most} of this under way: {what}; wait until one ends.",
                _RETRY_AFTER,
            )
        self._under_way[what] += 1
        try:
            yield
        finally:
            self._under_way[what] -= 1


@lru_cache(PEOPLE)
def share_of(_: Actor, limits: Limits) -> Share:
    """A person's share of this process: sign-in and the app, which are loaded apart, take from the
    same.
    """
    return Share(limits)


@dataclass(slots=True)
class OfRequest:
    """What a request has done with runs so far."""

    # Those it was admitted to create, by id, and the shares that count them.
    admitted: list[tuple[Share, str]] = field(default_factory=list)
    # Threads whose runs it has stopped, and runs.
    stopped: set[str] = field(default_factory=set)
    # Who sent it, once an auth handler has asked.
    caller: Caller | None = None

    def answered(self) -> None:
        """To be called when it is answered: what it has created is in the platform's counts, or was
        refused.
        """
        for share, run_id in self.admitted:
            share.admitted.pop(run_id, None)
        self.admitted.clear()


# None outside of requests: in a run, which deletes its temporary thread when it ends; and without
# this library's http app: nobody would know there when a request is answered, so runs count once
# the platform lists them.
of_request: ContextVar[OfRequest | None] = ContextVar("of_request", default=None)


@contextmanager
def carrying_out() -> Iterator[OfRequest]:
    """Meanwhile, this task carries out a request; within another one, in its caller's name or
    nobody's.
    """
    around = of_request.get()
    request = OfRequest(caller=around.caller if around else None)
    before = of_request.set(request)
    try:
        yield request
    finally:
        request.answered()
        of_request.reset(before)


async def check_run(person: Actor, value: Mapping[str, Any], deployment: Deployment) -> None:
    """Return when a run may be created. Raises `HTTPException` 429 at a limit of the owner's runs
    or of the day's tokens.

    From then on the run counts: until its request is answered as admitted, then as the platform
    lists it.
    """
    if RUN_METADATA[0] in setting.get():  # of consolidation, whose slots bound it
        return
    if deployment.settings.daily_tokens and (
        spent := await budget_refusal(await platform.store(), person, deployment)
    ):
        raise HTTPException(429, spent[0], {"Retry-After": str(spent[1])})
    share = share_of(person, deployment.limits)
    share.charge(RUN_IN_REQUESTS)
    thread_id = str(value["thread_id"]) if value["thread_id"] else None
    run = Admitted(
        thread_id, consolidates=str(value["assistant_id"]) == assistant_of(CONSOLIDATION_GRAPH)
    )
    async with platform.lock_of(
        "runs", person
    ):  # one by one, so that each is counted before the next
        busy, limits = await _busy_threads(person, share, thread_id), deployment.limits
        if thread_id in busy:  # another has no runs that wait, or is not there yet
            await _check_waiting(share, thread_id, limits.waiting_runs)
        if (
            sum(consolidates == run.consolidates for consolidates in busy.values())
            >= limits.busy_threads
        ):
            raise HTTPException(
                429,
                f"{limits.busy_threads} of your conversations have a run going; wait for one.",
                _RETRY_AFTER,
            )
        request = of_request.get()
        if request is not None:
            run_id = str(value.get("run_id") or uuid4())
            share.admitted[run_id] = run
            request.admitted.append((share, run_id))


async def _check_waiting(share: Share, thread_id: str, most: int) -> None:
    """Raise `HTTPException` 429 if so many runs wait on a thread. The platform looks at queued runs
    first, which delays other people's.
    """
    runs, known = get_client().runs, list[Run]()
    before = share.admitted_on(thread_id)  # as in `_busy_threads`
    with suppress(NotFoundError):
        known = await runs.list(thread_id, status="pending", limit=most)
    waiting = {str(run["run_id"]) for run in known}
    unlisted = (before | share.admitted_on(thread_id)) - waiting
    if unlisted:
        with suppress(NotFoundError):
            unlisted -= {
                str(run["run_id"]) for run in await runs.list(thread_id, status="running", limit=1)
            }
    if len(waiting) + len(unlisted) >= most:
        raise HTTPException(429, f"{most} runs wait already on this thread.", _RETRY_AFTER)


async def _busy_threads(person: Actor, share: Share, thread_id: str | None) -> dict[str, bool]:
    """The owner's threads with a run under way, queued or admitted, and whether each is
    consolidation's, which is counted apart. An admitted run whose thread has no name yet is a
    thread by itself.
    """
    client, crowded = get_client(), share.crowded
    before = dict(
        share.admitted
    )  # the request of one of these may be answered before this list, which is older, arrives
    found = await client.threads.search(
        metadata=asdict(person),
        status="busy",
        limit=_BUSY_COUNTED,
        select=["thread_id", "metadata"],
    )
    busy = {
        str(one["thread_id"]): (one["metadata"] or {}).get("graph_id") == CONSOLIDATION_GRAPH
        for one in found
    }
    for run_id, run in share.unlisted({**before, **share.admitted}, busy).items():
        busy.setdefault(run.thread_id or run_id, run.consolidates)
    if thread_id in busy:
        crowded.add(thread_id)
    for crowd in crowded - busy.keys():
        with suppress(NotFoundError):
            states = [
                await client.runs.list(crowd, status=status, limit=1)
                for status in ("running", "pending")
            ]
            if any(states):
                busy[crowd] = False
                continue
        crowded.discard(crowd)
    return busy
