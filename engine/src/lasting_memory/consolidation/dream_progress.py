"""How far the dream of a run is, as the run stores that: it goes on, waits for its person, or failed.

What all runs of a dream work on is in the store (`dream_store.py`). A dream that is over by now is
left alone: then its run ends with `NothingToDoError`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation.batch import CHARS_PER_TOKEN
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_store import DreamStore
from lasting_memory.consolidation.dream_threads import CALL_TOKENS, LoadedDream
from lasting_memory.consolidation.dreams import Dream, DreamUpdate, Reason
from lasting_memory.consolidation.no_batch import NO_DREAM, NothingToDoError
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.schedule import Trigger, start

# Runs that fail one after another, after which a dream waits for its person.
_MOST_FAILURES = 3
# Seconds before a run is tried again that failed.
_AFTER_FAILURE = 300


async def store_progress(draft: Draft, dream: Dream, update: DreamUpdate) -> None:
    """Store how far a dream is, with an update of it. Raises `NothingToDoError` where it is over by
    now.
    """
    is_put = await dream_store_of(draft).put_progress(dream, update)
    if not is_put:
        raise NothingToDoError(NO_DREAM)


def dream_store_of(draft: Draft) -> DreamStore:
    """The store of the dream of the run's person."""
    memory = draft.memory
    return DreamStore(memory.store, memory.actor, memory.writer)


async def advance(
    draft: Draft, loaded_dream: LoadedDream, dream: Dream, update: DreamUpdate
) -> Dream:
    """Store an update of a dream, and how far it is, with the numbers of conversations that it then
    has. Returns that. Raises `NothingToDoError` as `store_progress`.
    """
    loaded_dream.stored_dream = loaded_dream.stored_dream.updated(update)
    counted_dream = loaded_dream.counted(dream)
    await store_progress(draft, counted_dream, update)
    return counted_dream


def with_tokens(dream: Dream, draft: Draft) -> Dream:
    """A dream with the tokens that its run used."""
    run_tokens = tokens_spent(draft.record, draft.text)
    return replace(dream, tokens=dream.tokens + run_tokens)


def tokens_spent(record: Record, text: str) -> int:
    """The tokens of a run that read this text.

    Where its provider counts none, about so many as an estimate counts: without that no cap would
    ever be reached.
    """
    tokens_counted = record.input_tokens + record.output_tokens
    if tokens_counted:
        return tokens_counted
    text_tokens = len(text) // CHARS_PER_TOKEN
    tokens_of_call = CALL_TOKENS + text_tokens
    return record.model_calls * tokens_of_call


def failed_once_more(dream: Dream) -> Dream:
    """A dream of which one more run failed. After `_MOST_FAILURES` it waits for its person."""
    failures = dream.failures + 1
    if failures < _MOST_FAILURES:
        return replace(dream, failures=failures)
    return replace(dream, failures=failures, status="failed", reason="no_answer")


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
        is_from_run=True,
        store=memory.store,
        writer=memory.writer,
    )


async def pause(draft: Draft, reason: Reason = "paused") -> None:
    """Have the dream of a run wait until its person goes on with it. Nothing happens if it waits
    already, or is over.
    """
    dream = await _dream_that_reads(draft)
    if dream is None:
        return
    waiting_dream = replace(dream, status="paused", reason=reason)
    await _put_unless_over(draft, waiting_dream)


async def _dream_that_reads(draft: Draft) -> Dream | None:
    """The person's dream as it is now; None if it waits for them, or is over."""
    dream = await dream_store_of(draft).dream()
    if dream is None or dream.status != "reading":
        return None
    return dream


async def _put_unless_over(draft: Draft, dream: Dream) -> None:
    """Store how far a dream is; nothing where it is over by now."""
    no_update = DreamUpdate()
    await dream_store_of(draft).put_progress(dream, no_update)


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
    dream_with_tokens = with_tokens(dream, draft)
    failed_dream = failed_once_more(dream_with_tokens)
    await _put_unless_over(draft, failed_dream)
    await plan_next(draft, client, _AFTER_FAILURE)
