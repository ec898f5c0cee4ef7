"""Bodies of requests to /memory, read within limits."""

import asyncio
import json
from typing import Any

from access.request_bounds import MAX_REQUEST_NESTING, shape
from api.requests import PersonRequest, RefusedRequestError

# Bytes of a body for each of its values: what a client sends is text, and a parser stops the whole process meanwhile.
_BYTES_A_VALUE = 16
# Bytes that are read of a body where none belongs.
_NO_BODY_BYTES = 1_024


async def read_json(request: PersonRequest, limit: int) -> dict[str, Any]:
    """The body. Raises `RefusedRequestError` unless it is a JSON object of at most `limit` bytes."""
    kind = request.http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        given = repr(kind[:80]) if kind else "missing"
        raise RefusedRequestError(415, f"Content-Type is {given}; send application/json.")
    try:
        value = await asyncio.to_thread(_parsed, await _body(request, limit), limit)
    except (ValueError, RecursionError):
        raise RefusedRequestError(400, "The body is not JSON in UTF-8; send an object such as {...}.") from None
    if not isinstance(value, dict):
        raise RefusedRequestError(400, "The body is JSON, but not an object; send {...}.")
    return value


def _parsed(body: bytes, limit: int) -> Any:
    """The value of a JSON text. Blocks. Raises `RefusedRequestError` before it is parsed if it is no text but brackets."""
    depth, values = shape(body)
    if depth > MAX_REQUEST_NESTING:
        raise RefusedRequestError(400, f"The body nests deeper than {MAX_REQUEST_NESTING} levels; flatten it.")
    if values > limit // _BYTES_A_VALUE:
        raise RefusedRequestError(422, f"The body has more than {limit // _BYTES_A_VALUE:,} values; send less.")
    return json.loads(body)


async def check_no_body(request: PersonRequest) -> None:
    """Raise `RefusedRequestError` for a request with a body. Ignoring it could widen the request."""
    if (await _body(request, _NO_BODY_BYTES)).strip() not in {b"", b"{}"}:
        raise RefusedRequestError(422, "This takes no body; what it is about goes into the query. Leave the body out.")


async def _body(request: PersonRequest, limit: int) -> bytes:
    body = bytearray()
    async for part in request.http.stream():
        body += part
        if len(body) > limit:
            raise RefusedRequestError(413, f"The body has more than {limit:,} bytes; send less.")
    return bytes(body)
