"""Carrying out steps on a store; and locks of files."""

import asyncio
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from langgraph.store.base import BaseStore

from memory import namespaces
from memory.journal.revisions import Steps

_LOCKS: WeakValueDictionary[tuple[int, namespaces.Namespace, str], asyncio.Lock] = WeakValueDictionary()
T = TypeVar("T")


async def acarry_out(store: BaseStore, steps: Steps[T]) -> T:
    """Carry out steps, and return their result. The store's errors are raised where a step was taken."""
    await asyncio.sleep(0)  # an in-memory store never waits, so many files in a row would block the loop
    answer, failure = cast("Any", None), cast("Exception | None", None)
    while True:
        try:
            step = steps.throw(failure) if failure else steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = failure = None
        if isinstance(step, float):
            await asyncio.sleep(step)
            continue
        try:
            answer = await store.abatch(step)
        except Exception as error:  # noqa: BLE001  # the steps say what it means
            failure = error


def file_lock(namespace: namespaces.Namespace, key: str) -> asyncio.Lock:
    """A lock for this process's writers of one file; it lives as long as it is used.

    The journal does not need it, but uncontended writes are three times as fast.
    """
    place = (id(asyncio.get_running_loop()), namespace, key)
    return _LOCKS.setdefault(place, asyncio.Lock())
