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
from lasting_memory.consolidation.sources import raise_what_was_said
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Proposal, diffs
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.recall import owned_by, threads_by_id

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
    is_overtaken = positions != [item.position for item in draft.shown]
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
        await raise_what_was_said(draft)
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
        return await _undone(
            draft, record, replace(verdict, problem=OVERTAKEN, notes=[note("overtaken")])
        )
    positions = {item.conversation.thread_id: item.advanced() for item in draft.shown}
    if is_dry or not verdict.changed:
        return _Outcome(record, positions)
    if verdict.waits:
        proposal = _proposal(draft, verdict)
        return _Outcome(await _propose(draft, proposal, record), positions, proposal)
    return _Outcome(await _apply(draft, verdict, record), positions)


async def _record_of(draft: Draft, verdict: Verdict) -> Record:
    """The record of a run that ends well."""
    files = await platform.in_thread(diffs, draft.with_earlier_parts(verdict.changed))
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
    # Nothing is kept of a text but what is proposed.
    record = replace(record, reason="", found=len(draft.reading.part.entries))
    if verdict.problem:
        return record
    memory = await platform.in_thread(facts_of, draft.base_files())
    proposed = await platform.in_thread(
        draft.reading.count_proposed, verdict.changed, memory, draft.rules
    )
    return replace(record, proposed=proposed)


# --- Applied or proposed


async def _apply(draft: Draft, verdict: Verdict, record: Record) -> Record:
    """Change memory. Returns the record, which says what could not be applied."""
    refused = await draft.memory.apply(verdict.changed, draft.author, verdict.sources)
    if not refused:
        return record
    applied = {path: diff for path, diff in record.files.items() if path not in refused}
    reasons = list[str]()
    notes = list[Note]()
    for path, error in refused.items():
        reasons.append(f"{path}: {error}")
        notes.append(note(getattr(error, "kind", "") or "refused"))
    reason = "; ".join(reasons)
    return record.ended("undone", f"Not applied: {reason}", files=applied, notes=notes)


def _proposal(draft: Draft, verdict: Verdict) -> Proposal:
    return Proposal(
        id=f"{draft.record.run_id}-{now()}",
        at=now(),
        memory=draft.memory.files[-1],
        author=draft.author,
        changes=draft.with_earlier_parts(verdict.changed),
        threads=_thread_ids(draft),
        kind=draft.record.kind,
        reasons=dict(draft.given_up),
        sources={path: dict(by_entry) for path, by_entry in verdict.sources.items()},
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
    undone = draft.record.ended(
        "undone", verdict.problem, notes=[*verdict.notes], found=record.found
    )
    positions = dict[str, Position]()
    for item in draft.shown:
        positions[item.conversation.thread_id] = replace(
            item.position, undone=item.position.undone + 1
        )
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
    gets = position_gets(draft.memory.actor, _thread_ids(draft))
    present = positions_in(await draft.memory.store.abatch(gets))
    positions = dict[str, Position]()
    for item, position in zip(draft.shown, present, strict=True):
        if position == item.position:  # another run of this person may have been faster
            positions[item.conversation.thread_id] = replace(position, failed=position.failed + 1)
    await draft.keep(failed, positions)
    return failed


async def _look(draft: Draft, client: LangGraphClient) -> tuple[str, list[Position]]:
    """Why nothing of the batch may be kept, or "", and the present positions of its conversations."""
    memory = draft.memory
    marks = journal.ended_ops(memory.began)
    gets = position_gets(memory.actor, _thread_ids(draft))
    items = await memory.store.abatch([*marks, *gets])
    since = journal.ended_in(items[: len(marks)], memory.began)
    positions = positions_in(items[len(marks) :])
    if since.fact and not draft.record.dry_run:
        return ERASED, positions
    return await _why_gone(draft, client), positions


async def _why_gone(draft: Draft, client: LangGraphClient) -> str:
    """Why no conversation of the batch may be kept, or "": one was deleted since it was read, also
    where another one has its id now.
    """
    created_when_read = dict[str, str]()
    for item in draft.shown:
        created_when_read[item.conversation.thread_id] = item.conversation.created_at
    if not created_when_read:
        return ""
    owned = owned_by(draft.owner.actor, draft.memory.deployment.agents)
    threads = await threads_by_id(
        client.threads, [*created_when_read], owned, ["thread_id", "created_at"]
    )
    created = {str(thread["thread_id"]): str(thread["created_at"]) for thread in threads}
    return "" if created == created_when_read else GONE


def _thread_ids(draft: Draft) -> list[str]:
    """The ids of the batch's conversations."""
    return [item.conversation.thread_id for item in draft.shown]


async def _take_back(draft: Draft, verdict: Verdict, outcome: _Outcome) -> None:
    """Undo what was carried out."""
    memory = draft.memory
    if outcome.proposal:
        await memory.store.adelete(namespaces.proposals(memory.actor), outcome.proposal.id)
    if draft.record.dry_run:
        return
    for change in verdict.changed:
        await journal.take_back(memory.store, memory.files, change.key, draft.record.run_id)


async def _drop(draft: Draft, reason: str) -> Record:
    """Leave everything as it was; the next run reads the conversations that are left."""
    draft.more = True
    kind = "fact_deleted" if reason == ERASED else "conversation_deleted"
    dropped = draft.record.ended("undone", reason, notes=[note(kind)])
    await draft.keep(dropped, quotes_facts=False)
    return dropped
