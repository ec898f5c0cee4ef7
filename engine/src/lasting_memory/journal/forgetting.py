"""What began before its person was forgotten writes nothing afterwards.

Forgetting a person writes the time (`http/forget.py`). A run's id is a UUIDv7, which says when the run was created; a request
knows when it came. Every write compares the two. Subagents share their run's id.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.people import identity, namespaces

_UUID_WITH_TIME = 7


@dataclass(frozen=True, slots=True)
class Began:
    """Whose memory a run or a request writes, and the time at which it began, in ISO format, UTC."""

    actor: identity.Actor
    at: str


def began(actor: identity.Actor) -> Began | None:
    """When the current run began. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    return None if run_id is None else Began(actor, time_of_run(run_id))


def time_of_run(run_id: str) -> str:
    """The time in a run's id, in ISO format, UTC. An id without one is older than any forgetting."""
    try:
        known = UUID(run_id)
    except ValueError:
        known = UUID(int=0)
    milliseconds = known.int >> 80 if known.version == _UUID_WITH_TIME else 0
    return _iso(datetime.fromtimestamp(milliseconds / 1_000, UTC))


def began_now(actor: identity.Actor) -> Began:
    """For a request, which begins with this call."""
    return Began(actor, _iso(datetime.now(UTC)))


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Write the time: what began before can no longer write."""
    now = {"at": _iso(datetime.now(UTC))}
    await store.abatch([PutOp(namespaces.forgotten(actor), namespaces.FORGOTTEN, now, index=False)])


async def is_forgotten(store: BaseStore, began: Began | None) -> bool:
    """Whether the person was forgotten since then. For writes that bypass the journal; False without a server."""
    return began is not None and forgotten_at(await store.aget(*read_forgotten(began)[:2])) >= began.at


def read_forgotten(began: Began) -> GetOp:
    """The operation whose result `forgotten_at` takes."""
    return GetOp(namespaces.forgotten(began.actor), namespaces.FORGOTTEN)


def forgotten_at(item: Item | None) -> str:
    """The time at which a person was forgotten last; "" for never."""
    try:
        return _iso(datetime.fromisoformat(item.value["at"])) if item else ""
    except (KeyError, TypeError, ValueError):  # damaged
        return ""


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")  # one width, so that texts compare as times
