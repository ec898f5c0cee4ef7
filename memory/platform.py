"""What is the platform's own and has no public name: here, and nowhere else that serves requests.

The server tests of tests/test_api.py and tests/test_postgres.py fail when it moves. (`memory/postgres.py`, which only
`langgraph.postgres.json` loads, has two more such names.)
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from langgraph.store.base import BaseStore
from starlette.requests import Request


async def store() -> BaseStore:
    """The store that runs get, in a custom route. `langgraph.config.get_store()` gave an empty one there."""
    from langgraph_api.store import get_store  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    found: BaseStore = await get_store()
    return found


def acting_as_caller(request: Request) -> AbstractAsyncContextManager[None]:
    """In it, in-process clients are the request's user, whom handlers of `auth.py` see. Without it they are nobody."""
    from langgraph_api.utils import with_user  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    entered: AbstractAsyncContextManager[None] = with_user(request.user, request.auth)
    return entered
