"""How far each of a person's threads is consolidated.

A position holds the hashes of the consolidated messages, and the thread's time stamp when they were read. A message without its
hash there is new: forks, edits, deletions and equal times make no difference.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import identity, namespaces
from memory.journal import all_items
from memory.recall import Turn


@dataclass(frozen=True, slots=True)
class Position:
    """How far one thread is consolidated."""

    updated_at: str = ""  # its time stamp when it was read; without one it is due in any case
    message_id: str = ""  # the last consolidated message
    seen: tuple[str, ...] = ()  # hashes of all consolidated messages: without its hash a message would be new for ever
    undone: int = 0  # runs whose changes from its new messages were refused

    def advanced(self, new: "Position") -> "Position":
        """This position with new hashes, and a new time stamp."""
        return Position(new.updated_at, new.message_id or self.message_id, tuple(dict.fromkeys((*self.seen, *new.seen))))


def turn_hash(turn: Turn) -> str:
    return hashlib.sha256(f"{turn.message_id}\0{turn.speaker}\0{turn.text}".encode(errors="replace")).hexdigest()[:12]


async def positions(store: BaseStore, actor: identity.Actor) -> dict[str, Position]:
    """The positions of a person's threads, by thread id."""
    return {item.key: _position(item) for item in await all_items(store, namespaces.positions(actor))}


async def positions_of(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> dict[str, Position]:
    items = await store.abatch([GetOp(namespaces.positions(actor), thread_id) for thread_id in thread_ids])
    return {thread_id: _position(item) for thread_id, item in zip(thread_ids, items, strict=True)}


async def drop_positions(store: BaseStore, actor: identity.Actor, thread_ids: Iterable[str]) -> None:
    """Delete the positions of missing threads."""
    await store.abatch([PutOp(namespaces.positions(actor), thread_id, None) for thread_id in thread_ids])


async def commit(store: BaseStore, actor: identity.Actor, moved: Mapping[str, Position]) -> None:
    """Advance the threads' positions by these, given by thread id. Safe to repeat."""
    known = await positions_of(store, actor, list(moved))
    await _put(store, actor, {thread_id: known[thread_id].advanced(new) for thread_id, new in moved.items()})


async def put_off(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> None:
    """Note that a run's changes from these threads were refused."""
    known = await positions_of(store, actor, thread_ids)
    await _put(store, actor, {thread_id: replace(at, undone=at.undone + 1) for thread_id, at in known.items()})


async def _put(store: BaseStore, actor: identity.Actor, positions: Mapping[str, Position]) -> None:
    namespace = namespaces.positions(actor)
    await store.abatch([PutOp(namespace, thread_id, asdict(at), index=False) for thread_id, at in positions.items()])


def _position(item: object) -> Position:
    value = item.value if isinstance(item, Item) else {}
    seen, undone = value.get("seen"), value.get("undone")
    return Position(
        str(value.get("updated_at") or ""),
        str(value.get("message_id") or ""),
        tuple(map(str, seen)) if isinstance(seen, list | tuple) else (),
        undone if isinstance(undone, int) else 0,
    )
