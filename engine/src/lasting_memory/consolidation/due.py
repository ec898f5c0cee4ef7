"""What is new in an owner's conversations (threads, for the platform) since they were consolidated.

A conversation that changed (`changed_threads.py`) is *due* if it has new turns, too
(`new_turns.py`). `read_to` is the time before
which nothing of an owner is due: the item `<owner's key>` in `namespaces.reading` holds it, so that
a run reads no further back.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import RunsClient, ThreadsClient

from lasting_memory.consolidation.batch import DueConversation
from lasting_memory.consolidation.changed_threads import (
    EARLIEST,
    ChangedThread,
    changed_in,
    time_of,
)
from lasting_memory.consolidation.kept_out import kept_out_in
from lasting_memory.consolidation.new_turns import read_new_turns
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.positions import put_positions
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Deployment
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import changed_since, owned_by

# Conversations that are read at once with all their messages.
_READ_AT_ONCE = 20
# A second conversation with new turns says that there is more than one batch.
_ENOUGH_CONVERSATIONS = 2
# By so much `read_to` is earlier than the newest time stamp: turns commit late, and clocks differ.
_MARGIN = timedelta(minutes=10)


async def find_due(
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
    owner: Owner,
    writer: journal.Writer | None = None,
    *,
    runs: RunsClient | None = None,
) -> list[DueConversation]:
    """What `due_by` finds. The operation that it returns is carried out."""
    places = mark_places(owner.actor)
    items = await journal.all_items_of(store, places)
    marks = marks_in(owner, *items)
    due_conversations, ops = await due_by(
        marks, deployment, threads, store, owner, writer=writer, runs=runs
    )
    await journal.put_unless_forgotten(store, ops, writer)
    return due_conversations


class Marks(NamedTuple):
    """What says which turns of an owner are new: `read_to`, and the items of `namespaces.kept_out`."""

    read_to: datetime
    kept_out_items: Sequence[Item]


def mark_places(actor: Actor) -> list[Namespace]:
    """The namespaces whose items `marks_in` takes, in this order."""
    reading_place = namespaces.reading(actor)
    kept_out_place = namespaces.kept_out(actor)
    return [reading_place, kept_out_place]


def marks_in(owner: Owner, reading_items: Sequence[Item], kept_out_items: Sequence[Item]) -> Marks:
    """The marks of an owner, in all items of the two namespaces."""
    read_to = EARLIEST
    for item in reading_items:
        if item.key == owner.key:
            stamp = item.value.get("read_to")
            read_to = time_of(stamp)
    return Marks(read_to, kept_out_items)


async def due_by(
    marks: Marks,
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
    owner: Owner,
    *,
    writer: journal.Writer | None = None,
    runs: RunsClient | None = None,
) -> tuple[list[DueConversation], list[PutOp]]:
    """An owner's conversations with new turns, and the operation that stores the new `read_to`; no
    operation if nothing changed.

    It reads the conversations that changed, those without setbacks and the oldest first, until they
    are more than one batch holds. For those with nothing new it stores their positions at once,
    unless the owner was forgotten since the `writer` began. `runs` tell what was being said when turns
    were kept out; None where nobody keeps any out.
    """
    changed_threads, newest_stamp = await _changed_of(
        owner, marks.read_to, deployment, threads, store
    )
    if not changed_threads:
        return [], []
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    owner_metadata = owned_by(owner.actor, deployment.agents)
    kept_out = await kept_out_in(marks.kept_out_items, runs)
    due_conversations = list[DueConversation]()
    tokens = 0
    unread_threads = changed_threads
    while unread_threads:
        is_batch_full = tokens > rules.batch_tokens
        if is_batch_full and len(due_conversations) >= _ENOUGH_CONVERSATIONS:
            break
        page = unread_threads[:_READ_AT_ONCE]
        unread_threads = unread_threads[_READ_AT_ONCE:]
        positions = {item.thread_id: item.position for item in page}
        new_turns = await read_new_turns(threads, owner_metadata, positions, kept_out)
        if new_turns.without_new_turns:
            await put_positions(store, owner.actor, new_turns.without_new_turns, writer)
        for item in new_turns.due_conversations:
            due_conversations.append(item)
            tokens += item.tokens
    read_to = newest_stamp
    if due_conversations or unread_threads:  # the oldest that changed is still to be consolidated
        read_to = min(item.updated_at for item in changed_threads)
    op = _read_to_op(owner, read_to)
    return due_conversations, [op]


def _read_to_op(owner: Owner, stamp: str) -> PutOp:
    """The operation that stores as `read_to` a time stamp of a thread, less a margin."""
    read_to = time_of(stamp) - _MARGIN
    value = {"read_to": read_to.isoformat()}
    place = namespaces.reading(owner.actor)
    return PutOp(place, owner.key, value, index=False)


async def _changed_of(
    owner: Owner,
    earliest: datetime,
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
) -> tuple[list[ChangedThread], str]:
    """An owner's threads that changed, and not before `earliest`: those without setbacks first, and
    of them the oldest.

    And the newest time stamp of all threads since then, or `earliest` if there is none.
    """
    changed_threads = list[ChangedThread]()
    newest_stamp = earliest.isoformat()
    earliest_microseconds = earliest.timestamp() * 1_000_000
    for metadata in owned_by(owner.actor, deployment.agents):
        async for page in changed_since(threads, metadata, earliest_microseconds):
            for thread in page:
                updated_at = str(thread["updated_at"])
                newest_stamp = max(newest_stamp, updated_at)
            for item in await changed_in(page, deployment, store):
                if item.owner == owner:
                    changed_threads.append(item)
    changed_threads.sort(key=_reading_order)
    return changed_threads, newest_stamp


def _reading_order(item: ChangedThread) -> tuple[int, str]:
    """What says which thread is read first: the one with the least."""
    return item.position.setbacks, item.updated_at
