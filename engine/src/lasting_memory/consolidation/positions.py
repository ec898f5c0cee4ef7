"""How far each of a person's conversations is consolidated.

A position holds the hashes of a thread's consolidated messages: a message without its hash there is
new, whatever was edited or deleted.
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

    updated_at: str = ""  # its time stamp when it was read; without one it is due in any case
    seen: frozenset[str] = frozenset()  # hashes of all consolidated messages
    undone: int = 0  # runs whose changes from its new messages were refused
    failed: int = 0  # runs in which the model gave no answer about them

    @property
    def setbacks(self) -> int:
        return self.undone + self.failed


_POSITIONS = TypeAdapter(Position)


def hash_of(turn: Turn) -> str:
    """By what a turn is known as read."""
    return hashlib.sha256(
        f"{turn.message_id}\0{turn.speaker}\0{turn.text}".encode(errors="replace")
    ).hexdigest()[:12]


async def positions_of(
    store: BaseStore, threads: Iterable[tuple[identity.Actor, str]]
) -> list[Position]:
    """The positions of these people's threads. Where one is damaged, what was consolidated may be
    read again.
    """
    gets = [GetOp(namespaces.positions(actor), thread_id) for actor, thread_id in threads]
    return positions_in(await store.abatch(gets))


def position_gets(actor: identity.Actor, thread_ids: Iterable[str]) -> list[GetOp]:
    """The operations whose results `positions_in` takes."""
    return [GetOp(namespaces.positions(actor), thread_id) for thread_id in thread_ids]


def positions_in(items: Iterable[object]) -> list[Position]:
    """The positions in these items; a damaged one, or none, is the beginning."""
    positions = list[Position]()
    for item in items:
        try:
            positions.append(
                _POSITIONS.validate_python(item.value) if isinstance(item, Item) else Position()
            )
        except ValidationError:
            positions.append(Position())
    return positions


def position_ops(actor: identity.Actor, positions: Mapping[str, Position]) -> list[PutOp]:
    """The operations that put the positions of these threads of a person."""
    place = namespaces.positions(actor)
    values = {key: _POSITIONS.dump_python(at, mode="json") for key, at in positions.items()}
    return [PutOp(place, thread_id, value, index=False) for thread_id, value in values.items()]


async def put_positions(
    store: BaseStore,
    actor: identity.Actor,
    positions: Mapping[str, Position],
    began: journal.Began | None = None,
) -> bool:
    """Put the positions of these threads, unless their person was forgotten since this `began`.
    Returns whether it did.
    """
    return await journal.put_unless_forgotten(store, position_ops(actor, positions), began)
