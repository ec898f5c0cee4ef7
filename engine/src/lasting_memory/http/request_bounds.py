"""The bounds of every request, on every server, which it passes before all routes."""

import re
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lasting_memory import attachments, platform
from lasting_memory.auth.current_request import carrying_out
from lasting_memory.auth.share import BYTES_PER_REQUEST, Share, share_of
from lasting_memory.deployment import Deployment
from lasting_memory.http.body_checks import (
    check_body,
    check_head,
    checked_thread_state,
    fields_of,
    too_long,
)
from lasting_memory.memory.validation import MAX_INPUT_BYTES
from lasting_memory.people.identity import Actor, claim, is_operator

# Bytes of a document to import.
MAX_IMPORT_BYTES = 16_777_216
# Bytes of a text that a person brings along, as the JSON that carries it.
MAX_BROUGHT_BYTES = 20_971_520
_MAX_BYTES = {"/memory/import": MAX_IMPORT_BYTES, "/memory/bring": MAX_BROUGHT_BYTES}
# Bytes of a request for runs with its pictures.
MAX_RUN_BYTES = MAX_INPUT_BYTES + attachments.MAX_PICTURES * attachments.MAX_BASE64_CHARS
# Requests that one counts for, by the beginning of its path: these routes compute much.
_WEIGHTS = {"/mcp/": 20, "/memory/mcp/": 20, "/a2a/": 10}
# Last segments of paths whose answers wait for a run.
_WAITED = frozenset({"wait", "join"})
# Bytes of a body beyond which it is checked off the event loop.
_LARGE = 65_536
# Routes that take a run's fields, and those of crons.
_RUNS = re.compile(r"(/threads/[^/]+)?/runs(/(?P<crons>crons)(/.*)?|/[^/]*)?")
# Routes that write a thread's state, or that of a new one (`supersteps`).
_STATE_WRITES = re.compile(r"/threads(/(?P<thread_id>[^/]+)/state)?/?")


def _weight_of(path: str) -> int:
    """The requests that one to a path counts for beyond the one that it is."""
    for beginning, weight in _WEIGHTS.items():
        if f"{path}/".startswith(beginning):
            return weight
    return 0


class RequestBounds:
    """ASGI middleware around every route, which refuses requests out of bounds.

    It answers 413 to a body that is too long, otherwise 422 with a reason, or 403 where the
    platform would begin before it asks who may do that. It refuses WebSockets: all that one carries
    is there over HTTP. No cache may keep an answer of /memory.

    Calls from inside the server have no bounds, but must spell ids like others: they carry A2A's
    ids of conversations. The time at which a request came is noted before its body is read.
    """

    def __init__(self, app: ASGIApp, deployment: Deployment) -> None:
        self.app = app
        self._deployment = deployment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on within its bounds, or answer with the refusal."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        path = str(scope["path"]).removeprefix(root)
        now = datetime.now(UTC)
        state = scope.setdefault("state", {})
        state["came"] = now.isoformat(timespec="microseconds")
        try:
            check_head(scope, path)
        except HTTPException as error:
            refusal: HTTPException | None = error
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
        with suppress(ClientDisconnect), carrying_out() as under_way:

            async def send_counted(message: Message) -> None:
                """Send a message. With the first one, the runs that the request made count as the
                platform lists them.
                """
                if message["type"] == "http.response.start":
                    under_way.answered()
                await send(message)

            if platform.is_in_process(scope):
                await self.app(scope, receive, send_counted)
                return None
            with _Request(scope, receive, send_counted, path, self._deployment) as request:
                return await request.carry_out(self.app)
        return None


class _Request(ExitStack):
    """One request, whose body is read, bounded and charged when the route asks for it.

    That is after sign-in. The end of an answer of /memory is sent once its maker has ended well.
    Otherwise the server closes the connection, so that a client sees it: the platform's middleware
    ends an answer that broke off as if it were whole, and raises the error afterwards.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, path: str, deployment: Deployment
    ) -> None:
        super().__init__()
        self._scope = scope
        self._receive = receive
        self._send = send
        self._path = path
        self._deployment = deployment
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
        user = self._scope.get("user")
        if self._person is None and user is not None:
            self._person = not is_operator(user, self._deployment.settings)
        return bool(self._person)

    @property
    def _share(self) -> Share | None:
        """The share of who is signed in. Operators have none."""
        if self._known_share is None and self._is_person:
            user = self._scope["user"]
            org_id = claim(user, "org_id")
            if isinstance(org_id, str) and org_id:
                actor = Actor(user.identity, org_id)
                self._known_share = share_of(actor, self._deployment.limits)
        return self._known_share

    async def receive(self) -> Message:
        """The whole body as one message, within bounds; otherwise the sender is gone for the app."""
        if self._is_read:
            return await self._receive()
        self._is_read = True
        try:
            return await self._checked_body()
        except HTTPException as error:
            self._refusal = error
            return {"type": "http.disconnect"}

    async def _checked_body(self) -> Message:
        """The body, or the message that the sender has gone.

        Raises `HTTPException`: 413 (reading stops), 422, 403 for what is an operator's, or 429 if
        it is not their turn.
        """
        path = self._path
        share = self._share
        if share:
            weight = _weight_of(path)
            if weight:
                await share.request(weight)
        limit = _MAX_BYTES.get(path, MAX_INPUT_BYTES)
        limit_with_pictures = limit
        runs = _RUNS.fullmatch(path)
        is_about_crons = runs is not None and runs["crons"] is not None
        if runs and not is_about_crons:
            limit_with_pictures = MAX_RUN_BYTES
        body = await self._read_body(share, limit_with_pictures, limit)
        if body is None:
            return {"type": "http.disconnect"}
        # Before the platform looks at them: it resolves names of hosts, and reads files of time
        # zones, for whoever asks.
        asks_for_run = runs is not None and self._is_person
        if asks_for_run and is_about_crons:
            raise HTTPException(403, "Crons are for operators.")
        await self._check_body(body, limit, asks_for_run=asks_for_run)
        writes = _STATE_WRITES.fullmatch(path)
        if writes and self._scope.get("method") == "POST":
            thread_id = writes["thread_id"] or ""
            body = await checked_thread_state(body, thread_id)
        return {"type": "http.request", "body": body, "more_body": False}

    async def _read_body(
        self, share: Share | None, limit_with_pictures: int, limit: int
    ) -> bytes | None:
        """The body, which is charged to the share; None where its sender has gone.

        Raises `HTTPException` 413 beyond the limit with pictures; it names that without pictures.
        """
        body = bytearray()
        has_more = True
        while has_more:
            message = await self._receive()
            if message["type"] != "http.request":
                return None
            part = message.get("body", b"")
            if share and part:
                requests = len(part) / BYTES_PER_REQUEST
                await share.request(requests)
            body += part
            if len(body) > limit_with_pictures:
                raise too_long(limit)
            has_more = message.get("more_body", False)
        return bytes(body)

    async def _check_body(self, body: bytes, limit: int, *, asks_for_run: bool) -> None:
        """Raise `HTTPException` for a body that the platform should not see."""
        fields = None if self._is_memory else fields_of(self._path)
        if len(body) > _LARGE:
            await platform.in_thread(check_body, body, limit, fields, asks_for_run=asks_for_run)
        else:
            check_body(body, limit, fields, asks_for_run=asks_for_run)

    async def send(self, message: Message) -> None:
        """Pass a message of the answer on, and charge it to who is signed in."""
        if self._refusal is not None:
            return
        is_start = message["type"] == "http.response.start"
        share = self._share
        if share:
            if is_start and self._waits_for_run(message):
                self._enter_stream(share)
            size = len(message.get("body", b""))
            share.charge(size / BYTES_PER_REQUEST)
        if self._is_memory and is_start:
            headers = MutableHeaders(scope=message)
            headers["cache-control"] = "no-store"
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        if self._is_memory and is_end:
            self._end = message
        else:
            await self._send(message)

    def _waits_for_run(self, start: Message) -> bool:
        """Whether an answer, given its first message, comes while a run goes on."""
        _, _, name = self._path.rpartition("/")
        if name in _WAITED:
            return True
        headers = Headers(raw=start["headers"])
        media_type = headers.get("content-type", "")
        return media_type.startswith("text/event-stream")

    def _enter_stream(self, share: Share) -> None:
        """Count this answer among the open streams. Raises `HTTPException` 429 for too many."""
        try:
            self.enter_context(share.under_way("stream", self._deployment.limits.open_streams))
        except HTTPException as error:
            self._refusal = error
            raise
