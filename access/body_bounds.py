"""What is refused in a JSON body before the platform sees it: its size and shape, and fields that it trusts without looking."""

import asyncio
import json
import reprlib
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import AfterValidator, BaseModel, StrictStr, ValidationError
from starlette.exceptions import HTTPException

from settings import MAX_HISTORY, MAX_INPUT_BYTES

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


def canonical(text: str) -> str:
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


_Id = Annotated[StrictStr, AfterValidator(canonical)]


class _Fields(BaseModel):
    """Fields whose ids the platform keeps as spelled, or whose types it does not check."""

    thread_id: _Id | None = None
    thread_ids: list[_Id] | None = None
    checkpoint_id: StrictStr | None = None
    checkpoint: dict[str, Any] | None = None
    timezone: Annotated[StrictStr, AfterValidator(_zone)] | None = None
    langsmith_tracer: dict[str, Any] | None = None
    namespace_prefix: list[StrictStr] = []


async def check_body(body: bytes, path: str = "") -> None:
    if len(body) > MAX_REQUEST_BYTES:
        raise HTTPException(413, f"The body has more than {MAX_REQUEST_BYTES:,} bytes; send less.")
    reason = await asyncio.to_thread(_reason, body, path) if len(body) > _LARGE else _reason(body, path)
    if reason:
        raise HTTPException(422, reason)


def _reason(body: bytes, path: str) -> str | None:
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
    return too_many_states(value.get("limit")) if path.endswith("/history") and isinstance(value, dict) else None


def shape(body: bytes) -> tuple[int, int]:
    """The largest number of brackets that a JSON text has open at once, and its commas between values."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain.translate(_MARKS, _NO_MARKS), np.int8)
    marks = marks[np.cumsum(marks == _QUOTE) % 2 == 0]
    is_comma = marks == _COMMA
    return int(np.cumsum(marks * ~is_comma, dtype=np.int64).max(initial=0)), int(is_comma.sum())


def too_many_states(limit: object) -> str | None:
    """The reason to refuse a limit of a history; None for a good one, and for what is no number: the platform answers that."""
    try:
        number = float(str(limit))
    except ValueError:
        return None
    return f"limit is {limit}; a history has at most {MAX_HISTORY} states at once." if number > MAX_HISTORY else None
