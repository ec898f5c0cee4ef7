"""How far each of a person's threads is consolidated.

A position holds the hashes of the consolidated messages, and the thread's time stamp when they were read. A message without its
hash there is new: forks, edits, deletions and equal times make no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import identity, namespaces
from memory.recall import Turn

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Position:
    """How far one thread is consolidated.

    Args:
        updated_at: its time stamp when it was read. Empty: it is due in any case.
        message_id: the last consolidated message.
        seen: hashes of all consolidated messages, without a bound: a message without its hash would be new for ever.
        undone: number of runs whose changes from its new messages were refused.
    """

    updated_at: str = ""
    message_id: str = ""
    seen: tuple[str, ...] = ()
    undone: int = 0


def turn_hash(turn: Turn) -> str:
    """A hash of a turn's message id, speaker and text."""
    return hashlib.sha256(f"{turn.message_id}\0{turn.speaker}\0{turn.text}".encode(errors="replace")).hexdigest()[:12]


async def positions(store: BaseStore, actor: identity.Actor) -> dict[str, Position]:
    """The positions of a person's threads, by thread id."""
    by_thread: dict[str, Position] = {}
    read = 0
    while page := await store.asearch(namespaces.positions(actor), limit=_PAGE, offset=read):
        read += len(page)
        by_thread |= {item.key: _position(item) for item in page}
        if len(page) < _PAGE:
            break
    return by_thread


async def positions_of(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> dict[str, Position]:
    """The present positions of some threads."""
    items = await store.abatch([GetOp(namespaces.positions(actor), thread_id) for thread_id in thread_ids])
    return {thread_id: _position(item) for thread_id, item in zip(thread_ids, items, strict=True)}


async def drop_positions(store: BaseStore, actor: identity.Actor, thread_ids: Iterable[str]) -> None:
    """Delete the positions of missing threads."""
    await store.abatch([PutOp(namespaces.positions(actor), thread_id, None) for thread_id in thread_ids])


async def commit(store: BaseStore, actor: identity.Actor, moved: Mapping[str, Position]) -> None:
    """Add new hashes and time stamps, given by thread id, to the threads' positions. Safe to repeat."""
    namespace = namespaces.positions(actor)
    items = await store.abatch([GetOp(namespace, key) for key in moved])
    puts = list[PutOp]()
    for (key, new), item in zip(moved.items(), items, strict=True):
        seen = dict.fromkeys((*_position(item).seen, *new.seen))
        position = Position(new.updated_at, new.message_id or _position(item).message_id, tuple(seen))
        puts.append(PutOp(namespace, key, asdict(position), index=False))
    await store.abatch(puts)


async def put_off(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> None:
    """Note that a run's changes from these threads were refused."""
    known = await positions_of(store, actor, thread_ids)
    later = {thread_id: replace(position, undone=position.undone + 1) for thread_id, position in known.items()}
    await store.abatch([PutOp(namespaces.positions(actor), key, asdict(at), index=False) for key, at in later.items()])


def _position(item: object) -> Position:
    value = item.value if isinstance(item, Item) else {}
    seen = value.get("seen")
    hashes = tuple(map(str, seen)) if isinstance(seen, list | tuple) else ()
    undone = value.get("undone")
    times = undone if isinstance(undone, int) else 0
    return Position(str(value.get("updated_at") or ""), str(value.get("message_id") or ""), hashes, times)
