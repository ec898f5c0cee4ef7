"""Commits what a run has changed, as its `Verdict` says (`judging.py`): applies it to memory,
proposes it to the person, or leaves its conversations due.

Nothing is kept of a batch if a conversation of it was deleted meanwhile, or if a fact was deleted for
good, which it may have read.
"""

import logging
from dataclasses import dataclass, field, replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation.confirmation import confirm_lines_in_memory
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import facts_of
from lasting_memory.consolidation.judging import Verdict
from lasting_memory.consolidation.new_turns import Positions
from lasting_memory.consolidation.no_batch import ERASED
from lasting_memory.consolidation.positions import Position, position_gets, positions_in
from lasting_memory.consolidation.record import Note, Record, note, now
from lasting_memory.consolidation.record_keeping import keep_record
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
    """What was done with a draft: the run's record, the present positions of its conversations by
    id, and what was proposed.
    """

    record: Record
    positions: Positions = field(default_factory=Positions)
    proposal: Proposal | None = None


async def commit(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Apply the changes, propose them, or leave the conversations due. Returns the run's record,
    which is kept.
    """
    if verdict.failure:
        return await _keep_failed(draft, verdict.failure)
    record = await _record_of(draft, verdict)
    reason, present_positions = await _why_nothing_is_kept(draft, client)
    if reason:
        return await _drop(draft, reason)
    positions_read = [item.position for item in draft.shown_conversations]
    is_overtaken = present_positions != positions_read
    outcome = await _carry_out(draft, verdict, record, is_overtaken=is_overtaken)
    # Something may have been deleted since the first look.
    reason, _ = await _why_nothing_is_kept(draft, client)
    if reason:
        await _undo(draft, verdict, outcome)
        return await _drop(draft, reason)
    await _confirm_in_memory(draft, outcome.record)
    await keep_record(draft, outcome.record, outcome.positions)
    return outcome.record


async def _why_nothing_is_kept(draft: Draft, client: LangGraphClient) -> tuple[str, list[Position]]:
    """Why nothing of the batch may be kept, `ERASED` or `GONE`; "" if it may. And the present
    positions of its conversations.
    """
    gets = position_gets(draft.memory.actor, draft.thread_ids)
    deletions, items = await draft.since_it_began_and(gets)
    positions = positions_in(items)
    if deletions.fact and not draft.record.dry_run:
        return ERASED, positions
    if await draft.is_any_deleted(client.threads):
        return GONE, positions
    return "", positions


async def _confirm_in_memory(draft: Draft, record: Record) -> None:
    """Confirm what the person said of what memory has. The batch stands if that fails."""
    if record.status not in {"done", "proposed"}:
        return
    try:
        await confirm_lines_in_memory(draft)
    except ValueError as error:
        logger.warning("What a person said was not confirmed in memory: %r.", error)


async def _carry_out(
    draft: Draft, verdict: Verdict, record: Record, *, is_overtaken: bool
) -> _Outcome:
    """Do with the changes what the verdict says. Returns what was done; the record and the positions
    are not kept yet. `record` is that of a run that ends well.

    `is_overtaken`: another run has read one of the conversations meanwhile. A dry run changes
    nothing.
    """
    is_dry = draft.record.dry_run
    if verdict.problem:
        return _leave_due(draft, record, verdict)
    if is_overtaken and not is_dry:
        note_for_person = note("overtaken")
        overtaken_verdict = replace(verdict, problem=OVERTAKEN, notes=[note_for_person])
        return _leave_due(draft, record, overtaken_verdict)
    positions = Positions()
    for item in draft.shown_conversations:
        positions[item.thread_id] = item.advanced()
    if is_dry or not verdict.changes:
        return _Outcome(record, positions)
    if verdict.waits:
        proposal = _proposal(draft, verdict)
        record_of_proposal = await _propose(draft, proposal, record)
        return _Outcome(record_of_proposal, positions, proposal)
    record_of_changes = await _apply(draft, verdict, record)
    return _Outcome(record_of_changes, positions)


async def _record_of(draft: Draft, verdict: Verdict) -> Record:
    """The record of a run that ends well. Of a run that reads a text that was brought, it has
    numbers instead of reasons.
    """
    batch_changes = draft.with_earlier_parts(verdict.changes)
    files = await platform.in_thread(diffs, batch_changes)
    reason = f"Left out: {verdict.omission_sentences}" if verdict.omission_sentences else ""
    record = draft.record.ended(
        "done",
        reason,
        notes=[*verdict.notes],
        conversations=len(draft.shown_conversations),
        messages=draft.messages_shown,
        files=files,
    )
    reading = draft.reading
    if reading is None:
        return record
    # Nothing is kept of a text but what is proposed.
    record = replace(record, reason="", found=len(reading.part.entries))
    if verdict.problem:
        return record
    base_files = draft.base_files()
    facts = await platform.in_thread(facts_of, base_files)
    number_proposed = await platform.in_thread(
        reading.count_proposed, verdict.changes, facts, draft.rules
    )
    return replace(record, proposed=number_proposed)


async def _apply(draft: Draft, verdict: Verdict, record: Record) -> Record:
    """Change memory. Returns the record; if some files refused their changes, one that says so."""
    refusals = await draft.memory.apply(verdict.changes, draft.author, verdict.sources)
    if not refusals:
        return record
    applied_diffs = dict(record.files)
    reasons = list[str]()
    notes = list[Note]()
    for path, error in refusals.items():
        applied_diffs.pop(path, None)
        reason = f"{path}: {error}"
        reasons.append(reason)
        kind = getattr(error, "kind", "") or "refused"
        notes.append(note(kind))
    all_reasons = "; ".join(reasons)
    return record.ended("undone", f"Not applied: {all_reasons}", files=applied_diffs, notes=notes)


def _proposal(draft: Draft, verdict: Verdict) -> Proposal:
    """What a run proposes."""
    sources = dict[str, dict[str, Source]]()
    for path, sources_of_path in verdict.sources.items():
        sources[path] = dict(sources_of_path)
    return Proposal(
        id=f"{draft.record.run_id}-{now()}",
        at=now(),
        memory=draft.memory.files[-1],
        author=draft.author,
        changes=draft.with_earlier_parts(verdict.changes),
        threads=draft.thread_ids,
        kind=draft.record.kind,
        reasons=dict(draft.given_up_lines),
        sources=sources,
    )


async def _propose(draft: Draft, proposal: Proposal, record: Record) -> Record:
    """Keep a proposal. Returns the record; one of a run that changed nothing if that is refused."""
    try:
        if draft.reading:
            await draft.reading.propose(draft.memory, proposal)
        else:
            await draft.memory.propose(proposal)
    except RefusedWrite as error:  # a fact was deleted for good just now, or the person forgotten
        return record.ended("undone", str(error), proposed=0)
    return replace(record, status="proposed")


def _leave_due(draft: Draft, record: Record, verdict: Verdict) -> _Outcome:
    """What is done where the verdict has a problem: nothing. The conversations stay due, and come
    after others.
    """
    undone_record = draft.record.ended(
        "undone", verdict.problem, notes=[*verdict.notes], found=record.found
    )
    positions = Positions()
    for item in draft.shown_conversations:
        position = item.position
        number_undone = position.undone + 1
        positions[item.thread_id] = replace(position, undone=number_undone)
    return _Outcome(undone_record, positions)


async def _keep_failed(draft: Draft, failure: str) -> Record:
    """Keep the record of a batch to which the model gave no answer. Nothing changes, and its
    conversations stay due, after others.
    """
    logger.warning("Consolidation %s failed: %s", draft.record.run_id, failure)
    failed_record = draft.record.ended(
        "failed",
        failure,
        notes=[note("no_answer")],
        conversations=len(draft.shown_conversations),
        messages=draft.messages_shown,
        found=len(draft.reading.part.entries) if draft.reading else 0,
    )
    memory = draft.memory
    gets = position_gets(memory.actor, draft.thread_ids)
    items = await memory.store.abatch(gets)
    present_positions = positions_in(items)
    positions = Positions()
    for item, position in zip(draft.shown_conversations, present_positions, strict=True):
        if position != item.position:  # another run of this person has read it meanwhile
            continue
        number_failed = position.failed + 1
        positions[item.thread_id] = replace(position, failed=number_failed)
    await keep_record(draft, failed_record, positions)
    return failed_record


async def _undo(draft: Draft, verdict: Verdict, outcome: _Outcome) -> None:
    """Undo what was carried out."""
    memory = draft.memory
    if outcome.proposal:
        place = namespaces.proposals(memory.actor)
        await memory.store.adelete(place, outcome.proposal.id)
    if draft.record.dry_run:
        return
    run_id = draft.record.run_id
    for change in verdict.changes:
        await journal.withdraw_run(memory.store, memory.files, change.key, run_id)


async def _drop(draft: Draft, reason: str) -> Record:
    """Leave everything as it was, and have another run read the conversations that are left. Returns
    the run's record, which is kept. `reason` is `ERASED` or `GONE`.
    """
    draft.is_more_due = True
    note_for_person = note("conversation_deleted")
    if reason == ERASED:
        note_for_person = note("fact_deleted")
    dropped_record = draft.record.ended("undone", reason, notes=[note_for_person])
    await keep_record(draft, dropped_record, quotes_facts=False)
    return dropped_record
