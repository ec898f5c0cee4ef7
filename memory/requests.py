"""What a request to /memory asks for, and for whom: read within limits, and checked before anything is done.

A route scopes itself: here is decided whose memory it gets, once for all routes.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memory import epochs, platform, scopes
from memory.consensus import Change, LoggedFile, Revision, Steps
from memory.export import ROUTE
from memory.files import ScopedFiles, acarry_out
from memory.journal import Journal
from memory.person import memory_namespaces
from memory.validation import RefusedWriteError, check_path, stored_file
from settings import MAX_ASSISTANTS, Settings

# Nobody else's to keep.
PRIVATE = {"cache-control": "no-store"}


class RefusedRequestError(Exception):
    """A request that is not carried out: an HTTP status, and why in one line."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may be carried out.

    Args:
        request: as it came.
        settings: the deployment's.
        actor: whose memory it is about.
        author: who is noted as having written what it writes.
        parameters: the query's.
        store: the platform's.
        epoch: in which it began.
    """

    request: Request
    settings: Settings
    actor: scopes.Actor
    author: scopes.Author
    parameters: dict[str, str]
    store: BaseStore
    epoch: epochs.Epoch

    @property
    def namespace(self) -> scopes.Namespace:
        """Namespace of the person's files.

        Raises:
            RefusedRequestError: there are none of a person's own.
        """
        self.check_not_shared()
        return scopes.memories(self.actor, self.assistant, self.settings)

    def check_not_shared(self) -> None:
        """Raise `RefusedRequestError` where nobody has memory of their own."""
        if self.settings.memory_scope == "assistant":
            raise RefusedRequestError(
                409, "MEMORY_SCOPE=assistant: memory is shared by all users here, and nobody has files of their own."
            )

    @property
    def assistant(self) -> str:
        """The assistant whose memory of the person it is about, under `MEMORY_SCOPE=user+assistant`.

        Raises:
            RefusedRequestError: another scope, or no id.
        """
        given = self.parameters.get("assistant_id")
        if given is None:
            return scopes.DEFAULT_AGENT_ASSISTANT
        if self.settings.memory_scope != "user+assistant":
            raise RefusedRequestError(400, "assistant_id is for MEMORY_SCOPE=user+assistant; leave it out.")
        try:
            return str(UUID(given))
        except ValueError:
            raise RefusedRequestError(400, f"assistant_id is {given[:80]!r}; use an assistant's UUID.") from None

    @property
    def key(self) -> str:
        """The key of the file that the query names."""
        return key_of(self.parameters.get("path"))

    @property
    def files(self) -> ScopedFiles:
        """The person's files, to write. MEMORY_WRITES is about agents, not about the person."""
        namespace, author, epoch = self.namespace, self.author, self.epoch

        def began() -> Steps[epochs.Epoch]:
            return epoch
            yield  # it takes no step, and is one of those that may

        return ScopedFiles(
            namespace=lambda _: namespace,
            gate=lambda: None,
            route=ROUTE,
            author=lambda: author,
            epoch=began,
            store=self.store,
        )

    async def item(self, key: str) -> Item:
        """A file as it is stored.

        Raises:
            RefusedRequestError: there is none.
        """
        item = await self.store.aget(self.namespace, key)
        if item is None:
            raise RefusedRequestError(404, f"There is no file {ROUTE}{key}.")
        return item

    async def history(self, key: str) -> list[Revision]:
        """A file's revisions, newest first."""
        return await acarry_out(self.store, Journal(LoggedFile(self.namespace, key)).history())

    async def revise(self, key: str, change: Change) -> Revision:
        """Change a file, if it is still the revision that the header If-Match names.

        Raises:
            RefusedRequestError: it is not, or it was refused (`ScopedFiles.arevise`).
        """
        await self.check_assistant()
        wanted = self.request.headers.get("if-match")
        try:
            return await self.files.arevise(key, change if wanted is None else await self._if_unmoved(key, wanted, change))
        except ValueError as error:
            raise RefusedRequestError(422, str(error)) from None

    async def check_assistant(self) -> None:
        """Raise `RefusedRequestError` where a write would begin memory with one assistant more, and there are many."""
        if "assistant_id" not in self.parameters or await self.store.asearch(self.namespace, limit=1):
            return
        known = await memory_namespaces(self.store, self.actor, self.settings)
        if self.namespace not in known and len(known) >= MAX_ASSISTANTS:
            raise RefusedRequestError(
                422, f"You have memory with {len(known)} assistants, and {MAX_ASSISTANTS} is the limit for beginning another."
            )

    async def _if_unmoved(self, key: str, wanted: str, change: Change) -> Change:
        """The change, of the revision that is wanted alone."""
        item = await self.store.aget(self.namespace, key)
        now = (item.value.get("revision") if item else None) or 0
        moved = RefusedRequestError(412, f"{ROUTE}{key} is at revision {now}, not {wanted[:20]}; read it again.")
        if wanted.strip('"') != str(now):
            raise moved
        expected = _mark(stored_file(item)) if item else None

        def if_unmoved(before: FileData | None) -> FileData | None:
            if (_mark(before) if before else None) != expected:
                raise moved
            return change(before)

        return if_unmoved

    async def json(self, limit: int) -> dict[str, Any]:
        """The body, which must be a JSON object of at most `limit` bytes.

        Raises:
            RefusedRequestError: it is not. A longer one is not read to its end.
        """
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedRequestError(415, f"The body is {kind[:80] or 'of no type'!r}; send Content-Type: application/json.")
        body = bytearray()
        async for part in self.request.stream():
            body += part
            if len(body) > limit:
                raise RefusedRequestError(413, f"The body has more than {limit:,} bytes; send less.")
        try:
            value = await asyncio.to_thread(json.loads, bytes(body))
        except (ValueError, RecursionError):
            raise RefusedRequestError(400, "The body is not JSON in UTF-8.") from None
        if not isinstance(value, dict):
            raise RefusedRequestError(400, "The body is no JSON object.")
        return value


def _mark(file: FileData) -> tuple[str, str]:
    """By what one revision of a file is told from another in a change, which sees only files."""
    return file["content"], file.get("modified_at", "")


def key_of(path: object) -> str:
    """The key of a path such as /memories/preferences.md.

    Raises:
        RefusedRequestError: it is no such path.
    """
    if not isinstance(path, str) or not path.startswith(f"{ROUTE}/"):
        given = path[:80] if isinstance(path, str) else type(path).__name__
        raise RefusedRequestError(400, f"path is {given!r}; name a file such as {ROUTE}/preferences.md.")
    try:
        check_path(path.removeprefix(ROUTE))
    except RefusedWriteError as error:
        raise RefusedRequestError(400, str(error)) from None
    return path.removeprefix(ROUTE)


Answer = Callable[[Asked], Awaitable[Response]]


def answers(*parameters: str) -> Callable[[Answer], Callable[[Request], Awaitable[Response]]]:
    """Makes an endpoint of a function that answers what is `Asked`.

    Args:
        parameters: of the query that it knows, beside `user_id` and `org_id`. Others are refused: a name that is spelled
            wrong must not widen what is asked for.
    """

    def endpoint(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(answer)
        async def answered(request: Request) -> Response:
            try:
                return await answer(await _asked(request, {*parameters, "user_id", "org_id"}))
            except RefusedRequestError as refusal:
                return JSONResponse({"detail": str(refusal)}, refusal.status, PRIVATE)
            except RefusedWriteError as error:
                return JSONResponse({"detail": str(error)}, 422, PRIVATE)

        return answered

    return endpoint


async def _asked(request: Request, known: set[str]) -> Asked:
    settings: Settings = request.app.state.settings
    user = request.scope.get("user")
    if user is None or not user.identity:  # on `langgraph dev` Studio's has one without being authenticated
        raise RefusedRequestError(
            401, 'Nobody is signed in; keep "enable_custom_route_auth": true in langgraph.json, and send a token.'
        )
    parameters = _parameters(request, known)
    named = {name: parameters[name] for name in ("user_id", "org_id") if name in parameters}
    operator = scopes.is_operator(user, settings)
    if named and not operator:
        raise RefusedRequestError(403, "user_id and org_id are for operators; without them it is about yourself.")
    try:
        actor = scopes.acting(user, scopes.Context(named.get("user_id"), named.get("org_id")), settings, on_server=True)
        scopes.check_person(actor)
    except scopes.IdentityError as error:
        raise RefusedRequestError(400, str(error)) from None
    author = scopes.Author("operator" if named else "person", user.identity)
    store = await platform.store()
    return Asked(request, settings, actor, author, parameters, store, await epochs.current(store, actor))


def _parameters(request: Request, known: set[str]) -> dict[str, str]:
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise RefusedRequestError(400, "The query is not percent-encoded UTF-8.") from None
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    for name, value in given:
        if name not in known:
            raise RefusedRequestError(400, f"There is no parameter {name[:40]!r} here; use {', '.join(sorted(known))}.")
        if not value or names.count(name) > 1:
            raise RefusedRequestError(
                400, f"The parameter {name} is empty, or there twice; give it one value, or leave it out."
            )
    return dict(given)
