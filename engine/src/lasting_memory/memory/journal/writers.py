"""Who may still write: what was deleted since a run or a request began, and writes that are refused
for it.

A writer is a run, or a request over HTTP; `Began` says for whom it writes and when it began. It may
hold what it read before a deletion, and would bring that back. So each deletion puts a mark with its
time, and each write compares this with the time at which its writer began:

- The person was forgotten (`forget`): the writer writes nothing.
- Its conversation, or the run itself, was deleted (`note_deleted`): it writes nothing.
- A fact of the person was deleted for good (`note_erased`): it writes nothing that may quote facts.

A run's id is a UUIDv7, which says when the run was created; a request knows when it came. Subagents
share their run's id.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.stored_files import deletions
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller

# Items of one batch of writes that bypass the journal.
_PUT_AT_ONCE = 200
ERASED = "A fact of this memory was deleted for good since this began; it writes nothing. What begins from now on writes again."
_FORGOTTEN = (
    "What is remembered of this person was deleted since this run began; it writes nothing."
)
_FORGOTTEN_MEANWHILE = "What is remembered of this person was deleted meanwhile."
_THREAD_DELETED = "This conversation was deleted since its run began; it writes nothing."
_RUN_DELETED = "This run was deleted since it began; it writes nothing."
# Reasons of refusals, in the order of the marks that `mark_ops` reads.
_REASONS = (_FORGOTTEN, _THREAD_DELETED, _RUN_DELETED, ERASED)
# Key of the time at which a fact of a person was deleted for good last, beside those of
# conversations and runs.
_FACTS = "facts"
# In place of a key: nobody puts a mark there.
_NO_MARK = "none"
# How long the time of a deletion is kept: a run ends within a day. And how many older ones are
# deleted with one deletion.
_MARKS_KEPT = timedelta(days=2)
_MARKS_DROPPED = 100
logger = logging.getLogger(__name__)


def _iso(at: datetime) -> str:
    """A time as marks keep it. One width, so that texts compare as times."""
    return at.isoformat(timespec="microseconds")


def _iso_now() -> str:
    now = datetime.now(UTC)
    return _iso(now)


@dataclass(frozen=True, slots=True)
class Began:
    """Whose memory a run or a request writes, and the time at which it began, in ISO format, UTC:
    now. `thread_id` and `run_id` are "" for a request.
    """

    actor: identity.Actor
    at: str = field(default_factory=_iso_now)
    thread_id: str = ""
    run_id: str = ""


def began_of_run(actor: identity.Actor) -> Began | None:
    """When the current run began. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    if run_id is None:
        return None
    at = identity.time_of_run(run_id)
    thread_id = identity.current_thread_id()
    return Began(actor, at, thread_id, run_id)


def began_of_caller(caller: Caller) -> Began | None:
    """When a caller's run began, which writes for the person for whom it acts. None without a
    server.
    """
    if not caller.run_id:
        return None
    return Began(caller.actor, caller.began, caller.thread_id, caller.run_id)


# --- Marks of deletions


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Mark that a person is forgotten now: what began before can no longer write."""
    place = namespaces.forgotten(actor)
    mark = {"at": _iso_now()}
    await store.aput(place, namespaces.FORGOTTEN, mark, index=False)


async def note_erased(store: BaseStore, actor: identity.Actor) -> None:
    """Mark that a fact of a person is deleted for good now: what began before, and may have read
    it, writes nothing.
    """
    await note_deleted(store, actor, [_FACTS])


async def note_deleted(store: BaseStore, actor: identity.Actor, ids: Iterable[str]) -> None:
    """Mark that these conversations of a person, or runs, are deleted now: runs that began before
    write nothing more. Deletes some old marks.
    """
    place = namespaces.deleted_threads(actor)
    now = datetime.now(UTC)
    is_old = {"$lt": _slot(now - _MARKS_KEPT)}
    old_marks = await store.asearch(place, filter={"slot": is_old}, limit=_MARKS_DROPPED)
    ops = deletions(old_marks)
    mark = {"at": _iso(now), "slot": _slot(now)}
    for deleted_id in ids:
        ops.append(PutOp(place, deleted_id, mark, index=False))
    await store.abatch(ops)


def _slot(at: datetime) -> str:
    """A time as stores compare it: some as text, some as a number."""
    seconds = int(at.timestamp())
    return f"{seconds:010}"


def _time_in(mark: object) -> str:
    """The time of a mark, which is an item, in ISO format, UTC; "" for none, and for one that cannot
    be read.
    """
    if not isinstance(mark, Item):
        return ""
    try:
        at = datetime.fromisoformat(mark.value["at"])
    except (KeyError, TypeError, ValueError):  # damaged
        return ""
    return _iso(at)


async def deleted_since(store: BaseStore, actor: identity.Actor, at: str) -> set[str]:
    """The ids of the conversations and runs of a person that were deleted, or are being deleted,
    since a time, in ISO format.
    """
    marks = await all_items(store, namespaces.deleted_threads(actor))
    beginning = datetime.fromisoformat(at)
    since = _iso(beginning)
    return {mark.key for mark in marks if _time_in(mark) >= since}


# --- What was deleted since a writer began


class Deleted(NamedTuple):
    """What of a person, or of a run of theirs, was deleted since the run or a request began."""

    everything: bool  # the person was forgotten
    conversation: bool  # the run, or its conversation
    fact: bool  # a fact, for good

    def refuses(self, *, quotes_facts: bool) -> bool:
        """Whether a write is refused for it. With `quotes_facts` it may have words of facts."""
        if self.everything or self.conversation:
            return True
        return self.fact and quotes_facts


_NOTHING_DELETED = Deleted(everything=False, conversation=False, fact=False)


async def read_deleted(store: BaseStore, began: Began | None) -> Deleted:
    """What was deleted since then, in one batch; nothing without a server."""
    if began is None:
        return _NOTHING_DELETED
    marks = await store.abatch(deleted_ops(began))
    return deleted_in(marks, began)


def deleted_ops(began: Began | None) -> list[GetOp]:
    """The operations whose results `deleted_in` takes; none without a server."""
    if began is None:
        return []
    deleted = namespaces.deleted_threads(began.actor)
    forgotten = GetOp(namespaces.forgotten(began.actor), namespaces.FORGOTTEN)
    ops = [forgotten, GetOp(deleted, _FACTS)]
    if began.thread_id:
        ops.append(GetOp(deleted, began.thread_id))
    if began.run_id:
        ops.append(GetOp(deleted, began.run_id))
    return ops


def deleted_in(results: Sequence[object], began: Began | None) -> Deleted:
    """What was deleted since then, by the results of `deleted_ops`; nothing without a server."""
    if began is None:
        return _NOTHING_DELETED
    is_since = list[bool]()
    for mark in results:
        is_since.append(_time_in(mark) >= began.at)
    everything, fact, *of_thread_and_run = is_since
    return Deleted(everything, any(of_thread_and_run), fact)


async def is_forgotten(store: BaseStore, began: Began | None) -> bool:
    """Whether the person was forgotten since then, or the run or its conversation deleted. For
    writes that bypass the journal; False without a server.
    """
    since = await read_deleted(store, began)
    return since.refuses(quotes_facts=False)


async def is_erased(store: BaseStore, began: Began | None) -> bool:
    """Whether a fact of the person was deleted for good since then; False without a server."""
    since = await read_deleted(store, began)
    return since.fact


def mark_ops(began: Began, *, heeds_erased: bool) -> list[GetOp]:
    """The operations whose results `refuse_if_marked` takes. Without `heeds_erased` a fact that was
    deleted for good refuses nothing.
    """
    deleted = namespaces.deleted_threads(began.actor)
    return [
        GetOp(namespaces.forgotten(began.actor), namespaces.FORGOTTEN),
        GetOp(deleted, began.thread_id or _NO_MARK),
        GetOp(deleted, began.run_id or _NO_MARK),
        GetOp(deleted, _FACTS if heeds_erased else _NO_MARK),
    ]


def refuse_if_marked(marks: Sequence[object], began: Began) -> str:
    """Raise `RefusedWrite` if one of these marks, the results of `mark_ops`, is from a time since the
    writer began. Returns the time at which the person was forgotten last; "" for never.
    """
    for mark, reason in zip(marks, _REASONS, strict=True):
        if _time_in(mark) >= began.at:
            raise RefusedWrite(reason)
    return _time_in(marks[0])


# --- Writes that bypass the journal


async def put_unless_forgotten(
    store: BaseStore,
    ops: Sequence[PutOp],
    began: Began | None,
    *,
    quotes_facts: bool = False,
    is_checked: bool = False,
) -> bool:
    """Carry out puts and deletions for a person, unless they were forgotten since this `began`.
    Returns whether it did.

    With `quotes_facts` also unless a fact of theirs was deleted for good since then: the values may
    have its words. With `is_checked` the caller has looked at this moment (`read_deleted`).

    For writes that bypass the journal. A put may take seconds, because it embeds first. So this
    looks again afterwards, and takes back what was put. A forgetting that begins after that finds
    the items and deletes them itself.
    """
    if not is_checked:
        since = await read_deleted(store, began)
        if since.refuses(quotes_facts=quotes_facts):
            return False
    for start in range(0, len(ops), _PUT_AT_ONCE):
        end = start + _PUT_AT_ONCE
        batch = ops[start:end]
        try:
            await store.abatch(batch)
        finally:  # an error, or a cancellation, does not say what was put
            second_look = _delete_if_refused(store, batch, began, quotes_facts=quotes_facts)
            is_refused = await asyncio.shield(second_look)
        if is_refused:
            return False
    return True


async def put_or_refuse(store: BaseStore, ops: Sequence[PutOp], began: Began | None) -> None:
    """Carry out puts that may quote facts of a person, as `put_unless_forgotten`. Raises
    `RefusedWrite` where it does not.
    """
    if await put_unless_forgotten(store, ops, began, quotes_facts=True):
        return
    erased = await is_erased(store, began)
    raise RefusedWrite(ERASED if erased else _FORGOTTEN_MEANWHILE)


async def _delete_if_refused(
    store: BaseStore, ops: Sequence[PutOp], began: Began | None, *, quotes_facts: bool
) -> bool:
    """Delete the items that these operations put, if they are refused by now. Returns whether they
    are; False where the store does not say: the put itself succeeded, and a failure of this look
    must not be reported as a failed put.

    The person may have come back: only values equal to ours are deleted. If a later run put an
    equal one, it is lost too, and is derived again when it is missed.
    """
    try:
        since = await read_deleted(store, began)
    except Exception:
        logger.warning(
            "The store failed after a put; whether its person was forgotten meanwhile is not known.",
            exc_info=True,
        )
        return False
    if not since.refuses(quotes_facts=quotes_facts):
        return False
    try:
        await _delete_equal(store, ops)
    except Exception:
        logger.warning(
            "The store failed to delete what was put while its person was forgotten; forget them "
            "once more.",
            exc_info=True,
        )
    return True


async def _delete_equal(store: BaseStore, ops: Sequence[PutOp]) -> None:
    """Delete the items whose values are those of these puts."""
    puts = [op for op in ops if op.value is not None]
    gets = [GetOp(op.namespace, op.key) for op in puts]
    items = await store.abatch(gets)
    put_by_us = list[Item]()
    for op, item in zip(puts, items, strict=True):
        if not isinstance(item, Item):
            continue
        if _as_json(item.value) == _as_json(op.value):
            put_by_us.append(item)
    await store.abatch(deletions(put_by_us))


def _as_json(value: object) -> str:
    """A value as JSON, as a store may have changed it: its tuples are lists."""
    return json.dumps(value, sort_keys=True, default=str)
