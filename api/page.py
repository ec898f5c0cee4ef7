"""The page at /app: static files, this project's only public routes. The page fetches its data from /memory."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from settings import PROJECT, Settings

FOLDER = PROJECT / "app"
INDEX = "index.html"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {
    path.relative_to(FOLDER).as_posix(): path for path in sorted(FOLDER.rglob("*")) if path.is_file() and path.suffix in _TYPES
}
# What adds itself to the page: app/main.js imports each.
PARTS = [name for name in FILES if name.endswith("/part.js")]
# No other origins, no inline code, no text as HTML, no frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


class PublicRoute(Route):
    """A route without sign-in: the platform wraps each route's `app` in its sign-in, and this route keeps its own.

    It answers every method. Otherwise the platform's routes would, after sign-in and without these headers.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD"):
            await super().handle(scope, receive, send)
        else:
            headers = {**HEADERS, "allow": "GET, HEAD"}
            await Response("The page answers GET and HEAD.", 405, headers, "text/plain")(scope, receive, send)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "app" or not hasattr(self, "app"):
            super().__setattr__(name, value)


async def index(request: Request) -> Response:
    """The page itself, with its parts, and with the way to sign in: the page cannot ask without a token."""
    settings: Settings = request.app.state.settings
    html = await asyncio.to_thread(FILES[INDEX].read_text, "utf-8")
    html = html.replace("{sign-in}", settings.sign_in).replace("{parts}", " ".join(PARTS))
    return Response(html, media_type=_TYPES[".html"], headers=HEADERS)


async def asset(request: Request) -> Response:
    name = request.path_params["name"]
    if not name:  # the page's own addresses are relative to its name without a slash
        return RedirectResponse("../app", headers=HEADERS)
    if name not in FILES or name == INDEX:
        return Response("The page has no such file.", 404, HEADERS, "text/plain")
    content = await asyncio.to_thread(FILES[name].read_bytes)
    return Response(content, headers=HEADERS, media_type=_TYPES[FILES[name].suffix])


def page() -> list[Route]:
    return [
        PublicRoute("/app", index, methods=["GET"], include_in_schema=False),
        PublicRoute("/app/{name:path}", asset, methods=["GET"], include_in_schema=False),
    ]
