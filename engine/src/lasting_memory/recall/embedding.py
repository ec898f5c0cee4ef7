"""Embedding the passages of conversations for the store's semantic index, behind the searches that
need them.

The items of `waiting` (`index.py`) say which conversations are left. What a process does not finish
goes on with the next search or consolidation.
"""

import asyncio
import logging
from collections.abc import Collection
from functools import cache
from typing import Any

from langgraph.store.base import BaseStore, PutOp

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

# What embeds for a person, by event loop and person.
_tasks: dict[tuple[asyncio.AbstractEventLoop, identity.Actor], asyncio.Task[None]] = {}

logger = logging.getLogger("memory")


async def with_meaning(
    store: BaseStore, actor: identity.Actor, index: Index, began: journal.Began | None
) -> Index:
    """The index, which says whether its conversations are embedded by the store's present model.

    It is an empty one if the store has a semantic index now that knows none of it.
    """
    model = platform.embedding_model(store)
    if not model:
        return index
    where = namespaces.recall(actor, "texts")
    item = await store.aget(where, MODEL)
    if item is None:
        await forget(store, actor)
        note = PutOp(where, MODEL, {"model": model}, index=False)
        await write(store, actor, [note], began)
        return Index(meaning=True)
    known = item.value["model"]
    if known != model:
        _warn_of_another_model(known, model)
        return index
    index.meaning = True
    return index


@cache  # a line for a process, not for each search
def _warn_of_another_model(known: str, named: str) -> None:
    fix = "`python -m seeds embeddings --url <server>` has all of them embedded anew"
    logger.warning(
        "The store has vectors of %s, and store.index says %s: talks are found by words; %s.",
        known,
        named,
        fix,
    )


async def embed_waiting(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    *,
    seconds: float | None,
    began: journal.Began | None,
    routes: Collection[str],
) -> int:
    """Have the conversations embedded that wait for it. Returns how many wait after so many seconds
    (None: until none does).

    One task a person does it, which goes on behind this call.
    """
    waiting = namespaces.recall(actor, "waiting")
    if not await store.asearch(waiting, limit=1):
        return 0
    key = (asyncio.get_running_loop(), actor)
    if key not in _tasks:
        task = asyncio.create_task(
            _embed_all(store, threads, actor, agents, began=began, routes=routes)
        )
        task.add_done_callback(lambda _: _tasks.pop(key, None))
        _tasks[key] = task
    await asyncio.wait({_tasks[key]}, timeout=seconds)
    left = await store.asearch(waiting, limit=MOST_PARTS)
    return len(left)


async def _embed_all(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    *,
    began: journal.Began | None,
    routes: Collection[str],
) -> None:
    """Embed the passages of the conversations that wait for it, newest first, until none does."""
    waiting = namespaces.recall(actor, "waiting")
    try:
        while items := await store.asearch(waiting, limit=MOST_PARTS):
            for item in sorted(items, key=_newest_first):
                thread_id = str(item.value["thread_id"])
                talks = await read_conversations(threads, actor, agents, [thread_id], routes)
                talk = talks[0] if talks else None
                key = key_of(thread_id)
                ops = await text_ops(store, actor, key, talk)
                ops.append(PutOp(waiting, item.key, None))
                is_written = await write(store, actor, ops, began)
                if not is_written:
                    return
    # Whatever a provider of embeddings raises, words find it, and the next search tries again.
    except Exception as error:
        logger.warning("Past conversations were not embedded: %r.", error, exc_info=True)


def _newest_first(item: Any) -> int:
    return -int(item.value["version"])


async def stop_embedding(actor: identity.Actor) -> None:
    """End what this process embeds for a person. Another process notices that they were forgotten."""
    here = asyncio.get_running_loop()
    ended = list[asyncio.Task[None]]()
    for (loop, person), task in list(_tasks.items()):
        if person != actor:
            continue
        if loop is here:
            task.cancel()
            ended.append(task)
        else:
            loop.call_soon_threadsafe(task.cancel)
    if ended:
        await asyncio.wait(ended, timeout=_STOP_SECONDS)
