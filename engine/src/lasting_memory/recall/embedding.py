"""Embeds the passages of conversations for the store's semantic index, in a task behind the searches
that need them.

An item of the namespace `waiting` (`index.py`) says that a conversation's passages are to be
embedded. What a process does not finish goes on with the next search or consolidation.
"""

import asyncio
import logging
from collections.abc import Collection
from functools import cache

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import platform
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.recall.format import key_of
from lasting_memory.recall.index import MOST_PARTS, Index, forget, write
from lasting_memory.recall.meaning import text_ops
from lasting_memory.recall.threads import Threads, read_conversations

# The key of the name of the model that embeds, beside those of conversations.
MODEL = "model"
# Seconds that a forgetting waits for what is embedded at that moment.
_STOP_SECONDS = 10.0

# The task that embeds for a person, by event loop and person.
_tasks: dict[tuple[asyncio.AbstractEventLoop, identity.Actor], asyncio.Task[None]] = {}

logger = logging.getLogger("memory")


async def with_meaning(
    store: BaseStore, actor: identity.Actor, index: Index, writer: journal.Writer | None
) -> Index:
    """Sets `meaning` of an index: whether its conversations are embedded by the store's present
    model. Returns the index.

    If the store has a semantic index now that knows none of them, the index is dropped, and an
    empty one is returned, so that all are indexed and embedded anew.
    """
    model = platform.embedding_model(store)
    if not model:
        return index
    texts = namespaces.recall(actor, "texts")
    item = await store.aget(texts, MODEL)
    if item is None:
        await forget(store, actor)
        note = PutOp(texts, MODEL, {"model": model}, index=False)
        await write(store, actor, [note], writer)
        return Index(meaning=True)
    stored_model = item.value["model"]
    if stored_model != model:
        _warn_of_another_model(stored_model, model)
        return index
    index.meaning = True
    return index


@cache  # a line for a process, not for each search
def _warn_of_another_model(stored_model: str, named_model: str) -> None:
    """Logs that the store's vectors are of another model than the one that its settings name."""
    fix = "`python -m seeds embeddings --url <server>` has all of them embedded anew"
    logger.warning(
        "The store has vectors of %s, and store.index says %s: talks are found by words; %s.",
        stored_model,
        named_model,
        fix,
    )


async def embed_waiting(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    *,
    seconds: float | None,
    writer: journal.Writer | None,
    routes: Collection[str],
) -> int:
    """Has the conversations embedded that wait for it. Returns how many still wait after so many
    seconds (None: it returns once none does).

    One task a person embeds, and goes on behind this call.
    """
    waiting_place = namespaces.recall(actor, "waiting")
    if not await store.asearch(waiting_place, limit=1):
        return 0
    key = (asyncio.get_running_loop(), actor)
    if key not in _tasks:
        new_task = asyncio.create_task(
            _embed_all(store, threads, actor, agents, writer=writer, routes=routes)
        )
        new_task.add_done_callback(lambda _: _tasks.pop(key, None))
        _tasks[key] = new_task
    task = _tasks[key]
    await asyncio.wait({task}, timeout=seconds)
    items = await store.asearch(waiting_place, limit=MOST_PARTS)
    return len(items)


async def _embed_all(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    *,
    writer: journal.Writer | None,
    routes: Collection[str],
) -> None:
    """Embeds the passages of the conversations that wait for it, newest first, until none does, or
    until their person is forgotten.

    An error is logged, and ends it.
    """
    waiting_place = namespaces.recall(actor, "waiting")
    try:
        while items := await store.asearch(waiting_place, limit=MOST_PARTS):
            for item in sorted(items, key=_newest_first):
                thread_id = str(item.value["thread_id"])
                talks = await read_conversations(threads, actor, agents, [thread_id], routes)
                talk = talks[0] if talks else None
                key = key_of(thread_id)
                ops = await text_ops(store, actor, key, talk)
                deletion = PutOp(waiting_place, item.key, None)
                ops.append(deletion)
                is_written = await write(store, actor, ops, writer)
                if not is_written:
                    return
    # Whatever a provider of embeddings raises, words find it, and the next search tries again.
    except Exception as error:
        logger.warning("Past conversations were not embedded: %r.", error, exc_info=True)


def _newest_first(item: Item) -> int:
    """Sorts items of `waiting` by the versions of their conversations."""
    version = int(item.value["version"])
    return -version


async def stop_embedding(actor: identity.Actor) -> None:
    """Cancels the tasks of this process that embed for a person, and waits for those of the running
    loop, for at most `_STOP_SECONDS`.

    Another process notices that the person was forgotten.
    """
    running_loop = asyncio.get_running_loop()
    cancelled_tasks = list[asyncio.Task[None]]()
    for (loop, person), task in list(_tasks.items()):
        if person != actor:
            continue
        if loop is running_loop:
            task.cancel()
            cancelled_tasks.append(task)
        else:
            loop.call_soon_threadsafe(task.cancel)
    if cancelled_tasks:
        await asyncio.wait(cancelled_tasks, timeout=_STOP_SECONDS)
