"""Slots limit a process's consolidations at once, so that a conversation always finds a worker.

A process has few workers (`--n-jobs-per-worker`, 10 by default), and a run holds one as long as its model takes. A
consolidation without a free slot plans another run and ends. The later time follows from the duration of earlier runs, so that
waiting runs begin one by one however slow the model is.
"""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.config import get_store
from langgraph_sdk import get_client

from memory import identity
from memory.consolidation.begins import BEGINS_PER_SECOND
from memory.consolidation.trigger import Owner, start
from settings import CONSOLIDATIONS_AT_ONCE, MAX_CONSOLIDATION_WAIT_SECONDS

# Seconds without a model call after which a run is taken for cancelled.
_SILENCE = 120
# Estimated duration of a consolidation, in seconds, until one has ended.
CONSOLIDATION_SECONDS = 3
# Weight of the newest run in the average duration.
_NEWEST = 0.2


@dataclass(slots=True)
class _Slot:
    """A run's slot. `seen` is its last sign of life; infinite during a model call."""

    actor: identity.Actor
    dry: bool
    began: float
    seen: float


class Slots:
    """The slots of a process, and the queue for them. Times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: dict[str, _Slot] = {}
        self._average = float(CONSOLIDATION_SECONDS)
        self._line = -math.inf

    def take(self, run_id: str, actor: identity.Actor, *, dry: bool = False) -> bool:
        """Take a slot if one is free. One person leaves one to others, and dry runs have one of their own."""
        now = self._clock()
        self._slots = {key: slot for key, slot in self._slots.items() if now - slot.seen < _SILENCE}
        alike, most = [slot.actor for slot in self._slots.values() if slot.dry == dry], 1 if dry else CONSOLIDATIONS_AT_ONCE
        if run_id not in self._slots and len(alike) < most and alike.count(actor) < max(1, most - 1):
            self._slots[run_id] = _Slot(actor, dry, now, now)
        return run_id in self._slots

    def free(self, run_id: str) -> None:
        """Release the run's slot."""
        if (slot := self._slots.pop(run_id, None)) and not slot.dry:
            took = min(self._clock() - slot.began, MAX_CONSOLIDATION_WAIT_SECONDS)
            self._average += _NEWEST * (took - self._average)

    @contextlib.contextmanager
    def calling(self, run_id: str) -> Iterator[None]:
        """Keep the run's slot during a model call, however long; release it on an error or cancellation."""
        slot = self._slots.get(run_id)
        if slot:
            slot.seen = math.inf
        try:
            yield
        except BaseException:
            self.free(run_id)
            raise
        if slot:
            slot.seen = self._clock()

    def next_turn(self) -> int:
        """Join the queue: the seconds from now until the next run without a begin may begin."""
        now = self._clock()
        ages = [now - slot.began for slot in self._slots.values() if not slot.dry]
        apart = max(self._average, *ages, 0) / CONSOLIDATIONS_AT_ONCE
        soonest = now + (apart if len(ages) >= CONSOLIDATIONS_AT_ONCE else 0)
        begin = max(self._line, soonest)
        self._line = begin + max(apart, 1 / BEGINS_PER_SECOND)
        return math.ceil(begin - now)


SLOTS = Slots()


async def no_slot(owner: Owner, slots: Slots, *, dry: bool) -> str | None:
    """Take a slot for the current run. If none is free, plan another run, and return the run's answer."""
    if slots.take(identity.current_run_id() or "", owner.actor, dry=dry):
        return None
    if dry:
        return "Another dry run is at work; try again when it has ended."
    await start(owner, get_client(), get_store(), lambda: max(1, slots.next_turn()))
    return f"{CONSOLIDATIONS_AT_ONCE} consolidations are at work; another run is planned for when its turn has come."


class KeepsSlot(AgentMiddleware[Any, Any, Any]):
    """Keeps a run's slot during model calls, and releases it at the end. It must be the graph's first middleware."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        with SLOTS.calling(identity.current_run_id() or ""):
            return await handler(request)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        SLOTS.free(identity.current_run_id() or "")
