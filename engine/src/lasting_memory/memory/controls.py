"""A person's controls over their memory, and until when they have seen what changed.

A control is on, off, or not set: then the deployment's default counts. Controls say whether memory
is paused, and who proposes changes to the person instead of making them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces

PAUSED = "Memory is paused"
# Each control is an item of its own, so that changing one leaves the others alone.
NAMES = ("paused", "review", "review_agent")
# The item that says until when a person has seen the changes. The page points out what is newer.
_SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Controls:
    """One person's controls."""

    paused: bool = False  # memory stays in use, and takes nothing new
    review: bool = False  # consolidation proposes its changes to the person
    review_agent: bool = False  # the agent proposes what it would write during a conversation


def control_ops(actor: identity.Actor) -> list[GetOp]:
    """The operations whose results `controls_of` takes: one for each of `NAMES`."""
    namespace = namespaces.controls(actor)
    return [GetOp(namespace, name) for name in NAMES]


def controls_of(items: Sequence[object], deployment: Deployment) -> Controls:
    """The controls in the results of `control_ops`, with the deployment's defaults.

    Shared memory has no controls, nor has a deployment without memory: all are off.
    """
    if not deployment.has_own_memory:
        return Controls()
    paused, review, review_agent = map(_is_on, items)
    if review is None:
        review = deployment.settings.consolidation_review == "on"
    # Without consolidation nobody could decide about proposals.
    if deployment.consolidation is None:
        review_agent = False
    return Controls(
        paused=paused is True,
        review=review,
        review_agent=review_agent is True,
    )


def _is_on(item: object) -> bool | None:
    """Whether a control is on; None if its person never set it."""
    if not isinstance(item, Item):
        return None
    return item.value.get("on") is True


async def controls(store: BaseStore, actor: identity.Actor, deployment: Deployment) -> Controls:
    """A person's present controls."""
    ops = control_ops(actor)
    items = await store.abatch(ops)
    return controls_of(items, deployment)


async def set_controls(
    store: BaseStore,
    actor: identity.Actor,
    changes: Mapping[str, bool],
    writer: journal.Writer | None = None,
) -> bool:
    """Change these controls, by name.

    Returns False if the person was forgotten since the `writer` began: nothing is changed.
    """
    namespace = namespaces.controls(actor)
    at = datetime.now(UTC).isoformat()
    ops = list[PutOp]()
    for name, on in changes.items():
        value = {"on": on, "at": at}
        op = PutOp(namespace, name, value, index=False)
        ops.append(op)
    return await journal.put_unless_forgotten(store, ops, writer)


async def seen_until(store: BaseStore, actor: identity.Actor) -> str:
    """The ISO time in UTC until which a person has seen the changes of their memory; "" for never."""
    namespace = namespaces.controls(actor)
    item = await store.aget(namespace, _SEEN)
    if item is None:
        return ""
    until = item.value.get("until", "")
    return str(until)


async def set_seen(
    store: BaseStore, actor: identity.Actor, until: str, writer: journal.Writer | None = None
) -> bool:
    """Note until when a person has seen the changes of their memory.

    Returns False as `set_controls`.
    """
    namespace = namespaces.controls(actor)
    value = {"until": until}
    op = PutOp(namespace, _SEEN, value, index=False)
    return await journal.put_unless_forgotten(store, [op], writer)
