"""A person's own view of their memory over HTTP: see, correct, undo, export and forget it; and the page.

The platform serves them beside its own routes (`http.app` in langgraph.json), behind the same sign-in. They are about the
caller; an operator may name another person with `?user_id=&org_id=`. Errors are `{"detail": "..."}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from langgraph.store.base import BaseStore
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from access.dev_guard import DevGuard
from access.request_bounds import RequestBounds
from api.consolidation import consolidation, shown_proposals
from api.controls import read_controls, write_controls
from api.export import export
from api.files import delete_file, list_files, read_file, read_history, undo, write_file
from api.forget import forget_me
from api.imports import import_files
from api.me import me
from api.page import page
from api.prompt import policies, prompt
from api.search import search
from memory import langgraph_internals
from settings import Settings, load_settings


def build_api(settings: Settings, store: Callable[[], Awaitable[BaseStore]] = langgraph_internals.store) -> Starlette:
    """The routes under /memory. The server adds its own to them, so this middleware surrounds all routes."""
    guard = [Middleware(DevGuard, settings=settings)] if settings.local_dev else []
    bounds = Middleware(RequestBounds)
    api = Starlette(
        routes=[
            Route("/memory", list_files, methods=["GET"]),
            Route("/memory", forget_me, methods=["DELETE"]),
            Route("/memory/file", read_file, methods=["GET"]),
            Route("/memory/file", write_file, methods=["PUT"]),
            Route("/memory/file", delete_file, methods=["DELETE"]),
            Route("/memory/history", read_history, methods=["GET"]),
            Route("/memory/undo", undo, methods=["POST"]),
            Route("/memory/export", export(shown_proposals), methods=["GET"]),
            Route("/memory/import", import_files, methods=["POST"]),
            Route("/memory/controls", read_controls, methods=["GET"]),
            Route("/memory/controls", write_controls, methods=["PUT"]),
            Route("/memory/me", me, methods=["GET"]),
            Route("/memory/search", search, methods=["GET"]),
            Route("/memory/policies", policies, methods=["GET"]),
            Route("/memory/prompt", prompt, methods=["GET"]),
            *consolidation(),
            *page(),
        ],
        middleware=[*guard, bounds],
    )
    api.state.settings, api.state.store = settings, store
    return api


app = build_api(load_settings())
langgraph_internals.isolate_store_calls()
langgraph_internals.log_no_queries()
