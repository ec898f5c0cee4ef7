"""The handlers of `auth.py`, asked by aegra: what they are passed is as langgraph-api passes it.

A handler is asked about a value: what a request says, by the names of its fields.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import AuthContext, FilterType, Handler, HandlerResult

from lasting_memory.platform.aegra import sign_in, users

HTTPException = Auth.exceptions.HTTPException

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
    # As `auth/handlers.py` writes it.
    authenticate = cast("sign_in.Authenticate", auth._authenticate_handler)  # noqa: SLF001
    auth._authenticate_handler = sign_in.fields_by_token(authenticate)  # noqa: SLF001  # aegra reads it so
    for key, handlers in auth._handlers.items():  # noqa: SLF001
        auth._handlers[key] = [_adapted(handler) for handler in handlers]  # noqa: SLF001
    global_handlers = auth._global_handlers  # noqa: SLF001
    auth._global_handlers = [_adapted(handler) for handler in global_handlers]  # noqa: SLF001


def _adapted(handler: Handler) -> Handler:
    """The handler as aegra is to call it.

    It raises `HTTPException` 403 for a user that `auth.py` has not made, and where the handler could
    not look at what a run is sent.
    """

    async def handle(ctx: AuthContext, value: MutableMapping[str, object]) -> HandlerResult:
        if users.is_nobody(ctx.user):
            return None  # as langgraph-api asks nothing of calls as nobody
        try:
            user = users.user_of(ctx.user)
        except users.UnreadableUserError as error:
            raise HTTPException(403, str(error)) from None
        _refuse_unseen_runs(ctx)
        handler_ctx = AuthContext(
            user=user,
            permissions=[*user.permissions],
            resource=ctx.resource,
            action=ctx.action,
        )
        visible_value = _visible_value(ctx, value)
        with users.acting(user):
            answer = await handler(ctx=handler_ctx, value=visible_value)
        is_put = ctx.resource == "store" and ctx.action == "put"
        if is_put and answer is None:
            # aegra takes what a handler returns, and leaves out what it changes.
            return cast("FilterType", {"value": visible_value["value"]})
        return answer

    return handle


def _refuse_unseen_runs(ctx: AuthContext) -> None:
    """Raise `HTTPException` 403 for ways to make a run that its handler could not look at."""
    makes_run = ctx.resource == "threads" and ctx.action == "create_run"
    if makes_run and not _is_whole.get():
        raise HTTPException(403, _NO_COMMANDS)
    if ctx.resource == "crons" and ctx.action in ("create", "update"):
        raise HTTPException(403, _NO_CRONS)


def _visible_value(
    ctx: AuthContext, value: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """What the handler may look at and change.

    Of routes that change a thread aegra passes the whole body, in which a client could say
    anything. So only the ids are passed on, and for routes of runs that a run is cancelled.
    """
    if ctx.resource == "store" and ctx.action in _PREFIX:
        field = _PREFIX[ctx.action]
        namespace = value.get(field)
        if not isinstance(namespace, Sequence):
            namespace = ()
        return {**value, "namespace": tuple(namespace)}
    changes_thread = ctx.resource == "threads" and ctx.action == "update"
    if not changes_thread or _is_whole.get():
        return value
    visible_fields = dict[str, object]()
    for name in ("thread_id", "run_id"):
        if value.get(name):
            visible_fields[name] = value[name]
    if sign_in.is_about_runs():
        visible_fields["action"] = "interrupt"
    return visible_fields
