"""Who may touch what, on every route of the platform.

Custom auth on this platform fails open: a resource or action without a handler is allowed. So the first handler denies
everything to everybody but operators, and each one after it opens what is meant. Who a token names is decided in
`tokens.py`, who a run acts as in `memory/scopes.py`; here their evidence is stamped where clients cannot reach it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError

from memory import scopes
from settings import Settings, load_settings
from tokens import Tokens

settings: Settings = load_settings()
tokens = Tokens(settings)
auth = Auth()

HTTPException = Auth.exceptions.HTTPException
OWNER_KEYS = ("user_id", "org_id")
# Keys of `config.configurable` by which langgraph steers its own execution, resume values among them.
INTERNAL_PREFIX = "__pregel_"


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


def _drop(mapping: object, *keys: str) -> None:
    if isinstance(mapping, MutableMapping):
        for key in keys:
            mapping.pop(key, None)


@auth.on
async def deny_by_default(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """What is not opened below is an operator's."""
    return scopes.is_operator(ctx.user, settings)


async def read_assistants(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Assistants are everybody's to read and to talk to."""


auth.on.assistants.read(read_assistants)
auth.on.assistants.search(read_assistants)


@auth.on.threads.create
async def create_thread(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """A new thread belongs to whom the token names, whatever the client's metadata says."""
    if value.get("metadata") is None:
        value["metadata"] = {}
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
    if "metadata" not in value:  # a state update or supersteps: the platform shows no more of them than the thread's id
        _check_state_write(ctx.user)
    _drop(value.get("metadata"), *OWNER_KEYS)
    return _own_only(ctx.user)


@auth.on.threads.create_run
async def create_run(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str] | None:
    """A run on one's own thread or a new one. Stamps the owner, and on an operator's run who it acts for.

    Every way to start or resume a run arrives here: runs, streams, batches, stateless ones, event-stream commands, MCP,
    A2A and crons.
    """
    kwargs = value["kwargs"]
    config, command = kwargs.get("config") or {}, kwargs.get("command") or {}
    configurable = config.get("configurable")
    if isinstance(configurable, MutableMapping):
        _drop(configurable, *(key for key in list(configurable) if key.startswith(INTERNAL_PREFIX)))
    _drop(config.get("metadata"), *OWNER_KEYS)
    if any(command.get(name) is not None for name in ("resume", "update", "goto")):
        _check_state_write(ctx.user)
    if not scopes.is_operator(ctx.user, settings):
        await _check_nothing_awaits_approval(value["thread_id"], value.get("after_seconds"))
        value["metadata"].update(_owner(ctx.user))
        return _owner(ctx.user)
    value["metadata"].update(
        await _act_as(ctx.user, value["thread_id"], kwargs, resuming=command.get("resume") is not None)
    )
    return None


async def _act_as(
    user: scopes.User, thread_id: object, kwargs: MutableMapping[str, Any], *, resuming: bool
) -> dict[str, str]:
    """Put the operator's claims, and the owner of a thread it resumes, into the run's user; say who the run acts as."""
    claims = _operator_claims(user)
    if resuming and thread_id is not None:
        claims["thread_owner"] = await _thread_owner(thread_id)
    kwargs.setdefault("config", {}).setdefault("configurable", {})["langgraph_auth_user"] = claims
    context = kwargs.get("context") or {}
    named = scopes.Context(user_id=context.get("user_id"), org_id=context.get("org_id"))
    try:
        actor = scopes.acting(_Claims(claims), named, settings, on_server=True)
    except scopes.IdentityError as error:
        raise HTTPException(status_code=400, detail=str(error)) from None
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


async def _thread_owner(thread_id: object) -> dict[str, str]:
    try:
        metadata = (await get_client().threads.get(str(thread_id)))["metadata"] or {}
    except NotFoundError:
        raise HTTPException(status_code=404, detail=f"Thread {thread_id} not found.") from None
    if not all(isinstance(metadata.get(key), str) for key in OWNER_KEYS):
        raise HTTPException(status_code=409, detail=f"Thread {thread_id} has no owner to resume it for.")
    return {key: metadata[key] for key in OWNER_KEYS}


def _check_state_write(user: scopes.User) -> None:
    """Where operators approve writes, nobody else resumes a run, or changes what they approve after they saw it."""
    if settings.shared_writes == "interrupt" and not scopes.is_operator(user, settings):
        raise _forbid("With SHARED_WRITES=interrupt only an operator may resume a run or write a thread's state.")


async def _check_nothing_awaits_approval(thread_id: object, after_seconds: int | None) -> None:
    """Nobody replaces a write that an operator is looking at: an approval names no write, it approves what is pending."""
    if settings.shared_writes != "interrupt":
        return
    if after_seconds:
        raise _forbid(
            "With SHARED_WRITES=interrupt only an operator may start a run later: it could replace a pending write."
        )
    try:
        thread = await get_client().threads.get(str(thread_id)) if thread_id else None
    except NotFoundError:
        return
    if thread and thread["status"] == "interrupted":
        detail = f"Thread {thread_id} waits for an operator's approval; go on in another thread until then."
        raise HTTPException(status_code=409, detail=detail)


async def stamp_cron(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Crons are operators'. A firing knows no more of its creator than the identity: its claims are put where it finds them.

    Only there: with `langgraph_auth_permissions` beside them, a cron with a context fails at every firing.
    """
    if not scopes.is_operator(ctx.user, settings):
        return False
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
    """People read their own memory and their organization's policies; writing goes through the agent, or is an operator's."""
    if scopes.is_operator(ctx.user, settings):
        return
    namespace = tuple(value.get("namespace") or ())
    actor = scopes.acting(ctx.user, None, settings, on_server=True)
    if ctx.action not in {"get", "search", "list_namespaces"} or not scopes.may_read(namespace, actor, settings):
        raise _forbid("You may read your own memory and your organization's policies here, nothing else.")
