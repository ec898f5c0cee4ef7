"""Bounds of every request, checked before the platform sees it: one spelling of ids, and the size and shape of bodies.

The platform accepts any spelling of an id that `UUID()` reads, but keeps a conversation's checkpoints under the given one: the
same id in capitals would be a second conversation, which survives the deletion of the first. It also parses bodies of any shape
in the event loop, and trusts the types of some fields.
"""

import asyncio
import json
import reprlib
from contextlib import ExitStack, suppress
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from langgraph_sdk.auth.types import StudioUser
from pydantic import AfterValidator, BaseModel, StrictStr, ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.admission import ADMISSION, Person
from access.dev_guard import is_in_process
from memory.identity import User, claim
from settings import MAX_HISTORY, MAX_IMPORT_BYTES, MAX_INPUT_BYTES

# Bytes of a body for any route but the import (JSON may write a text in three times its bytes). The platform's own bound
# (HTTP_MAX_REQUEST_BODY_BYTES) comes after this middleware, and holds for no WebSocket.
MAX_REQUEST_BYTES = 4 * MAX_INPUT_BYTES
# Its levels of nesting: Python copies a few hundred at most, and a run that cannot be copied never begins, nor ends.
MAX_REQUEST_NESTING = 100
# Values in its lists and objects: the platform looks at each of them in the event loop, and copies those of a run's input.
MAX_REQUEST_VALUES = 50_000
# Requests in one batch.
MAX_BATCH = 1_000

# Bytes that a request counts beyond its own, by the first segment of its path: these routes compute much.
_WEIGHTS = {"mcp": 2_097_152, "a2a": 1_048_576}
# Last segments of paths whose answers wait for a run.
_WAITED = frozenset({"wait", "join"})
_IMPORT = "/memory/import"
# Bytes of a body beyond which it is checked off the event loop.
_LARGE = 65_536
_POLICY_VIOLATION = 1008

# --- Bodies ----------------------------------------------------------------------------------------------------------

_OPENS, _QUOTE, _COMMA, _CLOSES = 1, 0, 2, 255
_MARKS = bytes.maketrans(b'[{",]}', bytes([_OPENS, _OPENS, _QUOTE, _COMMA, _CLOSES, _CLOSES]))
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[{",]}')


def shape(body: bytes) -> tuple[int, int]:
    """The largest number of brackets that a JSON text has open at once, and its commas between values."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain.translate(_MARKS, _NO_MARKS), np.int8)
    marks = marks[np.cumsum(marks == _QUOTE) % 2 == 0]
    is_comma = marks == _COMMA
    return int(np.cumsum(marks * ~is_comma, dtype=np.int64).max(initial=0)), int(is_comma.sum())


def _canonical(text: str) -> str:
    try:
        wanted = str(UUID(text))
    except ValueError:  # not an id: the platform answers that
        return text
    if text != wanted:
        raise ValueError(f"write this id as {wanted}")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # a folder of zones, a name longer than a file's
        raise ValueError("use an IANA name such as Europe/Berlin") from None
    return name


_Id = Annotated[StrictStr, AfterValidator(_canonical)]


class _Fields(BaseModel):
    """Fields whose ids the platform keeps as spelled, or whose types it does not check."""

    thread_id: _Id | None = None
    thread_ids: list[_Id] | None = None
    checkpoint_id: StrictStr | None = None
    checkpoint: dict[str, Any] | None = None
    timezone: Annotated[StrictStr, AfterValidator(_zone)] | None = None
    langsmith_tracer: dict[str, Any] | None = None
    namespace_prefix: list[StrictStr] = []


async def _check_body(body: bytes, path: str = "") -> None:
    """Raise `HTTPException` for a body that is too long (413), nests too deep or has an invalid field (422)."""
    if len(body) > (most := _most_bytes(path)):
        raise HTTPException(413, f"The body has more than {most:,} bytes; send less.")
    reason = await asyncio.to_thread(_reason, body, path) if len(body) > _LARGE else _reason(body, path)
    if reason:
        raise HTTPException(422, reason)


def _most_bytes(path: str) -> int:
    return MAX_IMPORT_BYTES if path == _IMPORT else MAX_REQUEST_BYTES


def _reason(body: bytes, path: str) -> str | None:
    """The reason to refuse a JSON body; None for a good one, and for text that is not JSON."""
    depth, values = shape(body)
    if depth > MAX_REQUEST_NESTING:
        return f"The body nests deeper than {MAX_REQUEST_NESTING} levels; flatten it."
    if values > (most := MAX_IMPORT_BYTES // 16 if path == _IMPORT else MAX_REQUEST_VALUES):
        return f"The body has more than {most:,} values; send less."
    try:
        value = json.loads(body, parse_int=float)  # of any length
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_BATCH:
            return f"The body is a batch of {len(items):,}; send at most {MAX_BATCH:,} at once."
        for item in items:
            if isinstance(item, dict):
                _Fields.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{first['loc'][0]} is {reprlib.repr(first['input'])}; {first['msg'].removeprefix('Value error, ')}."
    except ValueError:  # the platform answers that in the protocol's words
        return None
    return _too_many_states(path, value.get("limit")) if isinstance(value, dict) else None


def _too_many_states(path: str, limit: object) -> str | None:
    """The reason to refuse a limit of a history; None for a good one, and for what is no number: the platform answers that."""
    if path.endswith("/history"):
        with suppress(ValueError):
            if float(str(limit)) > MAX_HISTORY:
                return f"limit is {limit}; a history has at most {MAX_HISTORY} states at once."
    return None


# --- Requests --------------------------------------------------------------------------------------------------------


class RequestBounds:
    """ASGI middleware around every route and WebSocket. It answers 413 to a body that is too long, otherwise 422 with a reason.

    Calls from inside the server have no bounds, but must spell ids like others: they carry A2A's ids of conversations.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        try:
            for segment in path.split("/"):
                _canonical(segment)
        except ValueError as error:
            detail = f"The path's ids are lower-case UUIDs with dashes; {error}."
            await JSONResponse({"detail": detail}, 422)(scope, receive, send)
            return
        with suppress(ClientDisconnect):  # nobody waits for an answer
            if is_in_process(scope):
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                with _Socket(scope, receive, send) as socket:
                    await self.app(scope, socket.receive, socket.send)
            else:
                with _Request(scope, receive, send, path) as request:
                    await request.carry_out(self.app)


class _Bounded(ExitStack):
    """A request or WebSocket of a person, who has one open stream more until it ends."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__()
        self._scope, self._receive, self._send = scope, receive, send

    @property
    def _person(self) -> Person | None:
        """Whose share it takes, once they are signed in. Studio has none."""
        user: User | StudioUser | None = self._scope.get("user")
        if user is None or isinstance(user, StudioUser) or not (org_id := claim(user, "org_id")):
            return None
        return org_id, user.identity

    async def _charge(self, size: int) -> None:
        """Wait for the person's turn to send so many bytes (`access/admission.py`)."""
        if person := self._person:
            await ADMISSION.reading(person, size)

    def _sent(self, message: Message, *, is_stream: bool) -> None:
        if person := self._person:
            if is_stream:
                self.enter_context(ADMISSION.stream(person))
            body = (message.get("text") or "").encode() or message.get("bytes") or message.get("body") or b""
            ADMISSION.sent(person, len(body))


class _Request(_Bounded):
    """One HTTP request, whose body is read, bounded and charged when the route asks for it, after sign-in.

    A refusal replaces the route's own answer. The end of an answer of /memory is sent once its maker has ended well. Otherwise
    the server closes the connection, so that a client sees it: the platform's middleware ends an answer that broke off as if it
    were whole, and raises the error afterwards.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        super().__init__(scope, receive, send)
        self._path, self._is_memory = path, path == "/memory" or path.startswith("/memory/")
        self._is_read = self._started = False
        self._end: Message | None = None
        self._refusal: HTTPException | None = None

    async def carry_out(self, app: ASGIApp) -> None:
        """Have the app answer the request, or refuse it."""
        if reason := _too_many_states(self._path, QueryParams(self._scope["query_string"]).get("limit")):
            self._refusal = HTTPException(422, reason)
        else:
            try:
                await app(self._scope, self.receive, self.send)
            except Exception:
                if self._refusal is None or self._started:
                    raise
        if self._refusal is not None and not self._started:
            answer = JSONResponse({"detail": self._refusal.detail}, self._refusal.status_code, self._refusal.headers)
            await answer(self._scope, self._receive, self._send)
        elif self._end is not None:
            await self._send(self._end)

    async def receive(self) -> Message:
        """The whole body, within bounds."""
        if self._is_read:
            return await self._receive()
        try:
            await self._charge(_WEIGHTS.get(self._path.split("/")[1], 0))
            self._is_read = True
            return await self._body()
        except HTTPException as error:
            self._refusal = error
            raise

    async def _part(self) -> Message:
        message = await self._receive()
        await self._charge(len(message.get("body", b"")))
        return message

    async def _body(self) -> Message:
        """The whole body as one message. Raises `HTTPException`: 413 (reading stops), 422, or 429 if it is not their turn."""
        body, more = bytearray(), True
        while more and len(body) <= _most_bytes(self._path):
            message = await self._part()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await _check_body(bytes(body), self._path)
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def send(self, message: Message) -> None:
        if self._refusal is not None and not self._started:
            return
        try:
            self._sent(message, is_stream=not self._started and self._is_stream(message))
        except HTTPException as error:
            self._refusal = error
            raise
        self._started = True
        if self._is_memory and message["type"] == "http.response.body" and not message.get("more_body", False):
            self._end = message
        else:
            await self._send(message)

    def _is_stream(self, start: Message) -> bool:
        """Whether the answer that begins so is streamed, or waits for a run."""
        kinds = (value for name, value in start.get("headers", ()) if name == b"content-type")
        return self._path.rpartition("/")[2] in _WAITED or any(kind.startswith(b"text/event-stream") for kind in kinds)


class _Socket(_Bounded):
    """A WebSocket: an open stream of its person, in which each frame is a request, and bounded as one."""

    async def receive(self) -> Message:
        message = await self._receive()
        try:
            if message["type"] == "websocket.receive":
                await self._check_frame(message.get("text"))
        except HTTPException as error:
            await self._close(error)
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    async def _check_frame(self, text: object) -> None:
        if not isinstance(text, str):
            raise HTTPException(422, "A frame is binary; send text.")
        if person := self._person:
            await ADMISSION.request(person)
        await self._charge(len(text.encode()))
        await _check_body(text.encode())

    async def send(self, message: Message) -> None:
        try:
            self._sent(message, is_stream=message["type"] == "websocket.accept")
        except HTTPException as error:
            await self._close(error)
            raise
        await self._send(message)

    async def _close(self, error: HTTPException) -> None:
        await self._send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.detail[:100]})
