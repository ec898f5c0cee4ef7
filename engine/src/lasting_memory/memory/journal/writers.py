"""Who may still write: what was deleted since a run or a request began, and writes that are refused
for it.

A writer is a run, or a request over HTTP; `Writer` says for whom it writes, and when it began. It may
hold what it read before a deletion, and would bring that back. So each deletion puts a mark with its
time (`deletion_marks.py`), and each write compares this with the time at which its writer began:

- The person was forgotten (`forget`): the writer writes nothing.
- Its conversation, or the run itself, was deleted (`note_deleted`): it writes nothing.
- A fact of the person was deleted for good (`note_erased`): it writes nothing that may quote facts.

A run's id is a UUIDv7, which says when the run was created; a request knows when it came. Subagents
share their run's id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from langgraph.store.base import BaseStore, GetOp

from lasting_memory.memory.journal.deletion_marks import FACTS, present_time, time_in
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller

ERASED = "A fact of this memory was deleted for good since this began; it writes nothing. What begins from now on writes again."
_FORGOTTEN = (
    "What is remembered of this person was deleted since this run began; it writes nothing."
)
_THREAD_DELETED = "This conversation was deleted since its run began; it writes nothing."
_RUN_DELETED = "This run was deleted since it began; it writes nothing."
# Reasons of refusals, in the order of the marks that `mark_ops` reads.
_REASONS = (_FORGOTTEN, _THREAD_DELETED, _RUN_DELETED, ERASED)
# In place of a key: nobody puts a mark there.
_NO_MARK = "none"


@dataclass(frozen=True, slots=True)
class Writer:
    """A run or a request that writes the memory of `actor`. It began `at` a time, in ISO format, UTC,
    which is now by default. `thread_id` and `run_id` are "" for a request.
    """

    actor: identity.Actor
    at: str = field(default_factory=present_time)
    thread_id: str = ""
    run_id: str = ""


def writer_of_run(actor: identity.Actor) -> Writer | None:
    """The current run. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    if run_id is None:
        return None
    at = identity.time_of_run(run_id)
    thread_id = identity.current_thread_id()
    return Writer(actor, at, thread_id, run_id)


def writer_of_caller(caller: Caller) -> Writer | None:
    """A caller's run, which writes for the person for whom it acts. None without a server."""
    if not caller.run_id:
        return None
    return Writer(caller.actor, caller.began, caller.thread_id, caller.run_id)


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


async def read_deleted(store: BaseStore, writer: Writer | None) -> Deleted:
    """What was deleted since then, in one batch; nothing without a server."""
    if writer is None:
        return _NOTHING_DELETED
    marks = await store.abatch(deleted_ops(writer))
    return deleted_in(marks, writer)


def deleted_ops(writer: Writer | None) -> list[GetOp]:
    """The operations whose results `deleted_in` takes; none without a server."""
    if writer is None:
        return []
    place = namespaces.deleted_threads(writer.actor)
    read_forgotten = GetOp(namespaces.forgotten(writer.actor), namespaces.FORGOTTEN)
    ops = [read_forgotten, GetOp(place, FACTS)]
    if writer.thread_id:
        ops.append(GetOp(place, writer.thread_id))
    if writer.run_id:
        ops.append(GetOp(place, writer.run_id))
    return ops


def deleted_in(results: Sequence[object], writer: Writer | None) -> Deleted:
    """What was deleted since then, by the results of `deleted_ops`; nothing without a server."""
    if writer is None:
        return _NOTHING_DELETED
    is_since = list[bool]()
    for mark in results:
        is_since.append(time_in(mark) >= writer.at)
    everything, fact, *of_thread_and_run = is_since
    return Deleted(everything, any(of_thread_and_run), fact)


async def is_forgotten(store: BaseStore, writer: Writer | None) -> bool:
    """Whether the person was forgotten since then, or the run or its conversation deleted. For
    writes that bypass the journal; False without a server.
    """
    since = await read_deleted(store, writer)
    return since.refuses(quotes_facts=False)


async def is_erased(store: BaseStore, writer: Writer | None) -> bool:
    """Whether a fact of the person was deleted for good since then; False without a server."""
    since = await read_deleted(store, writer)
    return since.fact


def mark_ops(writer: Writer, *, heeds_erased: bool) -> list[GetOp]:
    """The operations whose results `refuse_if_marked` takes. Without `heeds_erased` a fact that was
    deleted for good refuses nothing.
    """
    place = namespaces.deleted_threads(writer.actor)
    return [
        GetOp(namespaces.forgotten(writer.actor), namespaces.FORGOTTEN),
        GetOp(place, writer.thread_id or _NO_MARK),
        GetOp(place, writer.run_id or _NO_MARK),
        GetOp(place, FACTS if heeds_erased else _NO_MARK),
    ]


def refuse_if_marked(marks: Sequence[object], writer: Writer) -> str:
    """Raise `RefusedWrite` if one of these marks, the results of `mark_ops`, is from a time since the
    writer began. Returns the time at which the person was forgotten last; "" for never.
    """
    for mark, reason in zip(marks, _REASONS, strict=True):
        if time_in(mark) >= writer.at:
            raise RefusedWrite(reason)
    return time_in(marks[0])
