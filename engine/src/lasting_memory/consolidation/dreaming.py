"""What a run of a dream does: it has the model read the next batch of the person's conversations,
and keeps what it makes of them in the dream's files. Where nothing is left to read, it ends the dream
(`dream_proposal.py`).

What one run works on is its `Draft` (`drafts.py`), with a copy of the dream's files. What all runs
of the dream work on is in the store (`dream_store.py`), and is here a `LoadedDream`.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation.batch import batch
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_deletions import without_threads
from lasting_memory.consolidation.dream_files import SpokenTexts, after_batch
from lasting_memory.consolidation.dream_progress import (
    advance,
    dream_store_of,
    failed_once_more,
    pause,
    store_progress,
    with_tokens,
)
from lasting_memory.consolidation.dream_proposal import finish
from lasting_memory.consolidation.dream_threads import (
    MOST_SHOWN,
    LoadedDream,
    readable,
    unread_turns,
)
from lasting_memory.consolidation.dreams import Dream, DreamUpdate, ReadThread, StoredDream
from lasting_memory.consolidation.due import Marks
from lasting_memory.consolidation.judging import Verdict
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.no_batch import NO_DREAM, NothingToDoError
from lasting_memory.consolidation.record import Record
from lasting_memory.memory.controls import PAUSED

logger = logging.getLogger(__name__)


async def choose(draft: Draft, marks: Marks, client: LangGraphClient) -> None:
    """Fill a run's draft with the next batch of the dream, and with the dream's files. If nothing is
    left to read, or the tokens are used, it proposes what the dream would change, and ends it.

    Raises `NothingToDoError`, with the run's answer, where there is no dream to go on with, or
    nothing more to read.
    """
    if not draft.deployment.has_dream:
        raise NothingToDoError(NO_DREAM)
    stored_dream = await dream_store_of(draft).read()
    dream = stored_dream.dream
    if dream is None or dream.status != "reading":
        raise NothingToDoError(NO_DREAM)
    memory_name = draft.memory.files[-1]
    if dream.memory != memory_name:
        raise NothingToDoError(NO_DREAM)
    changed_at = await readable(draft.deployment, client.threads, draft.owner)
    stored_dream = await _without_deleted(draft, stored_dream, dream, changed_at)
    loaded_dream = LoadedDream(stored_dream, dream, changed_at)
    draft.dream = loaded_dream
    draft.base = loaded_dream.files()
    if dream.tokens < dream.cap:
        await _choose_conversations(draft, loaded_dream, marks, client)
    if not draft.shown_conversations:
        answer = await finish(draft, loaded_dream, client)
        raise NothingToDoError(answer)


async def _without_deleted(
    draft: Draft, stored_dream: StoredDream, dream: Dream, changed_at: Mapping[str, str]
) -> StoredDream:
    """The dream without what came of conversations that were deleted, or marked, since they were
    read: those that are not in `changed_at`. The store has it so, too.
    """
    deleted_ids = stored_dream.threads.keys() - changed_at.keys()
    if not deleted_ids:
        return stored_dream
    update = await platform.in_thread(without_threads, stored_dream, deleted_ids)
    await store_progress(draft, dream, update)
    return stored_dream.updated(update)


async def _choose_conversations(
    draft: Draft, loaded_dream: LoadedDream, marks: Marks, client: LangGraphClient
) -> None:
    """Show the run the oldest conversations that fit, of which something is unread; none if nothing
    is.
    """
    kept_out = await kept_out_in(marks.kept_out_items, client.runs)
    unread_conversations = list(loaded_dream.unread().items())
    while unread_conversations and not draft.shown_conversations:
        positions = dict(unread_conversations[:MOST_SHOWN])
        unread_conversations = unread_conversations[MOST_SHOWN:]
        new_turns = await unread_turns(
            draft.deployment, client.threads, draft.owner, positions, kept_out
        )
        loaded_dream.without_new_turns.update(new_turns.without_new_turns)
        max_tokens = draft.rules.batch_tokens
        draft.shown_conversations = await platform.in_thread(
            batch, new_turns.due_conversations, max_tokens
        )


async def keep_batch(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Put what a run made of a batch into the dream's files, and how far its conversations are read,
    in one step. Returns the run's record, which is logged.

    Raises `NothingToDoError` where the dream is over by now, or consolidation was paused. Today's
    memory is left alone, and so are the positions of consolidation.
    """
    loaded_dream = draft.dream
    assert loaded_dream is not None  # noqa: S101  # `choose` set it
    dream = with_tokens(loaded_dream.dream, draft)
    no_update = DreamUpdate()
    if verdict.problem.startswith(PAUSED):
        await store_progress(draft, dream, no_update)
        await pause(draft)
        raise NothingToDoError(verdict.problem)
    if await draft.is_any_deleted(client.threads):  # the next run drops what came of them
        await store_progress(draft, dream, no_update)
        record = draft.record.ended("undone", "One of its conversations was deleted.")
    elif verdict.failure or verdict.problem:
        record = await _set_back(draft, loaded_dream, dream, verdict)
    else:
        record = await _add_batch(draft, loaded_dream, dream, verdict)
    record.log()
    return record


async def _add_batch(
    draft: Draft, loaded_dream: LoadedDream, dream: Dream, verdict: Verdict
) -> Record:
    """Put what a batch changes into the dream's files. Returns the run's record."""
    texts_by_thread = dict[str, str]()
    for item in draft.shown_conversations:
        texts_of_turns = [turn.text for turn in item.conversation.turns]
        texts_by_thread[item.thread_id] = "\n".join(texts_of_turns)
    spoken_texts = await platform.in_thread(SpokenTexts, texts_by_thread)
    files, removed_origins = await platform.in_thread(
        after_batch, loaded_dream.stored_dream, verdict.changes, verdict.sources, spoken_texts
    )
    replaced_ids = sorted(removed_origins.difference(texts_by_thread))
    threads = loaded_dream.updates_without_new_turns()
    for item in draft.shown_conversations:
        position = item.advanced()
        threads[item.thread_id] = ReadThread(position, replaced_ids)
    messages = draft.messages_shown
    all_messages = dream.messages + messages
    advanced_dream = replace(dream, failures=0, messages=all_messages)
    update = DreamUpdate(files, threads)
    await advance(draft, loaded_dream, advanced_dream, update)
    conversations = len(draft.shown_conversations)
    return draft.record.ended("done", conversations=conversations, messages=messages)


async def _set_back(
    draft: Draft, loaded_dream: LoadedDream, dream: Dream, verdict: Verdict
) -> Record:
    """Count a setback of each of the batch's conversations: they are read again after the others.
    Returns the run's record, "failed" where the model gave no answer and "undone" otherwise.

    Where the model gave no answer again and again, the dream waits for its person.
    """
    threads = loaded_dream.updates_without_new_turns()
    for item in draft.shown_conversations:
        thread = loaded_dream.stored_dream.thread(item.thread_id)
        position = item.position
        if verdict.failure:
            number_failed = position.failed + 1
            position = replace(position, failed=number_failed)
        else:
            number_undone = position.undone + 1
            position = replace(position, undone=number_undone)
        threads[item.thread_id] = replace(thread, position=position)
    update = DreamUpdate(threads=threads)
    if not verdict.failure:
        await advance(draft, loaded_dream, dream, update)
        return draft.record.ended("undone", verdict.problem)
    failed_dream = failed_once_more(dream)
    await advance(draft, loaded_dream, failed_dream, update)
    return draft.record.ended("failed", verdict.failure)
