"""One person's share of a server, so that a flood slows down its sender only.

Requests and bytes, sent and answered, are taken from one bucket, which fills again with time. It
counts in requests. What exceeds it waits. An admitted run is one that a request may create, until
the request is answered. Each process gives each person this share, and keeps it in memory. The
installation's whole load, and callers without a valid token, are a proxy's business.
"""

import math
from asyncio import sleep
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic

from starlette.exceptions import HTTPException

from lasting_memory.deployment import Limits
from lasting_memory.people.identity import Actor

# Bytes, sent or answered, that count as a request; some routes count more (`http/request_bounds.py`).
BYTES_PER_REQUEST = 131_072
# What a run counts beyond its request, in requests.
RUN_IN_REQUESTS = 6
# What a new thread counts beyond its request, in requests.
THREAD_IN_REQUESTS = 3
# Longest wait of a request, in seconds. A request that would wait longer is refused afterwards.
MAX_REQUEST_WAIT_SECONDS = 30
# People in memory: the last callers.
MAX_PEOPLE = 10_000
# Headers of a refusal that may be over at once.
RETRY_AFTER = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class AdmittedRun:
    """A run that a request may create, on a thread or on a new one (None)."""

    thread_id: str | None
    is_consolidation: bool


class Share:
    """A person's remaining share of this process, and what of theirs is under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._under_way = Counter[str]()
        self._refilled_at = monotonic()
        self._remaining_requests = float(limits.requests_at_once)
        # Threads that got a run while they had another: the platform calls them idle when one of
        # the two is cancelled.
        self.crowded_threads = set[str]()
        # Runs that may be created and of which the platform may know nothing yet, by id.
        self.admitted_runs = dict[str, AdmittedRun]()
        # The busy threads that the platform listed last.
        self._listed_threads = frozenset[str]()

    def take_unlisted(
        self, admitted_runs: Mapping[str, AdmittedRun], busy_threads: Collection[str]
    ) -> dict[str, AdmittedRun]:
        """Of these admitted runs those that are not among the platform's busy threads.

        A busy thread that the platform lists for the first time may be that of a run which was to
        create its own. Such a run counts as listed from now on, and is no longer admitted.
        """
        new_threads = set(busy_threads) - self._listed_threads
        for run in admitted_runs.values():
            if run.thread_id is not None:
                new_threads.discard(run.thread_id)
        self._listed_threads = frozenset(busy_threads)
        unlisted_runs = dict[str, AdmittedRun]()
        for run_id, run in admitted_runs.items():
            if run.thread_id is None and new_threads:
                new_threads.pop()
                self.admitted_runs.pop(run_id, None)
            else:
                unlisted_runs[run_id] = run
        return unlisted_runs

    def admitted_on(self, thread_id: str) -> set[str]:
        """Ids of the admitted runs on a thread."""
        run_ids = set[str]()
        for run_id, run in self.admitted_runs.items():
            if run.thread_id == thread_id:
                run_ids.add(run_id)
        return run_ids

    def _refill(self) -> None:
        """Put back into the bucket what the time since the last call brings, up to a whole share."""
        now = monotonic()
        seconds = now - self._refilled_at
        refilled_requests = self._remaining_requests + seconds * self._limits.requests_per_second
        self._remaining_requests = min(self._limits.requests_at_once, refilled_requests)
        self._refilled_at = now

    def charge(self, requests: float) -> None:
        """Take so many requests, for which the next request waits.

        At most another whole share is owed.
        """
        self._refill()
        lowest_balance = min(self._remaining_requests, -self._limits.requests_at_once)
        balance = self._remaining_requests - requests
        self._remaining_requests = max(balance, lowest_balance)

    async def request(self, requests: float = 1) -> None:
        """Return when so many requests may proceed.

        Raises `HTTPException` 429 after the longest wait: an early refusal would invite retries.
        """
        self._refill()
        missing_requests = requests - self._remaining_requests
        wait = max(missing_requests / self._limits.requests_per_second, 0)
        if wait > MAX_REQUEST_WAIT_SECONDS:
            await sleep(MAX_REQUEST_WAIT_SECONDS)
            raise HTTPException(
                429,
                "You have sent or asked for too much; slow down.",
                {"Retry-After": str(math.ceil(wait))},
            )
        self._remaining_requests -= requests
        if wait > 0:
            await sleep(wait)

    @contextmanager
    def under_way(self, kind: str, limit: int = 1) -> Iterator[None]:
        """Count one more of this kind as under way for the person, until the context ends.

        Raises `HTTPException` 429 if as many as the limit are under way already.
        """
        if self._under_way[kind] >= limit:
            raise HTTPException(
                429,
                f"You have {limit} of this under way: {kind}; wait until one ends.",
                RETRY_AFTER,
            )
        self._under_way[kind] += 1
        try:
            yield
        finally:
            self._under_way[kind] -= 1


@lru_cache(MAX_PEOPLE)
def share_of(_: Actor, limits: Limits) -> Share:
    """A person's share of this process.

    Sign-in and the app are loaded apart, and take from the same share.
    """
    return Share(limits)
