"""Bounds of every request, checked before the platform sees it: one spelling of ids, and the size and depth of bodies.

The platform accepts any spelling of an id that `UUID()` reads, but keeps a conversation's checkpoints under the given one: the
same id in capitals would be a second conversation, which survives the deletion of the first. It also parses bodies of any size
and depth, and trusts the types of some fields.
"""

import asyncio
import json
import reprlib
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from langgraph_sdk.auth.types import StudioUser
from pydantic import AfterValidator, BaseModel, StrictStr, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.admission import ADMISSION
from dev.guard import is_in_process
from memory.identity import User, claim
from settings import MAX_INPUT_BYTES

# Bytes of a body for any route but /memory (JSON may write a text in three times its bytes), and its levels of nesting.
MAX_REQUEST_BYTES = 4 * MAX_INPUT_BYTES
MAX_REQUEST_NESTING = 150
# Values in its lists and objects: the platform looks at each of them in the event loop.
MAX_REQUEST_VALUES = 200_000
# Requests in one batch.
MAX_BATCH = 1_000

# Bytes of a body beyond which it is checked off the event loop.
_LARGE = 65_536
_OPENS, _QUOTE, _COMMA, _CLOSES = 1, 0, 2, 255
_MARKS = bytes.maketrans(b'[{",]}', bytes([_OPENS, _OPENS, _QUOTE, _COMMA, _CLOSES, _CLOSES]))
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[{",]}')
_POLICY_VIOLATION = 1008


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


class RequestBounds:
    """ASGI middleware around every route and WebSocket. It answers 413 to a body that is too long, otherwise 422 with a reason.

    Calls from inside the server have no bounds, but must spell ids like others: they carry A2A's ids of conversations. /memory
    bounds its own bodies (`api/requests.py`).
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
            elif path == "/memory" or path.startswith("/memory/"):
                await self._whole(scope, receive, send)
            elif scope["type"] == "websocket":
                await self.app(scope, _bounded_frames(scope, receive, send), send)
            else:
                await self._bounded_request(scope, receive, send)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the end of an answer once its maker has ended well. Otherwise the server closes the connection, so that a client
        sees it: the platform's middleware ends an answer that broke off as if it were whole, and raises the error afterwards.
        """
        end: Message | None = None

        async def answer(message: Message) -> None:
            nonlocal end
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                end = message
            else:
                await send(message)

        await self.app(scope, receive, answer)
        if end is not None:
            await send(end)

    async def _bounded_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body when the route asks for it, after sign-in. A refusal replaces the route's own answer."""
        refusal: HTTPException | None = None
        is_read = started = False

        async def bounded() -> Message:
            nonlocal refusal, is_read
            if is_read:
                return await receive()
            is_read = True
            try:
                return await _read(receive)
            except HTTPException as error:
                refusal = error
                raise

        async def answer(message: Message) -> None:
            nonlocal started
            if refusal is None or started:
                started = True
                await send(message)

        try:
            await self.app(scope, bounded, answer)
        except Exception:
            if refusal is None or started:
                raise
        if refusal is not None and not started:
            await JSONResponse({"detail": refusal.detail}, refusal.status_code)(scope, receive, send)


def _bounded_frames(scope: Scope, receive: Receive, send: Send) -> Receive:
    """Each frame is a request of its person, and bounded as one."""

    async def bounded() -> Message:
        message = await receive()
        if message["type"] != "websocket.receive":
            return message
        try:
            await _admit(scope.get("user"))
            await _check(_text(message).encode())
        except HTTPException as error:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.detail[:100]})
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    return bounded


def _text(frame: Message) -> str:
    if not isinstance(text := frame.get("text"), str):
        raise HTTPException(422, "A frame is binary; send text.")
    return text


async def _admit(user: User | StudioUser | None) -> None:
    """Wait for the person's turn (`access/admission.py`). Studio has none."""
    if user is not None and not isinstance(user, StudioUser) and (org_id := claim(user, "org_id")):
        await ADMISSION.request((org_id, user.identity))


async def _read(receive: Receive) -> Message:
    """The whole body as one message. Raises `HTTPException`: 413, it is too long (reading stops); 422, it nests too deep, or a
    field is invalid.
    """
    body, more = bytearray(), True
    while more and len(body) <= MAX_REQUEST_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await _check(bytes(body))
    return {"type": "http.request", "body": bytes(body), "more_body": False}


async def _check(body: bytes) -> None:
    if len(body) > MAX_REQUEST_BYTES:
        raise HTTPException(413, f"The body has more than {MAX_REQUEST_BYTES:,} bytes; send less.")
    reason = await asyncio.to_thread(_reason, body) if len(body) > _LARGE else _reason(body)
    if reason:
        raise HTTPException(422, reason)


def _reason(body: bytes) -> str | None:
    """The reason to refuse a JSON body; None for a good one, and for text that is not JSON."""
    depth, values = shape(body)
    if depth > MAX_REQUEST_NESTING:
        return f"The body nests deeper than {MAX_REQUEST_NESTING} levels; flatten it."
    if values > MAX_REQUEST_VALUES:
        return f"The body has more than {MAX_REQUEST_VALUES:,} values; send less."
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
    return None


def shape(body: bytes) -> tuple[int, int]:
    """The largest number of brackets that a JSON text has open at once, and its commas between values."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain.translate(_MARKS, _NO_MARKS), np.int8)
    marks = marks[np.cumsum(marks == _QUOTE) % 2 == 0]
    is_comma = marks == _COMMA
    return int(np.cumsum(marks * ~is_comma, dtype=np.int64).max(initial=0)), int(is_comma.sum())
