"""Threads that *changed* since they were consolidated: their time stamp is another one than that of
the `Position` that says what of them is consolidated (`positions.py`).
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from langgraph.store.base import BaseStore
from langgraph_sdk.schema import Thread

from lasting_memory.consolidation.owners import Owner, owner_of
from lasting_memory.consolidation.positions import Position, positions_of
from lasting_memory.conversations.marks import stays_out
from lasting_memory.deployment import Deployment

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class ChangedThread(NamedTuple):
    """A thread that changed since it was consolidated, as the platform lists it."""

    owner: Owner
    thread: Thread
    position: Position

    @property
    def thread_id(self) -> str:
        return str(self.thread["thread_id"])

    @property
    def updated_at(self) -> str:
        return str(self.thread["updated_at"])


async def changed_in(
    threads: Iterable[Thread], deployment: Deployment, store: BaseStore
) -> list[ChangedThread]:
    """Those of these threads that changed. Without temporary and marked ones, and those of no
    owner.
    """
    owned_threads = list[ChangedThread]()
    for thread in threads:
        if stays_out(thread):
            continue
        owner = owner_of(thread, deployment)
        if owner is None:
            continue
        item = ChangedThread(owner, thread, position=Position())
        owned_threads.append(item)
    # The positions of all of them are read at once.
    keys = [(item.owner.actor, item.thread_id) for item in owned_threads]
    positions = await positions_of(store, keys)
    changed_threads = list[ChangedThread]()
    for item, position in zip(owned_threads, positions, strict=True):
        if item.updated_at == position.updated_at:
            continue
        thread_with_position = item._replace(position=position)
        changed_threads.append(thread_with_position)
    return changed_threads


def time_of(stamp: object) -> datetime:
    """The time of a stamp in ISO format, in UTC where it names no zone; `EARLIEST` for anything
    else.
    """
    try:
        time = datetime.fromisoformat(str(stamp))
    except ValueError:
        return EARLIEST
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time
