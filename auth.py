"""Who may touch what, on every route of the platform.

Custom auth on this platform fails open: a resource or action without a handler is allowed. So the first handler denies
everything to everybody but operators, and each one after it opens what is meant. Who a token names is decided in
`tokens.py`, who a run acts as in `memory/scopes.py`, which parts of a request reach a run in `run_requests.py`; here the
evidence of the first two is stamped where clients cannot reach it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

import run_requests
from approvals import check_approval
from memory import scopes
from memory.validation import RefusedWriteError, check_policy, check_text
from run_fields import OWNER_KEYS
from settings import MAX_BUSY_THREADS, MAX_INPUT_BYTES, Settings, load_settings
from tokens import Tokens

settings: Settings = load_settings()
tokens = Tokens(settings)
auth = Auth()

logger = logging.getLogger("auth")
HTTPException = Auth.exceptions.HTTPException
WRITE_POLICIES = "policies:write"
# As the platform stamps it on threads.
CONSOLIDATION = "consolidation_agent"


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """The user behind a request. No `request` parameter: with one, the platform refuses every WebSocket."""
    return await tokens.user(authorization)


def _owner(user: scopes.User) -> dict[str, str]:
    """Who owns what this user creates, and whose threads they see."""
    actor = scopes.acting(user, None, settings, on_server=True)
    return {"user_id": actor.user_id, "org_id": actor.org_id}


def _own_only(user: scopes.User) -> dict[str, str] | None:
    """The filter on threads: operators see all of them."""
    return None if scopes.is_operator(user, settings) else _owner(user)


def _forbid(detail: str) -> HTTPException:
    return HTTPException(status_code=403, detail=detail)


@auth.on
async def deny_by_default(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """What is not opened below is an operator's."""
    return scopes.is_operator(ctx.user, settings)


async def read_assistants(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Assistants are everybody's to read and to talk to."""


auth.on.assistants.read(read_assistants)
auth.on.assistants.search(read_assistants)


async def write_assistants(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Assistants are operators' to make. What they hold reaches every run of theirs, so it is rebuilt as runs are."""
    if not scopes.is_operator(ctx.user, settings):
        return False
    run_requests.rebuild_assistant(value)
    return True


auth.on.assistants.create(write_assistants)
auth.on.assistants.update(write_assistants)


@auth.on.threads.create
async def create_thread(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """A new thread belongs to whom the token names, whatever the client's metadata says."""
    if value.get("metadata") is None:  # a copy: the platform copies the owner, too
        value["metadata"] = {}
    run_requests.rebuild_thread_metadata(value["metadata"], new=True)
    value["metadata"].update(_owner(ctx.user))
    return _own_only(ctx.user)


async def use_own_threads(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """People read, find and delete their own threads."""
    return _own_only(ctx.user)


auth.on.threads.read(use_own_threads)
auth.on.threads.search(use_own_threads)
auth.on.threads.delete(use_own_threads)


@auth.on.threads.update
async def update_thread(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """An update never changes the owner. Writing state is an operator's where approvals depend on it."""
    if "action" in value:  # runs are cancelled: `metadata` says which
        return _own_only(ctx.user)
    if "metadata" in value:
        run_requests.rebuild_thread_metadata(value["metadata"], new=False)
    else:  # a state update or supersteps: the platform shows no more of them than the thread's id
        _check_state_write(ctx.user)
    return _own_only(ctx.user)


@auth.on.threads.create_run
async def create_run(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """A run on one's own thread or a new one. Stamps the owner, and on an operator's run who it acts for.

    Every way to start or resume a run arrives here: runs, streams, batches, stateless ones, event-stream commands, MCP,
    A2A and crons.
    """
    kwargs, operator = value["kwargs"], scopes.is_operator(ctx.user, settings)
    command = kwargs.get("command") or {}
    if any(command.get(name) is not None for name in ("resume", "update", "goto")):
        _check_state_write(ctx.user)
    run_requests.rebuild_run(value, operator=operator)
    if not operator:
        consolidates = str(value["assistant_id"]) == scopes.DEFAULT_CONSOLIDATION_ASSISTANT
        await _check_limits(ctx.user, kwargs, consolidates=consolidates)
        await _check_nothing_awaits_approval(value["thread_id"], value.get("after_seconds"), consolidates=consolidates)
        value["metadata"].update(_owner(ctx.user))
        return _owner(ctx.user)
    if command.get("resume") is not None:
        await _check_idle(value["thread_id"])
    value["metadata"].update(await _act_as(ctx.user, value["thread_id"], kwargs))
    if command.get("resume") is not None and settings.shared_writes == "interrupt":
        await check_approval(value["thread_id"], kwargs)
    return None


async def _act_as(user: scopes.User, thread_id: object, kwargs: MutableMapping[str, Any]) -> dict[str, str]:
    """Put the operator's claims, and the owner of a thread it goes on with, into the run's user; say who the run acts as."""
    claims, command = _operator_claims(user), kwargs.get("command") or {}
    resumes = command.get("resume") is not None
    # Without input a run goes on with what is there, as one that was stopped or failed is gone on with.
    if thread_id is not None and (resumes or kwargs.get("input") is None):
        owner = await _thread_owner(thread_id)
        if owner is None and resumes:
            raise HTTPException(status_code=404, detail=f"There is no thread {thread_id} with an owner to resume it for.")
        if owner:
            claims["thread_owner"] = owner
    kwargs.setdefault("config", {}).setdefault("configurable", {})["langgraph_auth_user"] = claims
    context = kwargs.get("context") or {}
    try:
        named = scopes.Context(user_id=context.get("user_id"), org_id=context.get("org_id"))
        actor = scopes.acting(_Claims(claims), named, settings, on_server=True)
        scopes.check_person(actor)
    except scopes.IdentityError as error:
        raise run_requests.names_nobody(error) from None
    return {"user_id": actor.user_id, "org_id": actor.org_id}


def _operator_claims(user: scopes.User) -> dict[str, Any]:
    """An operator's claims as a run gets them. A StudioUser reaches it as a plain user: the permission says what it is."""
    permissions = sorted({*(scopes.claim(user, "permissions") or ()), scopes.OPERATE})
    return {"identity": user.identity, "org_id": settings.default_org, "permissions": permissions}


class _Claims(dict[str, Any]):
    """Claims as the platform's user object presents them."""

    @property
    def identity(self) -> str:
        return str(self["identity"])


async def _thread(thread_id: object) -> Thread | None:
    """A thread the caller may see; None if there is none."""
    try:
        return await get_client().threads.get(str(thread_id)) if thread_id else None
    except NotFoundError:
        return None


async def _thread_owner(thread_id: object) -> dict[str, str] | None:
    thread = await _thread(thread_id)
    metadata: dict[str, Any] = dict(thread["metadata"] or {}) if thread else {}
    owner = {key: metadata[key] for key in OWNER_KEYS if isinstance(metadata.get(key), str)}
    return owner if len(owner) == len(OWNER_KEYS) else None


def _check_state_write(user: scopes.User) -> None:
    """Where operators approve writes, nobody else resumes a run, or changes what they approve after they saw it."""
    if settings.shared_writes == "interrupt" and not scopes.is_operator(user, settings):
        raise _forbid("With SHARED_WRITES=interrupt only an operator may resume a run or write a thread's state.")


async def _check_limits(user: scopes.User, kwargs: MutableMapping[str, Any], *, consolidates: bool) -> None:
    """What one person may ask for at once.

    The platform counts busy threads, not runs, and not atomically: runs that queue up on one thread count once, and a burst of
    requests can pass by as many as arrive before the first of them is counted. A thread with a run planned for later counts as
    busy: conversations and consolidation are counted apart, so that neither keeps the other from starting.
    """
    sent = [kwargs.get(name) for name in ("input", "command", "context")]
    size = len(json.dumps(sent, ensure_ascii=False).encode(errors="replace"))
    if size > MAX_INPUT_BYTES:
        raise HTTPException(status_code=413, detail=f"A run may be sent {MAX_INPUT_BYTES:,} bytes, not {size:,}; send less.")
    owner, threads = _owner(user), get_client().threads
    consolidation = {**owner, "graph_id": CONSOLIDATION}
    busy = await threads.count(metadata=consolidation if consolidates else owner, status="busy")
    if busy >= MAX_BUSY_THREADS and not consolidates:
        busy -= min(await threads.count(metadata=consolidation, status="busy"), MAX_BUSY_THREADS)
    if busy >= MAX_BUSY_THREADS:
        detail = f"{busy} of your conversations have a run going; wait until one of them ends."
        raise HTTPException(status_code=429, detail=detail)


async def _check_nothing_awaits_approval(thread_id: object, after_seconds: int | None, *, consolidates: bool) -> None:
    """Nobody replaces a write that an operator is looking at.

    So where operators approve, people have one run at a time on a thread, and none while it waits. Consolidation may be planned
    ahead and queued, on threads of its own: it asks for no approval, and what does, a conversation, may not go on there.
    """
    if settings.shared_writes != "interrupt":
        return
    thread = await _thread(thread_id)
    graph = (thread["metadata"] or {}).get("graph_id") if thread else None
    if consolidates and (thread is None or graph == CONSOLIDATION):
        return
    if graph == CONSOLIDATION:
        raise HTTPException(status_code=409, detail=f"Thread {thread_id} is consolidation's; go on in another thread.")
    if after_seconds:
        raise _forbid("With SHARED_WRITES=interrupt only an operator may start a run later: it could replace a write.")
    if thread and thread["status"] == "interrupted":
        detail = f"Thread {thread_id} waits for an operator's approval; go on in another thread."
        raise HTTPException(status_code=409, detail=detail)
    if thread and thread["status"] == "busy":
        raise HTTPException(status_code=409, detail=f"Thread {thread_id} has a run going; wait until it ends.")


async def _check_idle(thread_id: object) -> None:
    """An approval that had to wait behind another run would approve what that one asks for."""
    thread = await _thread(thread_id)
    if thread and thread["status"] == "busy":
        raise HTTPException(status_code=409, detail=f"Thread {thread_id} has a run going; look at what it asks for first.")


async def stamp_cron(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Crons are operators'. A firing knows no more of its creator than the identity: its claims are put where it finds them.

    Only there: with `langgraph_auth_permissions` beside them, a cron with a context fails at every firing.
    """
    if not scopes.is_operator(ctx.user, settings):
        return False
    run_requests.rebuild_cron(value)
    payload = value.get("payload")
    if ctx.action == "create" or (payload and payload.get("config") is not None):  # an update with a config replaces it
        config = payload.get("config") or {}
        config.setdefault("configurable", {})["langgraph_auth_user"] = _operator_claims(ctx.user)
        payload["config"] = config
    return True


auth.on.crons.create(stamp_cron)
auth.on.crons.update(stamp_cron)


@auth.on.store
async def use_store(ctx: Auth.types.AuthContext, value: Any) -> None:
    """People read their own memory and their organization's policies. Writing is the agent's or an operator's; but with the
    permission `policies:write` people change the policies of their own organization, and it is logged.
    """
    try:
        check_text([part for name, part in value.items() if name != "value"])
    except RefusedWriteError as error:
        raise HTTPException(status_code=422, detail=str(error)) from None
    if scopes.is_operator(ctx.user, settings):
        return
    namespace = tuple(value.get("namespace") or ())
    actor = scopes.acting(ctx.user, None, settings, on_server=True)
    if ctx.action in {"put", "delete"} and namespace == scopes.policies(actor.org_id):
        if WRITE_POLICIES not in (scopes.claim(ctx.user, "permissions") or ()):
            raise _forbid(f"Changing policies takes the permission {WRITE_POLICIES}.")
        try:
            check_policy(value["key"], value.get("value"))
        except RefusedWriteError as error:
            raise HTTPException(status_code=422, detail=str(error)) from None
        # A warning, so that no usual log level hides it.
        logger.warning("AUDIT policies.%s org=%r by=%r key=%r", ctx.action, actor.org_id, actor.user_id, value["key"])
        return
    if ctx.action not in {"get", "search", "list_namespaces"} or not scopes.may_read(namespace, actor, settings):
        raise _forbid("You may read your own memory and your organization's policies here, nothing else.")
