"""What every server refuses of a request before it works on it: ids in another spelling, and bodies out of bounds.

The platform takes an id in any spelling that `UUID()` reads, but keeps a conversation's checkpoints under the one that it was
given: the same id in capitals would be a second conversation, which stays when the first is deleted. And it parses a body of
any size and depth, and trusts the types of some of its fields.
"""

from __future__ import annotations

import asyncio
import json
import reprlib
from typing import Annotated, Any
from uuid import UUID

import numpy as np
from pydantic import AfterValidator, BaseModel, StrictStr, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dev_guard import is_in_process
from settings import MAX_BATCH, MAX_REQUEST_BYTES, MAX_REQUEST_NESTING

# Bytes of a body beyond which it is checked off the event loop.
_LARGE = 65_536
_OPENS, _QUOTE, _CLOSES = 1, 0, 255
_MARKS = bytes.maketrans(b'[{"]}', bytes([_OPENS, _OPENS, _QUOTE, _CLOSES, _CLOSES]))
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[{"]}')
_POLICY_VIOLATION = 1008


def _canonical(text: str) -> str:
    try:
        wanted = str(UUID(text))
    except ValueError:  # no id, which is for the platform to say
        return text
    if text != wanted:
        raise ValueError(f"write this id as {wanted}")
    return text


_Id = Annotated[StrictStr, AfterValidator(_canonical)]


class _Fields(BaseModel):
    """The fields of a body whose ids the platform keeps as spelled, or on whose types it relies unchecked."""

    thread_id: _Id | None = None
    thread_ids: list[_Id] | None = None
    checkpoint_id: StrictStr | None = None
    langsmith_tracer: dict[str, Any] | None = None
    namespace_prefix: list[StrictStr] = []


class RequestBounds:
    """ASGI middleware around every route, WebSockets included: 413 for a body that is too long, 422 with a reason for others.

    Calls from inside the server may send what they like, but must spell ids as everybody: A2A's ids of conversations come by
    them. /memory bounds its bodies itself (`memory/requests.py`).
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
            await JSONResponse({"detail": f"The path's ids are lower-case UUIDs with dashes; {error}."}, 422)(
                scope, receive, send
            )
            return
        if is_in_process(scope) or path == "/memory" or path.startswith("/memory/"):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.app(scope, _bounded_frames(receive, send), send)
        else:
            await self._bounded_request(scope, receive, send)

    async def _bounded_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The body is read when the route asks for it, after sign-in. A refusal is answered whatever the route makes of it."""
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


def _bounded_frames(receive: Receive, send: Send) -> Receive:
    async def bounded() -> Message:
        message = await receive()
        if message["type"] != "websocket.receive":
            return message
        try:
            await _check(message.get("bytes") or (message.get("text") or "").encode())
        except HTTPException as error:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.detail[:100]})
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    return bounded


async def _read(receive: Receive) -> Message:
    """The whole body as one message.

    Raises:
        HTTPException: 413, it is too long, and is not read to its end; 422, it nests too deep or a field is of no use.
    """
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_REQUEST_BYTES:
            break
    await _check(bytes(body))
    return {"type": "http.request", "body": bytes(body), "more_body": False}


async def _check(body: bytes) -> None:
    if len(body) > MAX_REQUEST_BYTES:
        raise HTTPException(413, f"The body has more than {MAX_REQUEST_BYTES:,} bytes; send less.")
    reason = await asyncio.to_thread(_reason, body) if len(body) > _LARGE else _reason(body)
    if reason:
        raise HTTPException(422, reason)


def _reason(body: bytes) -> str | None:
    """Why a JSON body is refused; None if it is not, or is no JSON."""
    if nesting(body) > MAX_REQUEST_NESTING:
        return f"The body nests deeper than {MAX_REQUEST_NESTING} levels; flatten it."
    try:
        value = json.loads(body, parse_int=float)  # of any length
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_BATCH:
            return f"The body is a batch of {len(items):,}; send at most {MAX_BATCH:,} at once."
        for item in items:
            if isinstance(item, dict):
                _Fields.model_validate(item)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        return f"{found['loc'][0]} is {reprlib.repr(found['input'])}; {found['msg'].removeprefix('Value error, ')}."
    except ValueError:  # the platform says so, in the words of the protocol
        return None
    return None


def nesting(body: bytes) -> int:
    """How many brackets of a JSON text are open at once, at most."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    steps = np.frombuffer(plain.translate(_MARKS, _NO_MARKS), np.int8)
    is_outside = np.cumsum(steps == _QUOTE) % 2 == 0
    return int(np.cumsum(steps * is_outside, dtype=np.int64).max(initial=0))
