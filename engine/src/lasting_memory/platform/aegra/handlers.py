"""The handlers of `auth.py`, asked by aegra: what they are passed is as langgraph-api passes it."""

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langgraph_sdk import Auth

from lasting_memory.platform.aegra import sign_in, users

HTTPException = Auth.exceptions.HTTPException
Handler = Callable[..., Awaitable[Any]]

# Whether the value that a handler is asked about is as langgraph-api has it. Otherwise it is what a
# client sent to a route of aegra's.
_is_whole: ContextVar[bool] = ContextVar("is_whole", default=False)

# What aegra calls the namespace of which items, or namespaces, are asked for.
_PREFIX = {"search": "namespace_prefix", "list_namespaces": "prefix"}
_NO_COMMANDS = (
    "Runs begin at /threads/{thread_id}/runs on this platform: its event-stream commands let nobody "
    "look at what a run is sent."
)
_NO_CRONS = (
    "This platform's crons know their owner's label and no claims, so their runs would be "
    "nobody's; call POST /memory/consolidate by a scheduler of your own."
)


@contextmanager
def whole_value() -> Iterator[None]:
    """Within this context, handlers are asked about a value as langgraph-api has it."""
    token = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(token)


def adapt(auth: Auth, label_of: users.LabelOf) -> None:
    """Have aegra ask the handlers of this `auth` as langgraph-api would.

    `label_of` gives the label of a person, by identity and organization.
    """
    users.set_label_of(label_of)
    authenticate: Any = auth._authenticate_handler  # noqa: SLF001  # aegra reads it so
    auth._authenticate_handler = sign_in.fields_by_token(authenticate)  # noqa: SLF001
    for (resource, action), handlers in auth._handlers.items():  # noqa: SLF001
        asked = [_asked(handler, resource, action) for handler in handlers]
        auth._handlers[resource, action] = asked  # noqa: SLF001
    auth._global_handlers = [_asked(handler, "*", "*") for handler in auth._global_handlers]  # noqa: SLF001


def _asked(handler: Handler, resource: str, action: str) -> Any:
    """The handler as aegra is to call it."""

    async def handle(ctx: Any, value: Any) -> Any:
        if users.is_nobody(ctx.user):
            return None  # as langgraph-api asks nothing of calls as nobody
        try:
            user = users.user_of(ctx.user)
        except users.UnreadableUserError as error:
            raise HTTPException(403, str(error)) from None
        _refuse_unseen_runs(ctx)
        asked = Auth.types.AuthContext(
            user=user,
            permissions=[*user.permissions],
            resource=ctx.resource,
            action=ctx.action,
        )
        seen = _value_of(ctx, value)
        with users.acting(user):
            answer = await handler(ctx=asked, value=seen)
        if (ctx.resource, ctx.action) == ("store", "put") and answer is None:
            # aegra takes what a handler returns, and leaves out what it changes.
            return {"value": seen["value"]}
        return answer

    return handle


def _refuse_unseen_runs(ctx: Any) -> None:
    """Raise `HTTPException` 403 for ways to make a run that its handler could not look at."""
    if (ctx.resource, ctx.action) == ("threads", "create_run") and not _is_whole.get():
        raise HTTPException(403, _NO_COMMANDS)
    if ctx.resource == "crons" and ctx.action in ("create", "update"):
        raise HTTPException(403, _NO_CRONS)


def _value_of(ctx: Any, value: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What the handler may look at and change.

    Of routes that change a thread aegra passes the whole body, in which a client could say
    anything. So only the ids are passed on, and for routes of runs that a run is cancelled.
    """
    if ctx.resource == "store" and ctx.action in _PREFIX:
        return {**value, "namespace": tuple(value.get(_PREFIX[ctx.action]) or ())}
    if (ctx.resource, ctx.action) != ("threads", "update") or _is_whole.get():
        return value
    passed = {name: value[name] for name in ("thread_id", "run_id") if value.get(name)}
    if sign_in.is_about_runs():
        passed["action"] = "interrupt"
    return passed
