"""The in-process client, which aegra has none of its own: calls of the server's app in this task."""

import json
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import unquote

import httpx
from aegra_api.core.orm import Thread, get_session_maker
from langgraph_sdk.client import LangGraphClient
from sqlalchemy import select
from starlette.types import ASGIApp

from lasting_memory.platform.aegra.users import UserFields, acting_user, fields_of

# As langgraph-api's own in-process client: no request from outside can have this root.
_ROOT = "/noauth"
_TIMEOUT = httpx.Timeout(connect=5, read=300, write=300, pool=5)


class Call(NamedTuple):
    """A call from inside: the fields of aegra's user, for the thread that it is about."""

    fields: UserFields


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """The call from inside that this task carries out; None for a request from outside."""
    return _call.get()


def in_process_client(app: ASGIApp) -> LangGraphClient:
    """A client of this server, which acts as `users.acting` says."""
    http = httpx.AsyncClient(
        base_url="http://api", transport=_Inside(app), timeout=_TIMEOUT, trust_env=False
    )
    return LangGraphClient(http)


class _Inside(httpx.ASGITransport):
    """Calls the app as whoever acts in this task.

    aegra finds a thread for its owner alone, so a call about a thread has the owner's label. Whether
    the caller may make it is for the handlers of `auth.py` to say, as on langgraph-api.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, root_path=_ROOT)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request by the app, as a call from inside."""
        user = acting_user()
        thread_id = await _thread_named(request)
        label = await label_of_thread(thread_id)
        claims = None
        if user:
            label = label or user.label
            claims = dict(user.items())
        call = Call(fields_of(claims, label))
        token = _call.set(call)
        try:
            return await super().handle_async_request(request)
        finally:
            _call.reset(token)


async def _thread_named(request: httpx.Request) -> str:
    """The id of the one thread that a call is about; "" for none, or several."""
    path = request.url.path
    if path != "/runs/cancel":
        return thread_in(path)
    content = await request.aread()
    body = json.loads(content)
    return str(body.get("thread_id") or "")


def thread_in(path: str) -> str:
    """The id of the one thread that a path is about; "" for none, or several."""
    parts = path.strip("/").split("/")
    is_about_one = len(parts) > 1 and parts[0] == "threads"
    if is_about_one and parts[1] not in ("search", "count", "prune"):
        return unquote(parts[1])
    return ""


async def label_of_thread(thread_id: str) -> str:
    """The label of a thread's owner; "" if there is no such thread."""
    if not thread_id:
        return ""
    query = select(Thread.user_id).where(Thread.thread_id == thread_id)
    new_session = get_session_maker()
    async with new_session() as session:
        owner = await session.scalar(query)
    return owner or ""
