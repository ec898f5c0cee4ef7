"""The page at /app: static files, this project's only public ones. The page fetches its data from /memory."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory.deployment import Deployment
from lasting_memory.settings import ENGINE

FOLDER = ENGINE / "http" / "static"
# What adds itself to the page: main.js imports each.
PARTS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/part.js"))
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


class Page:
    """ASGI middleware that answers /app, before the sign-in that the platform puts around routes."""

    def __init__(self, app: ASGIApp, deployment: Deployment) -> None:
        self.app, self.deployment = app, deployment
        self.parts = [part for part in PARTS if deployment.consolidation or not part.startswith("consolidation/")]
        self.page = Starlette(routes=[Route("/app", self.index), Mount("/app", StaticFiles(directory=FOLDER))])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] == "http" and f"{path}/".startswith("/app/"):
            await self.page(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send)

    async def index(self, _: Request) -> Response:
        """The page itself, with its parts, and with the way to sign in: the page cannot ask without a token."""
        html = await asyncio.to_thread((FOLDER / "index.html").read_text, "utf-8")
        return HTMLResponse(
            html.replace("{sign-in}", self.deployment.settings.sign_in).replace("{parts}", " ".join(self.parts))
        )
