"""One person's share of a server, so that a flood slows down its sender only.

Admission comes first, before a request is read or anything is created for it. Requests beyond the share wait, and waiting costs
nothing. Each process gives each person this share, and keeps it in memory. The installation's whole load, and callers without a
valid token, are the business of a proxy before it.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from settings import REQUESTS_AT_ONCE, REQUESTS_PER_SECOND

# What a run and a new thread count beyond their request, in requests.
RUN_IN_REQUESTS = 6
THREAD_IN_REQUESTS = 3
# Longest wait of a request, in seconds. A request that would wait longer is refused.
MAX_REQUEST_WAIT_SECONDS = 30

# People in memory: the last callers.
_PEOPLE = 10_000
# Seconds for which a refusal is repeated before busy conversations are counted again.
_FULL_SECONDS = 0.3
# Seconds after a refusal in which new threads are counted, too; then one thread per `_THREAD_SECONDS` is allowed.
_WARY_SECONDS = 60
_THREAD_SECONDS = 1
# Seconds until an admitted run is in the platform's counts. The person's next run waits that long.
_CREATION_SECONDS = 0.05
_RETRY_AFTER = {"Retry-After": "1"}

Person = tuple[str, str]


@dataclass(slots=True)
class _Share:
    """A person's remaining share. `left` counts requests, and is negative while requests wait."""

    at: float
    left: float = REQUESTS_AT_ONCE
    full_at: float = -math.inf
    full: str = ""
    thread_at: float = -math.inf
    crowded: dict[str, bool] = field(default_factory=dict)
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)


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
        share = self._share(person)
        share.left -= 1
        wait = max(0.0, -share.left / REQUESTS_PER_SECOND)
        if wait > MAX_REQUEST_WAIT_SECONDS:
            share.left += 1
            await self._sleep(MAX_REQUEST_WAIT_SECONDS)
            detail = f"You have sent more than {REQUESTS_PER_SECOND} requests a second; send fewer."
            raise HTTPException(429, detail, {"Retry-After": str(math.ceil(wait))})
        if wait:
            await self._sleep(wait)

    async def run(self, person: Person, refusal: Callable[[], Awaitable[str | None]]) -> None:
        """Return when a run may be created for the person, one after another, so that each is counted before the next.

        `refusal` counts the person's runs, and returns the reason against another, or None. A reason is kept for a moment, and
        raised as `HTTPException` 429.
        """
        share = self._share(person)
        share.left -= RUN_IN_REQUESTS
        await share.checking.acquire()
        try:
            await self._check(share, refusal)
        except BaseException:
            share.checking.release()
            raise
        asyncio.get_running_loop().call_later(self._creation_seconds, share.checking.release)

    async def thread(self, person: Person, refusal: Callable[[], Awaitable[str | None]]) -> None:
        """Return when a thread may be created for the person, which needs room for a run. Raises as `run`."""
        share = self._share(person)
        share.left -= THREAD_IN_REQUESTS
        if self._clock() - share.full_at < _WARY_SECONDS:
            async with share.checking:
                await self._check(share, refusal)
                if self._clock() - share.thread_at < _THREAD_SECONDS:  # the run for the last one is not counted yet
                    raise HTTPException(429, share.full, _RETRY_AFTER)
                share.thread_at = self._clock()

    def crowded(self, person: Person) -> dict[str, bool]:
        """The person's threads that got a run while another was under way or queued, and whether that consolidates.

        If one of several runs is cancelled, the platform calls such a thread idle though another is queued. So the caller looks
        at its runs, and removes it once it has none.
        """
        return self._share(person).crowded

    async def _check(self, share: _Share, refusal: Callable[[], Awaitable[str | None]]) -> None:
        if self._clock() - share.full_at >= _FULL_SECONDS:
            if not (full := await refusal()):
                return
            share.full, share.full_at = full, self._clock()
        raise HTTPException(429, share.full, _RETRY_AFTER)

    def _share(self, person: Person) -> _Share:
        now = self._clock()
        share = self._shares.setdefault(person, _Share(now))
        self._shares.move_to_end(person)
        if len(self._shares) > self._people:
            self._shares.popitem(last=False)
        share.left = min(REQUESTS_AT_ONCE, share.left + (now - share.at) * REQUESTS_PER_SECOND)
        share.at = now
        return share


ADMISSION = Admission()
