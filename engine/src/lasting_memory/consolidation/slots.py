"""How many consolidations a process runs at once: there are few workers, and a conversation must
always find one. A run holds a *slot* while it works.

A *dry* run changes nothing. A run is *asked for* if a person waits for it. A run that is *behind*, of
a dream, comes after everybody else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from lasting_memory.consolidation.turns import Turns
from lasting_memory.people.identity import Actor

# Seconds that a run waits for its turn if it was asked for.
TURN_SECONDS = 60.0
# Seconds for which a slot is left to somebody who found none: their run comes back within that.
_LEFT_SECONDS = 120.0


@dataclass(frozen=True, eq=False, slots=True)
class _Slot:
    """The slot of one run."""

    person: Actor
    is_dry: bool


class Slots:
    """The slots of a process."""

    def __init__(self) -> None:
        # A run that waits is one more that a worker has: few enough that with those that work, and
        # with one person's conversations, they are fewer than the workers (N_JOBS_PER_WORKER).
        self._turns = Turns(most_waiting=1)
        self._held_slots = list[_Slot]()
        # People whose runs found no slot, and when. These runs are planned again.
        self._put_off_at = dict[Actor, float]()

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
        """Hold a slot within, once it is this person's turn. Gives False if that takes longer than
        `seconds`.

        There are `at_once` slots, one more for what somebody asked for, and one for dry runs alone.
        A person leaves one to others. A run that `is_behind` takes none while another person waits
        for one.
        """
        slot = _Slot(person, is_dry)

        def take() -> bool:
            holders = [
                held_slot.person for held_slot in self._held_slots if held_slot.is_dry == is_dry
            ]
            number = 1 if is_dry else at_once + is_asked
            most_of_one_person = max(1, at_once - 1)
            is_free = len(holders) < number
            leaves_one = holders.count(person) < most_of_one_person
            if not is_free or not leaves_one:
                return False
            if is_behind and self._is_waited_for(person):
                return False
            self._held_slots.append(slot)
            return True

        try:
            has_slot = await self._turns.take(person, take, seconds)
            if not is_behind and not is_dry:
                self._note_put_off(person, has_slot=has_slot)
            yield has_slot
        finally:
            if slot in self._held_slots:
                self._held_slots.remove(slot)
                self._turns.ended(person)

    def _note_put_off(self, person: Actor, *, has_slot: bool) -> None:
        """Note that a person was put off, or, if they have a slot now, no longer is. People who did not
        come back in time are forgotten.
        """
        now = monotonic()
        for other_person, put_off_at in list(self._put_off_at.items()):
            if now - put_off_at > _LEFT_SECONDS:
                del self._put_off_at[other_person]
        if has_slot:
            self._put_off_at.pop(person, None)
        else:
            self._put_off_at[person] = now

    def _is_waited_for(self, person: Actor) -> bool:
        """Whether anybody waits for a slot, or somebody else was put off a moment ago."""
        now = monotonic()
        for other_person, put_off_at in self._put_off_at.items():
            if other_person == person:
                continue
            if now - put_off_at <= _LEFT_SECONDS:
                return True
        return self._turns.is_anybody_waiting
