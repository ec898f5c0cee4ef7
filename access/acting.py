"""The person that an operator's run acts as, stamped where clients cannot write.

A run knows its creator by the claims in `configurable.langgraph_auth_user`. `memory/identity.py` decides from them who acts.
"""

from collections.abc import MutableMapping
from typing import Any

from langgraph_sdk import Auth

from access import run_requests
from access.approvals import thread_of
from access.run_fields import OWNER_KEYS
from memory.identity import OPERATE, Context, IdentityError, User, acting, check_person, claim
from settings import Settings


class _Claims(dict[str, Any]):
    """Claims with the attribute that the platform's user object has."""

    @property
    def identity(self) -> str:
        return str(self["identity"])


def operator_claims(user: User, settings: Settings) -> dict[str, Any]:
    """An operator's claims for a run, to which a StudioUser comes as a plain user: so the permission says operator."""
    permissions = sorted({*(claim(user, "permissions") or ()), OPERATE})
    return {"identity": user.identity, "org_id": settings.default_org, "permissions": permissions}


def stamp_claims(config: MutableMapping[str, Any], claims: dict[str, Any]) -> None:
    """Put the claims into a run's `config`.

    Only there: with `langgraph_auth_permissions` beside them, every firing of a cron with a context fails.
    """
    config.setdefault("configurable", {})["langgraph_auth_user"] = claims


async def act_as(user: User, thread_id: object, kwargs: MutableMapping[str, Any], settings: Settings) -> dict[str, str]:
    """Stamp an operator's run with the operator's claims, and with the owner of a thread that it continues.

    Returns:
        `user_id` and `org_id` of the person that the run acts as.

    Raises:
        HTTPException: 404, the run resumes a thread without an owner; 400, the context's person is not possible.
    """
    claims, command = operator_claims(user, settings), kwargs.get("command") or {}
    resumes = command.get("resume") is not None
    # A run without input continues a stopped or failed one.
    if thread_id is not None and (resumes or kwargs.get("input") is None):
        owner = await _thread_owner(thread_id)
        if owner is None and resumes:
            raise Auth.exceptions.HTTPException(404, f"There is no thread {thread_id} with an owner to resume it for.")
        if owner:
            claims["thread_owner"] = owner
    stamp_claims(kwargs.setdefault("config", {}), claims)
    context = kwargs.get("context") or {}
    try:
        named = Context(user_id=context.get("user_id"), org_id=context.get("org_id"))
        actor = acting(_Claims(claims), named, settings, on_server=True)
        check_person(actor)
    except IdentityError as error:
        raise run_requests.names_nobody(error) from None
    return {"user_id": actor.user_id, "org_id": actor.org_id}


async def _thread_owner(thread_id: object) -> dict[str, str] | None:
    thread = await thread_of(thread_id)
    metadata = (thread["metadata"] or {}) if thread else {}
    owner = {key: metadata[key] for key in OWNER_KEYS if isinstance(metadata.get(key), str)}
    return owner if len(owner) == len(OWNER_KEYS) else None
