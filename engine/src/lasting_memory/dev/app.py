"""The app that `make dev` serves: the one that langgraph.json names. Its process holds the folder's
lock.
"""

import asyncio
import logging
from pathlib import Path

from langgraph_api.api import load_custom_app  # type: ignore[import-untyped]
from starlette.applications import Starlette

from lasting_memory.dev.locks import lock_as_server
from lasting_memory.http import in_memory_runtime
from lasting_memory.settings import project_http


def _configured() -> Starlette:
    """The app of the project in the current directory; an empty one if it has none."""
    http_config = project_http(Path())
    import_path = http_config.get("app")
    app: Starlette | None = None
    if import_path:
        app = load_custom_app(import_path)
    return app or Starlette()


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record of the log is shown. Ctrl-C cancels what goes on, which is no news: uvicorn
    logs each answer with a traceback, and the platform each run.
    """
    if isinstance(record.msg, dict):  # as structlog gives it, with the traceback as a text
        event = record.msg.get("event")
        exception = record.msg.get("exception")
        return "CancelledError" not in f"{event} {exception}"
    if record.exc_info:
        _, error, _ = record.exc_info
        if isinstance(error, asyncio.CancelledError):
            return False
    message = record.getMessage()
    return not message.startswith("Cancel ")


# The process that serves holds the folder's lock, also where `make dev` and the reloader were
# killed.
_lock = lock_as_server()
# How slowly a busy machine loads graphs and app is no news, either.
logging.getLogger("langgraph_api.timing.timer").setLevel(logging.ERROR)
app = _configured()
app.state.by_make_dev = True  # which seeds after the start, and says where the page is
for handler in logging.getLogger().handlers:
    handler.addFilter(_is_news)
in_memory_runtime.correct()  # also for an app that is not this library's
