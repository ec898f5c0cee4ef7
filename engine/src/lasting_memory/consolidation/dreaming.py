"""What a run of a dream does: it has the model read the next batch of the person's conversations,
and keeps what it makes of them in the dream's files. Where nothing is left to read, it proposes what
these files would change of today's memory.

What one run works on is its `Draft` (`drafts.py`), with a copy of the dream's files. What all runs
of the dream work on is in the store (`dreams.py`), and is here a `LoadedDream`.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.batch import CHARS_PER_TOKEN, batch
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_files import Spoken, after_batch, without_threads
from lasting_memory.consolidation.dream_result import Result, result_of
from lasting_memory.consolidation.dream_threads import (
    CALL_TOKENS,
    MOST_SHOWN,
    LoadedDream,
    readable,
    unread_turns,
)
from lasting_memory.consolidation.dreams import (
    Dream,
    DreamStore,
    DreamUpdate,
    ReadThread,
    Reason,
    StoredDream,
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

# Runs that fail one after another, after which a dream waits for its person.
_MOST_FAILURES = 3
# Seconds before a run is tried again that failed.
_AFTER_FAILURE = 300
# Answers of the last run.
DONE = "All conversations were read again; what would change is proposed."
SAME = "All conversations were read again; nothing would change."
CAPPED = "The agreed number of tokens is used; what would change by then is proposed."


# --- Read


async def choose(draft: Draft, marks: Marks, client: LangGraphClient) -> None:
    """Fill a run's draft with the next batch of the dream, and with the dream's files. If nothing is
    left to read, or the tokens are used, it proposes what the dream would change, and ends it.

    Raises `NothingToDoError`, with the run's answer, where there is no dream to go on with, or
    nothing more to read.
    """
    if not draft.deployment.has_dream:
        raise NothingToDoError(NO_DREAM)
    stored = await _dream_store(draft).read()
    dream = stored.dream
    if dream is None or dream.status != "reading":
        raise NothingToDoError(NO_DREAM)
    memory_name = draft.memory.files[-1]
    if dream.memory != memory_name:
        raise NothingToDoError(NO_DREAM)
    changed_at = await readable(draft.deployment, client.threads, draft.owner)
    stored = await _without_deleted(draft, stored, dream, changed_at)
    loaded = LoadedDream(stored, dream, changed_at)
    draft.dream = loaded
    draft.base = loaded.files()
    if dream.tokens < dream.cap:
        await _choose_conversations(draft, loaded, marks, client)
    if not draft.shown:
        answer = await _finish(draft, loaded, client)
        raise NothingToDoError(answer)


async def _without_deleted(
    draft: Draft, stored: StoredDream, dream: Dream, changed_at: Mapping[str, str]
) -> StoredDream:
    """The dream without what came of conversations that were deleted, or marked, since they were
    read: those that are not in `changed_at`. The store has it so, too.
    """
    deleted_ids = stored.threads.keys() - changed_at.keys()
    if not deleted_ids:
        return stored
    update = await platform.in_thread(without_threads, stored, deleted_ids)
    await _put(draft, dream, update)
    return stored.updated(update)


async def _choose_conversations(
    draft: Draft, loaded: LoadedDream, marks: Marks, client: LangGraphClient
) -> None:
    """Show the run the oldest conversations that fit, of which something is unread; none if nothing
    is.
    """
    kept_out = await kept_out_in(marks.kept_out, client.runs)
    unread = list(loaded.unread().items())
    while unread and not draft.shown:
        positions = dict(unread[:MOST_SHOWN])
        unread = unread[MOST_SHOWN:]
        new_turns = await unread_turns(
            draft.deployment, client.threads, draft.owner, positions, kept_out
        )
        loaded.without_new_turns.update(new_turns.without_new_turns)
        max_tokens = draft.rules.batch_tokens
        draft.shown = await platform.in_thread(batch, new_turns.due, max_tokens)


async def _put(draft: Draft, dream: Dream, update: DreamUpdate) -> None:
    """Store how far a dream is, with an update of it. Raises `NothingToDoError` where it is over by
    now.
    """
    is_put = await _dream_store(draft).put_progress(dream, update)
    if not is_put:
        raise NothingToDoError(NO_DREAM)


def _dream_store(draft: Draft) -> DreamStore:
    """The store of the dream of the run's person."""
    memory = draft.memory
    return DreamStore(memory.store, memory.actor, memory.began)


# --- Keep


async def keep_batch(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Put what a run made of a batch into the dream's files, and how far its conversations are read,
    in one step. Returns the run's record, which is logged.

    Raises `NothingToDoError` where the dream is over by now, or consolidation was paused. Today's
    memory is left alone, and so are the positions of consolidation.
    """
    loaded = draft.dream
    assert loaded is not None  # noqa: S101  # `choose` set it
    dream = _with_tokens(loaded.dream, draft)
    no_update = DreamUpdate()
    if verdict.problem.startswith(PAUSED):
        await _put(draft, dream, no_update)
        await pause(draft)
        raise NothingToDoError(verdict.problem)
    if await draft.is_any_deleted(client.threads):  # the next run drops what came of them
        await _put(draft, dream, no_update)
        record = draft.record.ended("undone", "One of its conversations was deleted.")
    elif verdict.failure or verdict.problem:
        record = await _set_back(draft, loaded, dream, verdict)
    else:
        record = await _add_batch(draft, loaded, dream, verdict)
    record.log()
    return record


async def _add_batch(draft: Draft, loaded: LoadedDream, dream: Dream, verdict: Verdict) -> Record:
    """Put what a batch changes into the dream's files. Returns the run's record."""
    texts_by_thread = dict[str, str]()
    for item in draft.shown:
        texts_of_turns = [turn.text for turn in item.conversation.turns]
        texts_by_thread[item.thread_id] = "\n".join(texts_of_turns)
    spoken = await platform.in_thread(Spoken, texts_by_thread)
    files, origins_of_removed = await platform.in_thread(
        after_batch, loaded.stored, verdict.changed, verdict.sources, spoken
    )
    replaced = sorted(origins_of_removed.difference(texts_by_thread))
    threads = loaded.updates_without_new_turns()
    for item in draft.shown:
        position = item.advanced()
        threads[item.thread_id] = ReadThread(position, replaced)
    messages = draft.messages_shown
    all_messages = dream.messages + messages
    further = replace(dream, failures=0, messages=all_messages)
    update = DreamUpdate(files, threads)
    await _advance(draft, loaded, further, update)
    conversations = len(draft.shown)
    return draft.record.ended("done", conversations=conversations, messages=messages)


async def _advance(draft: Draft, loaded: LoadedDream, dream: Dream, update: DreamUpdate) -> Dream:
    """Store an update of a dream, and how far it is, with the numbers of conversations that it then
    has. Returns that. Raises `NothingToDoError` as `_put`.
    """
    loaded.stored = loaded.stored.updated(update)
    counted = loaded.counted(dream)
    await _put(draft, counted, update)
    return counted


def _with_tokens(dream: Dream, draft: Draft) -> Dream:
    """A dream with the tokens that its run used."""
    spent = tokens_spent(draft.record, draft.text)
    return replace(dream, tokens=dream.tokens + spent)


def tokens_spent(record: Record, text: str) -> int:
    """The tokens of a run that read this text.

    Where its provider counts none, about so many as an estimate counts: without that no cap would
    ever be reached.
    """
    counted = record.input_tokens + record.output_tokens
    if counted:
        return counted
    text_tokens = len(text) // CHARS_PER_TOKEN
    tokens_of_call = CALL_TOKENS + text_tokens
    return record.model_calls * tokens_of_call


async def _set_back(draft: Draft, loaded: LoadedDream, dream: Dream, verdict: Verdict) -> Record:
    """Count a setback of each of the batch's conversations: they are read again after the others.
    Returns the run's record, "failed" where the model gave no answer and "undone" otherwise.

    Where the model gave no answer again and again, the dream waits for its person.
    """
    threads = loaded.updates_without_new_turns()
    for item in draft.shown:
        thread = loaded.stored.thread(item.thread_id)
        position = item.position
        if verdict.failure:
            times = position.failed + 1
            position = replace(position, failed=times)
        else:
            times = position.undone + 1
            position = replace(position, undone=times)
        threads[item.thread_id] = replace(thread, position=position)
    update = DreamUpdate(threads=threads)
    if not verdict.failure:
        await _advance(draft, loaded, dream, update)
        return draft.record.ended("undone", verdict.problem)
    failed = _failed(dream)
    await _advance(draft, loaded, failed, update)
    return draft.record.ended("failed", verdict.failure)


def _failed(dream: Dream) -> Dream:
    """A dream of which one more run failed. After `_MOST_FAILURES` it waits for its person."""
    failures = dream.failures + 1
    if failures < _MOST_FAILURES:
        return replace(dream, failures=failures)
    return replace(dream, failures=failures, status="failed", reason="no_answer")


# --- Go on, or wait


async def plan_next(draft: Draft, client: LangGraphClient, seconds: int = 0) -> None:
    """Plan the dream's next run, in `seconds`, unless it waits for its person."""
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
    """Have the dream of a run wait until its person goes on with it. Nothing happens if it waits
    already, or is over.
    """
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    waiting = replace(dream, status="paused", reason=reason)
    await _put_unless_over(draft, waiting)


async def _dream_that_reads(draft: Draft) -> Dream | None:
    """The person's dream as it is now; None if it waits for them, or is over."""
    dream = await _dream_store(draft).dream()
    if dream is None or dream.status != "reading":
        return None
    return dream


async def _put_unless_over(draft: Draft, dream: Dream) -> None:
    """Store how far a dream is; nothing where it is over by now."""
    no_update = DreamUpdate()
    await _dream_store(draft).put_progress(dream, no_update)


@asynccontextmanager
async def failures_counted(draft: Draft, client: LangGraphClient) -> AsyncIterator[None]:
    """If a run of a dream raises an error within, this counts it and plans another run, a few times.
    The error is raised in any case.
    """
    try:
        yield
    except NothingToDoError:
        raise
    except Exception:
        if draft.record.kind == "dream":
            await platform.to_the_end(_count_failure(draft, client))
        raise


async def _count_failure(draft: Draft, client: LangGraphClient) -> None:
    """Store that a run of the dream failed, with the tokens that it used, and plan the next one,
    unless the dream waits then.
    """
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    with_tokens = _with_tokens(dream, draft)
    failed = _failed(with_tokens)
    await _put_unless_over(draft, failed)
    await plan_next(draft, client, _AFTER_FAILURE)


# --- Propose


async def _finish(draft: Draft, loaded: LoadedDream, client: LangGraphClient) -> str:
    """Propose what the dream's files would change of today's memory, and end the dream.

    Returns the run's answer: `DONE` or `CAPPED`, or `SAME` if nothing would change. `NO_DREAM` where
    it does not end: memory refuses the proposal, and the dream waits; or a conversation was deleted
    meanwhile, and the dream goes on.

    Raises `NothingToDoError` where the dream is over by now, or waits until the person has decided
    about other proposals.
    """
    is_anything_left = bool(loaded.unread())
    dream = loaded.dream
    is_capped = is_anything_left and dream.tokens >= dream.cap
    reason: Reason = "cap" if is_capped else ""
    update = DreamUpdate(threads=loaded.updates_without_new_turns())
    dream = await _advance(draft, loaded, dream, update)
    stored = await read_stored_memory(draft.memory)
    proposals = stored.proposals
    await _check_room(draft, proposals)
    result = await _result_for_today(draft, loaded, stored)
    # A run that died may have proposed it.
    ids = [proposal.id for proposal in proposals]
    is_proposed = any(proposal_id.startswith(dream.proposal_id) for proposal_id in ids)
    if not is_proposed and not result.changed:
        ended = replace(dream, status="ended", reason=reason or "same")
        record = draft.record.ended("done")
        await _end(draft, ended, record)
        return SAME
    if not is_proposed:
        is_proposed = await _propose(draft, dream, result, proposals)
    if not is_proposed:
        # The files stay, for the person to make room and go on.
        refused = replace(dream, status="failed", reason="refused")
        no_update = DreamUpdate()
        await _put(draft, refused, no_update)
        return NO_DREAM
    if await _is_any_deleted(draft, loaded, client):  # what came of it is not proposed
        await _withdraw(draft, dream)
        await plan_next(draft, client)
        return NO_DREAM
    proposed = replace(dream, status="proposed", reason=reason)
    record = await _record_of_all_runs(draft, dream, result)
    await _end(draft, proposed, record)
    return CAPPED if is_capped else DONE


async def _is_any_deleted(draft: Draft, loaded: LoadedDream, client: LangGraphClient) -> bool:
    """Whether a conversation that the dream has read was deleted, or marked, since then."""
    memory = draft.memory
    changed_at = await readable(draft.deployment, client.threads, draft.owner)
    # Whoever deletes one notes that first, then looks whether a proposal has something of it.
    run_began = draft.record.started_at
    deleted_ids = await journal.deleted_since(memory.store, memory.actor, run_began)
    present_ids = changed_at.keys() - deleted_ids
    return not present_ids.issuperset(loaded.stored.threads)


async def _check_room(draft: Draft, proposals: Sequence[Proposal]) -> None:
    """Raises `NothingToDoError` where the person has too many undecided proposals of other kinds.
    Then the dream waits.
    """
    undecided = 0
    for proposal in proposals:
        is_undecided = bool(proposal.changes)
        if is_undecided and proposal.kind != "dream":
            undecided += 1
    if undecided >= MAX_PROPOSALS:
        await pause(draft, "undecided")
        raise NothingToDoError(NO_DREAM)


async def _result_for_today(draft: Draft, loaded: LoadedDream, stored: StoredMemory) -> Result:
    """What the dream's files would change of today's memory, without lines that were taken back
    since the dream began.
    """
    files = await platform.in_thread(files_in, stored.files)
    limits = draft.deployment.limits
    histories = await platform.in_thread(journal.histories_in, stored.revisions, limits)
    result = await platform.in_thread(
        result_of,
        files,
        dict(histories),
        loaded.stored.files,
        read=loaded.read_whole(),
        expired=draft.expired,
        rules=draft.rules,
    )
    # What was taken back earlier, every batch has left out, unless it was said again later.
    taken_back = await draft.taken_back(stored)
    taken_back_since = dict[Key, Dated]()
    for key, line in taken_back.items():
        if line.at >= loaded.dream.began:
            taken_back_since[key] = line
    today = texts(files)
    findings = await platform.in_thread(
        returning, result.changed, today, taken_back_since, (), draft.rules
    )
    changed = await platform.in_thread(guard.without, result.changed, findings)
    return result._replace(changed=changed)


async def _withdraw(draft: Draft, dream: Dream) -> None:
    """Delete a dream's proposal."""
    memory = draft.memory
    place = namespaces.proposals(memory.actor)
    await memory.store.adelete(place, dream.proposal_id)


async def _propose(
    draft: Draft, dream: Dream, result: Result, proposals: Sequence[Proposal]
) -> bool:
    """Propose a result in place of undecided ones of earlier dreams, which are among the memory's
    `proposals`. Returns False if memory refuses it.

    Raises `NothingToDoError` where the dream is over by now.
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
    undecided_ids = list[str]()
    for other in proposals:
        is_undecided = bool(other.changes)
        if is_undecided and other.kind == "dream":
            undecided_ids.append(other.id)
    try:
        await memory.check(result.changed, author, sources=result.sources)
        await memory.propose_instead(proposal, undecided_ids)
    except RefusedWrite as error:
        logger.warning("What a dream would change was not proposed: %s", error)
        return False
    if await _dream_store(draft).is_going_on(dream):
        return True
    # Its person stopped it while it was proposed.
    await _withdraw(draft, dream)
    raise NothingToDoError(NO_DREAM)


async def _record_of_all_runs(draft: Draft, dream: Dream, result: Result) -> Record:
    """The one record of all runs of a dream, whose result is proposed."""
    files = await platform.in_thread(diffs, result.changed)
    record = draft.record.ended("proposed", files=files)
    return replace(
        record,
        run_id=dream.proposal_id,
        started_at=dream.began,
        input_tokens=dream.tokens,
    )


async def _end(draft: Draft, dream: Dream, record: Record) -> None:
    """Keep the record of a dream that is over, with its numbers of conversations and messages, and
    delete its files.
    """
    with_numbers = replace(record, conversations=dream.read, messages=dream.messages)
    await draft.keep(with_numbers)
    await _dream_store(draft).end(dream)
