"""Slots limit a process's consolidations at once, so that a conversation always finds a worker.

A process has few workers (`--n-jobs-per-worker`, 10 by default), and a run holds one as long as its model takes. A
consolidation without a free slot plans another run and ends. The later time follows from the duration of earlier runs, so that
waiting runs begin one by one however slow the model is. Runs that a person asked for do not wait behind those of a sweep.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from langgraph.config import get_config, get_store
from langgraph_sdk import get_client

from memory import identity
from memory.consolidation.begins import BEGINS_PER_SECOND
from memory.consolidation.trigger import ASKED, Owner, start
from settings import CONSOLIDATIONS_AT_ONCE, MAX_CONSOLIDATION_STEPS, MAX_CONSOLIDATION_WAIT_SECONDS

# Estimated duration of a consolidation, in seconds, until one has ended.
CONSOLIDATION_SECONDS = 3
# Weight of the newest run in the average duration.
_NEWEST = 0.2
# Most seconds between two runs that people asked for and that wait.
_ASKED_APART = 10.0
# Steps of the graph that one batch may take: a model's and its tools' for each call, and those before and after.
_STEPS_OF_A_BATCH = 2 * MAX_CONSOLIDATION_STEPS + 20


@dataclass(slots=True)
class _Slot:
    """A run's slot, which it holds until it ends."""

    actor: identity.Actor
    dry: bool
    began: float


class Slots:
    """The slots of a process, and the queue for them. Times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: dict[str, _Slot] = {}
        self._average = float(CONSOLIDATION_SECONDS)
        self._lines = {False: -math.inf, True: -math.inf}  # by whether people asked for the runs

    def take(self, run_id: str, actor: identity.Actor, *, dry: bool = False, asked: bool = False) -> bool:
        """Take a slot if one is free. One person leaves one to others. Dry runs have one of their own; there is one more for
        runs that somebody `asked` for.
        """
        alike = [slot.actor for slot in self._slots.values() if slot.dry == dry]
        most = 1 if dry else CONSOLIDATIONS_AT_ONCE + asked
        if run_id not in self._slots and len(alike) < most and alike.count(actor) < max(1, CONSOLIDATIONS_AT_ONCE - 1):
            self._slots[run_id] = _Slot(actor, dry, self._clock())
        return run_id in self._slots

    def free(self, run_id: str) -> None:
        """Release the run's slot."""
        if (slot := self._slots.pop(run_id, None)) and not slot.dry:
            took = min(self._clock() - slot.began, MAX_CONSOLIDATION_WAIT_SECONDS)
            self._average += _NEWEST * (took - self._average)

    def next_turn(self, *, asked: bool = False) -> int:
        """Join the queue: the seconds from now until the next run without a begin may begin. What people `asked` for has one of
        its own.
        """
        now = self._clock()
        ages = [now - slot.began for slot in self._slots.values() if not slot.dry]
        apart = max(self._average, *ages, 0) / CONSOLIDATIONS_AT_ONCE
        apart = min(apart, _ASKED_APART) if asked else apart
        soonest = now + (apart if len(ages) >= CONSOLIDATIONS_AT_ONCE else 0)
        begin = max(self._lines[asked], soonest)
        self._lines[asked] = begin + max(apart, 1 / BEGINS_PER_SECOND)
        return math.ceil(begin - now)


SLOTS = Slots()


async def no_slot(owner: Owner, slots: Slots, *, dry: bool) -> str | None:
    """Take a slot for the current run. If none is free, plan another run, and return the run's answer."""
    if (limit := get_config()["recursion_limit"]) < _STEPS_OF_A_BATCH:
        return f"recursion_limit is {limit}; leave it out, or give a consolidation at least {_STEPS_OF_A_BATCH}."
    asked = get_config().get("metadata", {}).get("trigger", ASKED) == ASKED
    if slots.take(identity.current_run_id() or "", owner.actor, dry=dry, asked=asked):
        return None
    if dry:
        return "Another dry run is at work; try again when it has ended."
    await start(owner, get_client(), get_store(), lambda: max(1, slots.next_turn(asked=asked)), asked=asked)
    return f"{CONSOLIDATIONS_AT_ONCE} consolidations are at work; another run is planned for when its turn has come."
