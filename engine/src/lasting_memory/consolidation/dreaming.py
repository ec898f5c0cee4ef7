"""A run of a dream: it reads the next batch of all of a person's conversations into the draft of
`dreams.py`, alone, and at the end proposes what the draft would change of today's memory.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

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
from lasting_memory.consolidation.judging import Verdict
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.no_batch import NO_DREAM, NothingToDoError
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.consolidation.taken_back import returning
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.proposals import (
    MAX_PROPOSALS,
    Proposal,
    diffs,
    files_in,
    proposals_in,
    texts,
)
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author
from lasting_memory.recall import owned_by, threads_by_id

logger = logging.getLogger(__name__)

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
    dream = stored.dream if memory.deployment.has_dream else None
    if dream is None or dream.status != "reading" or dream.memory != memory.files[-1]:
        raise NothingToDoError(NO_DREAM)
    there = await dreams.readable(memory.deployment, client.threads, draft.owner)
    stored = await _without_deleted(draft, stored, dream, there)
    mine = DreamDraft(stored, dream, there)
    draft.dream = mine
    draft.base = mine.files()
    if dream.tokens < dream.cap:
        await _choose_conversations(draft, mine, marks, client)
    if not draft.shown:
        raise NothingToDoError(await _finish(draft, mine, client))


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
    all_files = {**stored.files, **files}
    all_threads = {**stored.threads, **threads}
    return Stored(
        stored.dream,
        {key: file for key, file in all_files.items() if file is not None},
        {key: thread for key, thread in all_threads.items() if thread is not None},
    )


async def _choose_conversations(
    draft: Draft, mine: DreamDraft, marks: Marks, client: LangGraphClient
) -> None:
    """The oldest conversations that fit, of which something is not read."""
    memory = draft.memory
    rules = draft.rules
    kept_out = await kept_out_in(marks.kept_out, client.runs)
    unread = [*mine.unread().items()]
    while unread and not draft.shown:
        some = dict(unread[:MOST_SHOWN])
        unread = unread[MOST_SHOWN:]
        due, old = await dreams.unread_turns(
            memory.deployment, client.threads, draft.owner, some, kept_out
        )
        mine.old |= old
        draft.shown = await platform.in_thread(batch, due, rules.batch_tokens)


async def _put(
    draft: Draft,
    dream: Dream,
    files: Mapping[str, dreams.DraftFile | None],
    threads: Mapping[str, ReadThread | None],
) -> None:
    """Raises `NothingToDoError` where the dream is over by now."""
    memory = draft.memory
    puts = dreams.ops(memory.actor, dream, files, threads)
    if not await dreams.put(memory.store, memory.actor, dream, puts, memory.began):
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
    spent = tokens_spent(draft.record, draft.text)
    dream = replace(mine.dream, tokens=mine.dream.tokens + spent)
    if verdict.problem.startswith(PAUSED):
        await _put(draft, dream, {}, {})
        await pause(draft)
        raise NothingToDoError(verdict.problem)
    if await _is_any_gone(draft, client):  # the next run drops what came of them
        await _put(draft, dream, {}, {})
        return _logged(draft.record.ended("undone", "One of its conversations was deleted."))
    if verdict.failure or verdict.problem:
        return await _set_back(draft, mine, dream, verdict)
    ids = [item.conversation.thread_id for item in draft.shown]
    files, replaced = await platform.in_thread(
        dreams.after_batch, mine.stored, verdict.changed, verdict.sources, ids
    )
    threads = _read_before(mine)
    for item in draft.shown:
        threads[item.conversation.thread_id] = ReadThread(item.advanced(), sorted(replaced))
    mine.stored = _with(mine.stored, files, threads)
    dream = replace(dream, failures=0, messages=dream.messages + draft.messages_shown)
    await _put(draft, mine.counted(dream), files, threads)
    return _logged(
        draft.record.ended("done", conversations=len(draft.shown), messages=draft.messages_shown)
    )


def tokens_spent(record: Record, text: str) -> int:
    """The tokens of a run that read this text; where its provider counts none, about so many as an
    estimate counts: without that no cap would ever be reached.
    """
    counted = record.input_tokens + record.output_tokens
    if counted:
        return counted
    return record.model_calls * (CALL_TOKENS + len(text) // CHARS_PER_TOKEN)


def _read_before(mine: DreamDraft) -> dict[str, ReadThread | None]:
    """The conversations that have nothing new, to be kept with what they replaced before."""
    threads = dict[str, ReadThread | None]()
    for thread_id, position in mine.old.items():
        known = mine.stored.threads.get(thread_id) or ReadThread()
        threads[thread_id] = replace(known, position=position)
    return threads


async def _set_back(draft: Draft, mine: DreamDraft, dream: Dream, verdict: Verdict) -> Record:
    """Leave the batch's conversations for later, after others. Where no answer comes again and
    again, the dream waits for its person.
    """
    threads = _read_before(mine)
    for item in draft.shown:
        thread_id = item.conversation.thread_id
        known = mine.stored.threads.get(thread_id) or ReadThread()
        position = item.position
        if verdict.failure:
            position = replace(position, failed=position.failed + 1)
        else:
            position = replace(position, undone=position.undone + 1)
        threads[thread_id] = replace(known, position=position)
    if verdict.failure:
        dream = _failed(dream)
    mine.stored = _with(mine.stored, {}, threads)
    await _put(draft, mine.counted(dream), {}, threads)
    status = "failed" if verdict.failure else "undone"
    return _logged(draft.record.ended(status, verdict.failure or verdict.problem))


def _failed(dream: Dream) -> Dream:
    """A dream of which one more run failed."""
    failures = dream.failures + 1
    if failures < _MOST_FAILURES:
        return replace(dream, failures=failures)
    return replace(dream, failures=failures, status="failed", reason="no_answer")


def _logged(record: Record) -> Record:
    record.log()
    return record


async def _is_any_gone(draft: Draft, client: LangGraphClient) -> bool:
    """Whether a conversation of the batch was deleted since it was read."""
    created = {item.conversation.thread_id: item.conversation.created_at for item in draft.shown}
    owned = owned_by(draft.owner.actor, draft.memory.deployment.agents)
    found = await threads_by_id(client.threads, [*created], owned, ["thread_id", "created_at"])
    now = {str(thread["thread_id"]): str(thread["created_at"]) for thread in found}
    return now != created


async def plan_next(draft: Draft, client: LangGraphClient, seconds: int = 0) -> None:
    """Plan the dream's next run, unless it waits for its person."""
    memory = draft.memory
    dream = await dreams.dream_of(memory.store, memory.actor)
    if dream is None or dream.status != "reading":
        return
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
    memory = draft.memory
    dream = await dreams.dream_of(memory.store, memory.actor)
    if dream is not None and dream.status == "reading":
        waiting = replace(dream, status="paused", reason=reason)
        puts = dreams.ops(memory.actor, waiting)
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
    memory = draft.memory
    dream = await dreams.dream_of(memory.store, memory.actor)
    if dream is None or dream.status != "reading":
        return
    spent = tokens_spent(draft.record, draft.text)
    dream = _failed(replace(dream, tokens=dream.tokens + spent))
    puts = dreams.ops(memory.actor, dream)
    await dreams.put(memory.store, memory.actor, dream, puts, memory.began)
    await plan_next(draft, client, _AFTER_FAILURE)


# --- Propose


async def _finish(draft: Draft, mine: DreamDraft, client: LangGraphClient) -> str:
    """Propose what the draft would change of today's memory. Returns the run's answer."""
    memory = draft.memory
    capped = bool(mine.unread()) and mine.dream.tokens >= mine.dream.cap
    threads = _read_before(mine)
    mine.stored = _with(mine.stored, {}, threads)
    dream = mine.counted(mine.dream)
    await _put(draft, dream, {}, threads)
    files, revisions, dropped, proposals = await journal.all_items_of(
        memory.store,
        [
            memory.files,
            namespaces.journals(memory.files),
            namespaces.taken_back(memory.files),
            namespaces.proposals(memory.actor),
        ],
    )
    known = memory.own_proposals(await proposals_in(proposals))
    older = [each for each in known if each.kind == "dream" and each.changes]
    waiting = [each for each in known if each.changes and each.kind != "dream"]
    if len(waiting) >= MAX_PROPOSALS:
        await pause(draft, "undecided")
        raise NothingToDoError(NO_DREAM)
    present = await platform.in_thread(files_in, files)
    limits = memory.deployment.limits
    histories = dict(await platform.in_thread(journal.histories_in, revisions, limits))
    result = await platform.in_thread(
        result_of,
        present,
        histories,
        mine.stored.files,
        read=mine.read_whole(),
        over=draft.over,
        rules=draft.rules,
    )
    # What was taken back earlier, every batch has left out, unless it was said again later.
    taken = await draft.taken_back(known, revisions, dropped)
    late = {key: line for key, line in taken.items() if line.at >= dream.began}
    findings = await platform.in_thread(
        returning, result.changed, texts(present), late, (), draft.rules
    )
    result = result._replace(
        changed=await platform.in_thread(guard.without, result.changed, findings)
    )
    reason: Reason = "cap" if capped else ""
    is_known = any(each.id.startswith(dream.proposal_id) for each in known)
    if not result.changed and not is_known:
        over = replace(dream, status="ended", reason=reason or "same")
        await _end(draft, over, draft.record.ended("done"))
        return SAME
    if not is_known and not await _propose(draft, dream, result, [each.id for each in older]):
        await _end_refused(draft, dream)
        return NO_DREAM
    now = await dreams.readable(memory.deployment, client.threads, draft.owner)
    # Whoever deletes one notes that first, then looks whether a proposal has something of it.
    going = await journal.deleted_since(memory.store, memory.actor, draft.record.started_at)
    there = now.keys() - going
    if mine.stored.threads.keys() - there:  # deleted since: what came of it is not proposed
        await memory.store.adelete(namespaces.proposals(memory.actor), dream.proposal_id)
        await plan_next(draft, client)
        return NO_DREAM
    over = replace(dream, status="proposed", reason=reason)
    await _end(draft, over, await _record(draft, dream, result))
    return CAPPED if capped else DONE


async def _propose(draft: Draft, dream: Dream, result: Result, older: list[str]) -> bool:
    """Propose it in place of undecided ones of earlier dreams. Returns whether memory takes it."""
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
    try:
        await memory.check(result.changed, author, sources=result.sources)
        await memory.propose_instead(proposal, older)
    except RefusedWrite as error:
        logger.warning("What a dream would change was not proposed: %s", error)
        return False
    if await dreams.is_going_on(memory.store, memory.actor, dream):
        return True
    # Its person stopped it while it was proposed.
    await memory.store.adelete(namespaces.proposals(memory.actor), dream.proposal_id)
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
    memory = draft.memory
    await draft.keep(replace(record, conversations=dream.read, messages=dream.messages))
    await dreams.drop_draft(memory.store, memory.actor, dream, memory.began)
