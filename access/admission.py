"""One person's share of a server, so that a flood slows down its sender only.

Admission comes first, before a request is read or anything is created for it. Requests beyond the share wait, and waiting costs
nothing. The share is in requests and in bytes: those that a person sends are charged as they are read, those of the answer
afterwards. Each process gives each person this share, and keeps it in memory. The installation's whole load, and callers
without a valid token, are the business of a proxy before it.
"""

import asyncio
import json
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError
from starlette.exceptions import HTTPException

from memory import identity, langgraph_internals
from memory.controls import creating_run
from memory.usage import budget_refusal
from settings import (
    BYTES_AT_ONCE,
    BYTES_PER_SECOND,
    CONSOLIDATION_GRAPH,
    MAX_BUSY_THREADS,
    MAX_INPUT_BYTES,
    MAX_OPEN_STREAMS,
    MAX_WAITING_RUNS,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_SECOND,
    Settings,
)

# What a run and a new thread count beyond their request, in requests.
RUN_IN_REQUESTS, THREAD_IN_REQUESTS = 6, 3
# Longest wait of a request, in seconds. A request that would wait longer is refused.
MAX_REQUEST_WAIT_SECONDS = 30
# People in memory: the last callers.
_PEOPLE = 10_000
# Seconds for which a refusal is repeated before busy conversations are counted again.
_FULL_SECONDS = 0.3
# Seconds after a refusal in which new threads are counted, too; then one thread per `_THREAD_SECONDS` is allowed.
_WARY_SECONDS, _THREAD_SECONDS = 60, 1
# Seconds in which one person's visits count as one.
_VISIT_SECONDS = 3_600
# Seconds until an admitted run is in the platform's counts. The person's next run waits that long.
_CREATION_SECONDS = 0.05
# Busy threads of one person to count: twice the limits of conversations and consolidations together.
_BUSY_COUNTED = 4 * MAX_BUSY_THREADS
_RETRY_AFTER = {"Retry-After": "1"}

Person = tuple[str, str]
Refusal = Callable[[], Awaitable[str | None]]
# `user_id` and `org_id`, as stamped on threads.
Owner = Mapping[str, str]


@dataclass(slots=True)
class _Bucket:
    """A token bucket: `rate` a second, `burst` at once. More may be taken, up to `debt`, and is waited for."""

    unit: str
    rate: float
    burst: float
    debt: float
    at: float
    left: float

    def take(self, now: float, size: float) -> None:
        refilled = min(self.burst, self.left + (now - self.at) * self.rate)
        self.at, self.left = now, max(refilled - size, -self.debt)

    def wait(self) -> float:
        """Seconds until what was taken is paid for."""
        return max(-self.left / self.rate, 0)


class _Share:
    """A person's remaining share, and what of theirs is under way."""

    def __init__(self, now: float) -> None:
        self.requests = _Bucket("requests", REQUESTS_PER_SECOND, REQUESTS_AT_ONCE, math.inf, now, REQUESTS_AT_ONCE)
        self.bytes = _Bucket("bytes", BYTES_PER_SECOND, BYTES_AT_ONCE, BYTES_AT_ONCE, now, BYTES_AT_ONCE)
        self.under_way = Counter[str]()
        self.full, self.full_at, self.thread_at = "", -math.inf, -math.inf
        self.visited_at = -math.inf
        self.crowded = dict[str, bool]()
        self.checking = asyncio.Lock()


class Admission:
    """Admits requests of a person, `(org_id, identity)`. `clock` gives seconds, which pass during `sleep`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        people: int = _PEOPLE,
        creation_seconds: float = _CREATION_SECONDS,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._people, self._creation_seconds = people, creation_seconds
        self._shares: OrderedDict[Person, _Share] = OrderedDict()

    async def request(self, person: Person) -> None:
        """Return when a request of the person may proceed. Raises `HTTPException` 429 after `MAX_REQUEST_WAIT_SECONDS`, if it
        would wait longer. An early refusal would invite retries.
        """
        share, now = self._share(person), self._clock()
        share.requests.take(now, 1)
        share.bytes.take(now, 0)
        try:
            await self._turn(max(share.requests, share.bytes, key=_Bucket.wait))
        except HTTPException:
            share.requests.left += 1
            raise

    async def reading(self, person: Person, size: int) -> None:
        """Return when so many bytes of the person's may be read. Raises as `request`. Who was never admitted, such as an
        operator, has no share.
        """
        if person in self._shares and size:
            self.sent(person, size)
            await self._turn(self._share(person).bytes)

    def sent(self, person: Person, size: int) -> None:
        """Charge bytes that the person was sent: their next request waits for them. At most another whole share is owed."""
        if person in self._shares:
            self._share(person).bytes.take(self._clock(), size)

    async def _turn(self, bucket: _Bucket) -> None:
        wait = bucket.wait()
        if wait > 0:
            await self._sleep(min(wait, MAX_REQUEST_WAIT_SECONDS))
        if wait > MAX_REQUEST_WAIT_SECONDS:
            detail = f"You have sent or asked for more than {bucket.rate:,} {bucket.unit} a second."
            raise HTTPException(429, detail, {"Retry-After": str(math.ceil(wait))})

    def stream(self, person: Person) -> AbstractContextManager[None]:
        """One open stream of the person's. Entering raises `HTTPException` 429 if there are `MAX_OPEN_STREAMS`."""
        return self._under_way(
            person, "stream", MAX_OPEN_STREAMS, f"You have {MAX_OPEN_STREAMS} streams open; close one of them."
        )

    def alone(self, person: Person, what: str) -> AbstractContextManager[None]:
        """The only one of its kind that the person has under way. Entering raises `HTTPException` 429 if there is another."""
        return self._under_way(person, what, 1, f"Another {what} of yours is under way; wait until it ends.")

    @contextmanager
    def _under_way(self, person: Person, what: str, most: int, refusal: str) -> Iterator[None]:
        under_way = self._share(person).under_way
        if under_way[what] >= most:
            raise HTTPException(429, refusal, _RETRY_AFTER)
        under_way[what] += 1
        try:
            yield
        finally:
            under_way[what] -= 1

    async def run(self, person: Person, refusal: Refusal) -> None:
        """Return when a run may be created for the person, one after another, so that each is counted before the next.

        `refusal` counts the person's runs, and returns the reason against another, or None. A reason is kept for a moment, and
        raised as `HTTPException` 429.
        """
        share = self._share(person)
        share.requests.take(self._clock(), RUN_IN_REQUESTS)
        await share.checking.acquire()
        try:
            await self._check(share, refusal)
        except BaseException:
            share.checking.release()
            raise
        asyncio.get_running_loop().call_later(self._creation_seconds, share.checking.release)

    async def thread(self, person: Person, refusal: Refusal) -> None:
        """Return when a thread may be created for the person, which needs room for a run. Raises as `run`."""
        share = self._share(person)
        share.requests.take(self._clock(), THREAD_IN_REQUESTS)
        if self._clock() - share.full_at < _WARY_SECONDS:
            async with share.checking:
                await self._check(share, refusal)
                if self._clock() - share.thread_at < _THREAD_SECONDS:  # the run for the last one is not counted yet
                    raise HTTPException(429, share.full, _RETRY_AFTER)
                share.thread_at = self._clock()

    def is_first_visit(self, person: Person) -> bool:
        """Whether this is the first such call in `_VISIT_SECONDS`. Never for who was not admitted, such as an operator."""
        share, now = self._shares.get(person), self._clock()
        if share is None or now - share.visited_at < _VISIT_SECONDS:
            return False
        share.visited_at = now
        return True

    def crowded(self, person: Person) -> dict[str, bool]:
        """The person's threads that got a run while another was under way or queued, and whether that consolidates.

        If one of several runs is cancelled, the platform calls such a thread idle though another is queued. So the caller looks
        at its runs, and removes it once it has none.
        """
        return self._share(person).crowded

    async def _check(self, share: _Share, refusal: Refusal) -> None:
        if self._clock() - share.full_at >= _FULL_SECONDS:
            if not (full := await refusal()):
                return
            share.full, share.full_at = full, self._clock()
        raise HTTPException(429, share.full, _RETRY_AFTER)

    def _share(self, person: Person) -> _Share:
        share = self._shares.setdefault(person, _Share(self._clock()))
        self._shares.move_to_end(person)
        if len(self._shares) > self._people:
            self._shares.popitem(last=False)
        return share


ADMISSION = Admission()

# --- Runs and threads ------------------------------------------------------------------------------------------------


def check_size(value: Mapping[str, Any]) -> None:
    """Raise `HTTPException` 413 for a run with too large an input. Call it first: other checks look at every part of it."""
    sent = [value["kwargs"].get(name) for name in ("input", "command", "context")]
    size = len(json.dumps(sent, ensure_ascii=False).encode(errors="replace"))
    if size > MAX_INPUT_BYTES:
        raise HTTPException(413, f"A run may be sent {MAX_INPUT_BYTES:,} bytes, not {size:,}; send less.")


async def check_thread(owner: Owner) -> None:
    """Return when a thread may be created. Raises `HTTPException` 429 if the owner may have no further run."""
    await ADMISSION.thread(_person(owner), partial(_too_many_busy, owner))


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


def _person(owner: Owner) -> Person:
    return owner["org_id"], owner["user_id"]


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
