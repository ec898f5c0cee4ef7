"""A person's decisions: whether memory is paused, and whether they review changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import identity, namespaces
from memory.journal import Steps
from memory.validation import RefusedWriteError
from settings import Settings

PAUSED = "Memory is paused"


@dataclass(frozen=True, slots=True)
class Controls:
    """One person's controls."""

    paused: bool = False  # memory stays in use, and takes nothing new
    review: bool = False  # consolidation proposes its changes to the person


# Each control has its own item, so changing one leaves the others alone.
NAMES = ("paused", "review")
# Past pauses in the item of `paused`: the last ones.
_PAUSES_KEPT = 20
# What the time of a run leaves out.
_MILLISECOND = timedelta(milliseconds=1)


def read_controls(actor: identity.Actor) -> list[GetOp]:
    """The operations whose results `controls_of` takes."""
    return [GetOp(namespaces.controls(actor), name) for name in NAMES]


def controls_of(items: Sequence[object], settings: Settings) -> Controls:
    """The controls in these items, with the deployment's defaults. Shared memory has no controls."""
    if settings.memory_scope == "assistant":
        return Controls()
    said = [item.value.get("on") is True if isinstance(item, Item) else None for item in items]
    default = Controls(review=settings.consolidation_review == "on")
    return Controls(*(getattr(default, name) if on is None else on for name, on in zip(NAMES, said, strict=True)))


async def controls(store: BaseStore, actor: identity.Actor, settings: Settings) -> Controls:
    """A person's present controls."""
    return controls_of(await store.abatch(read_controls(actor)), settings)


async def set_controls(store: BaseStore, actor: identity.Actor, given: Mapping[str, bool]) -> None:
    """Change the given controls, by name."""
    at = datetime.now(UTC).isoformat()
    namespace = namespaces.controls(actor)
    changes = {name: {"on": on, "at": at} for name, on in given.items()}
    if "paused" in given and (item := await store.aget(namespace, "paused")):
        changes["paused"] = _paused_again(item, changes["paused"])
    await store.abatch([PutOp(namespace, name, value, index=False) for name, value in changes.items()])


def _paused_again(item: Item, change: dict[str, Any]) -> dict[str, Any]:
    """The next value of `paused`, with the pauses before it."""
    pauses, since = _pauses(item), item.value.get("at")
    if item.value.get("on") is True:
        if change["on"]:
            return dict(item.value)
        pauses.append([since, change["at"]])
    return {**change, "pauses": pauses[-_PAUSES_KEPT:]}


def _pauses(item: Item) -> list[Any]:
    """The past pauses that an item of `paused` names; none where it is malformed."""
    pauses = item.value.get("pauses")
    return list(pauses) if isinstance(pauses, list) else []


def in_past_pause(items: Sequence[object], at: datetime | None) -> bool:
    """Whether memory was paused at this time, and is no longer, by these items of `read_controls`."""
    paused = items[NAMES.index("paused")]
    if at is None or not isinstance(paused, Item):
        return False
    return any(begin < at + _MILLISECOND and at < end for begin, end in map(_times, _pauses(paused)))


def _times(pause: Any) -> tuple[datetime, datetime]:
    """When a pause began and ended; of a malformed one a time that nothing is within."""
    try:
        begin, end = pause
        return datetime.fromisoformat(begin).astimezone(UTC), datetime.fromisoformat(end).astimezone(UTC)
    except (OverflowError, TypeError, ValueError):
        return datetime.max.replace(tzinfo=UTC), datetime.now(UTC)


def check_not_paused(actor: identity.Actor, settings: Settings) -> Steps[None]:
    """Raise `RefusedWriteError` while the person's memory is paused. Every write of an agent calls this."""
    items = yield read_controls(actor)
    if controls_of(items, settings).paused:
        raise RefusedWriteError(f"{PAUSED}: nothing is remembered until they resume it. Tell them so.")
