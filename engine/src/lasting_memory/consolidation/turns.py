"""Places that people share, such as the one for dry runs: a free one goes to whoever had one longest
ago.

So somebody who asks again and again gets the places that nobody else waits for. A *place* lets one
run or request of a person work. Each process has its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lasting_memory.people.identity import Actor

# People in memory: the last who had a place. Who is not among them had none.
_PEOPLE = 10_000


@dataclass(eq=False, slots=True)
class _Wait:
    """The wait of a person. `take_free` takes a place for them if one is free, and says whether it
    did. `decision` is set when they wait no longer, with or without a place.
    """

    person: Actor
    take_free: Callable[[], bool]
    number: int
    loop: asyncio.AbstractEventLoop
    decision: asyncio.Event = field(default_factory=asyncio.Event)
    has_place: bool = False


class Turns:
    """Who waits for a place, and when each person had one. Which places there are, the callers
    know.

    At most so many wait (None: any number), and one of each person.
    """

    def __init__(self, most_waiting: int | None = None) -> None:
        self._most_waiting = most_waiting
        self._waits = list[_Wait]()
        # When each person had a place last, as a number that grows; the latest person is last.
        self._had_at = dict[Actor, int]()
        self._number = 0

    async def take(self, person: Actor, take_free: Callable[[], bool], seconds: float) -> bool:
        """Take a place, once it is this person's turn, and return True. `take_free` takes one if
        one is free, and says whether it did.

        False if it takes more than these seconds, the person waits already, or too many wait whose
        turn is earlier.
        """
        # A place that is free is nobody's who waits: `ended` would have given it to them.
        if take_free():
            self._note_place(person)
            return True
        people_waiting = [wait.person for wait in self._waits]
        if seconds <= 0 or person in people_waiting:
            return False
        self._number += 1
        loop = asyncio.get_running_loop()
        own_wait = _Wait(person, take_free, self._number, loop)
        self._waits.append(own_wait)
        self._send_away_one_too_many()
        try:
            async with asyncio.timeout(seconds):
                await own_wait.decision.wait()
        except TimeoutError:
            pass
        finally:
            if own_wait in self._waits:
                self._waits.remove(own_wait)
        return own_wait.has_place

    def _send_away_one_too_many(self) -> None:
        """Have the one whose turn is last wait no longer, where more wait than may."""
        if self._most_waiting is None:
            return
        if len(self._waits) > self._most_waiting:
            last_wait = max(self._waits, key=self._order)
            self._end_wait(last_wait)

    @property
    def is_anybody_waiting(self) -> bool:
        """Whether somebody waits for a place."""
        return bool(self._waits)

    def ended(self, person: Actor) -> None:
        """A place of this person's is free again: give what is free to those who wait, in their
        order.
        """
        self._note_place(person)
        waits_in_order = sorted(self._waits, key=self._order)
        for wait in waits_in_order:
            if wait.take_free():
                wait.has_place = True
                self._note_place(wait.person)
                self._end_wait(wait)

    def _order(self, wait: _Wait) -> tuple[int, int]:
        """Who had a place longest ago comes first; of several who had none, who came first."""
        had_place_at = self._had_at.get(wait.person, 0)
        return had_place_at, wait.number

    def _note_place(self, person: Actor) -> None:
        """Note that a person has a place now, or had one until now."""
        self._number += 1
        self._had_at.pop(person, None)
        self._had_at[person] = self._number
        if len(self._had_at) > _PEOPLE:
            first_person = next(iter(self._had_at))
            del self._had_at[first_person]

    def _end_wait(self, wait: _Wait) -> None:
        """Have somebody wait no longer."""
        self._waits.remove(wait)
        # Runs may have event loops of their own.
        wait.loop.call_soon_threadsafe(wait.decision.set)


class Places:
    """Places of requests, of which any number wait: a request that waits costs nothing, a run that
    waits has a worker.
    """

    def __init__(self) -> None:
        self._turns = Turns()
        self._holders = set[object]()

    @asynccontextmanager
    async def taken(self, person: Actor, places: int, seconds: float) -> AsyncIterator[bool]:
        """Hold one of so many places, once it is this person's turn, and yield True. Yields False,
        without a place, if that takes more than these seconds.
        """
        own_wait = object()

        def take_free() -> bool:
            if len(self._holders) < places:
                self._holders.add(own_wait)
            return own_wait in self._holders

        try:
            has_place = await self._turns.take(person, take_free, seconds)
            yield has_place
        finally:
            if own_wait in self._holders:
                self._holders.remove(own_wait)
                self._turns.ended(person)
