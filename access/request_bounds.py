"""Bounds of every request, checked before the platform sees it: one spelling of ids, and the size and depth of bodies.

The platform accepts any spelling of an id that `UUID()` reads, but keeps a conversation's checkpoints under the given one: the
same id in capitals would be a second conversation, which survives the deletion of the first. It also parses bodies of any size
and depth, and trusts the types of some fields.
"""

from contextlib import ExitStack, suppress

from langgraph_sdk.auth.types import StudioUser
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.admission import ADMISSION, Person
from access.body_bounds import MAX_REQUEST_BYTES, canonical, check_body, too_many_states
from access.dev_guard import is_in_process
from memory.identity import User, claim

# Bytes that a request counts beyond its own, by the first segment of its path: these routes compute much.
_WEIGHTS = {"mcp": 2_097_152, "a2a": 1_048_576}
# Last segments of paths whose answers wait for a run.
_WAITED = frozenset({"wait", "join"})

_POLICY_VIOLATION = 1008


class RequestBounds:
    """ASGI middleware around every route and WebSocket. It answers 413 to a body that is too long, otherwise 422 with a reason.

    Calls from inside the server have no bounds, but must spell ids like others: they carry A2A's ids of conversations. /memory
    bounds its own bodies (`api/bodies.py`); their bytes are charged here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        try:
            for segment in path.split("/"):
                canonical(segment)
        except ValueError as error:
            detail = f"The path's ids are lower-case UUIDs with dashes; {error}."
            await JSONResponse({"detail": detail}, 422)(scope, receive, send)
            return
        with suppress(ClientDisconnect):  # nobody waits for an answer
            if is_in_process(scope):
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                with ExitStack() as open_streams:
                    await self.app(scope, _bounded_frames(scope, receive, send), _counted_socket(scope, send, open_streams))
            else:
                await _Request(scope, receive, send, path).carry_out(self.app)


class _Request:
    """One HTTP request, whose body is read, bounded and charged when the route asks for it, after sign-in.

    A refusal replaces the route's own answer. The end of an answer of /memory is sent once its maker has ended well. Otherwise
    the server closes the connection, so that a client sees it: the platform's middleware ends an answer that broke off as if it
    were whole, and raises the error afterwards.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        self._scope, self._receive, self._send, self._path = scope, receive, send, path
        self._is_memory = path == "/memory" or path.startswith("/memory/")
        self._is_read = self._started = False
        self._end: Message | None = None
        self._refusal: HTTPException | None = None
        self._streams = ExitStack()

    async def carry_out(self, app: ASGIApp) -> None:
        """Have the app answer the request, or refuse it."""
        limit = QueryParams(self._scope["query_string"]).get("limit")
        if self._path.endswith("/history") and (reason := too_many_states(limit)):
            self._refusal = HTTPException(422, reason)
        else:
            try:
                with self._streams:
                    await app(self._scope, self.receive, self.send)
            except Exception:
                if self._refusal is None or self._started:
                    raise
        if self._refusal is not None and not self._started:
            answer = JSONResponse({"detail": self._refusal.detail}, self._refusal.status_code, self._refusal.headers)
            await answer(self._scope, self._receive, self._send)
        elif self._end is not None:
            await self._send(self._end)

    async def receive(self) -> Message:
        """The whole body, within bounds; for /memory, which bounds its own bodies, its next part."""
        if self._is_read and not self._is_memory:
            return await self._receive()
        try:
            if not self._is_read:
                await _charge(self._scope, _WEIGHTS.get(self._path.split("/")[1], 0))
            self._is_read = True
            if self._is_memory:
                return await _metered(self._scope, self._receive)
            return await _read(self._scope, self._receive, self._path)
        except HTTPException as error:
            self._refusal = error
            raise

    async def send(self, message: Message) -> None:
        if self._refusal is not None and not self._started:
            return
        if person := _person(self._scope.get("user")):
            if not self._started and self._is_stream(message):
                self._count_stream(person)
            ADMISSION.sent(person, len(message.get("body", b"")))
        self._started = True
        if self._is_memory and message["type"] == "http.response.body" and not message.get("more_body", False):
            self._end = message
        else:
            await self._send(message)

    def _is_stream(self, start: Message) -> bool:
        """Whether the answer that begins so is streamed, or waits for a run."""
        kinds = (value for name, value in start.get("headers", ()) if name == b"content-type")
        return self._path.rpartition("/")[2] in _WAITED or any(kind.startswith(b"text/event-stream") for kind in kinds)

    def _count_stream(self, person: Person) -> None:
        try:
            self._streams.enter_context(ADMISSION.stream(person))
        except HTTPException as error:
            self._refusal = error
            raise


def _counted_socket(scope: Scope, send: Send, open_streams: ExitStack) -> Send:
    """Counts a WebSocket as an open stream of its person, and what it sends as bytes."""

    async def counted(message: Message) -> None:
        if person := _person(scope.get("user")):
            if message["type"] == "websocket.accept":
                try:
                    open_streams.enter_context(ADMISSION.stream(person))
                except HTTPException as error:
                    await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.detail[:100]})
                    raise
            ADMISSION.sent(person, len((message.get("text") or "").encode()) + len(message.get("bytes") or b""))
        await send(message)

    return counted


def _bounded_frames(scope: Scope, receive: Receive, send: Send) -> Receive:
    """Each frame is a request of its person, and bounded as one."""

    async def bounded() -> Message:
        message = await receive()
        if message["type"] != "websocket.receive":
            return message
        try:
            text = _text(message).encode()
            if person := _person(scope.get("user")):
                await ADMISSION.request(person)
                await ADMISSION.reading(person, len(text))
            await check_body(text)
        except HTTPException as error:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.detail[:100]})
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    return bounded


def _text(frame: Message) -> str:
    if not isinstance(text := frame.get("text"), str):
        raise HTTPException(422, "A frame is binary; send text.")
    return text


def _person(user: User | StudioUser | None) -> Person | None:
    """Whose share a request takes. Studio has none, nor has who is not signed in."""
    if user is None or isinstance(user, StudioUser) or not (org_id := claim(user, "org_id")):
        return None
    return org_id, user.identity


async def _charge(scope: Scope, size: int) -> None:
    """Wait for the person's turn to send so many bytes (`access/admission.py`)."""
    if person := _person(scope.get("user")):
        await ADMISSION.reading(person, size)


async def _metered(scope: Scope, receive: Receive) -> Message:
    message = await receive()
    await _charge(scope, len(message.get("body", b"")))
    return message


async def _read(scope: Scope, receive: Receive, path: str) -> Message:
    """The whole body as one message. Raises `HTTPException`: 413, it is too long (reading stops); 422, it nests too deep, or a
    field is invalid; 429, it is not the person's turn.
    """
    body, more = bytearray(), True
    while more and len(body) <= MAX_REQUEST_BYTES:
        message = await _metered(scope, receive)
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await check_body(bytes(body), path)
    return {"type": "http.request", "body": bytes(body), "more_body": False}
