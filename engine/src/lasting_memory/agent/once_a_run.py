"""What prompts show is made once a run, though each run calls its model several times."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from lasting_memory.deployment import Deployment
from lasting_memory.people.caller import Caller

_RUNS_KEPT = 256

Loaded = TypeVar("Loaded")


def once_a_run(
    d: Deployment, read: Callable[[BaseStore, Caller], Awaitable[Loaded]]
) -> Callable[[], Awaitable[Loaded]]:
    """A function that calls `read` when it is first called in a run, and keeps the result for its
    later calls in the run.

    `read` is given the store and who acts in the run. Calls at the same time may each read. Without
    a server, which gives run ids, each call reads.
    """
    values_by_run = dict[str, Loaded]()

    async def load() -> Loaded:
        """What is kept of this run; without that, what `read` returns now."""
        caller = Caller.of_run(d)
        if caller.run_id in values_by_run:
            return values_by_run[caller.run_id]
        value = await read(get_store(), caller)
        if caller.run_id:
            values_by_run[caller.run_id] = value
            if len(values_by_run) > _RUNS_KEPT:
                oldest_run = next(iter(values_by_run))
                del values_by_run[oldest_run]
        return value

    return load
