"""A person's own view of their memory over HTTP: see, correct, undo, export and forget it; and the page.

The platform serves them beside its own routes (`http.app` in langgraph.json), behind the same sign-in. They are about the
caller; an operator may name another person with `?user_id=&org_id=`. Errors are `{"detail": "..."}`.
"""

from collections.abc import Awaitable, Callable, Sequence

from fastapi import FastAPI
from langgraph.store.base import BaseStore
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from lasting_memory import platform
from lasting_memory.deployment import Deployment
from lasting_memory.http import documents, facts, files, forget, views
from lasting_memory.http.consolidation import router as consolidation
from lasting_memory.http.consolidation import shown_proposals
from lasting_memory.http.dev_guard import DevGuard
from lasting_memory.http.page import Page
from lasting_memory.http.request_bounds import RequestBounds
from lasting_memory.http.requests import HANDLERS
from lasting_memory.settings import SettingsError


def build_http(
    deployment: Deployment,
    *,
    routes: Sequence[BaseRoute] = (),
    page: bool = True,
    store: Callable[[], Awaitable[BaseStore]] = platform.store,
) -> FastAPI:
    """The app that `http.app` in langgraph.json names: the routes under /memory, and the page at /app unless `page` is False.

    `routes` are a deployment's own, of Starlette or FastAPI. They have the same sign-in (`request.user`) and bounds, as long as
    `enable_custom_route_auth` is in langgraph.json. Raises `SettingsError` for one that the sign-in cannot surround, and for a
    deployment that consolidates without the graph that does it.
    """
    deployment.check_graphs()
    platform.isolate_store_calls()
    platform.log_no_queries()
    for route in routes:
        if not hasattr(route, "app"):
            raise SettingsError(
                f"routes has {route!r}, which no sign-in can surround; give the routes themselves, router.routes."
            )
    # The server adds its own routes, so this middleware surrounds all of them.
    middleware = [Middleware(DevGuard, settings=deployment.settings)] if deployment.settings.local_dev else []
    middleware += [
        Middleware(RequestBounds, limits=deployment.limits),
        *([Middleware(Page, deployment=deployment)] if page else []),
    ]
    # The server's own document has these routes; the handlers cover the server's routes, too.
    api = FastAPI(openapi_url=None, middleware=middleware, exception_handlers=HANDLERS)
    # The routes themselves, not `include_router`: the server puts its sign-in around each route's `app`, which an included
    # router does not have.
    api.router.routes.extend([
        *files.router.routes,
        *facts.router.routes,
        *forget.router.routes,
        *documents.router.routes,
        *views.router.routes,
        *consolidation.routes,
        *routes,
    ])  # fmt: skip
    api.state.deployment, api.state.store = deployment, store
    api.state.exported = {"proposals": shown_proposals}
    return api
