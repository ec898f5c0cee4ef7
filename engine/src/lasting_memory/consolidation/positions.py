"""How far each of a person's conversations is consolidated.

A *position* holds the hashes of a thread's consolidated messages: a message without its hash there
is new, whatever was edited or deleted. Positions are items of the store, by person and thread.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from langgraph.store.base import BaseStore, GetOp, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import Turn


@dataclass(frozen=True, slots=True)
class Position:
    """How far one thread is consolidated."""

    # When the thread was updated last, as the platform said when it was read. With "" it is due in
    # any case.
    updated_at: str = ""
    # Hashes of all consolidated messages.
    seen: frozenset[str] = frozenset()
    # Runs whose changes from its new messages were refused.
    undone: int = 0
    # Runs in which the model gave no answer about them.
    failed: int = 0

    @property
    def setbacks(self) -> int:
        """Runs since which the thread is still due."""
        return self.undone + self.failed


_POSITIONS = TypeAdapter(Position)


def hash_of(turn: Turn) -> str:
    """What a position knows a turn by: 12 hexadecimal digits for its message's id, its speaker and
    its text.
    """
    content = f"{turn.message_id}\0{turn.speaker}\0{turn.text}"
    content_bytes = content.encode(errors="replace")
    digest = hashlib.sha256(content_bytes).hexdigest()
    return digest[:12]


async def positions_of(
    store: BaseStore, threads: Iterable[tuple[identity.Actor, str]]
) -> list[Position]:
    """The positions of these people's threads, in their order, as `positions_in`."""
    gets = list[GetOp]()
    for actor, thread_id in threads:
        gets_of_thread = position_gets(actor, [thread_id])
        gets += gets_of_thread
    items = await store.abatch(gets)
    return positions_in(items)


def position_gets(actor: identity.Actor, thread_ids: Iterable[str]) -> list[GetOp]:
    """The operations whose results `positions_in` takes."""
    namespace = namespaces.positions(actor)
    gets = list[GetOp]()
    for thread_id in thread_ids:
        gets.append(GetOp(namespace, thread_id))
    return gets


def positions_in(items: Iterable[object]) -> list[Position]:
    """The positions in these items, in their order. One that is damaged or missing is the
    beginning: what was consolidated may be read again.
    """
    return [_position_in(item) for item in items]


def _position_in(item: object) -> Position:
    """The position in an item of the store; the beginning for anything else."""
    if not isinstance(item, Item):
        return Position()
    try:
        return _POSITIONS.validate_python(item.value)
    except ValidationError:
        return Position()


def position_ops(actor: identity.Actor, positions: Mapping[str, Position]) -> list[PutOp]:
    """The operations that put the positions of these threads of a person."""
    namespace = namespaces.positions(actor)
    ops = list[PutOp]()
    for thread_id, position in positions.items():
        value = _POSITIONS.dump_python(position, mode="json")
        op = PutOp(namespace, thread_id, value, index=False)
        ops.append(op)
    return ops


async def put_positions(
    store: BaseStore,
    actor: identity.Actor,
    positions: Mapping[str, Position],
    writer: journal.Writer | None = None,
) -> bool:
    """Put the positions of these threads. Returns False, and puts nothing, if their person was
    forgotten since the `writer` began.
    """
    ops = position_ops(actor, positions)
    return await journal.put_unless_forgotten(store, ops, writer)
