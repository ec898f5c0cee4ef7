"""The sign-in: whom `auth.py` admits becomes the user of a request, for aegra and for this library.

aegra knows a user by a label, which is one text for a person of an organization. Calls from inside
of the server (`client.py`) have the root path /noauth, which no request from outside can have.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TypedDict

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
    AegraUser,
    SignedInUser,
    UserFields,
    fields_of,
    is_nobody,
    label_of,
    user_of,
)

SignInRefusal = Auth.exceptions.HTTPException


class Claims(TypedDict):
    """What is read of the user whom `auth.py` admits."""

    identity: str
    org_id: str


# What `auth.py` does with the header of a request, and what aegra calls in its place.
Authenticate = Callable[[str | None], Awaitable[Claims]]
FieldsByToken = Callable[[str | Mapping[str, str] | None], Awaitable[UserFields]]

# The path of the request that this task carries out.
_path: ContextVar[str] = ContextVar("path", default="")


def is_about_runs() -> bool:
    """Whether the request that this task carries out is to a route of runs.

    These are at /runs and at /threads/{thread_id}/runs.
    """
    path = _path.get()
    parts = path.strip("/").split("/")
    return parts[0] == "runs" or parts[2:3] == ["runs"]


class SignIn:
    """ASGI middleware that signs in whoever sends a token, and calls from inside of the server.

    aegra signs in within each route, answers 401 whatever the reason, and gives routes a user of
    whom only the attributes can be read. A request without a token is left to aegra, which refuses
    it where a route asks who calls.
    """

    def __init__(self, app: ASGIApp, authenticate: Callable[[], FieldsByToken]) -> None:
        self.app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its user: the one of a call from inside, or the one of its token.
        A token that is refused is answered here. A request without a token has no user.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        _path.set(path)
        if scope.get("root_path") == "/noauth":
            call = current_call()
            if call is not None:
                _set_user(scope, User(**call.fields))
                await self.app(scope, receive, send)
                return
        authorization = Headers(scope=scope).get("authorization")
        if authorization is not None:
            authenticate = self._authenticate()
            try:
                fields = await authenticate(authorization)
            except SignInRefusal as error:
                refusal = _refusal(error)
                await refusal(scope, receive, send)
                return
            user = User(**fields)
            user.identity = await _label_for(user, path)
            _set_user(scope, user)
        await self.app(scope, receive, send)


async def _label_for(user: AegraUser, path: str) -> str:
    """The label of a user in a request: their own, or that of the owner of the thread it is about.

    aegra finds a thread for its owner alone, so an operator has the owner's. The handlers say who
    may see all threads: that is an operator.
    """
    thread_id = thread_in(path)
    owner = await label_of_thread(thread_id)
    if owner in ("", user.identity):
        return user.identity
    context = build_auth_context(user, "threads", "read")
    try:
        auth_filter = await handle_event(context, {})
    except HTTPException:
        return user.identity
    if auth_filter is not None:
        return user.identity
    return owner


def _set_user(scope: Scope, user: AegraUser) -> None:
    """Make this the user of a request: where aegra looks for it, and where routes do."""
    scope[_AUTH_RESULT_SCOPE_KEY] = user
    scope["auth"] = AuthCredentials(user.permissions)
    if not is_nobody(user):
        user = user_of(user)
    scope["user"] = user


def _refusal(error: SignInRefusal) -> JSONResponse:
    """The answer to a request that may not sign in."""
    headers = None
    if error.headers:
        headers = dict(error.headers)
    return JSONResponse({"detail": error.detail}, error.status_code, headers)


class NeedsSignIn:
    """ASGI app of a route that is none of FastAPI's: aegra asks nobody who calls it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of somebody who is signed in on; raise 401 for any other."""
        if scope["type"] == "http" and not isinstance(scope.get("user"), SignedInUser):
            raise HTTPException(401, "Sign in with 'Authorization: Bearer <token>'.")
        await self.app(scope, receive, send)


def fields_by_token(authenticate: Authenticate) -> FieldsByToken:
    """What aegra calls to sign in, given what `auth.py` does.

    aegra passes all headers in place of `authorization`, by position.
    """

    async def fields(authorization: str | Mapping[str, str] | None) -> UserFields:
        """The fields of aegra's user whom this header names. Raises as `auth.py` for nobody."""
        if isinstance(authorization, Mapping):
            authorization = authorization.get("authorization")
        claims = await authenticate(authorization)
        label = label_of(claims["identity"], claims["org_id"])
        return fields_of(claims, label)

    return fields
