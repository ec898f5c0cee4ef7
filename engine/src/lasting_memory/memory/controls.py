"""A person's controls over their memory, and until when they have seen what changed.

Controls say whether memory is paused, and who proposes changes to the person.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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

    def told(self) -> dict[str, bool]:
        """As clients see them, by name.

        `review_agent` came later than the others: it is there only where it is on.
        """
        by_name = asdict(self)
        if not self.review_agent:
            del by_name["review_agent"]
        return by_name


def read_controls(actor: identity.Actor) -> list[GetOp]:
    """The operations whose results `controls_of` takes."""
    return [GetOp(namespaces.controls(actor), name) for name in NAMES]


def controls_of(items: Sequence[object], deployment: Deployment) -> Controls:
    """The controls in these items, with the deployment's defaults.

    Shared memory has no controls, nor has a deployment without memory.
    """
    if not deployment.has_own_memory:
        return Controls()
    paused, review, review_agent = map(_is_on, items)
    if review is None:
        review = deployment.settings.consolidation_review == "on"
    if deployment.consolidation is None:
        review_agent = False
    return Controls(bool(paused), review, bool(review_agent))


def _is_on(item: object) -> bool | None:
    """Whether a control is on; None if its person never set it."""
    if not isinstance(item, Item):
        return None
    return item.value.get("on") is True


async def controls(store: BaseStore, actor: identity.Actor, deployment: Deployment) -> Controls:
    """A person's present controls."""
    items = await store.abatch(read_controls(actor))
    return controls_of(items, deployment)


async def set_controls(
    store: BaseStore,
    actor: identity.Actor,
    changes: Mapping[str, bool],
    began: journal.Began | None = None,
) -> bool:
    """Change these controls, by name.

    Returns False if the person was forgotten since this `began`: nothing is changed.
    """
    namespace = namespaces.controls(actor)
    at = datetime.now(UTC).isoformat()
    ops = list[PutOp]()
    for name, on in changes.items():
        value = {"on": on, "at": at}
        ops.append(PutOp(namespace, name, value, index=False))
    return await journal.put_unless_forgotten(store, ops, began)


async def seen_until(store: BaseStore, actor: identity.Actor) -> str:
    """The ISO time in UTC until which a person has seen the changes of their memory; "" for never."""
    item = await store.aget(namespaces.controls(actor), _SEEN)
    return str(item.value.get("until", "")) if item else ""


async def set_seen(
    store: BaseStore, actor: identity.Actor, until: str, began: journal.Began | None = None
) -> bool:
    """Note until when a person has seen the changes of their memory.

    Returns False as `set_controls`.
    """
    op = PutOp(namespaces.controls(actor), _SEEN, {"until": until}, index=False)
    return await journal.put_unless_forgotten(store, [op], began)
