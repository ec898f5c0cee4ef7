"""A person's own view of their memory over HTTP: see, correct, undo, export and forget it; and the page.

The platform serves them beside its own routes (`http.app` in langgraph.json), behind the same sign-in. They are about the
caller; an operator may name another person with `?user_id=&org_id=`. Errors are `{"detail": "..."}`.
"""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from langgraph.store.base import BaseStore
from starlette.middleware import Middleware

from lasting_memory import platform
from lasting_memory.deployment import Deployment
from lasting_memory.http import documents, files, forget, views
from lasting_memory.http.consolidation import router as consolidation
from lasting_memory.http.consolidation import shown_proposals
from lasting_memory.http.dev_guard import DevGuard
from lasting_memory.http.page import Page
from lasting_memory.http.request_bounds import RequestBounds
from lasting_memory.http.requests import HANDLERS
from lasting_memory.settings import PROJECT


def build_api(deployment: Deployment, store: Callable[[], Awaitable[BaseStore]] = platform.store) -> FastAPI:
    """The routes under /memory. The server adds its own to them, so this middleware surrounds all routes."""
    middleware = [Middleware(DevGuard, settings=deployment.settings)] if deployment.settings.local_dev else []
    middleware += [
        Middleware(RequestBounds),
        Middleware(Page, deployment=deployment),
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
    api.state.deployment, api.state.store = deployment, store
    api.state.exported = {"proposals": shown_proposals}
    return api


app = build_api(Deployment(PROJECT))
platform.isolate_store_calls()
platform.log_no_queries()
