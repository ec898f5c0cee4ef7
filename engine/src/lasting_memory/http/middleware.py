"""What every request passes before all routes: the guard of a development server, and the bounds of
any server.

The platform accepts any spelling of an id that `UUID()` reads, but keeps a conversation's
checkpoints under the given one: the same id in capitals would be a second conversation, which
survives the deletion of the first. It also parses bodies of any shape in the event loop.
"""

import json
import logging
import re
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import numpy as np
from langgraph_sdk import Auth
from pydantic import AfterValidator, BaseModel, Field, StrictStr, ValidationError
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory import attachments, platform
from lasting_memory.auth.current_request import carrying_out
from lasting_memory.auth.run_requests import operators_field
from lasting_memory.auth.share import BYTES_PER_REQUEST, Share, share_of
from lasting_memory.auth.state_input import check_state_write
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Actor, claim, is_operator
from lasting_memory.settings import Settings, is_loopback
from lasting_memory.validation import MAX_INPUT_BYTES

logger = logging.getLogger("dev_guard")

# --- The guard of `langgraph dev`

# Characters of a header or path in a message.
_SHOWN = 200
# The first segment of a path that is closed, in more spellings than a router takes for it.
_CLOSED = re.compile(r"[^a-z0-9]*(internal|deploy)(?![a-z0-9_-])", re.IGNORECASE | re.ASCII)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f.]*:[0-9a-f:.]*")


class DevGuard:
    """ASGI middleware around every route of the development server, the platform's own included,
    and its WebSockets.

    That server believes callers who say they are Studio, and needs no sign-in at `/internal/*`
    (which wipes it) and `/deploy` (which runs `langgraph deploy` with the developer's key). So this
    stops a website in the developer's browser, and one whose name resolves to this machine (DNS
    rebinding): with 403 and a reason, which it also logs, because a browser hides the answer from
    another website. Deployments have neither problem.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if scope["type"] == "lifespan" else self._refusal(scope)
        if reason is None:
            await self.app(scope, receive, send)
            return
        logger.warning(
            "Refused %s %.*a: %s", scope.get("method", "WebSocket"), _SHOWN, scope["path"], reason
        )
        await JSONResponse({"detail": reason}, status_code=403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        """The reason to refuse a request, in one line, or None."""
        match = _CLOSED.match(str(scope["path"]).removeprefix(scope.get("root_path", "")))
        area, in_process, headers = (
            match[1].lower() if match else "",
            platform.is_in_process(scope),
            Headers(scope=scope),
        )
        if area == "internal":
            return (
                "/internal/* is closed: it wipes or shows everything and asks nobody who they are."
            )
        # Studio's page deploys, and says its Origin.
        if area == "deploy" and (in_process or self.settings.exposed or "origin" not in headers):
            return "/deploy is closed here: it asks nobody who they are; run `langgraph deploy` yourself."
        return None if in_process else self._refused_sender(headers)

    def _refused_sender(self, headers: Headers) -> str | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return f"Host is {_shown(hosts)}; call 127.0.0.1, localhost or the name that the server was started with."
        if origins and not (len(origins) == 1 and self._is_allowed_origin(origins[0], hosts[0])):
            return f"Origin is {_shown(origins)}; name it in http.cors of langgraph.json if it may call this server."
        if "x-auth-scheme" in headers and not self.settings.accepts_studio:
            return "x-auth-scheme is closed where others reach this server, since nobody checks it; listen on 127.0.0.1."
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this machine. A website can neither own an address nor fake
        the header in a browser.
        """
        match = _HOST.fullmatch(host)
        name = match[1].strip("[]").lower() if match else ""
        elsewhere = bool(_ADDRESS.fullmatch(name)) or name == self.settings.served_as
        return is_loopback(name) or (self.settings.exposed and name != "" and elsewhere)

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin may call: the server's own, or a website in `http.cors`."""
        expression = self.settings.cors_origin_regex
        is_own = origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
        return (
            is_own
            or origin in self.settings.cors_origins
            or bool(expression and re.fullmatch(expression, origin))
        )


def _shown(values: list[str]) -> str:
    return ", ".join(f"{value[:_SHOWN]!a}" for value in values[:2]) or "missing"


# --- The bounds of any server

# Bytes of a document to import, and of a request for runs with its pictures.
MAX_IMPORT_BYTES = 16_777_216
# Bytes of a text that a person brings along, as the JSON that carries it.
MAX_BROUGHT_BYTES = 20_971_520
_MAX_BYTES = {"/memory/import": MAX_IMPORT_BYTES, "/memory/bring": MAX_BROUGHT_BYTES}
MAX_RUN_BYTES = MAX_INPUT_BYTES + attachments.MAX_PICTURES * attachments.MAX_BASE64_CHARS
# States of a conversation's history in one answer: each is the whole conversation.
MAX_HISTORY = 100
# Levels of nesting of a body: Python copies a few hundred at most, and a run that cannot be copied
# never begins, nor ends.
MAX_REQUEST_NESTING = 100
# A body has at most one value for so many of the bytes that it may have: each is looked at in the
# event loop.
BYTES_A_VALUE = 16
# Requests in one batch.
MAX_BATCH = 1_000

# Requests that one counts for, by the beginning of its path: these routes compute much.
_WEIGHTS = {"/mcp/": 20, "/memory/mcp/": 20, "/a2a/": 10}
# Last segments of paths whose answers wait for a run.
_WAITED = frozenset({"wait", "join"})
# Bytes of a body beyond which it is checked off the event loop.
_LARGE = 65_536
# Routes that take a run's fields, and those of crons.
_RUNS = re.compile(r"(/threads/[^/]+)?/runs(/(?P<crons>crons)(/.*)?|/[^/]*)?")

# Routes that write a thread's state, or that of a new one (`supersteps`).
_STATE_WRITES = re.compile(r"/threads(/[^/]+/state)?/?")

_OPENS, _QUOTE, _COMMA, _CLOSES = 1, 0, 2, 255
_MARKS = bytes.maketrans(b'[{",]}', bytes([_OPENS, _OPENS, _QUOTE, _COMMA, _CLOSES, _CLOSES]))
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b'[{",]}')


def shape(body: bytes) -> tuple[int, int]:
    """The largest number of brackets that a JSON text has open at once, and its commas between
    values.
    """
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain.translate(_MARKS, _NO_MARKS), np.int8)
    marks = marks[np.cumsum(marks == _QUOTE) % 2 == 0]
    is_comma = marks == _COMMA
    return int(np.cumsum(marks * ~is_comma, dtype=np.int64).max(initial=0)), int(is_comma.sum())


def _canonical(text: str) -> str:
    with suppress(ValueError):  # not an id: the platform answers that
        if text != (wanted := str(UUID(text))):
            raise HTTPException(
                422, f"Ids are lower-case UUIDs with dashes; write this one as {wanted}."
            )
    return text


_Id = Annotated[StrictStr, AfterValidator(_canonical)]


class _Fields(BaseModel):
    """Fields whose ids the platform keeps as spelled, or whose types it does not check."""

    thread_id: _Id | None = None
    thread_ids: list[_Id] | None = None
    checkpoint_id: StrictStr | None = None
    checkpoint: dict[str, Any] | None = None
    langsmith_tracer: dict[str, Any] | None = None


class _History(_Fields):
    """How much of a conversation's history is asked for: each state is the whole conversation."""

    limit: Annotated[float, Field(le=MAX_HISTORY)] | None = None


class _StoreSearch(_Fields):
    """What a search of the store needs, which the platform reads unasked."""

    namespace_prefix: list[StrictStr]


def _fields_of(path: str) -> type[_Fields]:
    """The fields that are checked in the body of a request to a route of the platform's."""
    if path.endswith("/history"):
        return _History
    return _StoreSearch if path.rstrip("/") == "/store/items/search" else _Fields


def _check_json(
    body: bytes, limit: int, fields: type[_Fields] | None, *, asks_for_run: bool
) -> None:
    """Raise `HTTPException` 422 for a body out of bounds; 413 for one that is too long without its
    pictures; 403 for fields of a run that its sender may not send.
    """
    depth, commas = shape(body)
    if depth > MAX_REQUEST_NESTING or commas > limit // BYTES_A_VALUE:
        bounds = f"{MAX_REQUEST_NESTING} levels of nesting, or {limit // BYTES_A_VALUE:,} values"
        raise HTTPException(422, f"The body has more than {bounds}.")
    if fields is None:
        return
    try:
        value = json.loads(body, parse_int=float)  # of any length
    except ValueError:  # not JSON: the platform answers that in the protocol's words
        value = None
    if len(body) > limit and len(body) - sum(map(len, attachments.pictures_in(value))) > limit:
        raise _too_long(limit)
    if value is not None:
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_BATCH:
            raise HTTPException(422, f"The body is a batch of more than {MAX_BATCH:,}.")
        for item in items:
            _check_fields(fields, item)
            reason = operators_field(item) if asks_for_run and isinstance(item, dict) else None
            if reason is not None:
                raise HTTPException(403, reason)


def _check_state_write(body: bytes) -> None:
    """Raise `HTTPException` 422 for state that would break the runs of a thread: the platform shows
    its handlers none of it.
    """
    with suppress(ValueError, RecursionError):  # not JSON: the platform answers that
        try:
            check_state_write(json.loads(body, parse_int=float))
        except Auth.exceptions.HTTPException as error:
            raise HTTPException(error.status_code, error.detail) from None


def _weight_of(path: str) -> int:
    """The requests that one to a path counts for beyond the one that it is."""
    for beginning, weight in _WEIGHTS.items():
        if f"{path}/".startswith(beginning):
            return weight
    return 0


def _too_long(limit: int) -> HTTPException:
    return HTTPException(413, f"The body has more than {limit:,} bytes; send less.")


def _check_fields(fields: type[_Fields], given: object) -> None:
    try:
        fields.model_validate(given if isinstance(given, dict) else {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise HTTPException(422, f"{first['loc'][0]}: {first['msg']}") from None


def _check_head(scope: Scope, path: str) -> None:
    if scope["type"] == "websocket":
        raise HTTPException(
            403, "WebSockets are closed here; post commands, and stream events over HTTP."
        )
    for segment in path.split("/"):
        _canonical(segment)
    if path.endswith("/history"):
        _check_fields(_History, dict(QueryParams(scope["query_string"])))


class RequestBounds:
    """ASGI middleware around every route. It answers 413 to a body that is too long, otherwise 422
    with a reason, or 403 where the platform would begin before it asks who may do that. It refuses
    WebSockets: all that one carries is there over HTTP.

    Calls from inside the server have no bounds, but must spell ids like others: they carry A2A's
    ids of conversations. Notes when a request came, before its body is read. No cache may keep an
    answer of /memory.
    """

    def __init__(self, app: ASGIApp, deployment: Deployment) -> None:
        self.app, self._deployment = app, deployment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        refusal: HTTPException | None = None
        scope.setdefault("state", {})["came"] = datetime.now(UTC).isoformat(timespec="microseconds")
        try:
            _check_head(scope, path)
        except HTTPException as error:
            refusal = error
        else:
            refusal = await self._carry_out(scope, receive, send, path)
        if refusal is not None:
            answer = JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)
            await answer(scope, receive, send)

    async def _carry_out(
        self, scope: Scope, receive: Receive, send: Send, path: str
    ) -> HTTPException | None:
        """Have the app answer. Returns a refusal that is the answer instead."""
        # Nobody waits for an answer where a client has gone.
        with suppress(ClientDisconnect), carrying_out() as request:

            async def send_counted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    request.answered()
                await send(message)

            if platform.is_in_process(scope):
                await self.app(scope, receive, send_counted)
                return None
            with _Bounded(scope, receive, send_counted, path, self._deployment) as bounded:
                return await bounded.carry_out(self.app)
        return None


class _Bounded(ExitStack):
    """One request, whose body is read, bounded and charged when the route asks for it, after
    sign-in. The end of an answer of /memory is sent once its maker has ended well. Otherwise the
    server closes the connection, so that a client sees it: the platform's middleware ends an answer
    that broke off as if it were whole, and raises the error afterwards.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, path: str, deployment: Deployment
    ) -> None:
        super().__init__()
        self._scope, self._receive, self._send, self._path, self._deployment = (
            scope,
            receive,
            send,
            path,
            deployment,
        )
        self._is_memory = f"{path}/".startswith("/memory/")
        self._is_read = False
        self._end: Message | None = None
        self._refusal: HTTPException | None = None
        self._person: bool | None = None  # not known before sign-in
        self._known_share: Share | None = None

    async def carry_out(self, app: ASGIApp) -> HTTPException | None:
        """Have the app answer the request. A refusal is the answer in place of the app's own."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception:
            if self._refusal is None:
                raise
        if self._refusal is None and self._end is not None:
            await self._send(self._end)
        return self._refusal

    @property
    def _is_person(self) -> bool:
        """Whether somebody is signed in who is no operator."""
        if self._person is None and (user := self._scope.get("user")) is not None:
            self._person = not is_operator(user, self._deployment.settings)
        return bool(self._person)

    @property
    def _share(self) -> Share | None:
        """The share of who is signed in. Operators have none."""
        if self._known_share is None and self._is_person:
            user = self._scope["user"]
            if org_id := claim(user, "org_id"):
                self._known_share = share_of(Actor(user.identity, org_id), self._deployment.limits)
        return self._known_share

    async def receive(self) -> Message:
        """The whole body as one message, within bounds; otherwise the sender is gone for the app."""
        if self._is_read:
            return await self._receive()
        self._is_read = True
        try:
            return await self._body()
        except HTTPException as error:
            self._refusal = error
            return {"type": "http.disconnect"}

    async def _body(self) -> Message:
        """Raises `HTTPException`: 413 (reading stops), 422, 403 for what is an operator's, or 429
        if it is not their turn.
        """
        share, body, more = self._share, bytearray(), True
        limit = _MAX_BYTES.get(self._path, MAX_INPUT_BYTES)
        runs = _RUNS.fullmatch(self._path)
        most = MAX_RUN_BYTES if runs and not runs["crons"] else limit
        if share and (weight := _weight_of(self._path)):
            await share.request(weight)
        while more and len(body) <= most:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            part, more = message.get("body", b""), message.get("more_body", False)
            if share and part:
                await share.request(len(part) / BYTES_PER_REQUEST)
            body += part
        if len(body) > most:
            raise _too_long(limit)
        fields = None if self._is_memory else _fields_of(self._path)
        # Before the platform looks at them: it resolves names of hosts, and reads files of time
        # zones, for whoever asks.
        asks_for_run = runs is not None and self._is_person
        if asks_for_run and runs and runs["crons"]:
            raise HTTPException(403, "Crons are for operators.")
        if len(body) > _LARGE:
            await platform.in_thread(
                _check_json, bytes(body), limit, fields, asks_for_run=asks_for_run
            )
        else:
            _check_json(bytes(body), limit, fields, asks_for_run=asks_for_run)
        if self._scope.get("method") == "POST" and _STATE_WRITES.fullmatch(self._path):
            await platform.in_thread(_check_state_write, bytes(body))
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def send(self, message: Message) -> None:
        if self._refusal is not None:
            return
        begins, ends = message["type"] == "http.response.start", not message.get("more_body", False)
        if share := self._share:
            kind = Headers(raw=message["headers"]).get("content-type", "") if begins else ""
            if begins and (
                self._path.rpartition("/")[2] in _WAITED or kind.startswith("text/event-stream")
            ):
                try:
                    self.enter_context(
                        share.under_way("stream", self._deployment.limits.open_streams)
                    )
                except HTTPException as error:
                    self._refusal = error
                    raise
            share.charge(len(message.get("body", b"")) / BYTES_PER_REQUEST)
        if self._is_memory and begins:
            MutableHeaders(scope=message)["cache-control"] = "no-store"
        if self._is_memory and message["type"] == "http.response.body" and ends:
            self._end = message
        else:
            await self._send(message)
