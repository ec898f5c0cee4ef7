"""Where a program that is to read a person's memory by MCP learns at which provider people sign in:
OAuth 2.0 Protected Resource Metadata, https://www.rfc-editor.org/rfc/rfc9728.

It is public, made of settings alone, and answered before sign-in. No header of a request changes
what it says.
"""

from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory.http.requests import MCP_PATH
from lasting_memory.settings import Settings, is_address

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_UNAUTHORIZED = 401


def resource_of(settings: Settings) -> str | None:
    """The address of this server, as tokens name it: the first audience that is an address, or on a
    development server where it listens. None where neither is known.
    """
    names = list(settings.audiences)
    if settings.local_dev:
        names.append(settings.served_at)
    for name in names:
        if is_address(name):
            return name
    return None


def metadata_address(resource: str) -> str:
    """The address of the metadata of a resource (RFC 9728, section 3.1)."""
    url = urlsplit(resource)
    path = url.path.rstrip("/")
    return f"{url.scheme}://{url.netloc}{WELL_KNOWN}{path}"


class Discovery:
    """ASGI middleware that answers the metadata, and names it where /memory/mcp asks for a
    sign-in.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._resource = resource_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the metadata; pass any other one on, with the metadata's address in
        a 401 of /memory/mcp.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        path = str(scope.get("path", "")).removeprefix(root)
        if self._is_metadata(path):
            answer = self._metadata(scope["method"])
            await answer(scope, receive, send)
            return
        if path == MCP_PATH and self._resource:
            address = metadata_address(self._resource)
            challenge = f'Bearer resource_metadata="{address}"'
            send = _Challenging(send, challenge).send
        await self._app(scope, receive, send)

    def _is_metadata(self, path: str) -> bool:
        """Whether this is its path: clients put that of the resource, or of the route, behind it."""
        path = path.rstrip("/")
        if not path.startswith(WELL_KNOWN):
            return False
        suffix = path.removeprefix(WELL_KNOWN)
        resource = urlsplit(self._resource or "")
        resource_path = resource.path.rstrip("/")
        return suffix in {"", resource_path, MCP_PATH, f"{resource_path}{MCP_PATH}"}

    def _metadata(self, method: str) -> Response:
        """The answer with the metadata; 404 where the server does not know its own address."""
        if method not in {"GET", "HEAD"}:
            return JSONResponse({"detail": "Use GET."}, 405, {"allow": "GET, HEAD"})
        if self._resource is None:
            detail = "AUTH_AUDIENCE names no https:// address, so this server's own is not known."
            return JSONResponse({"detail": detail}, 404)
        settings = self._settings
        issuers = [issuer for issuer in settings.issuers if is_address(issuer)]
        scopes = settings.auth_scope.split()
        metadata: dict[str, object] = {"resource": self._resource, "resource_name": "Memory"}
        if issuers:
            metadata["authorization_servers"] = issuers
        metadata["bearer_methods_supported"] = ["header"]
        if scopes:
            metadata["scopes_supported"] = scopes
        return JSONResponse(metadata, headers={"access-control-allow-origin": "*"})


class _Challenging:
    """Sends an answer; one that asks for a sign-in names the metadata."""

    def __init__(self, send: Send, challenge: str) -> None:
        self._send = send
        self._challenge = challenge

    async def send(self, message: Message) -> None:
        """Send a message of an answer."""
        is_start = message["type"] == "http.response.start"
        if is_start and message["status"] == _UNAUTHORIZED:
            sent_headers = message.get("headers", ())
            message = {**message, "headers": [*sent_headers]}
            headers = MutableHeaders(scope=message)
            headers["www-authenticate"] = self._challenge
        await self._send(message)
