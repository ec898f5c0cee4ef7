"""What is new in a person's conversations since they were consolidated.

`positions.py` keeps what of each conversation is consolidated. The item in `namespaces.reading`
holds the time before which nothing is due, so that a run reads no further back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import RunsClient, ThreadsClient

from lasting_memory import platform
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.kept_out import KeptOut, kept_out_in
from lasting_memory.consolidation.owners import Owner, owner_of
from lasting_memory.consolidation.positions import Position, hash_of, positions_of, put_positions
from lasting_memory.conversations.marks import stays_out
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Deployment
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import Turn, changed_since, conversation, owned_by, threads_by_id

# Conversations that are read at once with all their messages.
_READ_AT_ONCE = 20
# A second conversation with new turns says that there is more than one batch.
_ENOUGH_CONVERSATIONS = 2
# Turns commit late, and clocks differ.
_MARGIN = timedelta(minutes=10)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class ChangedThread(NamedTuple):
    """A thread that changed since it was consolidated."""

    owner: Owner
    thread: Any
    position: Position

    @property
    def thread_id(self) -> str:
        return str(self.thread["thread_id"])

    @property
    def updated_at(self) -> str:
        return str(self.thread["updated_at"])


async def find_due(
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
    owner: Owner,
    began: journal.Began | None = None,
    *,
    runs: RunsClient | None = None,
) -> list[Due]:
    """What `due_by` finds; it is noted at once how far was read."""
    places = mark_places(owner.actor)
    found = await journal.all_items_of(store, places)
    marks = marks_in(owner, *found)
    due, notes = await due_by(marks, deployment, threads, store, owner, began=began, runs=runs)
    await journal.put_unless_forgotten(store, notes, began)
    return due


class Marks(NamedTuple):
    """The time before which nothing of an owner is due, and the items that keep turns out."""

    read_to: datetime
    kept_out: Sequence[Item]


def mark_places(actor: Actor) -> list[Namespace]:
    """The namespaces whose items `marks_in` takes."""
    reading = namespaces.reading(actor)
    kept_out = namespaces.kept_out(actor)
    return [reading, kept_out]


def marks_in(owner: Owner, reading: Sequence[Item], kept_out: Sequence[Item]) -> Marks:
    """The marks of an owner in the items of these namespaces."""
    for item in reading:
        if item.key == owner.key:
            stamp = item.value.get("read_to")
            return Marks(time_of(stamp), kept_out)
    return Marks(EARLIEST, kept_out)


async def due_by(
    marks: Marks,
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
    owner: Owner,
    *,
    began: journal.Began | None = None,
    runs: RunsClient | None = None,
) -> tuple[list[Due], list[PutOp]]:
    """An owner's conversations with new turns; more than a batch holds, if there are more.

    And the operations that note the time before which nothing is due any more. `began` is the
    reading run's. `runs` tell what was being said when turns were kept out; None where nobody keeps
    any out.

    It reads conversations that changed since all were consolidated, those without setbacks and the
    oldest first, and stops where a batch is full. What has no new turns is noted as read.
    """
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    changed, newest = await _changed_of(owner, marks.read_to, deployment, threads, store)
    if not changed:
        return [], []
    owned = owned_by(owner.actor, deployment.agents)
    kept_out = await kept_out_in(marks.kept_out, runs)
    due = list[Due]()
    tokens = 0
    unread = changed
    while unread:
        is_batch_full = tokens > rules.batch_tokens
        if is_batch_full and len(due) >= _ENOUGH_CONVERSATIONS:
            break
        page = unread[:_READ_AT_ONCE]
        unread = unread[_READ_AT_ONCE:]
        known = {item.thread_id: item.position for item in page}
        new, old = await read_new_turns(threads, owned, known, kept_out)
        if old:
            await put_positions(store, owner.actor, old, began)
        for item in new:
            due.append(item)
            tokens += item.tokens
    read_to = newest
    if due or unread:
        read_to = min(item.updated_at for item in changed)
    note = _read_to_op(owner, read_to)
    return due, [note]


def _read_to_op(owner: Owner, stamp: str) -> PutOp:
    """The operation that notes the time before which nothing of an owner is due."""
    read_to = time_of(stamp) - _MARGIN
    value = {"read_to": read_to.isoformat()}
    place = namespaces.reading(owner.actor)
    return PutOp(place, owner.key, value, index=False)


async def _changed_of(
    owner: Owner,
    since: datetime,
    deployment: Deployment,
    threads: ThreadsClient,
    store: BaseStore,
) -> tuple[list[ChangedThread], str]:
    """An owner's threads that changed since then and since they were consolidated.

    Those without setbacks come first, then the oldest. With the newest time stamp of all that were
    looked at.
    """
    changed = list[ChangedThread]()
    newest = since.isoformat()
    since_microseconds = since.timestamp() * 1_000_000
    for metadata in owned_by(owner.actor, deployment.agents):
        async for page in changed_since(threads, metadata, since_microseconds):
            for thread in page:
                updated_at = str(thread["updated_at"])
                newest = max(newest, updated_at)
            for item in await changed_in(page, deployment, store):
                if item.owner == owner:
                    changed.append(item)
    changed.sort(key=lambda item: (item.position.setbacks, item.updated_at))
    return changed, newest


async def read_new_turns(
    threads: ThreadsClient,
    owned: Sequence[dict[str, str]],
    positions: Mapping[str, Position],
    kept_out: KeptOut,
) -> tuple[list[Due], dict[str, Position]]:
    """What of these conversations is new, as `new_turns`. They have one of the metadata in `owned`."""
    thread_ids = list(positions)
    fields = ["thread_id", "created_at", "updated_at", "values"]
    found = await threads_by_id(threads, thread_ids, owned, fields)
    return await platform.in_thread(new_turns, found, positions, kept_out)


def new_turns(
    threads: Sequence[Mapping[str, Any]], positions: Mapping[str, Position], kept_out: KeptOut
) -> tuple[list[Due], dict[str, Position]]:
    """The new turns of these threads, and the positions of threads without any. Blocks."""
    due = list[Due]()
    old = dict[str, Position]()
    for thread in threads:
        talk = conversation(thread, speakers=("user", "assistant"))
        position = positions[talk.thread_id]
        new = list[Turn]()
        for turn in kept_out.without(talk):
            if hash_of(turn) not in position.seen:
                new.append(turn)
        if new:
            part = replace(talk, turns=tuple(new))
            messages = _messages_of(thread)
            due.append(Due(part, position, messages=messages))
        else:
            old[talk.thread_id] = replace(position, updated_at=talk.updated_at, undone=0, failed=0)
    return due, old


def _messages_of(thread: Mapping[str, Any]) -> list[Any]:
    """The messages of a thread as the platform gives them; none where it has no list of them."""
    values = thread.get("values")
    if not isinstance(values, Mapping):
        return []
    messages = values.get("messages")
    return messages if isinstance(messages, list) else []


async def changed_in(
    threads: Iterable[Any], deployment: Deployment, store: BaseStore
) -> list[ChangedThread]:
    """Those of these threads that changed since they were consolidated."""
    owned = list[tuple[Owner, Any]]()
    for thread in threads:
        if stays_out(thread):
            continue
        owner = owner_of(thread, deployment)
        if owner:
            owned.append((owner, thread))
    keys = [(owner.actor, thread["thread_id"]) for owner, thread in owned]
    positions = await positions_of(store, keys)
    changed = list[ChangedThread]()
    for (owner, thread), position in zip(owned, positions, strict=True):
        item = ChangedThread(owner, thread, position)
        if position.updated_at != item.updated_at:
            changed.append(item)
    return changed


def time_of(stamp: object) -> datetime:
    """A time stamp; the earliest time for anything else."""
    try:
        at = datetime.fromisoformat(str(stamp))
    except ValueError:
        return EARLIEST
    return at if at.tzinfo else at.replace(tzinfo=UTC)
