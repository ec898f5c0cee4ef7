"""One person's share of a server, so that a flood slows down its sender only.

Admission comes first, before a request is read or anything is created for it. Requests beyond the share wait, and waiting costs
nothing. The share is in requests and in bytes: those that a person sends are charged as they are read, those of the answer
afterwards. Each process gives each person this share, and keeps it in memory. The installation's whole load, and callers
without a valid token, are the business of a proxy before it.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from settings import BYTES_AT_ONCE, BYTES_PER_SECOND, MAX_OPEN_STREAMS, REQUESTS_AT_ONCE, REQUESTS_PER_SECOND

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
_REQUESTS, _BYTES = f"{REQUESTS_PER_SECOND} requests", f"{BYTES_PER_SECOND:,} bytes"

Person = tuple[str, str]


@dataclass(slots=True)
class _Share:
    """A person's remaining share. `left` counts requests, `bytes` bytes; each is negative while requests wait for it."""

    at: float
    left: float = REQUESTS_AT_ONCE
    bytes: float = BYTES_AT_ONCE
    streams: int = 0
    alone: set[str] = field(default_factory=set)
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
        try:
            await self._turn(share)
        except HTTPException:
            share.left += 1
            raise

    async def reading(self, person: Person, size: int) -> None:
        """Return when so many bytes of the person's may be read. Raises as `request`. Who was never admitted, such as an
        operator, has no share.
        """
        if person in self._shares and size:
            share = self._share(person)
            share.bytes = max(share.bytes - size, -BYTES_AT_ONCE)
            await self._turn(share)

    def sent(self, person: Person, size: int) -> None:
        """Charge bytes that the person was sent: their next request waits for them. At most another whole share is owed."""
        if person in self._shares:
            share = self._share(person)
            share.bytes = max(share.bytes - size, -BYTES_AT_ONCE)

    @contextmanager
    def stream(self, person: Person) -> Iterator[None]:
        """One open stream of the person's. Raises `HTTPException` 429 if there are `MAX_OPEN_STREAMS`."""
        share = self._share(person)
        if share.streams >= MAX_OPEN_STREAMS:
            raise HTTPException(429, f"You have {share.streams} streams open; close one of them.", _RETRY_AFTER)
        share.streams += 1
        try:
            yield
        finally:
            share.streams -= 1

    @contextmanager
    def alone(self, person: Person, what: str) -> Iterator[None]:
        """The only one of its kind that the person has under way. Raises `HTTPException` 429 if there is another."""
        share = self._share(person)
        if what in share.alone:
            raise HTTPException(429, f"Another {what} of yours is under way; wait until it ends.", _RETRY_AFTER)
        share.alone.add(what)
        try:
            yield
        finally:
            share.alone.discard(what)

    async def _turn(self, share: _Share) -> None:
        wait, what = max((-share.left / REQUESTS_PER_SECOND, _REQUESTS), (-share.bytes / BYTES_PER_SECOND, _BYTES))
        if wait > MAX_REQUEST_WAIT_SECONDS:
            await self._sleep(MAX_REQUEST_WAIT_SECONDS)
            raise HTTPException(
                429, f"You have sent or asked for more than {what} a second.", {"Retry-After": str(math.ceil(wait))}
            )
        if wait > 0:
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
        share.bytes = min(BYTES_AT_ONCE, share.bytes + (now - share.at) * BYTES_PER_SECOND)
        share.at = now
        return share


ADMISSION = Admission()
