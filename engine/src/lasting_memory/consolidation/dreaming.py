"""A run of a dream: it reads the next batch of all of a person's conversations into the draft of
`dreams.py`, alone, and at the end proposes what the draft would change of today's memory.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import dreams, guard
from lasting_memory.consolidation.batch import CHARS_PER_TOKEN, batch
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_result import Result, result_of
from lasting_memory.consolidation.dreams import (
    CALL_TOKENS,
    MOST_SHOWN,
    Dream,
    DreamDraft,
    ReadThread,
    Reason,
    Stored,
)
from lasting_memory.consolidation.due import Marks
from lasting_memory.consolidation.facts import Key
from lasting_memory.consolidation.judging import Verdict
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.no_batch import NO_DREAM, NothingToDoError
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.consolidation.stored_memory import StoredMemory, read_stored_memory
from lasting_memory.consolidation.taken_back import Dated, returning
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.proposals import (
    MAX_PROPOSALS,
    Proposal,
    diffs,
    files_in,
    texts,
)
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author

logger = logging.getLogger(__name__)

_Value = TypeVar("_Value")

# Runs that fail one after another, after which it waits for its person; and seconds before one is
# tried again.
_MOST_FAILURES = 3
_AFTER_FAILURE = 300
DONE = "All conversations were read again; what would change is proposed."
SAME = "All conversations were read again; nothing would change."
CAPPED = "The agreed number of tokens is used; what would change by then is proposed."


# --- Read


async def choose(draft: Draft, marks: Marks, client: LangGraphClient) -> None:
    """Fill a draft with the next batch of its person's dream.

    Raises `NothingToDoError` where there is no dream to go on with, or it ended with this.
    """
    memory = draft.memory
    stored = await dreams.stored_dream(memory.store, memory.actor)
    dream = stored.dream if draft.deployment.has_dream else None
    if dream is None or dream.status != "reading":
        raise NothingToDoError(NO_DREAM)
    name = memory.files[-1]
    if dream.memory != name:
        raise NothingToDoError(NO_DREAM)
    there = await dreams.readable(draft.deployment, client.threads, draft.owner)
    stored = await _without_deleted(draft, stored, dream, there)
    mine = DreamDraft(stored, dream, there)
    draft.dream = mine
    draft.base = mine.files()
    if dream.tokens < dream.cap:
        await _choose_conversations(draft, mine, marks, client)
    if not draft.shown:
        answer = await _finish(draft, mine, client)
        raise NothingToDoError(answer)


async def _without_deleted(
    draft: Draft, stored: Stored, dream: Dream, there: Mapping[str, str]
) -> Stored:
    """The dream without what came of conversations that were deleted, or marked, since they were
    read.
    """
    gone = stored.threads.keys() - there.keys()
    if not gone:
        return stored
    files, threads = await platform.in_thread(dreams.without_threads, stored, gone)
    await _put(draft, dream, files, threads)
    return _with(stored, files, threads)


def _with(
    stored: Stored,
    files: Mapping[str, dreams.DraftFile | None],
    threads: Mapping[str, ReadThread | None],
) -> Stored:
    """What is stored once these files and conversations are put; None deletes one."""
    present_files = _present({**stored.files, **files})
    present_threads = _present({**stored.threads, **threads})
    return Stored(stored.dream, present_files, present_threads)


def _present(values: Mapping[str, _Value | None]) -> dict[str, _Value]:
    present = dict[str, _Value]()
    for key, value in values.items():
        if value is not None:
            present[key] = value
    return present


async def _choose_conversations(
    draft: Draft, mine: DreamDraft, marks: Marks, client: LangGraphClient
) -> None:
    """The oldest conversations that fit, of which something is not read."""
    deployment = draft.deployment
    max_tokens = draft.rules.batch_tokens
    kept_out = await kept_out_in(marks.kept_out, client.runs)
    unread = list(mine.unread().items())
    while unread and not draft.shown:
        some = dict(unread[:MOST_SHOWN])
        unread = unread[MOST_SHOWN:]
        due, old = await dreams.unread_turns(
            deployment, client.threads, draft.owner, some, kept_out
        )
        mine.old |= old
        draft.shown = await platform.in_thread(batch, due, max_tokens)


async def _put(
    draft: Draft,
    dream: Dream,
    files: Mapping[str, dreams.DraftFile | None],
    threads: Mapping[str, ReadThread | None],
) -> None:
    """Raises `NothingToDoError` where the dream is over by now."""
    memory = draft.memory
    puts = dreams.ops(memory.actor, dream, files, threads)
    is_put = await dreams.put(memory.store, memory.actor, dream, puts, memory.began)
    if not is_put:
        raise NothingToDoError(NO_DREAM)


# --- Keep


async def keep_batch(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Put what a run made of a batch into the dream's draft, and how far its conversations are
    read, in one step. Returns the run's record, which is logged.

    Raises `NothingToDoError` where the dream is over by now. Today's memory and what is new in it
    are left alone.
    """
    mine = draft.dream
    assert mine is not None  # noqa: S101  # `choose` set it
    dream = _with_tokens(mine.dream, draft)
    if verdict.problem.startswith(PAUSED):
        await _put(draft, dream, {}, {})
        await pause(draft)
        raise NothingToDoError(verdict.problem)
    if await draft.is_any_deleted(client.threads):  # the next run drops what came of them
        await _put(draft, dream, {}, {})
        record = draft.record.ended("undone", "One of its conversations was deleted.")
    elif verdict.failure or verdict.problem:
        record = await _set_back(draft, mine, dream, verdict)
    else:
        record = await _add_batch(draft, mine, dream, verdict)
    record.log()
    return record


async def _add_batch(draft: Draft, mine: DreamDraft, dream: Dream, verdict: Verdict) -> Record:
    """Put what a batch changes into the dream's draft. Returns the run's record."""
    said = dict[str, str]()
    for item in draft.shown:
        said[item.thread_id] = "\n".join(turn.text for turn in item.conversation.turns)
    spoken = await platform.in_thread(dreams.Spoken, said)
    files, replaced = await platform.in_thread(
        dreams.after_batch, mine.stored, verdict.changed, verdict.sources, spoken
    )
    replaced_in_order = sorted(replaced.difference(said))
    threads = _read_before(mine)
    for item in draft.shown:
        thread_id = item.thread_id
        position = item.advanced()
        threads[thread_id] = ReadThread(position, replaced_in_order)
    mine.stored = _with(mine.stored, files, threads)
    messages = draft.messages_shown
    all_messages = dream.messages + messages
    further = replace(dream, failures=0, messages=all_messages)
    counted = mine.counted(further)
    await _put(draft, counted, files, threads)
    conversations = len(draft.shown)
    return draft.record.ended("done", conversations=conversations, messages=messages)


def _with_tokens(dream: Dream, draft: Draft) -> Dream:
    """A dream with the tokens that its run used."""
    spent = tokens_spent(draft.record, draft.text)
    return replace(dream, tokens=dream.tokens + spent)


def tokens_spent(record: Record, text: str) -> int:
    """The tokens of a run that read this text; where its provider counts none, about so many as an
    estimate counts: without that no cap would ever be reached.
    """
    counted = record.input_tokens + record.output_tokens
    if counted:
        return counted
    text_tokens = len(text) // CHARS_PER_TOKEN
    tokens_of_call = CALL_TOKENS + text_tokens
    return record.model_calls * tokens_of_call


def _read_before(mine: DreamDraft) -> dict[str, ReadThread | None]:
    """The conversations that have nothing new, to be kept with what they replaced before."""
    threads = dict[str, ReadThread | None]()
    for thread_id, position in mine.old.items():
        known = mine.stored.thread(thread_id)
        threads[thread_id] = replace(known, position=position)
    return threads


async def _set_back(draft: Draft, mine: DreamDraft, dream: Dream, verdict: Verdict) -> Record:
    """Leave the batch's conversations for later, after others. Where no answer comes again and
    again, the dream waits for its person.
    """
    threads = _read_before(mine)
    for item in draft.shown:
        thread_id = item.thread_id
        known = mine.stored.thread(thread_id)
        position = item.position
        if verdict.failure:
            position = replace(position, failed=position.failed + 1)
        else:
            position = replace(position, undone=position.undone + 1)
        threads[thread_id] = replace(known, position=position)
    if verdict.failure:
        dream = _failed(dream)
    mine.stored = _with(mine.stored, {}, threads)
    counted = mine.counted(dream)
    await _put(draft, counted, {}, threads)
    if verdict.failure:
        return draft.record.ended("failed", verdict.failure)
    return draft.record.ended("undone", verdict.problem)


def _failed(dream: Dream) -> Dream:
    """A dream of which one more run failed."""
    failures = dream.failures + 1
    if failures < _MOST_FAILURES:
        return replace(dream, failures=failures)
    return replace(dream, failures=failures, status="failed", reason="no_answer")


async def plan_next(draft: Draft, client: LangGraphClient, seconds: int = 0) -> None:
    """Plan the dream's next run, unless it waits for its person."""
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    memory = draft.memory
    await start(
        draft.owner,
        client,
        Trigger.DREAM,
        seconds,
        inside=True,
        store=memory.store,
        began=memory.began,
    )


async def pause(draft: Draft, reason: Reason = "paused") -> None:
    """Have the dream of a run wait until its person goes on with it."""
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    waiting = replace(dream, status="paused", reason=reason)
    await _put_state(draft, dream, waiting)


async def _dream_that_reads(draft: Draft) -> Dream | None:
    """The person's dream as it is now; None if it waits for them, or is over."""
    memory = draft.memory
    dream = await dreams.dream_of(memory.store, memory.actor)
    if dream is None or dream.status != "reading":
        return None
    return dream


async def _put_state(draft: Draft, dream: Dream, new: Dream) -> None:
    """Put how far a dream is, unless it is over by now."""
    memory = draft.memory
    puts = dreams.ops(memory.actor, new)
    await dreams.put(memory.store, memory.actor, dream, puts, memory.began)


@asynccontextmanager
async def failures_counted(draft: Draft, client: LangGraphClient) -> AsyncIterator[None]:
    """Has a dream go on after an error of one of its runs, a few times."""
    try:
        yield
    except NothingToDoError:
        raise
    except Exception:
        if draft.record.kind == "dream":
            await platform.to_the_end(_note_failure(draft, client))
        raise


async def _note_failure(draft: Draft, client: LangGraphClient) -> None:
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    failed = _failed(_with_tokens(dream, draft))
    await _put_state(draft, failed, failed)
    await plan_next(draft, client, _AFTER_FAILURE)


# --- Propose


async def _finish(draft: Draft, mine: DreamDraft, client: LangGraphClient) -> str:
    """Propose what the draft would change of today's memory. Returns the run's answer."""
    dream = mine.dream
    is_anything_left = bool(mine.unread())
    capped = is_anything_left and dream.tokens >= dream.cap
    dream = await _put_counted(draft, mine)
    stored = await read_stored_memory(draft.memory)
    known = stored.proposals
    await _check_room(draft, known)
    result = await _result(draft, mine, stored)
    reason: Reason = "cap" if capped else ""
    is_proposed = any(each.id.startswith(dream.proposal_id) for each in known)
    if not result.changed and not is_proposed:
        same = replace(dream, status="ended", reason=reason or "same")
        record = draft.record.ended("done")
        await _end(draft, same, record)
        return SAME
    if not is_proposed:
        is_proposed = await _propose(draft, dream, result, known)
    if not is_proposed:
        await _end_refused(draft, dream)
        return NO_DREAM
    if await _is_any_deleted(draft, mine, client):  # what came of it is not proposed
        await _withdraw(draft, dream)
        await plan_next(draft, client)
        return NO_DREAM
    over = replace(dream, status="proposed", reason=reason)
    record = await _record(draft, dream, result)
    await _end(draft, over, record)
    return CAPPED if capped else DONE


async def _is_any_deleted(draft: Draft, mine: DreamDraft, client: LangGraphClient) -> bool:
    """Whether a conversation that the dream has read was deleted, or marked, since then."""
    memory = draft.memory
    readable = await dreams.readable(draft.deployment, client.threads, draft.owner)
    # Whoever deletes one notes that first, then looks whether a proposal has something of it.
    began = draft.record.started_at
    deleted = await journal.deleted_since(memory.store, memory.actor, began)
    there = readable.keys() - deleted
    gone = mine.stored.threads.keys() - there
    return bool(gone)


async def _put_counted(draft: Draft, mine: DreamDraft) -> Dream:
    """Put the dream with the conversations that have nothing new. Returns it."""
    threads = _read_before(mine)
    mine.stored = _with(mine.stored, {}, threads)
    dream = mine.counted(mine.dream)
    await _put(draft, dream, {}, threads)
    return dream


async def _check_room(draft: Draft, known: Sequence[Proposal]) -> None:
    """Raises `NothingToDoError` where its person has too many undecided proposals: it waits."""
    waiting = list[Proposal]()
    for proposal in known:
        if proposal.changes and proposal.kind != "dream":
            waiting.append(proposal)
    if len(waiting) >= MAX_PROPOSALS:
        await pause(draft, "undecided")
        raise NothingToDoError(NO_DREAM)


async def _result(draft: Draft, mine: DreamDraft, stored: StoredMemory) -> Result:
    """What the draft would change of today's memory, without what was taken back meanwhile."""
    present = await platform.in_thread(files_in, stored.files)
    limits = draft.deployment.limits
    histories = await platform.in_thread(journal.histories_in, stored.revisions, limits)
    result = await platform.in_thread(
        result_of,
        present,
        dict(histories),
        mine.stored.files,
        read=mine.read_whole(),
        expired=draft.expired,
        rules=draft.rules,
    )
    # What was taken back earlier, every batch has left out, unless it was said again later.
    late = dict[Key, Dated]()
    taken = await draft.taken_back(stored)
    for key, line in taken.items():
        if line.at >= mine.dream.began:
            late[key] = line
    now = texts(present)
    findings = await platform.in_thread(returning, result.changed, now, late, (), draft.rules)
    changed = await platform.in_thread(guard.without, result.changed, findings)
    return result._replace(changed=changed)


async def _withdraw(draft: Draft, dream: Dream) -> None:
    """Delete a dream's proposal."""
    memory = draft.memory
    place = namespaces.proposals(memory.actor)
    await memory.store.adelete(place, dream.proposal_id)


async def _propose(draft: Draft, dream: Dream, result: Result, known: Sequence[Proposal]) -> bool:
    """Propose it in place of undecided ones of earlier dreams. Returns whether memory takes it.

    `known` are the memory's proposals.
    """
    memory = draft.memory
    author = Author("consolidation", draft.owner.actor.user_id, dream.proposal_id)
    proposal = Proposal(
        id=dream.proposal_id,
        at=draft.record.started_at,
        memory=memory.files[-1],
        author=author,
        changes=result.changed,
        threads=result.threads,
        kind="dream",
        reasons=result.reasons,
        sources=result.sources,
        origins=result.origins,
    )
    older = [each.id for each in known if each.kind == "dream" and each.changes]
    try:
        await memory.check(result.changed, author, sources=result.sources)
        await memory.propose_instead(proposal, older)
    except RefusedWrite as error:
        logger.warning("What a dream would change was not proposed: %s", error)
        return False
    if await dreams.is_going_on(memory.store, memory.actor, dream):
        return True
    # Its person stopped it while it was proposed.
    await _withdraw(draft, dream)
    raise NothingToDoError(NO_DREAM)


async def _end_refused(draft: Draft, dream: Dream) -> None:
    """Keep the draft, for the person to make room and go on."""
    refused = replace(dream, status="failed", reason="refused")
    await _put(draft, refused, {}, {})


async def _record(draft: Draft, dream: Dream, result: Result) -> Record:
    """The record of all runs of the dream."""
    files = await platform.in_thread(diffs, result.changed)
    ended = draft.record.ended("proposed", files=files)
    return replace(
        ended,
        run_id=dream.proposal_id,
        started_at=dream.began,
        conversations=dream.read,
        messages=dream.messages,
        input_tokens=dream.tokens,
    )


async def _end(draft: Draft, dream: Dream, record: Record) -> None:
    """Keep the record, and of the dream no draft any more."""
    of_all_runs = replace(record, conversations=dream.read, messages=dream.messages)
    await draft.keep(of_all_runs)
    memory = draft.memory
    await dreams.drop_draft(memory.store, memory.actor, dream, memory.began)
