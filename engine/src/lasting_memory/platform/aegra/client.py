"""The in-process client, which aegra has none of its own: calls of the server's app in this task."""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
from aegra_api.core.orm import Thread, get_session_maker
from langgraph_sdk.client import LangGraphClient
from sqlalchemy import select

from lasting_memory.platform.aegra.users import acting_user, fields_of

# As langgraph-api's own in-process client: no request from outside can have this root.
_ROOT = "/noauth"
_TIMEOUT = httpx.Timeout(connect=5, read=300, write=300, pool=5)


class Call(NamedTuple):
    """A call from inside: the fields of aegra's user, for the thread that it is about."""

    fields: Mapping[str, Any]


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """The call from inside that this task carries out; None for a request from outside."""
    return _call.get()


def in_process_client(app: Any) -> LangGraphClient:
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

    def __init__(self, app: Any) -> None:
        super().__init__(app, root_path=_ROOT)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        user = acting_user()
        label = await label_of_thread(await _thread_named(request))
        if not label:
            label = user.label if user else ""
        claims = dict(user.items()) if user else None
        token = _call.set(Call(fields_of(claims, label)))
        try:
            return await super().handle_async_request(request)
        finally:
            _call.reset(token)


async def _thread_named(request: httpx.Request) -> str:
    """The id of the one thread that a call is about; "" for none, or several."""
    if request.url.path == "/runs/cancel":
        body = json.loads(await request.aread())
        return str(body.get("thread_id") or "")
    return thread_in(request.url.path)


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
    async with get_session_maker()() as session:
        owner = await session.scalar(select(Thread.user_id).where(Thread.thread_id == thread_id))
    return owner or ""
