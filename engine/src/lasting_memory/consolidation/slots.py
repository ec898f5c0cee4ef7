"""How many consolidations a process runs at once: there are few workers, and a conversation must
always find one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from lasting_memory.consolidation.turns import Turns
from lasting_memory.people.identity import Actor

# How long what a person asked for waits for its turn.
TURN_SECONDS = 60.0
# For how long a place is left to people who found none: they come back within that.
_LEFT_SECONDS = 120.0


@dataclass(frozen=True, eq=False, slots=True)
class _Slot:
    """The slot of one run."""

    person: Actor
    is_dry: bool


class Slots:
    """The slots of a process, each held by a run until it ends, however it ends."""

    def __init__(self) -> None:
        # A run that waits is one more that a worker has: few enough that with those that work, and
        # with one person's conversations, they are fewer than the workers (N_JOBS_PER_WORKER).
        self._turns = Turns(most_waiting=1)
        self._held = list[_Slot]()
        # Who found no slot, and when. They are planned again.
        self._put_off = dict[Actor, float]()

    @asynccontextmanager
    async def taken(
        self,
        person: Actor,
        at_once: int,
        *,
        is_asked: bool,
        is_dry: bool,
        seconds: float,
        is_behind: bool = False,
    ) -> AsyncIterator[bool]:
        """Hold a slot, once it is this person's turn. Says False if that takes longer.

        There are `at_once`, one more for what somebody asked for, and one for dry runs alone. A
        person leaves one to others. With `is_behind` it takes none while another person waits for
        one.
        """
        mine = _Slot(person, is_dry)

        def take() -> bool:
            holders = [slot.person for slot in self._held if slot.is_dry == is_dry]
            slots = 1 if is_dry else at_once + is_asked
            has_room = len(holders) < slots
            most_of_one_person = max(1, at_once - 1)
            leaves_one = holders.count(person) < most_of_one_person
            is_first = not is_behind or not self._is_waited_for(person)
            if has_room and leaves_one and is_first:
                self._held.append(mine)
            return mine in self._held

        try:
            has_slot = await self._turns.take(person, take, seconds)
            if not (is_behind or is_dry):
                self._note(person, has_slot=has_slot)
            yield has_slot
        finally:
            if mine in self._held:
                self._held.remove(mine)
                self._turns.ended(person)

    def _note(self, person: Actor, *, has_slot: bool) -> None:
        """Note who was put off, until they have a slot or do not come back."""
        now = monotonic()
        for other, at in list(self._put_off.items()):
            seconds_ago = now - at
            if seconds_ago > _LEFT_SECONDS:  # they did not come back
                del self._put_off[other]
        if has_slot:
            self._put_off.pop(person, None)
        else:
            self._put_off[person] = now

    def _is_waited_for(self, person: Actor) -> bool:
        """Whether somebody else waits for a slot, or was put off a moment ago."""
        now = monotonic()
        for other, at in self._put_off.items():
            seconds_ago = now - at
            if other != person and seconds_ago <= _LEFT_SECONDS:
                return True
        return self._turns.is_anybody_waiting
