"""Whom an operator's run acts as, and which approvals it may give; threads as auth handlers see them.

A run knows its creator by the claims in `configurable.langgraph_auth_user`. `memory/identity.py` decides from them who acts.

An approval names the pending interrupts that it answers. A resume value without an interrupt's id answers any interrupt that is
pending when the run executes. The owner of a thread could delete and recreate it with the same id and another pending write.
Its interrupt then has another id, which comes from the checkpoint.
"""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

from access.run_requests import OWNER_KEYS, names_nobody
from memory.identity import OPERATE, Context, IdentityError, User, acting, check_person, claim
from settings import CONSOLIDATION_GRAPH, Settings

HTTPException = Auth.exceptions.HTTPException

# With this key in `config.configurable`, langgraph fails a run that answers an interrupt which is not pending. Without it the
# run ignores the answer and continues.
STRICT_RESUME = "__pregel_strict_resume"
# With any other key langgraph takes the whole map as one answer to any pending interrupt.
_INTERRUPT = re.compile("[0-9a-f]{32}")


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


def act_as(user: User, thread: Thread | None, kwargs: MutableMapping[str, Any], settings: Settings) -> dict[str, str]:
    """Stamp an operator's run with the operator's claims, and with the owner of a thread that it continues.

    Returns:
        `user_id` and `org_id` of the person that the run acts as.

    Raises:
        HTTPException: 404, the run resumes a thread without an owner; 400, the context's person is not possible.
    """
    claims, resumes = operator_claims(user, settings), (kwargs.get("command") or {}).get("resume") is not None
    if resumes or kwargs.get("input") is None:  # without input a run continues a stopped or failed one
        metadata = (thread["metadata"] or {}) if thread else {}
        if all(isinstance(metadata.get(key), str) for key in OWNER_KEYS):
            claims["thread_owner"] = {key: metadata[key] for key in OWNER_KEYS}
        elif resumes:
            raise HTTPException(404, "There is no such thread with an owner to resume it for.")
    stamp_claims(kwargs.setdefault("config", {}), claims)
    context = kwargs.get("context") or {}
    try:
        named = Context(user_id=context.get("user_id"), org_id=context.get("org_id"))
        actor = acting(_Claims(claims), named, settings, on_server=True)
        check_person(actor)
    except IdentityError as error:
        raise names_nobody(error) from None
    return {"user_id": actor.user_id, "org_id": actor.org_id}


async def thread_of(thread_id: object) -> Thread | None:
    """The thread, or None if it does not exist or the caller may not see it."""
    try:
        return await get_client().threads.get(str(thread_id)) if thread_id else None
    except NotFoundError:
        return None


# --- Approvals -------------------------------------------------------------------------------------------------------


async def check_approval(thread_id: object, kwargs: Mapping[str, Any]) -> None:
    """Refuse a resume that does not name the pending interrupts that it answers. The run itself checks the names again.

    Raises:
        HTTPException: 422, a key is not the id of an interrupt; 409, an interrupt is not pending, or the resume names an
            earlier checkpoint. The detail lists the pending interrupts.
    """
    pending, newest = await _pending(thread_id)
    answered, configurable = kwargs["command"]["resume"], kwargs["config"]["configurable"]
    if not isinstance(answered, Mapping) or not answered or not all(_INTERRUPT.fullmatch(key) for key in answered):
        raise _refused(422, "The resume does not name the interrupts that it answers.", pending)
    if unknown := [key for key in answered if key not in pending]:
        raise _refused(409, f"The resume names {unknown[0]}, which is not pending.", pending)
    if str(configurable.get("checkpoint_id") or newest) != newest:
        raise _refused(409, "The resume goes back to an earlier checkpoint; leave it out.", pending)
    configurable[STRICT_RESUME] = True


async def _pending(thread_id: object) -> tuple[list[str], str]:
    """Ids of the pending interrupts of a thread that the caller may see, and of its newest checkpoint."""
    try:
        state = await get_client().threads.get_state(str(thread_id))
    except NotFoundError:
        return [], ""
    newest = (state["checkpoint"] or {}).get("checkpoint_id")
    return sorted({str(interrupt["id"]) for interrupt in state["interrupts"]}), str(newest)


def _refused(status: int, why: str, pending: list[str]) -> Exception:
    if not pending:
        return HTTPException(status, f"{why} Nothing waits for an approval on this thread.")
    how = f'look at what waits, and send {{"resume": {{"<id>": {{"decisions": [...]}}}}}} with an id of {", ".join(pending)}.'
    return HTTPException(status, f"{why} With SHARED_WRITES=interrupt {how}")


async def check_nothing_awaits_approval(thread: Thread | None, after_seconds: int | None, *, consolidates: bool) -> None:
    """Refuse a run that could replace a write which awaits an operator's approval.

    People have one run at a time on a thread, and none while it awaits approval. Consolidation asks for no approval, so its
    runs may be queued, on threads of its own, where no conversation may continue.

    Raises:
        HTTPException: 403, the run is to start later; 409, the thread is not free.
    """
    of_consolidation = thread is not None and (thread["metadata"] or {}).get("graph_id") == CONSOLIDATION_GRAPH
    if consolidates and (thread is None or of_consolidation):
        return
    if of_consolidation:
        raise HTTPException(409, "This thread is consolidation's; go on in another thread.")
    if after_seconds:
        raise HTTPException(
            403, "With SHARED_WRITES=interrupt only an operator may start a run later: it could replace a write."
        )
    # A thread whose paused run was deleted stays interrupted with nothing to approve.
    if thread and thread["status"] == "interrupted" and (await _pending(thread["thread_id"]))[0]:
        raise HTTPException(409, "This thread waits for an operator's approval; go on in another thread.")
    check_idle(thread, "wait until it ends")


def check_idle(thread: Thread | None, fix: str = "look at what it asks for first") -> None:
    """Refuse (409) a busy thread: behind another run an approval would be for that run's write."""
    if thread and thread["status"] == "busy":
        raise HTTPException(409, f"This thread has a run going; {fix}.")
