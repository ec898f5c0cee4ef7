"""The guard of `langgraph dev`, which every request passes before all routes."""

import logging
import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lasting_memory import platform
from lasting_memory.settings import Settings, is_loopback

logger = logging.getLogger("dev_guard")

# Characters of a header or path in a message.
_SHOWN = 200
# The first segment of a path that is closed, in more spellings than a router takes for it.
_CLOSED = re.compile(r"[^a-z0-9]*(internal|deploy)(?![a-z0-9_-])", re.IGNORECASE | re.ASCII)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f.]*:[0-9a-f:.]*")


class DevGuard:
    """ASGI middleware around every route of the development server, and its WebSockets.

    That server believes callers who say they are Studio, and needs no sign-in at `/internal/*`
    (which wipes it) and `/deploy` (which runs `langgraph deploy` with the developer's key). So this
    stops a website in the developer's browser, and one whose name resolves to this machine (DNS
    rebinding). It answers 403 with a reason, which it also logs, because a browser hides the answer
    from another website. Deployments have neither problem.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403 with the reason why not."""
        reason = None
        if scope["type"] != "lifespan":
            reason = self._refusal(scope)
        if reason is None:
            await self.app(scope, receive, send)
            return
        method = scope.get("method", "WebSocket")
        logger.warning("Refused %s %.*a: %s", method, _SHOWN, scope["path"], reason)
        refusal = JSONResponse({"detail": reason}, status_code=403)
        await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        """The reason to refuse a request, in one line, or None."""
        root = scope.get("root_path", "")
        path = str(scope["path"]).removeprefix(root)
        area = ""
        match = _CLOSED.match(path)
        if match:
            area = match[1].lower()
        if area == "internal":
            return (
                "/internal/* is closed: it wipes or shows everything and asks nobody who they are."
            )
        headers = Headers(scope=scope)
        in_process = platform.is_in_process(scope)
        # Studio's page deploys, and says its Origin.
        is_of_page = "origin" in headers and not in_process
        may_deploy = is_of_page and not self.settings.exposed
        if area == "deploy" and not may_deploy:
            return "/deploy is closed here: it asks nobody who they are; run `langgraph deploy` yourself."
        if in_process:
            return None
        return self._refused_sender(headers)

    def _refused_sender(self, headers: Headers) -> str | None:
        """The reason to refuse who sent a request, in one line, or None."""
        hosts = headers.getlist("host")
        origins = headers.getlist("origin")
        is_own = len(hosts) == 1 and self._is_own_host(hosts[0])
        if not is_own:
            return f"Host is {_shown(hosts)}; call 127.0.0.1, localhost or the name that the server was started with."
        is_allowed = len(origins) == 1 and self._is_allowed_origin(origins[0], hosts[0])
        if origins and not is_allowed:
            return f"Origin is {_shown(origins)}; name it in http.cors of langgraph.json if it may call this server."
        if "x-auth-scheme" in headers and not self.settings.accepts_studio:
            return "x-auth-scheme is closed where others reach this server, since nobody checks it; listen on 127.0.0.1."
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this machine.

        A website can neither own an address nor fake the header in a browser.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        if is_loopback(name):
            return True
        if not self.settings.exposed or not name:
            return False
        is_address = _ADDRESS.fullmatch(name) is not None
        return is_address or name == self.settings.served_as

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin may call: the server's own, or a website in `http.cors`."""
        settings = self.settings
        own_address = host.lower()
        if origin.lower() in (f"http://{own_address}", f"https://{own_address}"):
            return True
        if origin in settings.cors_origins:
            return True
        expression = settings.cors_origin_regex
        if not expression:
            return False
        return re.fullmatch(expression, origin) is not None


def _shown(values: list[str]) -> str:
    """The first two values of a header, shortened, as a message shows them."""
    if not values:
        return "missing"
    first_values = [f"{value[:_SHOWN]!a}" for value in values[:2]]
    return ", ".join(first_values)
