"""A person's decisions: whether memory is paused, and whether they review changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

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
    await store.abatch([PutOp(namespace, name, {"on": on, "at": at}, index=False) for name, on in given.items()])


def check_not_paused(actor: identity.Actor, settings: Settings) -> Steps[None]:
    """Raise `RefusedWriteError` while the person's memory is paused. Every write of an agent calls this."""
    items = yield read_controls(actor)
    if controls_of(items, settings).paused:
        raise RefusedWriteError(f"{PAUSED}: nothing is remembered until they resume it. Tell them so.")
