"""What MCP and A2A offer to people: the agents that they talk to, and no consolidation.

The platform offers every assistant by both protocols. It carries out their requests by calls of its
own assistants' and runs' routes from inside the server, and takes an assistant's graph into account
nowhere that an auth handler could decide.
"""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from http import HTTPStatus
from typing import TypeGuard
from uuid import uuid4

import orjson
from httpx import HTTPStatusError
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory import platform
from lasting_memory.people.identity import is_operator
from lasting_memory.settings import CONSOLIDATION_GRAPH, Settings

# Paths of both protocols.
_PROTOCOLS = re.compile(r"/(mcp|a2a|\.well-known)(/|$)")
# The platform's routes that find assistants: a search, and one by its id.
_ASSISTANT_ROUTES = re.compile(r"/assistants/(search|[0-9a-fA-F-]{32,36})/?")
_UNKNOWN = orjson.dumps({"detail": "There is no such assistant for people."})
# Assistants in a page of MCP's list. After a page of fewer the platform offers no next one.
_PAGE = 100
# The request by one of the protocols within which the server calls itself.
_protocol_request: ContextVar[Scope | None] = ContextVar("asked", default=None)


async def refused_inside(request: Request, error: Exception) -> Response:
    """The answer to a request by MCP whose run was refused: that refusal.

    The platform would answer 500.
    Raises `error` of other requests, and of what is no refusal.
    """
    is_by_protocol = _PROTOCOLS.match(request.url.path)
    if not isinstance(error, HTTPStatusError) or not is_by_protocol:
        raise error
    answer = error.response
    if not answer.is_client_error:
        raise error
    await answer.aread()
    return Response(answer.content, answer.status_code, media_type="application/json")


class PeoplesAgents:
    """ASGI middleware around every route, for requests by MCP and A2A.

    While a person asks by one of them, no assistant of the consolidation graph is found. Their own
    requests over HTTP, and operators, find them all.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. Within one of a person's by MCP or A2A, no assistant of consolidation
        is found.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        if not platform.is_in_process(scope):
            # Set for every request: on a connection that is kept, uvicorn may begin a request in
            # the context of the one before.
            token = _protocol_request.set(scope if _PROTOCOLS.match(path) else None)
            try:
                await self.app(scope, receive, send)
            finally:
                _protocol_request.reset(token)
            return
        protocol_request = _protocol_request.get()
        finds_assistants = _ASSISTANT_ROUTES.fullmatch(path) is not None
        if protocol_request is None or not finds_assistants:
            await self.app(scope, receive, send)
            return
        if not self._is_operators(protocol_request):
            send = _WithoutConsolidation(send).send
        await self.app(scope, receive, send)

    def _is_operators(self, protocol_request: Scope) -> bool:
        """Whether an operator sent the request by MCP or A2A.

        Sign-in puts the user into the scope before the server calls itself.
        """
        user = protocol_request.get("user")
        if user is None:
            return False
        return is_operator(user, self._settings)


class _WithoutConsolidation:
    """Sends an answer about assistants without those of the consolidation graph."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Keep the messages of an answer until it is whole, then send what people get of it."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        status, body = _answer_for_people(self._start["status"], bytes(self._body))
        self._start["status"] = status
        headers = MutableHeaders(scope=self._start)
        headers["content-length"] = str(len(body))
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": body})


def _answer_for_people(status: int, body: bytes) -> tuple[int, bytes]:
    """The status and body of an answer about assistants, as people get it.

    A page is without those of the consolidation graph. One of these by its id is answered with 404.
    """
    if status != HTTPStatus.OK:
        return status, body
    answer = orjson.loads(body)
    if isinstance(answer, list):
        page = _page_for_people(answer)
        return status, orjson.dumps(page)
    if _consolidates(answer):
        return 404, _UNKNOWN
    return status, body


def _page_for_people(assistants: Sequence[object]) -> list[object]:
    """The assistants of a page that people get. A full page stays full."""
    visible_assistants = list[object]()
    placeholders = list[object]()
    for assistant in assistants:
        if _consolidates(assistant):
            placeholders.append(_placeholder_of(assistant))
        else:
            visible_assistants.append(assistant)
    is_full = len(assistants) >= _PAGE
    if is_full:
        visible_assistants.extend(placeholders)
    return visible_assistants


def _consolidates(assistant: object) -> TypeGuard[Mapping[str, object]]:
    """Whether this is an assistant of the consolidation graph."""
    if not isinstance(assistant, dict):
        return False
    return assistant.get("graph_id") == CONSOLIDATION_GRAPH


def _placeholder_of(assistant: Mapping[str, object]) -> dict[str, object]:
    """An assistant that is not there, in place of one. The platform leaves it out of the page."""
    id_of_nobody = str(uuid4())
    return {**assistant, "assistant_id": id_of_nobody, "name": id_of_nobody}
