"""What of a request is checked before the platform looks at it: ids, fields, sizes and nesting.

The platform accepts any spelling of an id that `UUID()` reads, but keeps a conversation's
checkpoints under the one that was sent: the same id in capitals would be a second conversation,
which survives the deletion of the first. It also parses bodies of any shape in the event loop.
"""

import json
from typing import Annotated
from uuid import UUID

import numpy as np
from langgraph_sdk import Auth
from pydantic import AfterValidator, BaseModel, Field, StrictStr, ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.types import Scope

from lasting_memory import attachments
from lasting_memory.auth.run_requests import operators_field
from lasting_memory.auth.state_writes import rebuilt_state_write

# States of a conversation's history in one answer: each is the whole conversation.
MAX_HISTORY = 100
# Levels of nesting of a body: Python copies a few hundred at most, and a run that cannot be copied
# never begins, nor ends.
MAX_REQUEST_NESTING = 100
# A body has at most one value for so many of the bytes that it may have: each is looked at in the
# event loop.
BYTES_A_VALUE = 16
# Requests in one batch.
MAX_BATCH = 1_000

_OPENS = 1
_QUOTE = 0
_COMMA = 2
_CLOSES = 255
_MARKS = bytes.maketrans(b'[{",]}', bytes([_OPENS, _OPENS, _QUOTE, _COMMA, _CLOSES, _CLOSES]))
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[{",]}')


def shape(body: bytes) -> tuple[int, int]:
    """The largest number of brackets that a JSON text has open at once, and its commas between
    values.
    """
    without_backslashes = body.replace(rb"\\", b"")
    plain = without_backslashes.replace(rb"\"", b"")
    mark_bytes = plain.translate(_MARKS, _NO_MARKS)
    marks = np.frombuffer(mark_bytes, np.int8)
    quotes_before = np.cumsum(marks == _QUOTE)
    is_outside_of_texts = quotes_before % 2 == 0
    marks = marks[is_outside_of_texts]
    is_comma = marks == _COMMA
    steps = marks * ~is_comma  # 1 opens a bracket, -1 closes one
    depths = np.cumsum(steps, dtype=np.int64)
    depth = depths.max(initial=0)
    commas = is_comma.sum()
    return int(depth), int(commas)


def _canonical(text: str) -> str:
    """The text, if it is an id as `UUID` writes it, or no id.

    Raises `HTTPException` 422 for an id in another spelling.
    """
    try:
        spelling = str(UUID(text))
    except ValueError:  # not an id: the platform answers that
        return text
    if text != spelling:
        raise HTTPException(
            422, f"Ids are lower-case UUIDs with dashes; write this one as {spelling}."
        )
    return text


_Id = Annotated[StrictStr, AfterValidator(_canonical)]


class Fields(BaseModel):
    """Fields whose ids the platform keeps as spelled, or whose types it does not check."""

    thread_id: _Id | None = None
    thread_ids: list[_Id] | None = None
    checkpoint_id: StrictStr | None = None
    checkpoint: dict[str, object] | None = None
    langsmith_tracer: dict[str, object] | None = None


class _History(Fields):
    """How much of a conversation's history is asked for: each state is the whole conversation."""

    limit: Annotated[float, Field(le=MAX_HISTORY)] | None = None


class _StoreSearch(Fields):
    """What a search of the store needs, which the platform reads unasked."""

    namespace_prefix: list[StrictStr]


def fields_of(path: str) -> type[Fields]:
    """The fields that are checked in the body of a request to a route of the platform's."""
    if path.endswith("/history"):
        return _History
    if path.rstrip("/") == "/store/items/search":
        return _StoreSearch
    return Fields


def check_body(body: bytes, limit: int, fields: type[Fields] | None, *, asks_for_run: bool) -> None:
    """Raise `HTTPException` for a body out of bounds, or with fields that it may not have.

    It is 422, 413 for a body that is too long without its pictures, and 403 for fields of a run
    that its sender may not send.
    """
    depth, commas = shape(body)
    most_values = limit // BYTES_A_VALUE
    if depth > MAX_REQUEST_NESTING or commas > most_values:
        bounds = f"{MAX_REQUEST_NESTING} levels of nesting, or {most_values:,} values"
        raise HTTPException(422, f"The body has more than {bounds}.")
    if fields is None:
        return
    try:
        value = json.loads(body, parse_int=float)  # of any length
    except ValueError:  # not JSON: the platform answers that in the protocol's words
        value = None
    if len(body) > limit:
        size = len(body)
        for picture in attachments.pictures_in(value):
            size -= len(picture)
        if size > limit:
            raise too_long(limit)
    if value is not None:
        _check_items(value, fields, asks_for_run=asks_for_run)


def _check_items(value: object, fields: type[Fields], *, asks_for_run: bool) -> None:
    """Check a request, or each of a batch. Raises `HTTPException` 422 or 403."""
    items = value if isinstance(value, list) else [value]
    if len(items) > MAX_BATCH:
        raise HTTPException(422, f"The body is a batch of more than {MAX_BATCH:,}.")
    for item in items:
        _check_fields(fields, item)
        if asks_for_run and isinstance(item, dict):
            reason = operators_field(item)
            if reason is not None:
                raise HTTPException(403, reason)


async def checked_thread_state(body: bytes, thread_id: str) -> bytes:
    """The body of a request that writes a thread's state, as the platform may see it.

    The platform shows its handlers none of it. Raises `HTTPException` 422 for state that would
    break the runs of the thread.
    """
    try:
        return await rebuilt_state_write(body, thread_id)
    except Auth.exceptions.HTTPException as error:
        raise HTTPException(error.status_code, error.detail) from None


def too_long(limit: int) -> HTTPException:
    """The refusal of a body that is longer than the limit."""
    return HTTPException(413, f"The body has more than {limit:,} bytes; send less.")


def _check_fields(fields: type[Fields], value: object) -> None:
    """Raise `HTTPException` 422 unless the fields of an object have these types.

    A value that is no object has no fields.
    """
    if not isinstance(value, dict):
        value = {}
    try:
        fields.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        problem = problems[0]
        field = problem["loc"][0]
        message = problem["msg"]
        raise HTTPException(422, f"{field}: {message}") from None


def check_head(scope: Scope, path: str) -> None:
    """Raise `HTTPException` for a WebSocket, an id in another spelling, or too long a history."""
    if scope["type"] == "websocket":
        raise HTTPException(
            403, "WebSockets are closed here; post commands, and stream events over HTTP."
        )
    for segment in path.split("/"):
        _canonical(segment)
    if path.endswith("/history"):
        _check_fields(_History, dict(QueryParams(scope["query_string"])))
