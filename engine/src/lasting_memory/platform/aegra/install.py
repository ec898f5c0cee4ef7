"""What this library changes of aegra, in a process that serves, before its first request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aegra_api.api.runs
import aegra_api.api.store
import aegra_api.services.langgraph_service
import aegra_api.services.run_executor
import aegra_api.services.run_preparation
from aegra_api.core.auth_middleware import get_auth_instance
from aegra_api.core.database import db_manager
from fastapi import FastAPI
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from lasting_memory.platform.aegra import runs, users
from lasting_memory.platform.aegra.client import in_process_client
from lasting_memory.platform.aegra.routes import public_routes, router
from lasting_memory.platform.aegra.sign_in import Authenticate, NeedsSignIn, SignIn
from lasting_memory.platform_names import AEGRA, check_names

_apps: list[FastAPI] = []


def install(app: FastAPI) -> None:
    """Make aegra serve this app as langgraph-api would: with the sign-in, the routes that aegra lacks,
    and runs that begin later. Raises `MovedNameError` for another version of aegra.
    """
    check_names(AEGRA)
    _apps[:] = [app]
    app_router = app.router
    for route in app_router.routes:
        if isinstance(route, APIRoute):  # FastAPI asks who calls it
            continue
        if isinstance(route, Route | Mount):
            route.app = NeedsSignIn(route.app)
    app_router.routes[:0] = [*router.routes, *public_routes()]
    sign_in = Middleware(SignIn, authenticate=_authenticate)
    app.user_middleware.append(sign_in)
    app.exception_handlers.setdefault(HTTPException, _refusal)
    app_router.lifespan_context = _with_due_runs(app_router.lifespan_context)
    app.openapi_url = "/openapi.json"
    app.docs_url = "/docs"
    app.setup()
    _replace_names()


async def _refusal(_: Request, error: Any) -> JSONResponse:
    """A refusal of aegra's, as every other one is answered."""
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


def _authenticate() -> Authenticate:
    """What signs a request in. aegra would let everybody in as one person where it found none."""
    auth: Any = get_auth_instance()
    if auth is None:
        raise RuntimeError("auth.py could not be loaded; nobody is let in.")
    authenticate: Authenticate = auth._authenticate_handler  # noqa: SLF001  # aegra reads it so
    return authenticate


def _replace_names() -> None:
    """Put functions of this library in place of aegra's of the same names."""
    preparation: Any = aegra_api.services.run_preparation
    preparation.executor = runs.PlanningExecutor(preparation.executor)
    preparation.uuid4 = runs.run_id
    aegra_api.api.runs._apply_create_run_auth = runs.authorize_run  # noqa: SLF001
    aegra_api.api.runs._get_session_maker = _run_sessions  # noqa: SLF001
    graphs: Any = aegra_api.services.langgraph_service
    graphs.inject_user_context = _with_readable_user(graphs.inject_user_context)
    execution: Any = aegra_api.services.run_executor
    execution.with_auth_ctx = _acting_in_run(execution.with_auth_ctx)
    # The handlers of auth.py say which namespaces a caller may use: those that agents use, too.
    aegra_api.api.store.apply_namespace_scoping = _as_named


def _run_sessions() -> Callable[[], Any]:
    """What makes the database session of a run's request."""
    return runs.run_session


def _as_named(namespace: list[str], user: Any, **_: Any) -> list[str]:
    """The namespace of a store request as the client names it."""
    return namespace


def _with_readable_user(inject: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """aegra's function that puts the user into a run's config, with a user that also answers `in`
    and `[]`. Nobody is put there as None.
    """

    def injected(user: Any, base_config: dict[str, Any] | None = None) -> dict[str, Any]:
        readable_user = None
        if user is not None and not users.is_nobody(user):
            readable_user = users.user_of(user)
        return inject(readable_user, base_config)

    return injected


def _acting_in_run(with_auth_ctx: Callable[..., Any]) -> Callable[..., Any]:
    """aegra's context of a run's user, in which in-process clients act as this user, too."""

    @asynccontextmanager
    async def in_run(user: Any, permissions: Any = None) -> AsyncIterator[None]:
        async with with_auth_ctx(user, permissions):
            run_user = users.user_of(user)
            with users.acting(run_user):
                yield

    return in_run


def _with_due_runs(lifespan: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The server's lifespan, in which planned runs begin. It raises `RuntimeError` where `auth.py`
    could not be loaded.
    """

    @asynccontextmanager
    async def with_due_runs(app: Any) -> AsyncIterator[Any]:
        _authenticate()
        executor = aegra_api.services.run_preparation.executor
        beginning = asyncio.create_task(runs.begin_due_runs(executor))
        try:
            async with lifespan(app) as state:
                yield state
        finally:
            beginning.cancel()

    return with_due_runs


# --- What `platform` asks of this server


def client() -> LangGraphClient:
    """The in-process client."""
    app: ASGIApp = _apps[0]
    return in_process_client(app)


def store() -> BaseStore:
    """The runs' store."""
    runs_store: BaseStore = db_manager.get_store()
    return runs_store


def checkpointer() -> Any:
    """The runs' checkpointer."""
    return db_manager.get_checkpointer()


def loaded_graph(graph_id: str) -> Pregel[Any, Any, Any, Any] | None:
    """A graph that this server has loaded; None for one that is made anew for each run."""
    service = aegra_api.services.langgraph_service.get_langgraph_service()
    graph = service._base_graph_cache.get(graph_id)  # noqa: SLF001
    if not isinstance(graph, Pregel):
        return None
    return graph
