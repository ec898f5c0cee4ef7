"""A person's own view of their memory over HTTP: see, correct, undo, export and forget it; and the
page.

The platform serves them beside its own routes (`http.app` in langgraph.json), behind the same
sign-in. They are about the caller; an operator may name another person with `?user_id=&org_id=`.
Errors are `{"detail": "..."}`. The page's static files are the only public ones of this project;
the page fetches its data from /memory.
"""

import html
import json
from collections.abc import Awaitable, Callable, Sequence

from fastapi import FastAPI
from httpx import HTTPStatusError
from langgraph.store.base import BaseStore
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory import platform
from lasting_memory.deployment import Deployment
from lasting_memory.files.seeded import starting_memory
from lasting_memory.http import delete_for_good, export_and_forget, files, importing, texts, views
from lasting_memory.http.accept import prefers_html
from lasting_memory.http.consolidation import router as consolidation
from lasting_memory.http.mcp_discovery import Discovery
from lasting_memory.http.memory_mcp import memory_route
from lasting_memory.http.middleware import DevGuard, RequestBounds
from lasting_memory.http.protocols import PeoplesAgents, refused_inside
from lasting_memory.http.requests import HANDLERS
from lasting_memory.http.start import looking_around
from lasting_memory.settings import ENGINE, Settings, SettingsError, served_http

FOLDER = ENGINE / "http" / "static"
# What adds itself to the page: main.js imports each.
PARTS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/part.js"))
# No other origins, no inline code, no text as HTML, no frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; base-uri 'none'; "
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


def headers_of(settings: Settings) -> dict[str, str]:
    """The headers of the page's files. Where people sign in at a provider, the page may call that
    origin, too.
    """
    if settings.sign_in != "provider":
        return HEADERS
    policy = POLICY.replace("connect-src 'self'", f"connect-src 'self' {settings.page_origin}")
    return {**HEADERS, "content-security-policy": policy}


def provider_of(settings: Settings) -> str:
    """What the page's script has to know of the provider at which people sign in, as a tag; ""
    where they do not.
    """
    if settings.sign_in != "provider":
        return ""
    asks_for_audience = settings.audiences and settings.auth_audience_claim == "aud"
    known = {
        "issuer": settings.page_issuer,
        "client_id": settings.auth_client_id,
        "scope": settings.auth_scope,
        # Auth0 gives tokens for an API only to who names it; others leave it unread.
        "audience": settings.audiences[0] if asks_for_audience else None,
    }
    return f'<meta name="provider" content="{html.escape(json.dumps(known))}">'


CHOSEN = {"vary": "accept-language"}


def build_http(
    deployment: Deployment,
    *,
    routes: Sequence[BaseRoute] = (),
    page: bool = True,
    mcp: bool = True,
    mcp_conversations: bool = False,
    store: Callable[[], Awaitable[BaseStore]] = platform.store,
) -> FastAPI:
    """The app that `http.app` in langgraph.json names: the routes under /memory, and the page at
    /app unless `page` is False.

    Other programs of a person's read and change their memory by MCP at /memory/mcp, unless `mcp` is
    False; with `mcp_conversations` they search past conversations there, too.

    `routes` are a deployment's own, of Starlette or FastAPI. They have the same sign-in
    (`request.user`) and bounds, as long as `enable_custom_route_auth` is in langgraph.json. Raises
    `SettingsError` if it is not, for one that the sign-in cannot surround, for texts of the page
    that cannot be used, and for a deployment that consolidates without the graph that does it. The
    server does not start, either, with an agent that lacks a part which keeps it safe.
    """
    _ = deployment.agents  # raises, if a graph is missing
    _check_sign_in(deployment)
    starting_memory(deployment.folder)  # as above: what requests need is read before the first
    deployment.load_prompts()
    platform.isolate_store_calls()
    platform.log_no_queries()
    platform.warn_of_no_durability()
    if platform.serves_in_memory():
        from lasting_memory.http import in_memory_runtime  # noqa: PLC0415  # no other server has what it imports

        in_memory_runtime.correct()
    if not isinstance(routes, Sequence) or isinstance(routes, str | bytes):
        raise SettingsError(
            f"routes of build_http is {routes!r:.80}; use a list of routes, e.g. router.routes."
        )
    if bare := [route for route in routes if not hasattr(route, "app")]:
        raise SettingsError(
            f"routes has {bare[0]!r}, which no sign-in can surround; give the routes, router.routes."
        )
    # The server adds its own routes, so this middleware surrounds all of them.
    middleware = (
        [Middleware(DevGuard, settings=deployment.settings)]
        if deployment.settings.local_dev
        else []
    )
    middleware += [Middleware(RequestBounds, deployment=deployment)]
    middleware += [Middleware(PeoplesAgents, settings=deployment.settings)]
    if mcp:
        middleware += [Middleware(Discovery, settings=deployment.settings)]
    if page:
        middleware += [
            Middleware(
                Page, deployment=deployment, languages=texts.load(deployment.folder / "texts")
            )
        ]
    # The server's own document has these routes; the handlers cover the server's routes, too.
    handlers = {**HANDLERS, HTTPStatusError: refused_inside}
    api = FastAPI(
        openapi_url=None,
        middleware=middleware,
        exception_handlers=handlers,
        lifespan=looking_around,
    )
    # The routes themselves, not `include_router`: the server puts its sign-in around each route's
    # `app`, which an included router does not have.
    own = (files, views, delete_for_good, export_and_forget, importing)
    for router in (*(module.router for module in own), consolidation):
        api.router.routes.extend(router.routes)
    if mcp:
        api.router.routes.append(memory_route(deployment, conversations=mcp_conversations))
    api.router.routes.extend(routes)
    api.state.deployment, api.state.store, api.state.has_page = deployment, store, page
    return api


def _check_sign_in(deployment: Deployment) -> None:
    """Raise `SettingsError` if the server would answer this app's routes to anybody, without a
    sign-in.
    """
    http = served_http(deployment.folder)
    if not http.get("app"):
        return
    asks = http.get("enable_custom_route_auth", False)
    if asks is not True:  # a text, such as "false", would count as true
        file = deployment.folder / "langgraph.json"
        what = f"enable_custom_route_auth is {json.dumps(asks):.80}, so its app's routes would ask nobody to sign in"
        raise SettingsError(
            f'{file}: in http {what}; put "enable_custom_route_auth": true beside "app".'
        )


class Page:
    """ASGI middleware that answers /app, before the sign-in that the platform puts around routes.

    Whoever opens the server's root in a browser is sent there. Other clients get the platform's
    answer: a check of health.
    """

    def __init__(
        self, app: ASGIApp, deployment: Deployment, languages: dict[str, texts.Texts]
    ) -> None:
        self.app = app
        self.texts = languages
        parts = [
            part
            for part in PARTS
            if deployment.consolidation or not part.startswith("consolidation/")
        ]
        index = (FOLDER / "index.html").read_text("utf-8").replace("{parts}", " ".join(parts))
        self.headers = headers_of(deployment.settings)
        # The page cannot ask without a token.
        index = index.replace("{sign-in}", deployment.settings.sign_in)
        self.index = index.replace("{provider}", provider_of(deployment.settings))
        routes = [
            Route("/app", self.show),
            Route("/app/texts", self.tell_texts),
            Mount("/app", StaticFiles(directory=FOLDER)),
        ]
        self.page = Starlette(routes=routes)

    def show(self, request: Request) -> Response:
        """The page, with what is there before its script: its language and a few texts."""
        language = self.language(request)
        shown = self.index.replace("{language}", language)
        for key in ("page.title", "page.noscript"):
            shown = shown.replace(f"{{{key}}}", html.escape(str(self.texts[language][key])))
        return HTMLResponse(shown, headers=CHOSEN | {"content-language": language})

    def tell_texts(self, request: Request) -> Response:
        """The page's own texts, in the language that the browser's owner likes best."""
        language = self.language(request)
        told = {"language": language, "texts": self.texts[language]}
        return JSONResponse(told, headers=CHOSEN | {"content-language": language})

    def language(self, request: Request) -> str:
        return texts.chosen(request.headers.get("accept-language", ""), self.texts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] == "http" and f"{path}/".startswith("/app/"):
            await self.page(scope, receive, send_guarded)
        elif scope["type"] == "http" and path in ("", "/") and _is_browser(Request(scope)):
            to_page = RedirectResponse(
                f"{scope.get('root_path', '')}/app", headers={"vary": "accept"}
            )
            await to_page(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send)


def _is_browser(request: Request) -> bool:
    """Whether somebody opens this address to look at it."""
    return request.method in ("GET", "HEAD") and prefers_html(
        ",".join(request.headers.getlist("accept"))
    )
