"""Accepting a batch: recorded first, then applied, so that a later run can finish it.

Each memory has one item in the namespace `lease`: the id of the last accepted batch, and the batch itself until it is applied.
The journal changes the item, so accepting is an atomic step, which fails if another batch was accepted since this one began. Of
two runs at once only one is accepted, from the positions at which it began.

Applying makes one revision a file (`applying.py`), additions first, removals last. Then the positions move, the record is kept,
and the item is no longer pending. If the run dies, the person's next run, of either graph, finishes the batch before it reads
any file (`hooks.py`, `run.py`). HTTP shows each file whole, but maybe one before its neighbour.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from langgraph.store.base import BaseStore

from memory import journal, namespaces
from memory.consolidation.applying import Applicable, apply_change, growth
from memory.consolidation.kept import KeptValue
from memory.consolidation.lease import take_back
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
        positions: the additions to the threads' positions, by thread id.
        report: the run's record with this batch.
        proposed: the person decides about the changes (`memory/consolidation/proposals.py`).
    """

    positions: dict[str, Position]
    report: Record
    proposed: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The item of a memory: the id of the last accepted batch, and that batch until it is applied.

    In its place a run of version 0.1 noted what `take_back` needs, and positions once its batch was accepted.
    """

    last: str = ""
    pending: Acceptance | None = None
    worker: str = ""
    base: dict[str, int] | None = None
    moved: dict[str, Position] | None = None

    def is_unfinished(self) -> bool:
        """Whether `finish_accepted` has something to do."""
        return self.pending is not None or self.moved is not None or (self.base is not None and bool(self.worker))


STATE = KeptValue(State, State(), namespaces.lease)


class OvertakenError(RefusedWriteError):
    """Another run's batch was accepted since this one's began, or the person was forgotten."""


async def finish_accepted(store: BaseStore, actor: Actor, files: Namespace) -> str:
    """Complete a dead run's accepted batch, or revert an unaccepted one of version 0.1. Returns the last batch's id."""
    state = await STATE.read(store, actor, files)
    if state.pending:
        await _complete_dead(store, actor, files, state.pending)
    elif state.is_unfinished():
        if state.moved is not None:
            await commit(store, actor, state.moved)
        else:
            await take_back(store, actor, files, state.worker, state.base or {})
        began = journal.began(actor)
        await STATE.change(store, actor, files, lambda now: State(last=now.last) if now == state else now, began)
    return state.last


async def accept(store: BaseStore, actor: Actor, files: Namespace, acceptance: Acceptance, follows: str) -> Record:
    """Record a batch as accepted, and apply it. Returns the report, which names changes that were refused after all.

    `follows` is the id of the last accepted batch when this one began.

    Raises:
        OvertakenError: nothing was changed.
    """

    def accepted(now: State) -> State:
        return now if now.pending or now.last != follows else State(last=acceptance.id, pending=acceptance)

    try:
        state = await STATE.change(store, actor, files, accepted, journal.began(actor))
    except RefusedWriteError as error:  # if it was accepted all the same, the next run finishes it
        raise OvertakenError(str(error)) from None
    if state.last == acceptance.id:
        return await complete(store, actor, files, acceptance)
    if state.pending:
        await _complete_dead(store, actor, files, state.pending)
    raise OvertakenError("Another consolidation of this person was faster; its work stands.")


async def _complete_dead(store: BaseStore, actor: Actor, files: Namespace, pending: Acceptance) -> None:
    report = replace(pending.report, status="interrupted", ended_at=datetime.now(UTC).isoformat())
    await complete(store, actor, files, replace(pending, report=report))


async def complete(store: BaseStore, actor: Actor, files: Namespace, acceptance: Acceptance) -> Record:
    """Apply the rest of an accepted batch, move the positions, and keep the record. Safe to repeat."""
    report, refused, began = acceptance.report, dict[str, str](), journal.began(actor)
    if acceptance.proposed:
        shared = {name: getattr(acceptance, name) for name in ("id", "at", "author", "changes")}
        await propose(store, actor, files, Proposal(**shared, threads=list(acceptance.positions)), began)
    for change in () if acceptance.proposed else sorted(acceptance.changes, key=growth, reverse=True):
        if reason := await apply_change(store, files, acceptance, change, began):
            refused[change.path] = reason
    if await journal.is_forgotten(store, journal.began(actor)):
        return report
    if acceptance.proposed and report.status == "running":
        report = replace(report, status="proposed")
    if refused:
        reason = "; ".join(f"{path}: {reason}" for path, reason in refused.items())
        shown = {path: text for path, text in report.files.items() if path not in refused}
        report = replace(report, status="undone", reason=f"Not applied: {reason}", files=shown)
    await commit(store, actor, acceptance.positions)
    await record(store, actor, await kept_record(store, actor, report))
    await STATE.change(store, actor, files, lambda now: State(last=now.last) if now.last == acceptance.id else now, began)
    return report
