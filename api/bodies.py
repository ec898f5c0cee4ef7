"""Bodies of requests to /memory, read within limits."""

import asyncio
import json
from typing import Any

from api.requests import PersonRequest, RefusedRequestError

# Bytes that are read of a body where none belongs.
_NO_BODY_BYTES = 1_024


async def read_json(request: PersonRequest, limit: int) -> dict[str, Any]:
    """The body. Raises `RefusedRequestError` unless it is a JSON object of at most `limit` bytes."""
    kind = request.http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        given = repr(kind[:80]) if kind else "missing"
        raise RefusedRequestError(415, f"Content-Type is {given}; send application/json.")
    try:
        value = await asyncio.to_thread(json.loads, await _body(request, limit))
    except (ValueError, RecursionError):
        raise RefusedRequestError(400, "The body is not JSON in UTF-8; send an object such as {...}.") from None
    if not isinstance(value, dict):
        raise RefusedRequestError(400, "The body is JSON, but not an object; send {...}.")
    return value


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
