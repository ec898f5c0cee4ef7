"""Requests to /memory, checked before anything is done: who asks about whom, parameters, bodies within limits.

A route takes a `Caller`, then its query as a model, then its body by `body_of`. Its order is the order of the checks but for
the query's, which come last. Errors are `{"detail": "one line"}`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, PlainValidator, ValidationError, WithJsonSchema
from starlette.exceptions import HTTPException

from access.admission import ADMISSION
from access.request_bounds import MAX_REQUEST_NESTING, shape
from api.person import ROUTE, PersonRequest
from memory import identity, journal
from memory.validation import RefusedWriteError, check_path
from settings import Settings

# No cache may keep an answer.
PRIVATE = {"cache-control": "no-store"}
# Bytes of a body for each of its values: what a client sends is text, and a parser stops the whole process meanwhile.
_BYTES_A_VALUE = 16
# Bytes that are read of a body where none belongs.
_NO_BODY_BYTES = 1_024

# --- Who asks --------------------------------------------------------------------------------------------------------


async def _caller(request: Request) -> PersonRequest:
    settings: Settings = request.app.state.settings
    user = request.scope.get("user")
    if user is None or not user.identity:  # Studio on `langgraph dev` has an identity, though it is not authenticated
        detail = 'Nobody is signed in; keep "enable_custom_route_auth": true in langgraph.json, and send a token.'
        raise HTTPException(401, detail)
    _check_query(request)
    named = {name: request.query_params[name] for name in About.model_fields if name in request.query_params}
    if named and not identity.is_operator(user, settings):
        raise HTTPException(403, "user_id and org_id are for operators; leave them out, and the request is about you.")
    try:
        actor = identity.acting(user, identity.Context(named.get("user_id"), named.get("org_id")), settings, on_server=True)
        identity.check_person(actor)
    except identity.IdentityError as error:
        raise HTTPException(400, str(error)) from None
    author = identity.Author("operator" if named else "person", user.identity)
    store = await request.app.state.store()
    return PersonRequest(request, settings, actor, author, store, journal.began_now(actor))


Caller = Annotated[PersonRequest, Depends(_caller)]


def _check_query(request: Request) -> None:
    """Raise for parameters that could be read in two ways."""
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "The query is not percent-encoded UTF-8.") from None
    names = [name for name, _ in request.query_params.multi_items()]
    for name, value in request.query_params.multi_items():
        if not value or names.count(name) > 1:
            detail = f"The parameter {name[:40]} is empty, or there twice; give it one value, or leave it out."
            raise HTTPException(400, detail)


def alone(what: str) -> Any:
    """A dependency: the only such request about the person that is under way, until its answer is sent. 429 if there is one."""

    async def only(caller: Caller) -> AsyncIterator[None]:
        with ADMISSION.alone(caller.key, what):
            yield

    return Depends(only)


# --- What they ask for -----------------------------------------------------------------------------------------------


def key_of(path: object) -> str:
    """The key of a path such as /memories/preferences.md. Raises `HTTPException` 400 for other values."""
    if not isinstance(path, str) or not path.startswith(f"{ROUTE}/"):
        shown = repr(path[:80] if isinstance(path, str) else type(path).__name__)
        raise HTTPException(400, f"path is {shown}; name a file such as {ROUTE}/preferences.md.")
    try:
        check_path(path.removeprefix(ROUTE))
    except RefusedWriteError as error:
        raise HTTPException(400, str(error)) from None
    return path.removeprefix(ROUTE)


# A path such as /memories/preferences.md, which is read as the file's key.
Key = Annotated[str, PlainValidator(key_of), WithJsonSchema({"type": "string", "examples": [f"{ROUTE}/preferences.md"]})]


class About(BaseModel, extra="forbid"):
    """Parameters of every route; unknown ones are refused, because a misspelled name must not widen a request."""

    user_id: str | None = None
    org_id: str | None = None


class Memory(About):
    """Parameters of routes about one memory. `assistant_id` is for MEMORY_SCOPE=user+assistant."""

    assistant_id: str | None = None


class OneFile(Memory):
    path: Key


Model = TypeVar("Model", bound=BaseModel)


def body_of(model: type[Model], limit: int) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a JSON object of at most `limit` bytes. Not FastAPI's own body, which is read before it is known
    who asks, whole, and parsed whatever its shape.
    """

    def parsed(body: bytes) -> Model:
        depth, values = shape(body)
        if depth > MAX_REQUEST_NESTING:
            raise HTTPException(400, f"The body nests deeper than {MAX_REQUEST_NESTING} levels; flatten it.")
        if values > limit // _BYTES_A_VALUE:
            raise HTTPException(422, f"The body has more than {limit // _BYTES_A_VALUE:,} values; send less.")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(400, "The body is not JSON in UTF-8; send an object such as {...}.") from None
        if not isinstance(value, dict):
            raise HTTPException(400, "The body is JSON, but not an object; send {...}.")
        try:
            return model.model_validate(value, strict=True)
        except ValidationError as error:
            raise HTTPException(422, _first(error.errors(include_url=False, include_input=False), "The body")) from None

    async def read(request: Request) -> Model:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, f"Content-Type is {kind[:80] or 'missing'}; send application/json.")
        return await asyncio.to_thread(parsed, await _body(request, limit))

    return read


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The body of `body_of` in /openapi.json."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _inlined(schema, schema)}}}}


def _inlined(part: Any, schema: dict[str, Any]) -> Any:
    """Part of a schema with what its references lead to in their place: "#" is another document's root in /openapi.json."""
    if isinstance(part, list):
        return [_inlined(each, schema) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(schema["$defs"][part["$ref"].removeprefix("#/$defs/")], schema)
    return {name: _inlined(each, schema) for name, each in part.items() if name != "$defs"}


async def check_no_body(request: Request) -> None:
    """A dependency that refuses a request with a body. Ignoring it could widen the request."""
    if (await _body(request, _NO_BODY_BYTES)).strip() not in {b"", b"{}"}:
        raise HTTPException(422, "This takes no body; what it is about goes into the query. Leave the body out.")


async def _body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise HTTPException(413, f"The body has more than {limit:,} bytes; send less.")
    return bytes(body)


# --- What they are told ----------------------------------------------------------------------------------------------


def json_response(value: Any, revision: int | None = None, status: int = 200) -> JSONResponse:
    return JSONResponse(value, status, PRIVATE if revision is None else {**PRIVATE, "etag": f'"{revision}"'})


def _first(errors: Any, what: str) -> str:
    """One line of pydantic's errors. It quotes no value, which may be a credential, or long; names may be the client's, too."""
    place = repr(".".join(str(part) for part in errors[0]["loc"])[:80])
    return f"{what} is refused: {place}: {errors[0]['msg'].removeprefix('Value error, ')}"


async def _refused_query(_: Request, error: RequestValidationError) -> Response:
    return json_response({"detail": _first(error.errors(), "The request")}, status=400)


async def _refused(_: Request, error: HTTPException) -> Response:
    detail = error.detail if isinstance(error.detail, str) else "Refused."  # the platform's own routes raise it, too
    return JSONResponse({"detail": detail}, error.status_code, {**PRIVATE, **(error.headers or {})})


async def _refused_write(_: Request, error: Exception) -> Response:
    return json_response({"detail": str(error)}, status=422)


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RequestValidationError: _refused_query,
    HTTPException: _refused,
    RefusedWriteError: _refused_write,
}
