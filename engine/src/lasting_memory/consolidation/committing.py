"""Commits what a run has changed: applies it to memory, proposes it to the person, or leaves its
conversations due.

Of a batch with a conversation that was deleted meanwhile, or that may have read a fact that was
deleted for good, nothing is kept.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import facts_of
from lasting_memory.consolidation.judging import Verdict
from lasting_memory.consolidation.no_batch import ERASED
from lasting_memory.consolidation.positions import (
    Position,
    position_gets,
    positions_in,
)
from lasting_memory.consolidation.record import Note, Record, note, now
from lasting_memory.consolidation.sources import confirm_lines_in_memory
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Proposal, diffs
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces

logger = logging.getLogger(__name__)

GONE = "One of its conversations was deleted meanwhile; the others stay due."
OVERTAKEN = "Another consolidation of this person was faster; its work stands."


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was done with a draft: the run's record, how far its conversations are read, and what
    was proposed.
    """

    record: Record
    positions: Mapping[str, Position] = field(default_factory=dict)
    proposal: Proposal | None = None


async def commit(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Apply the changes, propose them, or leave the conversations due. Returns the run's record,
    which is kept.
    """
    if verdict.failure:
        return await _keep_failed(draft, verdict.failure)
    record = await _record_of(draft, verdict)
    reason, positions = await _look(draft, client)
    if reason:
        return await _drop(draft, reason)
    positions_read = [item.position for item in draft.shown]
    is_overtaken = positions != positions_read
    outcome = await _carry_out(draft, verdict, record, is_overtaken=is_overtaken)
    reason, _ = await _look(draft, client)  # since the first look
    if reason:
        await _take_back(draft, verdict, outcome)
        return await _drop(draft, reason)
    await _raise(draft, outcome.record)
    await draft.keep(outcome.record, outcome.positions)
    return outcome.record


async def _raise(draft: Draft, record: Record) -> None:
    """Confirm what the person said of what memory has. The batch stands without it."""
    if record.status not in {"done", "proposed"}:
        return
    try:
        await confirm_lines_in_memory(draft)
    except ValueError as error:
        logger.warning("What a person said was not confirmed in memory: %r.", error)


async def _carry_out(
    draft: Draft, verdict: Verdict, record: Record, *, is_overtaken: bool
) -> _Outcome:
    """Do with the changes what was decided.

    `is_overtaken`: another run has read one of the conversations meanwhile.
    """
    is_dry = draft.record.dry_run
    if verdict.problem:
        return await _undone(draft, record, verdict)
    if is_overtaken and not is_dry:
        overtaken = replace(verdict, problem=OVERTAKEN, notes=[note("overtaken")])
        return await _undone(draft, record, overtaken)
    positions = dict[str, Position]()
    for item in draft.shown:
        thread_id = item.thread_id
        positions[thread_id] = item.advanced()
    if is_dry or not verdict.changed:
        return _Outcome(record, positions)
    if verdict.waits:
        proposal = _proposal(draft, verdict)
        proposed = await _propose(draft, proposal, record)
        return _Outcome(proposed, positions, proposal)
    applied = await _apply(draft, verdict, record)
    return _Outcome(applied, positions)


async def _record_of(draft: Draft, verdict: Verdict) -> Record:
    """The record of a run that ends well."""
    changed = draft.with_earlier_parts(verdict.changed)
    files = await platform.in_thread(diffs, changed)
    reason = f"Left out: {verdict.left_out}" if verdict.left_out else ""
    record = draft.record.ended(
        "done",
        reason,
        notes=[*verdict.notes],
        conversations=len(draft.shown),
        messages=draft.messages_shown,
        files=files,
    )
    if draft.reading is None:
        return record
    reading = draft.reading
    # Nothing is kept of a text but what is proposed.
    record = replace(record, reason="", found=len(reading.part.entries))
    if verdict.problem:
        return record
    base_files = draft.base_files()
    memory = await platform.in_thread(facts_of, base_files)
    proposed = await platform.in_thread(
        reading.count_proposed, verdict.changed, memory, draft.rules
    )
    return replace(record, proposed=proposed)


# --- Applied or proposed


async def _apply(draft: Draft, verdict: Verdict, record: Record) -> Record:
    """Change memory. Returns the record, which says what could not be applied."""
    refused = await draft.memory.apply(verdict.changed, draft.author, verdict.sources)
    if not refused:
        return record
    applied = dict(record.files)
    reasons = list[str]()
    notes = list[Note]()
    for path, error in refused.items():
        applied.pop(path, None)
        reason = f"{path}: {error}"
        reasons.append(reason)
        kind = getattr(error, "kind", "") or "refused"
        notes.append(note(kind))
    all_reasons = "; ".join(reasons)
    return record.ended("undone", f"Not applied: {all_reasons}", files=applied, notes=notes)


def _proposal(draft: Draft, verdict: Verdict) -> Proposal:
    sources = dict[str, dict[str, Source]]()
    for path, by_entry in verdict.sources.items():
        sources[path] = dict(by_entry)
    return Proposal(
        id=f"{draft.record.run_id}-{now()}",
        at=now(),
        memory=draft.memory.files[-1],
        author=draft.author,
        changes=draft.with_earlier_parts(verdict.changed),
        threads=draft.thread_ids,
        kind=draft.record.kind,
        reasons=dict(draft.given_up),
        sources=sources,
    )


async def _propose(draft: Draft, proposal: Proposal, record: Record) -> Record:
    """Keep a proposal. Returns the record."""
    try:
        if draft.reading:
            await draft.reading.propose(draft.memory, proposal)
        else:
            await draft.memory.propose(proposal)
    except RefusedWrite as error:  # a fact was deleted for good just now, or the person forgotten
        return record.ended("undone", str(error), proposed=0)
    return replace(record, status="proposed")


# --- Not committed


async def _undone(draft: Draft, record: Record, verdict: Verdict) -> _Outcome:
    """Leave the conversations due, after others."""
    notes = list(verdict.notes)
    undone = draft.record.ended("undone", verdict.problem, notes=notes, found=record.found)
    positions = dict[str, Position]()
    for item in draft.shown:
        thread_id = item.thread_id
        position = item.position
        times = position.undone + 1
        positions[thread_id] = replace(position, undone=times)
    return _Outcome(undone, positions)


async def _keep_failed(draft: Draft, failure: str) -> Record:
    """Keep the record of a batch to which the model gave no answer. Nothing changes, and its
    conversations stay due.
    """
    logger.warning("Consolidation %s failed: %s", draft.record.run_id, failure)
    failed = draft.record.ended(
        "failed",
        failure,
        notes=[note("no_answer")],
        conversations=len(draft.shown),
        messages=draft.messages_shown,
        found=len(draft.reading.part.entries) if draft.reading else 0,
    )
    memory = draft.memory
    gets = position_gets(memory.actor, draft.thread_ids)
    items = await memory.store.abatch(gets)
    positions = dict[str, Position]()
    for item, position in zip(draft.shown, positions_in(items), strict=True):
        if position != item.position:  # another run of this person may have been faster
            continue
        thread_id = item.thread_id
        times = position.failed + 1
        positions[thread_id] = replace(position, failed=times)
    await draft.keep(failed, positions)
    return failed


async def _look(draft: Draft, client: LangGraphClient) -> tuple[str, list[Position]]:
    """Why nothing of the batch may be kept, or "", and the present positions of its conversations."""
    gets = position_gets(draft.memory.actor, draft.thread_ids)
    since, items = await draft.since_it_began_and(gets)
    positions = positions_in(items)
    if since.fact and not draft.record.dry_run:
        return ERASED, positions
    if await draft.is_any_deleted(client.threads):
        return GONE, positions
    return "", positions


async def _take_back(draft: Draft, verdict: Verdict, outcome: _Outcome) -> None:
    """Undo what was carried out."""
    memory = draft.memory
    if outcome.proposal:
        place = namespaces.proposals(memory.actor)
        await memory.store.adelete(place, outcome.proposal.id)
    if draft.record.dry_run:
        return
    run_id = draft.record.run_id
    for change in verdict.changed:
        await journal.withdraw_run(memory.store, memory.files, change.key, run_id)


async def _drop(draft: Draft, reason: str) -> Record:
    """Leave everything as it was; the next run reads the conversations that are left."""
    draft.more = True
    kind = "fact_deleted" if reason == ERASED else "conversation_deleted"
    dropped = draft.record.ended("undone", reason, notes=[note(kind)])
    await draft.keep(dropped, quotes_facts=False)
    return dropped
