"""A person's visit deletes their expired temporary conversations, in the background."""

import asyncio
import logging
import time
from collections import OrderedDict

from langgraph_sdk import get_client

from memory.controls import delete_temporary
from memory.identity import Actor

logger = logging.getLogger("auth")
# Seconds in which one person's visits count as one, and people in memory: the last visitors.
_VISIT_SECONDS = 3_600
_PEOPLE = 10_000


class Visits:
    """The visits to one process."""

    def __init__(self) -> None:
        self._last: OrderedDict[Actor, float] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive

    def begin(self, actor: Actor) -> None:
        """Call it in the handler of a request that begins a conversation: the background client acts as that request's user."""
        now = time.monotonic()
        if now - self._last.get(actor, -_VISIT_SECONDS) < _VISIT_SECONDS:
            return
        self._last[actor] = now
        self._last.move_to_end(actor)
        if len(self._last) > _PEOPLE:
            self._last.popitem(last=False)
        task = asyncio.create_task(_delete(actor))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _delete(actor: Actor) -> None:
    try:
        await delete_temporary(get_client(), actor)
    except Exception:  # no error here concerns the request
        logger.warning("Temporary conversations could not be deleted. The sweep does it.", exc_info=True)


VISITS = Visits()
