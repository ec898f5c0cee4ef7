"""A person's own view of their memory over HTTP: see, correct, undo, export and forget it; and the page.

The platform serves them beside its own routes (`http.app` in langgraph.json), behind the same sign-in. They are about the
caller; an operator may name another person with `?user_id=&org_id=`. Errors are `{"detail": "..."}`.
"""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from langgraph.store.base import BaseStore
from starlette.middleware import Middleware

from access.dev_guard import DevGuard
from access.request_bounds import RequestBounds
from api import documents, files, forget, views
from api.consolidation import router as consolidation
from api.consolidation import shown_proposals
from api.page import Page
from api.requests import HANDLERS
from memory import langgraph_internals
from settings import Settings, load_settings


def build_api(settings: Settings, store: Callable[[], Awaitable[BaseStore]] = langgraph_internals.store) -> FastAPI:
    """The routes under /memory. The server adds its own to them, so this middleware surrounds all routes."""
    middleware = [Middleware(DevGuard, settings=settings)] if settings.local_dev else []
    middleware += [
        Middleware(RequestBounds),
        Middleware(Page, settings=settings),
    ]
    # The server's own document has these routes; the handlers cover the server's routes, too.
    api = FastAPI(openapi_url=None, middleware=middleware, exception_handlers=HANDLERS)
    # The routes themselves, not `include_router`: the server puts its sign-in around each route's `app`, which an included
    # router does not have.
    api.router.routes.extend([
        *files.router.routes,
        *forget.router.routes,
        *documents.router.routes,
        *views.router.routes,
        *consolidation.routes,
    ])  # fmt: skip
    api.state.settings, api.state.store = settings, store
    api.state.exported = {"proposals": shown_proposals}
    return api


app = build_api(load_settings())
langgraph_internals.isolate_store_calls()
langgraph_internals.log_no_queries()
