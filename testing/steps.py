"""A journal's steps without an event loop, for the worlds and the processes that tests kill."""

import time
from typing import Any, TypeVar

from langgraph.store.base import BaseStore

from memory.journal.revisions import Steps

T = TypeVar("T")


def carry_out(store: BaseStore, steps: Steps[T]) -> T:
    """Carry out steps in this thread, and return their result."""
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if isinstance(step, float):
            time.sleep(step)
        answer = None if isinstance(step, float) else store.batch(step)
