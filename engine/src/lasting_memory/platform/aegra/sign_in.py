"""The sign-in: whom `auth.py` admits becomes the user of a request, for aegra and for this library."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from aegra_api.core.auth_deps import _AUTH_RESULT_SCOPE_KEY
from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.models.auth import User
from langgraph_sdk import Auth
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lasting_memory.platform.aegra.client import current_call, label_of_thread, thread_in
from lasting_memory.platform.aegra.users import (
    SignedInUser,
    fields_of,
    is_nobody,
    label_of,
    user_of,
)

Refused = Auth.exceptions.HTTPException
Authenticate = Callable[[str | None], Awaitable[Mapping[str, Any]]]


# The path of the request that this task carries out.
_path: ContextVar[str] = ContextVar("path", default="")


def is_about_runs() -> bool:
    """Whether the request that this task carries out is one of the routes of runs."""
    parts = _path.get().strip("/").split("/")
    return parts[0] == "runs" or parts[2:3] == ["runs"]


class SignIn:
    """ASGI middleware that signs in whoever sends a token, and calls from inside of the server.

    aegra signs in within each route, answers 401 whatever the reason, and gives routes a user of
    whom only the attributes can be read. A request without a token is left to aegra, which refuses
    it where a route asks who calls.
    """

    def __init__(self, app: ASGIApp, authenticate: Callable[[], Authenticate]) -> None:
        self.app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        _path.set(str(scope["path"]))
        call = current_call() if scope.get("root_path") == "/noauth" else None
        if call is not None:
            _put(scope, User(**call.fields))
            await self.app(scope, receive, send)
            return
        authorization = Headers(scope=scope).get("authorization")
        if authorization is not None:
            try:
                fields = await self._authenticate()(authorization)
            except Refused as error:
                await _refusal(error)(scope, receive, send)
                return
            _put(scope, await _for_thread(User(**fields), str(scope["path"])))
        await self.app(scope, receive, send)


async def _for_thread(user: Any, path: str) -> Any:
    """The user of a request about one thread, as whom aegra finds it.

    aegra finds a thread for its owner alone. Whoever may see all threads, as the handlers say, that
    is an operator, has its owner's label for this request.
    """
    owner = await label_of_thread(thread_in(path))
    if owner in ("", user.identity):
        return user
    try:
        seen = await handle_event(build_auth_context(user, "threads", "read"), {})
    except HTTPException:
        return user
    if seen is None:
        user.identity = owner
    return user


def _put(scope: Scope, user: Any) -> None:
    """Make this the user of a request: where aegra looks for it, and where routes do."""
    scope[_AUTH_RESULT_SCOPE_KEY] = user
    scope["auth"] = AuthCredentials(user.permissions)
    scope["user"] = user if is_nobody(user) else user_of(user)


def _refusal(error: Refused) -> JSONResponse:
    headers = dict(error.headers) if error.headers else None
    return JSONResponse({"detail": error.detail}, error.status_code, headers)


class NeedsSignIn:
    """ASGI app of a route that is none of FastAPI's: aegra asks nobody who calls it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not isinstance(scope.get("user"), SignedInUser):
            raise HTTPException(401, "Sign in with 'Authorization: Bearer <token>'.")
        await self.app(scope, receive, send)


def fields_by_token(authenticate: Authenticate) -> Callable[[Any], Awaitable[dict[str, Any]]]:
    """What aegra calls to sign in, given what `auth.py` does.

    aegra passes all headers in place of `authorization`, by position.
    """

    async def fields(sent: str | Mapping[str, str] | None) -> dict[str, Any]:
        authorization = sent.get("authorization") if isinstance(sent, Mapping) else sent
        claims = await authenticate(authorization)
        return fields_of(claims, label_of(claims["identity"], claims["org_id"]))

    return fields
