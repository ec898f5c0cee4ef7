"""What this library changes of aegra, in a process that serves, before its first request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import aegra_api.api.runs
import aegra_api.api.store
import aegra_api.services.langgraph_service
import aegra_api.services.run_executor
import aegra_api.services.run_preparation
from aegra_api.core.auth_middleware import get_auth_instance
from fastapi import FastAPI
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import Lifespan

from lasting_memory.platform.aegra import planned_runs, run_requests, server, users
from lasting_memory.platform.aegra.routes import added_routes
from lasting_memory.platform.aegra.sign_in import FieldsByToken, NeedsSignIn, SignIn
from lasting_memory.platform_names import AEGRA, check_names

# aegra's function that puts a user into the config of a run.
InjectUser = Callable[[users.AegraUser | None, dict[str, object] | None], dict[str, object]]
# aegra's context of a run, given its user and permissions.
EnterRun = Callable[[users.AegraUser, object], AbstractAsyncContextManager[None]]


def install(app: FastAPI) -> None:
    """Make aegra serve this app as langgraph-api would: with the sign-in, the routes that aegra lacks,
    and runs that begin later. Raises `MovedNameError` for another version of aegra.
    """
    check_names(AEGRA)
    server.set_app(app)
    app_router = app.router
    for route in app_router.routes:
        if isinstance(route, APIRoute):  # FastAPI asks who calls it
            continue
        if isinstance(route, Route | Mount):
            route.app = NeedsSignIn(route.app)
    app_router.routes[:0] = added_routes()
    sign_in = Middleware(SignIn, authenticate=_authenticate)
    app.user_middleware.append(sign_in)
    app.exception_handlers.setdefault(HTTPException, _refusal)
    app_router.lifespan_context = _with_due_runs(app_router.lifespan_context)
    app.openapi_url = "/openapi.json"
    app.docs_url = "/docs"
    app.setup()
    _replace_names()


async def _refusal(_: Request, error: HTTPException) -> JSONResponse:
    """A refusal of aegra's, as every other one is answered."""
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


def _authenticate() -> FieldsByToken:
    """What signs a request in. aegra would let everybody in as one person where it found none."""
    auth = get_auth_instance()
    if auth is None:
        raise RuntimeError("auth.py could not be loaded; nobody is let in.")
    authenticate: FieldsByToken = auth._authenticate_handler  # noqa: SLF001  # aegra reads it so
    return authenticate


def _replace_names() -> None:
    """Put functions of this library in place of aegra's of the same names."""
    preparation = aegra_api.services.run_preparation
    preparation.executor = planned_runs.PlanningExecutor(preparation.executor)
    preparation.uuid4 = run_requests.run_id
    aegra_api.api.runs._apply_create_run_auth = run_requests.authorize_run  # noqa: SLF001
    aegra_api.api.runs._get_session_maker = _run_sessions  # noqa: SLF001
    graphs = aegra_api.services.langgraph_service
    graphs.inject_user_context = _with_readable_user(graphs.inject_user_context)
    execution = aegra_api.services.run_executor
    execution.with_auth_ctx = _acting_in_run(execution.with_auth_ctx)
    # The handlers of auth.py say which namespaces a caller may use: those that agents use, too.
    aegra_api.api.store.apply_namespace_scoping = _as_named


def _run_sessions() -> Callable[[], AbstractAsyncContextManager[AsyncSession]]:
    """What makes the database session of a run's request."""
    return run_requests.run_session


def _as_named(namespace: list[str], user: object, **_: object) -> list[str]:
    """The namespace of a store request as the client names it."""
    return namespace


def _with_readable_user(inject: InjectUser) -> InjectUser:
    """aegra's function that puts the user into a run's config, with a user that also answers `in`
    and `[]`. Nobody is put there as None.
    """

    def injected(
        user: users.AegraUser | None, base_config: dict[str, object] | None = None
    ) -> dict[str, object]:
        readable_user = None
        if user is not None and not users.is_nobody(user):
            readable_user = users.user_of(user)
        return inject(readable_user, base_config)

    return injected


def _acting_in_run(with_auth_ctx: EnterRun) -> EnterRun:
    """aegra's context of a run's user, in which in-process clients act as this user, too."""

    @asynccontextmanager
    async def in_run(user: users.AegraUser, permissions: object = None) -> AsyncIterator[None]:
        async with with_auth_ctx(user, permissions):
            run_user = users.user_of(user)
            with users.acting(run_user):
                yield

    return in_run


def _with_due_runs(lifespan: Lifespan[FastAPI]) -> Lifespan[FastAPI]:
    """The server's lifespan, in which planned runs begin. It raises `RuntimeError` where `auth.py`
    could not be loaded.
    """

    @asynccontextmanager
    async def with_due_runs(app: FastAPI) -> AsyncIterator[Mapping[str, object] | None]:
        _authenticate()
        executor = aegra_api.services.run_preparation.executor
        due_runs_task = asyncio.create_task(planned_runs.begin_due_runs(executor))
        try:
            async with lifespan(app) as state:
                yield state
        finally:
            due_runs_task.cancel()

    # It yields what `lifespan` does.
    return cast("Lifespan[FastAPI]", with_due_runs)
