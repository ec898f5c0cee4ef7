"""The app that `make dev-aegra` serves: aegra's, with this project's in it."""

import logging


def _is_news(record: logging.LogRecord) -> bool:
    """Not that routes of Starlette's have no sign-in of aegra's: this library gives them its own."""
    return "enable_custom_route_auth does not cover" not in str(record.msg)


logging.getLogger("aegra_api.main").addFilter(_is_news)

from aegra_api.main import app  # noqa: E402  # it logs when it is imported

app.state.by_make_dev = True  # which seeds after the start, and says where the page is

__all__ = ["app"]
