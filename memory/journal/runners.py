"""Carrying out steps on a store; and locks of files."""

import asyncio
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from langgraph.store.base import BaseStore

from memory import namespaces
from memory.journal.revisions import Steps

_LOCKS: WeakValueDictionary[tuple[int, namespaces.Namespace, str], asyncio.Lock] = WeakValueDictionary()
T = TypeVar("T")


async def acarry_out(store: BaseStore, steps: Steps[T]) -> T:
    """Carry out steps, and return their result."""
    await asyncio.sleep(0)  # an in-memory store never waits, so many files in a row would block the loop
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if isinstance(step, float):
            await asyncio.sleep(step)
        answer = None if isinstance(step, float) else await store.abatch(step)


def file_lock(namespace: namespaces.Namespace, key: str) -> asyncio.Lock:
    """A lock for this process's writers of one file; it lives as long as it is used.

    The journal does not need it, but uncontended writes are three times as fast.
    """
    place = (id(asyncio.get_running_loop()), namespace, key)
    return _LOCKS.setdefault(place, asyncio.Lock())
