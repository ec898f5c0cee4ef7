"""Whose memory a conversation or a run belongs to: its *owner*."""

from dataclasses import asdict, dataclass

from langgraph_sdk.schema import Thread

from lasting_memory.deployment import Deployment
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: a person, under `MEMORY_SCOPE=user+assistant` with an assistant."""

    actor: identity.Actor
    assistant_id: str | None = None

    @property
    def key(self) -> str:
        """What tells the owners of one person apart."""
        return self.assistant_id or "all"

    def context(self) -> dict[str, str]:
        """The context of a run, which names this owner.

        It counts in operators' runs. Other people's runs are always their own.
        """
        context = asdict(self.actor)
        if self.assistant_id:
            context["assistant_id"] = self.assistant_id
        return context


def owner_for(caller: Caller, deployment: Deployment) -> Owner:
    """The owner of the run that calls."""
    return _owner(caller.actor, caller.assistant, deployment)


def owner_of(thread: Thread, deployment: Deployment) -> Owner | None:
    """The owner that `auth.py` and the platform stamped on a thread's metadata. None without a valid
    one: no run could act for them.
    """
    metadata = thread["metadata"] or {}
    user_id = metadata.get("user_id")
    org_id = metadata.get("org_id")
    assistant_id = metadata.get("assistant_id")
    if not isinstance(user_id, str):
        return None
    if not isinstance(org_id, str):
        return None
    if not isinstance(assistant_id, str):
        return None
    actor = identity.Actor(user_id, org_id)
    try:
        identity.check_person(actor)
    except identity.IdentityError:
        return None
    return _owner(actor, assistant_id, deployment)


def _owner(actor: identity.Actor, assistant_id: str | None, deployment: Deployment) -> Owner:
    """The owner of a memory that this person uses with this assistant."""
    if deployment.memory.per_assistant:
        return Owner(actor, assistant_id)
    return Owner(actor)
