"""An outage of Postgres: the answer to requests, and a bound on lines in the log.

Every deployment loads this, so it does not import psycopg, which only deployments on a Postgres of their own load.
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
# The beginning of a traceback's last line.
_RAISED = re.compile(
    r"^(psycopg|memory\.postgres\.pool\.)\S*(Operational|Unreachable|Timeout|Shutdown|ConnectNow)\S*:", re.MULTILINE
)


class PostgresUnreachableError(Exception):
    """An operation failed because Postgres did not answer, or refused. Its outcome is unknown."""


async def unreachable(request: Request, error: Exception) -> Response:
    """503 during an outage. The status also tells it of a request to the platform that was made to answer this one."""
    if isinstance(error, InternalServerError) and error.status_code != 503:  # noqa: PLR2004
        raise error
    request.scope["error_detail"] = DETAIL  # for the line of the server's log about this request
    return JSONResponse({"detail": DETAIL}, 503, {"retry-after": "1", "cache-control": "no-store"})


HANDLERS = {PostgresUnreachableError: unreachable, InternalServerError: unreachable}


class _OutageFilter(logging.Filter):
    """Passes one line about Postgres from each origin in `LOG_SECONDS`, and counts the others."""

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
    """Add the filter to every handler of the log."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_FILTER)


def _is_about_postgres(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith("psycopg") or isinstance(error, PostgresUnreachableError):
        return True
    if not isinstance(record.msg, Mapping):
        return False
    # structlog has already formatted the error as text.
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
