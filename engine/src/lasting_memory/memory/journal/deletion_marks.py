"""Marks of deletions: an item of a person's for each deletion, with its time (`writers.py` says what
they are for).

One is for the person, who was forgotten, one for all facts that are deleted for good, and one for
each conversation and run.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import identity, namespaces

# Key of the time at which a fact of a person was deleted for good last, beside those of
# conversations and runs.
FACTS = "facts"
# How long the time of a deletion is kept: a run ends within a day. And how many older ones are
# deleted with one deletion.
_MARKS_KEPT = timedelta(days=2)
_MARKS_DROPPED = 100


def iso_time(at: datetime) -> str:
    """A time as marks and offers keep it. One width, so that texts compare as times."""
    return at.isoformat(timespec="microseconds")


def present_time() -> str:
    """The present time, as marks keep it."""
    at = datetime.now(UTC)
    return iso_time(at)


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Mark that a person is forgotten now: what began before can no longer write."""
    place = namespaces.forgotten(actor)
    mark = {"at": present_time()}
    await store.aput(place, namespaces.FORGOTTEN, mark, index=False)


async def note_erased(store: BaseStore, actor: identity.Actor) -> None:
    """Mark that a fact of a person is deleted for good now: what began before, and may have read
    it, writes nothing.
    """
    await note_deleted(store, actor, [FACTS])


async def note_deleted(store: BaseStore, actor: identity.Actor, ids: Iterable[str]) -> None:
    """Mark that these conversations of a person, or runs, are deleted now: runs that began before
    write nothing more. Deletes some old marks.
    """
    place = namespaces.deleted_threads(actor)
    at = datetime.now(UTC)
    is_old = {"$lt": _slot(at - _MARKS_KEPT)}
    old_marks = await store.asearch(place, filter={"slot": is_old}, limit=_MARKS_DROPPED)
    ops = deletions(old_marks)
    mark = {"at": iso_time(at), "slot": _slot(at)}
    for deleted_id in ids:
        ops.append(PutOp(place, deleted_id, mark, index=False))
    await store.abatch(ops)


def _slot(at: datetime) -> str:
    """A time as stores compare it: some as text, some as a number."""
    seconds = int(at.timestamp())
    return f"{seconds:010}"


def time_in(mark: object) -> str:
    """The time of a mark, which is an item, in ISO format, UTC; "" for none, and for one that cannot
    be read.
    """
    if not isinstance(mark, Item):
        return ""
    try:
        at = datetime.fromisoformat(mark.value["at"])
    except (KeyError, TypeError, ValueError):  # damaged
        return ""
    return iso_time(at)


async def deleted_since(store: BaseStore, actor: identity.Actor, at: str) -> set[str]:
    """The ids of the conversations and runs of a person that were deleted, or are being deleted,
    since a time, in ISO format.
    """
    marks = await all_items(store, namespaces.deleted_threads(actor))
    beginning = datetime.fromisoformat(at)
    since = iso_time(beginning)
    return {mark.key for mark in marks if time_in(mark) >= since}
