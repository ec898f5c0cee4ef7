"""Accepting a batch: recorded first, then applied, so that a later run can finish it.

Each memory has one item in the namespace `lease`: the id of the last accepted batch, and the batch itself until it is applied.
The journal changes the item, so accepting is an atomic step, which fails if another batch was accepted since this one began. Of
two runs at once only one is accepted, from the positions at which it began.

**Applying** makes one revision a file by a three-way merge, so others' changes stay. The revision's id begins with the batch's
id, and it may follow only a revision whose history was seen to lack it: finishing a batch twice, or from two
processes, applies nothing twice. Additions come first, removals last. Then the positions move, the record is kept, and the item
is no longer pending.

**Finishing** is up to the run itself. If it dies, the person's next run, of either graph, finishes the batch before it reads
any file (`hooks.py`, `run.py`). HTTP shows each file whole, but maybe one before its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from langgraph.store.base import BaseStore
from pydantic import TypeAdapter

from memory import journal, namespaces
from memory.consolidation.applying import Applicable, apply_change, growth
from memory.consolidation.guard import Changed
from memory.consolidation.kept import KeptValue
from memory.consolidation.lease import Lease, close_lease
from memory.consolidation.positions import Position, commit
from memory.consolidation.proposals import Proposal, propose
from memory.consolidation.run_records import Record, kept_record, record
from memory.identity import Actor
from memory.namespaces import Namespace
from memory.validation import RefusedWriteError


@dataclass(frozen=True, slots=True)
class Acceptance(Applicable):
    """An accepted batch.

    Args:
        changes: its changes of files.
        positions: the new positions, by thread id.
        report: the run's record with this batch.
        proposed: the person decides about the changes (`memory/consolidation/proposals.py`).
    """

    changes: list[Changed]
    positions: dict[str, Position]
    report: Record
    proposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Lease):
    """The item of a memory, or a lease of version 0.1 in its place.

    Args:
        last: id of the last accepted batch.
        pending: that batch, until it is applied.
    """

    last: str = ""
    pending: Acceptance | None = None

    def is_unfinished(self) -> bool:
        """Whether `finish_accepted` has something to do."""
        return self.pending is not None or self.is_open()


_STATE = KeptValue(TypeAdapter(State), State(), exclude_defaults=True)


class OvertakenError(RefusedWriteError):
    """Another run's batch was accepted since this one's began, or the person was forgotten."""


async def read_state(store: BaseStore, actor: Actor, files: Namespace) -> State:
    return _STATE.of_item(await store.aget(namespaces.lease(actor), _STATE.key(files)))


async def finish_accepted(store: BaseStore, actor: Actor, files: Namespace) -> str:
    """Complete a dead run's accepted batch, or revert an unaccepted one of version 0.1. Returns the last batch's id."""
    state = await read_state(store, actor, files)
    if state.is_unfinished():
        await journal.begin_epoch(store, actor)  # a person who is forgotten from now on gets nothing back
        state = await read_state(store, actor, files)
    if state.pending:
        await _complete_dead(store, actor, files, state.pending)
    elif state.is_open():
        await close_lease(store, actor, files, state)
        await _change(store, actor, files, lambda now: State(last=state.last) if now == state else None)
    return state.last


async def accept(store: BaseStore, actor: Actor, files: Namespace, acceptance: Acceptance, follows: str) -> Record:
    """Record a batch as accepted, and apply it. Returns the report, which names changes that were refused after all.

    `follows` is the id of the last accepted batch when this one began.

    Raises:
        OvertakenError: nothing was changed.
    """

    def accepted(state: State) -> State | None:
        return None if state.pending or state.last != follows else State(last=acceptance.id, pending=acceptance)

    try:
        state = await _change(store, actor, files, accepted)
    except RefusedWriteError as error:  # if it was accepted all the same, the next run finishes it
        raise OvertakenError(str(error)) from None
    if state.last != acceptance.id:
        if state.pending:
            await _complete_dead(store, actor, files, state.pending)
        raise OvertakenError("Another consolidation of this person was faster; its work stands.")
    return await complete(store, actor, files, acceptance)


async def _complete_dead(store: BaseStore, actor: Actor, files: Namespace, pending: Acceptance) -> None:
    report = replace(pending.report, status="interrupted", ended_at=datetime.now(UTC).isoformat())
    await complete(store, actor, files, replace(pending, report=report))


async def complete(store: BaseStore, actor: Actor, files: Namespace, acceptance: Acceptance) -> Record:
    """Apply the rest of an accepted batch, move the positions, and keep the record. Safe to repeat."""
    refused, epoch = dict[str, str](), await journal.run_epoch(store, actor)
    if acceptance.proposed:
        threads = list(acceptance.positions)
        proposal = Proposal(str(UUID(acceptance.id)), acceptance.at, acceptance.author, threads, acceptance.changes)
        await propose(store, actor, files, proposal, epoch)
    for change in () if acceptance.proposed else sorted(acceptance.changes, key=growth, reverse=True):
        if reason := await apply_change(store, files, acceptance, change, epoch):
            refused[change.path] = reason
    if await journal.epoch_is_over(store, actor):
        return acceptance.report
    report = acceptance.report
    if acceptance.proposed and report.status == "running":
        report = replace(report, status="proposed")
    if refused:
        reason = "; ".join(f"{path}: {reason}" for path, reason in refused.items())
        shown = {path: text for path, text in report.files.items() if path not in refused}
        report = replace(report, status="undone", reason=f"Not applied: {reason}", files=shown)
    await commit(store, actor, acceptance.positions)
    await record(store, actor, await kept_record(store, actor, report))
    await _change(store, actor, files, lambda now: State(last=now.last) if now.pending and now.last == acceptance.id else None)
    return report


async def _change(store: BaseStore, actor: Actor, files: Namespace, change: Callable[[State], State | None]) -> State:
    """Change the state, and return the result; a `change` to None leaves it as it is."""
    return await _STATE.change(store, namespaces.lease(actor), files, change, await journal.run_epoch(store, actor))
