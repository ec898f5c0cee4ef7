"""Requests to /memory, checked before anything is done: the person they are about, parameters, bodies within limits."""

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from access.admission import ADMISSION
from api.person import ROUTE, memory_namespaces
from memory import identity, journal, namespaces
from memory.files import ScopedFiles
from memory.journal import Change, Revision
from memory.validation import RefusedWriteError, check_path, stored_file
from settings import Settings

# Assistants with which one person has memory (`MEMORY_SCOPE=user+assistant`) before requests can begin no other.
MAX_ASSISTANTS = 20
# No cache may keep an answer.
PRIVATE = {"cache-control": "no-store"}


class RefusedRequestError(Exception):
    """A refused request: an HTTP status, and the reason in one line."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """A request by a caller who may make it."""

    http: Request
    settings: Settings
    actor: identity.Actor  # the person whose memory it is about
    author: identity.Author  # of its writes
    parameters: dict[str, str]  # of the query
    store: BaseStore
    began: journal.Began

    @property
    def namespace(self) -> namespaces.Namespace:
        """Namespace of the person's files. Raises `RefusedRequestError` where memory is shared."""
        self.check_not_shared()
        return namespaces.memories(self.actor, self.assistant, self.settings)

    def check_not_shared(self) -> None:
        """Raise `RefusedRequestError` where memory is shared."""
        if self.settings.memory_scope == "assistant":
            detail = "MEMORY_SCOPE=assistant: memory is shared by all users here, and nobody has files of their own."
            raise RefusedRequestError(409, detail)

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """The only such request about the person that is under way. Raises `RefusedRequestError` if there is another."""
        try:
            with ADMISSION.alone((self.actor.org_id, self.actor.user_id), what):
                yield
        except HTTPException as refusal:
            raise RefusedRequestError(refusal.status_code, refusal.detail) from None

    def check_own(self) -> None:
        """Raise `RefusedRequestError` for an operator's request about another person: it may read, and decide nothing."""
        if self.author.kind == "operator":
            raise RefusedRequestError(403, "Only the person decides this; with user_id and org_id an operator can read it.")

    @property
    def assistant(self) -> str:
        """The assistant whose memory it is about. Raises `RefusedRequestError` if MEMORY_SCOPE has no such."""
        given = self.parameters.get("assistant_id")
        if given is None:
            return identity.DEFAULT_AGENT_ASSISTANT
        if self.settings.memory_scope != "user+assistant":
            raise RefusedRequestError(400, "assistant_id is for MEMORY_SCOPE=user+assistant; leave it out.")
        try:
            return str(UUID(given))
        except ValueError:
            raise RefusedRequestError(400, f"assistant_id is {given[:80]!r}; use an assistant's UUID.") from None

    @property
    def key(self) -> str:
        """The key of the file that the query names."""
        return key_of(self.required("path", f"{ROUTE}/preferences.md"))

    def required(self, name: str, example: str) -> str:
        """A parameter of the query. Raises `RefusedRequestError` if it is missing."""
        if name not in self.parameters:
            raise RefusedRequestError(400, f"The query parameter {name} is missing; add it, e.g. ?{name}={example}")
        return self.parameters[name]

    def flag(self, name: str, *, default: bool) -> bool:
        """A parameter that is true or false. Raises `RefusedRequestError` for other values."""
        given = self.parameters.get(name, str(default).lower())
        if given not in {"true", "false"}:
            raise RefusedRequestError(400, f"{name} is {given[:20]!r}; use true or false.")
        return given == "true"

    @property
    def files(self) -> ScopedFiles:
        """The person's files, for writing. MEMORY_WRITES limits agents, not the person."""
        namespace, author = self.namespace, self.author

        return ScopedFiles(
            namespace=lambda _: namespace,
            gate=lambda: None,
            route=ROUTE,
            author=lambda: author,
            began=lambda: self.began,
            store=self.store,
        )

    async def revise(self, key: str, change: Change) -> Revision:
        """Change a file, provided that it still is the revision in the header If-Match. Raises `RefusedRequestError` if it is
        another one, or if `ScopedFiles.arevise` refuses the change.
        """
        await self.check_assistant()
        wanted = self.http.headers.get("if-match")
        try:
            return await self.files.arevise(key, change if wanted is None else await self._if_unmoved(key, wanted, change))
        except ValueError as error:
            raise RefusedRequestError(422, str(error)) from None

    async def check_assistant(self) -> None:
        """Raise `RefusedWriteError` if a write would begin memory with more than `MAX_ASSISTANTS`."""
        if "assistant_id" not in self.parameters or await self.store.asearch(self.namespace, limit=1):
            return
        known = await memory_namespaces(self.store, self.actor, self.settings)
        if self.namespace not in known and len(known) >= MAX_ASSISTANTS:
            limit = f"{MAX_ASSISTANTS} is the limit for beginning another."
            raise RefusedWriteError(f"You have memory with {len(known)} assistants, and {limit}")

    async def _if_unmoved(self, key: str, wanted: str, change: Change) -> Change:
        """The change, refused if the file is not at the wanted revision."""
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


def _mark(file: FileData) -> tuple[str, str]:
    """Identifies a revision within a change, which sees only files."""
    return file["content"], file.get("modified_at", "")


def shown(value: object) -> str:
    """A value for a message: the beginning of a text or number; the type of others, which may nest at will."""
    if value is None or isinstance(value, int | float):
        return json.dumps(value)[:80]
    return repr(value[:80] if isinstance(value, str) else type(value).__name__)


def key_of(path: object) -> str:
    """The key of a path such as /memories/preferences.md. Raises `RefusedRequestError` for other values."""
    if not isinstance(path, str) or not path.startswith(f"{ROUTE}/"):
        raise RefusedRequestError(400, f"path is {shown(path)}; name a file such as {ROUTE}/preferences.md.")
    try:
        check_path(path.removeprefix(ROUTE))
    except RefusedWriteError as error:
        raise RefusedRequestError(400, str(error)) from None
    return path.removeprefix(ROUTE)


Answer = Callable[[PersonRequest], Awaitable[Response]]


def person_route(*parameters: str) -> Callable[[Answer], Callable[[Request], Awaitable[Response]]]:
    """Makes an endpoint of a function that answers a `PersonRequest`. Its docstring is its entry in /openapi.json, as YAML.

    Args:
        parameters: of the query, beside `user_id` and `org_id`. Others are refused: a misspelled name must not widen a request.
    """

    def endpoint(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(answer)
        async def answered(request: Request) -> Response:
            try:
                return await answer(await _person_request(request, {*parameters, "user_id", "org_id"}))
            except RefusedRequestError as refusal:
                return json_response({"detail": str(refusal)}, status=refusal.status)
            except RefusedWriteError as error:
                return json_response({"detail": str(error)}, status=422)

        answered.__doc__ = f"---\ntags: [Memory]\n{inspect.cleandoc(answer.__doc__ or '')}"
        return answered

    return endpoint


async def _person_request(request: Request, known: set[str]) -> PersonRequest:
    settings: Settings = request.app.state.settings
    user = request.scope.get("user")
    if user is None or not user.identity:  # Studio on `langgraph dev` has an identity, though it is not authenticated
        detail = 'Nobody is signed in; keep "enable_custom_route_auth": true in langgraph.json, and send a token.'
        raise RefusedRequestError(401, detail)
    parameters = _parameters(request, known)
    named = {name: parameters[name] for name in ("user_id", "org_id") if name in parameters}
    operator = identity.is_operator(user, settings)
    if named and not operator:
        raise RefusedRequestError(403, "user_id and org_id are for operators; leave them out, and the request is about you.")
    try:
        actor = identity.acting(user, identity.Context(named.get("user_id"), named.get("org_id")), settings, on_server=True)
        identity.check_person(actor)
    except identity.IdentityError as error:
        raise RefusedRequestError(400, str(error)) from None
    author = identity.Author("operator" if named else "person", user.identity)
    store = await request.app.state.store()
    return PersonRequest(request, settings, actor, author, parameters, store, journal.began_now(actor))


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
            detail = f"The parameter {name} is empty, or there twice; give it one value, or leave it out."
            raise RefusedRequestError(400, detail)
    return dict(given)


def json_response(value: Any, revision: int | None = None, status: int = 200) -> JSONResponse:
    return JSONResponse(value, status, PRIVATE if revision is None else {**PRIVATE, "etag": f'"{revision}"'})
