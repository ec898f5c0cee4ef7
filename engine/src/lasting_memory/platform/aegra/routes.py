"""The routes of langgraph-api that aegra lacks, or answers otherwise. They come before aegra's."""

from aegra_api.core.health import health_check
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lasting_memory.platform.aegra import run_routes, thread_routes


def added_routes() -> list[BaseRoute]:
    """The routes of threads and runs, and /ok: it says nothing of anybody, so it needs no sign-in."""
    health_route = Route("/ok", _ok, methods=["GET"])
    return [*thread_routes.router.routes, *run_routes.router.routes, health_route]


async def _ok(request: Request) -> Response:
    """Answer that the server runs. With `check_db` it raises an error if the database does not answer."""
    if request.query_params.get("check_db"):
        await health_check(request)
    return JSONResponse({"ok": True})
