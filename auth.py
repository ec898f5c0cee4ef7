"""Authorization for every route of the platform.

Custom auth on this platform fails open: it allows a resource or action without a handler. So the first handler denies
everything to everybody except operators, and each handler after it opens one thing. `access/tokens.py` verifies tokens,
`access/run_requests.py` decides what of a request reaches a run, `memory/identity.py` decides whom a run acts as; the handlers
stamp the evidence where clients cannot write.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.schema import Thread

from access import run_requests
from access.acting import (
    act_as,
    check_approval,
    check_idle,
    check_nothing_awaits_approval,
    operator_claims,
    stamp_claims,
    thread_of,
)
from access.admission import ADMISSION, check_run, check_size, check_thread
from access.tokens import Tokens
from memory import identity, langgraph_internals, namespaces
from memory.controls import HELD_WHILE_PAUSED, TEMPORARY, controls, delete_temporary, is_temporary, keep_out
from memory.identity import User, acting
from memory.validation import RefusedWriteError, check_policy, check_text
from settings import Settings, load_settings

settings: Settings = load_settings()
tokens = Tokens(settings)
auth = Auth()
_background: set[asyncio.Task[None]] = set()

logger = logging.getLogger("auth")
HTTPException = Auth.exceptions.HTTPException
AuthContext = Auth.types.AuthContext


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """The user behind a request, once admitted. With a `request` parameter the platform would refuse every WebSocket."""
    user = await tokens.user(authorization)
    if user["identity"] not in settings.operators and identity.OPERATE not in user["permissions"]:
        await ADMISSION.request((user["org_id"], user["identity"]))
    return user


def _is_operator(user: User) -> bool:
    return identity.is_operator(user, settings)


def _owner(user: User) -> dict[str, str]:
    """The owner of this user's new threads, as thread metadata."""
    actor = acting(user, None, settings, on_server=True)
    return {"user_id": actor.user_id, "org_id": actor.org_id}


def _own_only(user: User) -> dict[str, str] | None:
    """The filter on threads. Operators see all of them."""
    return None if _is_operator(user) else _owner(user)


@auth.on
async def deny_by_default(ctx: AuthContext, value: Any) -> bool:
    """Only operators may use actions that no handler below opens."""
    return _is_operator(ctx.user)


async def read_assistants(ctx: AuthContext, value: Any) -> None:
    """Everybody may read assistants and talk to them."""


async def write_assistants(ctx: AuthContext, value: Any) -> bool:
    """Operators make assistants. Their contents reach every run of theirs, so they are rebuilt as runs are."""
    if not _is_operator(ctx.user):
        return False
    run_requests.rebuild_assistant(value)
    return True


@auth.on.threads.create
async def create_thread(ctx: AuthContext, value: Any) -> dict[str, str] | None:
    """A new thread belongs to the person of the token. The client's metadata cannot change that."""
    if not _is_operator(ctx.user):
        await check_thread(_owner(ctx.user))
    if value.get("metadata") is None:  # a copy: the platform copies the owner, too
        value["metadata"] = {}
    run_requests.rebuild_thread_metadata(value["metadata"], new=True)
    _begin_visit(ctx.user)
    value["metadata"].update(_owner(ctx.user))
    return _own_only(ctx.user)


async def use_own_threads(ctx: AuthContext, value: Any) -> dict[str, str] | None:
    """People read, find and delete their own threads."""
    return _own_only(ctx.user)


@auth.on.threads.update
async def update_thread(ctx: AuthContext, value: Any) -> dict[str, str] | None:
    """An update never changes the owner. Only operators write state where approvals depend on it."""
    if "metadata" in value and "action" not in value:  # with an action it cancels runs: `metadata` says which
        run_requests.rebuild_thread_metadata(value["metadata"], new=False)
    elif "action" not in value:  # a state update or supersteps, of which the platform shows only the thread's id
        _check_state_write(ctx.user)
        if thread := await thread_of(value.get("thread_id")):
            await _note_pause({**_owner(ctx.user), **(thread["metadata"] or {})}, thread)
    return _own_only(ctx.user)


@auth.on.threads.create_run
async def create_run(ctx: AuthContext, value: Any) -> dict[str, str] | None:
    """A run on one's own thread or a new one. Stamps the owner, and on an operator's run the person that it acts as.

    Every way to start or resume a run arrives here: runs, streams, batches, stateless ones, event-stream commands, MCP,
    A2A and crons.
    """
    kwargs, operator, thread_id = value["kwargs"], _is_operator(ctx.user), value["thread_id"]
    if not operator:
        check_size(value)
    command, told = kwargs.get("command") or {}, (value["metadata"], (kwargs.get("config") or {}).get("metadata"))
    asks_temporary = any(run_requests.asks_temporary(metadata) for metadata in told)
    if any(command.get(name) is not None for name in ("resume", "update", "goto")):
        _check_state_write(ctx.user)
    run_requests.rebuild_run(value, operator=operator)
    # A run decides whether its new thread is temporary. An existing thread keeps what it is.
    thread = await thread_of(thread_id)
    if is_temporary(thread) if thread else asks_temporary:
        value["metadata"][TEMPORARY] = True
    if thread is None:
        _begin_visit(ctx.user)
    approvals, resumes = settings.shared_writes == "interrupt", command.get("resume") is not None
    if not operator:
        consolidates = str(value["assistant_id"]) == identity.DEFAULT_CONSOLIDATION_ASSISTANT
        owner = _owner(ctx.user)
        await check_run(owner, value, settings, consolidates=consolidates)
        if approvals:  # with the thread as it is now: the person's runs are checked one after another
            now = await thread_of(thread_id)
            await check_nothing_awaits_approval(now, value.get("after_seconds"), consolidates=consolidates)
    else:
        if resumes:
            check_idle(thread)
        owner = act_as(ctx.user, thread, kwargs, settings)
        if resumes and approvals:
            await check_approval(thread_id, kwargs)
    value["metadata"].update(owner)
    if await _note_pause(owner, thread):
        value["metadata"][HELD_WHILE_PAUSED] = True  # also of the thread that the run creates
    return None if operator else owner


def _begin_visit(user: User) -> None:
    """A person's first new conversation in a while deletes their expired temporary ones, in the background, as that user."""
    actor = acting(user, None, settings, on_server=True)
    if ADMISSION.is_first_visit((actor.org_id, actor.user_id)):
        task = asyncio.create_task(_delete_temporary(actor))
        _background.add(task)  # the event loop itself keeps no task alive
        task.add_done_callback(_background.discard)


async def _delete_temporary(actor: identity.Actor) -> None:
    try:
        await delete_temporary(get_client(), actor)
    except Exception:  # no error here concerns the request
        logger.warning("Temporary conversations could not be deleted. The sweep does it.", exc_info=True)


async def _note_pause(owner: Mapping[str, Any], thread: Thread | None) -> bool:
    """Whether the person's memory is paused. Then marks the thread: consolidation skips what was said during the pause."""
    actor = identity.Actor(owner["user_id"], owner["org_id"])
    paused = (await controls(await langgraph_internals.store(), actor, settings)).paused
    if paused and thread:
        await keep_out(thread["thread_id"], thread["metadata"])
    return paused


def _check_state_write(user: User) -> None:
    """Where operators approve writes, nobody else may resume a run, or change the state that an operator approves."""
    if settings.shared_writes == "interrupt" and not _is_operator(user):
        raise HTTPException(403, "With SHARED_WRITES=interrupt only an operator may resume a run or write a thread's state.")


async def stamp_cron(ctx: AuthContext, value: Any) -> bool:
    """Operators make crons. A firing knows only its creator's identity, so the creator's claims are stamped into it."""
    if not _is_operator(ctx.user):
        return False
    run_requests.rebuild_cron(value)
    payload = value.get("payload")
    if ctx.action == "create" or (payload and payload.get("config") is not None):  # an update with a config replaces it
        payload["config"] = payload.get("config") or {}
        stamp_claims(payload["config"], operator_claims(ctx.user, settings))
    return True


@auth.on.store
async def use_store(ctx: AuthContext, value: Any) -> None:
    """People read their own memory and their organization's policies. The agent or an operator writes them; with the permission
    `policies:write` people also write the policies of their own organization, and the log says so.
    """
    namespace = tuple(value.get("namespace") or ())
    try:
        check_text([part for name, part in value.items() if name != "value"])
        if _is_operator(ctx.user):
            if ctx.action == "put" and (noted := namespaces.noted(namespace)):
                await (await langgraph_internals.store()).aput(*noted, {}, index=False)
            return
        actor = acting(ctx.user, None, settings, on_server=True)
        if ctx.action in {"put", "delete"} and namespace == namespaces.policies(actor.org_id):
            if not identity.may_write_policies(ctx.user, settings):
                raise HTTPException(403, f"Changing policies takes the permission {identity.WRITE_POLICIES}.")
            check_policy(value["key"], value.get("value"))
            run_requests.rebuild_store_request(ctx.action, value)
            # A warning, so that no usual log level hides it.
            logger.warning("AUDIT policies.%s org=%r by=%r key=%r", ctx.action, actor.org_id, actor.user_id, value["key"])
            return
    except RefusedWriteError as error:
        raise HTTPException(422, str(error)) from None
    if ctx.action not in {"get", "search", "list_namespaces"} or not namespaces.may_read(namespace, actor, settings):
        raise HTTPException(403, "You may read your own memory and your organization's policies here, nothing else.")
    run_requests.rebuild_store_request(ctx.action, value)


# A decorator registers one action; these handlers have several.
auth.on.assistants.read(read_assistants)
auth.on.assistants.search(read_assistants)
auth.on.assistants.create(write_assistants)
auth.on.assistants.update(write_assistants)
auth.on.threads.read(use_own_threads)
auth.on.threads.search(use_own_threads)
auth.on.threads.delete(use_own_threads)
auth.on.crons.create(stamp_cron)
auth.on.crons.update(stamp_cron)
