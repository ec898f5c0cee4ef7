"""While Postgres cannot be reached: what requests are answered, and how much of it the log says.

Every deployment loads this, so it knows nothing of psycopg, which only those on a Postgres of their own load.
"""

import logging
import re
import time
from collections.abc import Mapping
from typing import Any

from langgraph_sdk.errors import InternalServerError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

DETAIL = "Postgres, which holds memory and conversations, is unreachable (MEMORY_POSTGRES_URI); try again in a moment."
# Seconds between two lines of one origin in the log.
LOG_SECONDS = 10.0
_LINE_CHARS = 500
# As the last line of a traceback begins.
_RAISED = re.compile(
    r"^(psycopg|memory\.postgres\.pool\.)\S*(Operational|Unreachable|Timeout|Shutdown|ConnectNow)\S*:", re.MULTILINE
)


class PostgresUnreachableError(Exception):
    """An operation failed because Postgres did not answer, or would not. What it did is not known."""


async def unreachable(request: Request, error: Exception) -> Response:
    """503 where Postgres is away. A request of ours to the platform, made to answer this one, is told so by its status."""
    if isinstance(error, InternalServerError) and error.status_code != 503:  # noqa: PLR2004
        raise error
    request.scope["error_detail"] = DETAIL  # for the line of the server's log about this request
    return JSONResponse({"detail": DETAIL}, 503, {"retry-after": "1", "cache-control": "no-store"})


HANDLERS = {PostgresUnreachableError: unreachable, InternalServerError: unreachable}


class _OutageFilter(logging.Filter):
    """Of what is logged about Postgres, lets one line of each origin through in `LOG_SECONDS`, and counts the others."""

    def __init__(self) -> None:
        super().__init__()
        self._origins: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or not _is_about_postgres(record):
            return True
        origin, now = (record.pathname, record.lineno), time.monotonic()
        until, dropped = self._origins.get(origin, (0.0, 0))
        if now < until:
            self._origins[origin] = (until, dropped + 1)
            return False
        self._origins[origin] = (now + LOG_SECONDS, 0)
        _shorten(record, f" ({dropped} more like it before)" if dropped else "")
        return True


def bound_log() -> None:
    """Have every handler of the log filter what an outage repeats."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_FILTER)


def _is_about_postgres(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith("psycopg") or isinstance(error, PostgresUnreachableError):
        return True
    if not isinstance(record.msg, Mapping):
        return False
    # structlog has made text of the error by now.
    return record.msg.get("error_detail") == DETAIL or _RAISED.search(str(record.msg.get("exception"))) is not None


def _shorten(record: logging.LogRecord, note: str) -> None:
    """Make one line of a record, without its traceback."""
    record.exc_info = record.exc_text = None
    if isinstance(record.msg, dict):
        kept: dict[str, Any] = {key: value for key, value in record.msg.items() if key != "exception"}
        record.msg = {**kept, "event": _line(kept.get("event")) + note}
    else:
        record.msg, record.args = _line(record.getMessage()) + note, ()


def _line(text: object) -> str:
    return " ".join(str(text).split())[:_LINE_CHARS]


_FILTER = _OutageFilter()
