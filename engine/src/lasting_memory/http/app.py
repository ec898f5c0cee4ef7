"""The app that serves a person's own view of their memory over HTTP, and the page.

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
from lasting_memory.http import (
    bringing,
    changes,
    confirming,
    consolidation,
    conversations,
    delete_for_good,
    dreams,
    export,
    facts,
    files,
    forget,
    importing,
    me,
    offers,
    proposals,
    switches,
    texts,
    undo,
)
from lasting_memory.http.accept import prefers_html
from lasting_memory.http.dev_guard import DevGuard
from lasting_memory.http.errors import HANDLERS
from lasting_memory.http.mcp_discovery import Discovery
from lasting_memory.http.memory_mcp import memory_route
from lasting_memory.http.protocols import PeoplesAgents, refused_inside
from lasting_memory.http.request_bounds import RequestBounds
from lasting_memory.http.start import looking_around
from lasting_memory.memory.new_memory import starting_memory
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
    """The headers of the page's files.

    Where people sign in at a provider, the page may call that origin, too.
    """
    if settings.sign_in != "provider":
        return HEADERS
    own_origin = "connect-src 'self'"
    policy = POLICY.replace(own_origin, f"{own_origin} {settings.page_origin}")
    return {**HEADERS, "content-security-policy": policy}


def provider_of(settings: Settings) -> str:
    """What the page's script has to know of the provider at which people sign in, as a tag.

    It is "" where they sign in otherwise.
    """
    if settings.sign_in != "provider":
        return ""
    audience = None
    if settings.audiences and settings.auth_audience_claim == "aud":
        audience = settings.audiences[0]
    provider = {
        "issuer": settings.page_issuer,
        "client_id": settings.auth_client_id,
        "scope": settings.auth_scope,
        # Auth0 gives tokens for an API only to who names it; others leave it unread.
        "audience": audience,
    }
    content = html.escape(json.dumps(provider))
    return f'<meta name="provider" content="{content}">'


CHOSEN = {"vary": "accept-language"}
_ROUTERS = [
    files.router,
    undo.router,
    facts.router,
    changes.router,
    me.router,
    conversations.router,
    switches.router,
    confirming.router,
    delete_for_good.router,
    export.router,
    forget.router,
    importing.router,
    consolidation.router,
    bringing.router,
    dreams.router,
    proposals.router,
    offers.router,
]


def build_http(
    deployment: Deployment,
    *,
    routes: Sequence[BaseRoute] = (),
    page: bool = True,
    mcp: bool = True,
    mcp_conversations: bool = False,
    store: Callable[[], Awaitable[BaseStore]] = platform.store,
) -> FastAPI:
    """The app that `http.app` in langgraph.json names: the routes under /memory, and the page.

    The page is at /app unless `page` is False. Other programs of a person's read and change their
    memory by MCP at /memory/mcp, unless `mcp` is False; with `mcp_conversations` they search past
    conversations there, too.

    `routes` are a deployment's own, of Starlette or FastAPI. They have the same sign-in
    (`request.user`) and bounds, as long as `enable_custom_route_auth` is in langgraph.json. Raises
    `SettingsError` if it is not, for a route that the sign-in cannot surround, for texts of the
    page that cannot be used, and for a deployment that consolidates without the graph that does it.
    The server does not start, either, with an agent that lacks a part which keeps it safe.
    """
    _prepare(deployment)
    _check_routes(routes)
    # The server's own document has these routes; the handlers cover the server's routes, too.
    api = FastAPI(
        openapi_url=None,
        middleware=_middleware(deployment, page=page, mcp=mcp),
        exception_handlers={**HANDLERS, HTTPStatusError: refused_inside},
        lifespan=looking_around,
    )
    # The routes themselves, not `include_router`: the server puts its sign-in around each route's
    # `app`, which an included router does not have.
    for router in _ROUTERS:
        api.router.routes.extend(router.routes)
    if mcp:
        api.router.routes.append(memory_route(deployment, conversations=mcp_conversations))
    api.router.routes.extend(routes)
    api.state.deployment = deployment
    api.state.store = store
    api.state.has_page = page
    platform.adapt_app(api)
    return api


def _prepare(deployment: Deployment) -> None:
    """Read what requests need before the first of them, so that a mistake stops the server."""
    _ = deployment.agents  # raises, if a graph is missing
    _check_sign_in(deployment)
    starting_memory(deployment.folder)
    deployment.load_prompts()
    platform.isolate_store_calls()
    platform.log_no_queries()
    platform.warn_of_no_durability()
    if platform.serves_in_memory():
        from lasting_memory.http import in_memory_runtime  # noqa: PLC0415  # no other server has what it imports

        in_memory_runtime.correct()


def _check_routes(routes: Sequence[BaseRoute]) -> None:
    """Raise `SettingsError` for routes of a deployment's own that the sign-in cannot surround."""
    if not isinstance(routes, Sequence) or isinstance(routes, str | bytes):
        raise SettingsError(
            f"routes of build_http is {routes!r:.80}; use a list of routes, e.g. router.routes."
        )
    for route in routes:
        if not hasattr(route, "app"):
            raise SettingsError(
                f"routes has {route!r}, which no sign-in can surround; give the routes, router.routes."
            )


def _middleware(deployment: Deployment, *, page: bool, mcp: bool) -> list[Middleware]:
    """The middleware, from the outside in. The server adds its routes, so it surrounds these, too."""
    settings = deployment.settings
    middleware = list[Middleware]()
    if settings.local_dev:
        middleware.append(Middleware(DevGuard, settings=settings))
    middleware.append(Middleware(RequestBounds, deployment=deployment))
    middleware.append(Middleware(PeoplesAgents, settings=settings))
    if mcp:
        middleware.append(Middleware(Discovery, settings=settings))
    if page:
        languages = texts.load(deployment.folder / "texts")
        middleware.append(Middleware(Page, deployment=deployment, languages=languages))
    return middleware


def _check_sign_in(deployment: Deployment) -> None:
    """Raise `SettingsError` if the server would answer this app's routes without a sign-in."""
    http = served_http(deployment.folder)
    if not http.get("app"):
        return
    setting = http.get("enable_custom_route_auth", False)
    if setting is not True:  # a text, such as "false", would count as true
        file = deployment.folder / "langgraph.json"
        fault = f"enable_custom_route_auth is {json.dumps(setting):.80}, so its app's routes would ask nobody to sign in"
        raise SettingsError(
            f'{file}: in http {fault}; put "enable_custom_route_auth": true beside "app".'
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
        self.headers = headers_of(deployment.settings)
        self.index = _index(deployment)
        routes = [
            Route("/app", self.show),
            Route("/app/texts", self.show_texts),
            Mount("/app", StaticFiles(directory=FOLDER)),
        ]
        self.page = Starlette(routes=routes)

    def show(self, request: Request) -> Response:
        """The page, with what is there before its script: its language and a few texts."""
        language = self.language(request)
        own_texts = self.texts[language]
        page = self.index.replace("{language}", language)
        for key in ("page.title", "page.noscript"):
            text = str(own_texts[key])
            placeholder = f"{{{key}}}"
            page = page.replace(placeholder, html.escape(text))
        headers = {**CHOSEN, "content-language": language}
        return HTMLResponse(page, headers=headers)

    def show_texts(self, request: Request) -> Response:
        """The page's own texts, in the language that the browser's owner likes best."""
        language = self.language(request)
        answer = {"language": language, "texts": self.texts[language]}
        headers = {**CHOSEN, "content-language": language}
        return JSONResponse(answer, headers=headers)

    def language(self, request: Request) -> str:
        """The language in which the page is shown to whoever asks."""
        header = request.headers.get("accept-language", "")
        return texts.chosen(header, self.texts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the page; send a browser at the server's root there; pass any other
        one on.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        path = str(scope.get("path", "")).removeprefix(root)
        is_of_page = f"{path}/".startswith("/app/")
        is_root = path in ("", "/")
        if is_of_page:
            await self.page(scope, receive, self._guarded(send))
        elif is_root and _is_browser(Request(scope)):
            to_page = RedirectResponse(f"{root}/app", headers={"vary": "accept"})
            await to_page(scope, receive, self._guarded(send))
        else:
            await self.app(scope, receive, send)

    def _guarded(self, send: Send) -> Send:
        """Sends an answer with the headers of the page."""
        added_headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]

        async def send_guarded(message: Message) -> None:
            """Send a message of the answer; its first one with the page's headers."""
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *added_headers]
                message = {**message, "headers": headers}
            await send(message)

        return send_guarded


def _index(deployment: Deployment) -> str:
    """The page's HTML, in which only what depends on the language is left open."""
    left_out = set[str]()
    if not deployment.consolidation:
        left_out.add("consolidation")
    if not deployment.has_dream:
        left_out.add("dream")
    if not deployment.has_offers:
        left_out.add("offers")
    parts = list[str]()
    for part in PARTS:
        feature, _, _ = part.partition("/")
        if feature not in left_out:
            parts.append(part)
    path = FOLDER / "index.html"
    index = path.read_text("utf-8")
    index = index.replace("{parts}", " ".join(parts))
    # The page cannot ask without a token.
    index = index.replace("{sign-in}", deployment.settings.sign_in)
    return index.replace("{provider}", provider_of(deployment.settings))


def _is_browser(request: Request) -> bool:
    """Whether somebody opens this address to look at it."""
    header = ",".join(request.headers.getlist("accept"))
    return request.method in ("GET", "HEAD") and prefers_html(header)
