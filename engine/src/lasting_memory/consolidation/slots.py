"""How many consolidations a process runs at once: there are few workers, and a conversation must
always find one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lasting_memory.consolidation.turns import Turns
from lasting_memory.people.identity import Actor

# How long what a person asked for waits for its turn.
TURN_SECONDS = 60.0


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

    @asynccontextmanager
    async def taken(
        self, person: Actor, at_once: int, *, is_asked: bool, is_dry: bool, seconds: float
    ) -> AsyncIterator[bool]:
        """Hold a slot, once it is this person's turn. Says False if that takes longer.

        There are `at_once`, one more for what somebody asked for, and one for dry runs alone. A
        person leaves one to others.
        """
        mine = _Slot(person, is_dry)

        def take() -> bool:
            holders = [slot.person for slot in self._held if slot.is_dry == is_dry]
            slots = 1 if is_dry else at_once + is_asked
            has_room = len(holders) < slots
            leaves_one = holders.count(person) < max(1, at_once - 1)
            if has_room and leaves_one:
                self._held.append(mine)
            return mine in self._held

        try:
            yield await self._turns.take(person, take, seconds)
        finally:
            if mine in self._held:
                self._held.remove(mine)
                self._turns.ended(person)
