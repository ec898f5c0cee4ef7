"""A guard before all routes and the sign-in of `langgraph dev`.

That server believes callers who say they are Studio, and needs no sign-in at `/internal/*` (which wipes it) and `/deploy`
(which runs `langgraph deploy` with the developer's key). So the guard stops a website in the developer's browser, and one whose
name resolves to this machine (DNS rebinding). Deployments have neither problem, nor the guard.
"""

import ipaddress
import logging
import re
from posixpath import normpath
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from settings import Settings, is_loopback

logger = logging.getLogger("dev_guard")

# Characters of a header or path in a message.
SHOWN = 200
# Rounds of percent-decoding a path: more than any router or proxy does.
DECODINGS = 3
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


class DevGuard:
    """ASGI middleware around every route of the development server, the platform's own included, and its WebSockets.

    It refuses with 403 and a reason, which it also logs: a browser hides the answer from another website.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if scope["type"] == "lifespan" else self.refusal(scope)
        if reason is None:
            await self.app(scope, receive, send)
            return
        logger.warning("Refused %s %.*a: %s", scope.get("method", "WebSocket"), SHOWN, scope["path"], reason)
        await JSONResponse({"detail": reason}, status_code=403)(scope, receive, send)

    def refusal(self, scope: Scope) -> str | None:
        """The reason to refuse a request, in one line, or None."""
        area, in_process = first_segment(scope), is_in_process(scope)
        if area == "internal":
            return "/internal/* is closed: it wipes or shows everything and asks nobody who they are."
        if area == "deploy" and (in_process or self.settings.exposed):
            return "/deploy is closed here: it asks nobody who they are; run `langgraph deploy` yourself."
        return None if in_process else self._refused_sender(Headers(scope=scope), deploys=area == "deploy")

    def _refused_sender(self, headers: Headers, *, deploys: bool) -> str | None:
        """The reason to refuse the sender of these headers, or None."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            served = f", or {self.settings.served_as}" if self.settings.exposed else ""
            return f"Host is {_shown(hosts)}; call 127.0.0.1, localhost{served} instead."
        if origins and not (len(origins) == 1 and self._is_allowed_origin(origins[0], hosts[0])):
            return f"Origin is {_shown(origins)}; name it in http.cors of langgraph.json if it may call this server."
        if deploys and not origins:
            return "/deploy is Studio's: it takes Studio's Origin; run `langgraph deploy` yourself."
        if "x-auth-scheme" in headers and not self.settings.accepts_studio:
            return "x-auth-scheme is closed where others reach this server, since nobody checks it; listen on 127.0.0.1."
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this machine. A website can neither own an address nor fake the header in a browser."""
        match = _HOST.fullmatch(host)
        if not match:
            return False
        name = match[1].strip("[]").lower()
        if not self.settings.exposed:
            return is_loopback(name)
        return is_loopback(name) or _is_address(name) or name == self.settings.served_as

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin may call: the server's own, or a website in `http.cors`."""
        expression = self.settings.cors_origin_regex
        return (
            origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
            or origin in self.settings.cors_origins
            or (expression is not None and re.fullmatch(expression, origin) is not None)
        )


def first_segment(scope: Scope) -> str:
    """The first segment of a request's path below the server's prefix, the same for all spellings.

    Case, slashes, dots, white space, control characters and repeated percent-encoding make no difference. A router treats fewer
    spellings as equal, so the guard refuses more than the router would answer.
    """
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    for _ in range(DECODINGS):
        path = unquote(path)
    path = "".join(character for character in path if character.isprintable() and not character.isspace())
    return normpath("/" + path.replace("\\", "/").lstrip("/")).split("/")[1].lower()


def is_in_process(scope: Scope) -> bool:
    """Whether a call comes from inside the server (`get_client()`). No request can set the root path."""
    root = scope.get("root_path", "")
    return bool(root == "/noauth" or root.startswith("/noauth/"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(values: list[str]) -> str:
    return ", ".join(f"{value[:SHOWN]!a}" for value in values[:2]) or "missing"
