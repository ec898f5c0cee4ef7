"""Requests to /memory: who asks about whom, what may be asked, and a person's namespaces and
writes.

Outside of runs the platform scopes nothing. So every route takes a `Caller`, then its query as a
model.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from langgraph.store.base import BaseStore
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException

from lasting_memory import journal, platform
from lasting_memory.auth.share import share_of
from lasting_memory.deployment import NO_MEMORY, Deployment
from lasting_memory.files.backends import ScopedFiles
from lasting_memory.files.proposals import DecidedError, Memory, UnknownProposalError
from lasting_memory.journal import Revision
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.settings import SettingsError
from lasting_memory.validation import RefusedWrite, check_path

ROUTE = "/memories"
# A person's memory for their other programs, by the Model Context Protocol.
MCP_PATH = "/memory/mcp"
FAILED = "This failed inside the server; its log says why."

logger = logging.getLogger("api")

Answer = dict[str, Any]


def key_of(path: str) -> str:
    """The key of a path such as /memories/preferences.md. Raises `ValueError` for other paths."""
    if not path.startswith(f"{ROUTE}/"):
        raise ValueError(f"{path[:80]!r} does not name a file such as {ROUTE}/preferences.md")
    return check_path(path.removeprefix(ROUTE))


def _own(path: str) -> str:
    key_of(path)
    return path


Path = Annotated[str, AfterValidator(_own), Field(examples=[f"{ROUTE}/preferences.md"])]


class About(BaseModel, extra="forbid"):
    """Parameters of every route; unknown ones are refused, because a misspelled name must not widen
    a request.
    """

    user_id: Annotated[str, Field(min_length=1)] | None = None
    org_id: Annotated[str, Field(min_length=1)] | None = None


class OneMemory(About):
    assistant_id: Annotated[UUID | None, Field(description="for MEMORY_SCOPE=user+assistant")] = (
        None
    )


class OneFile(OneMemory):
    path: Path


class OneReadable(OneMemory):
    path: Annotated[
        str,
        AfterValidator(check_path),
        Field(description="of a file of yours, or of a group's folder"),
    ]


class Sent(BaseModel, extra="forbid", strict=True):
    """A body. With no fields it is that of a route that takes none: passing one over could widen
    the request.
    """


AboutQuery = Annotated[About, Query()]
MemoryQuery = Annotated[OneMemory, Query()]
FileQuery = Annotated[OneFile, Query()]
ReadableQuery = Annotated[OneReadable, Query()]
NoBody = Annotated[Sent | None, Body()]


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """A request by a caller who may make it. Its methods raise `HTTPException`, or errors of
    `HANDLERS`.
    """

    http: Request
    deployment: Deployment
    actor: identity.Actor  # the person whose memory it is about
    author: identity.Author  # of its writes
    store: BaseStore
    began: journal.Began

    @property
    def namespace(self) -> Namespace:
        """Namespace of the person's files. Raises where memory is shared, or there is none."""
        self.check_not_shared()
        return self.deployment.memory.namespace(self.actor, self.assistant)

    def check_not_shared(self) -> None:
        """Raise where nobody has memory of their own."""
        if not self.deployment.has_memory:
            raise HTTPException(404, NO_MEMORY)
        if self.deployment.memory.is_shared:
            raise HTTPException(
                409,
                "MEMORY_SCOPE=assistant: memory is shared here, and nobody has files of their own.",
            )

    def check_own(self) -> None:
        """Raise for an operator's request about another person: it may read, and decide nothing."""
        if self.author.kind == "operator":
            raise HTTPException(
                403,
                "Only the person decides this; with user_id and org_id an operator can read it.",
            )

    @property
    def assistant(self) -> str:
        """The assistant whose memory it is about."""
        given = self.http.query_params.get("assistant_id")
        if given is not None and not (
            self.deployment.has_memory and self.deployment.memory.per_assistant
        ):
            raise HTTPException(
                422, "assistant_id is for MEMORY_SCOPE=user+assistant; leave it out."
            )
        return self.deployment.default_assistant if given is None else str(UUID(given))

    @property
    def groups(self) -> list[tuple[Namespace, Answer]]:
        """Namespaces of the caller's groups that are read over HTTP, and what a member is told of
        each. None for an operator who asks about another.
        """
        claims, groups = identity.claims_of(self.http.user), list[tuple[Namespace, Answer]]()
        for path, scope in self.deployment.routes.items() if self.author.kind != "operator" else ():
            if scope.claim in claims and scope.over_http:
                told = {"path": path, "claim": scope.claim, "group": claims[scope.claim]}
                namespace = scope.namespace(self.actor, "", claims)
                groups.append((namespace, {**told, "writes": scope.rule(self.deployment.settings)}))
        return groups

    def place(self, path: str) -> tuple[Namespace, str, bool]:
        """Namespace and key of a file that the caller may read, and whether it is a group's. Raises
        for other paths.
        """
        for namespace, group in self.groups:
            if path.startswith(group["path"]):
                return namespace, path.removeprefix(group["path"][:-1]), True
        try:
            return self.namespace, key_of(path), False
        except ValueError as error:
            raise HTTPException(422, f"'query.path' is refused: {error}") from None

    @property
    def memory(self) -> Memory:
        """The person's files, for what is proposed of them."""
        return Memory(self.store, self.actor, self.namespace, self.deployment, self.began)

    @property
    def files(self) -> ScopedFiles:
        """The person's files, for writing. MEMORY_WRITES limits agents, not the person."""
        namespace = self.namespace
        return ScopedFiles(
            self.deployment,
            lambda _: namespace,
            route=ROUTE,
            author=self.author,
            began=self.began,
            store=self.store,
        )


async def caller_of(request: Request) -> PersonRequest:
    """Who asks, and about whom. Raises `HTTPException`, and `IdentityError` for a user who is
    nobody.
    """
    deployment: Deployment = request.app.state.deployment
    user = request.scope.get("user")
    if (
        user is None or not user.identity
    ):  # Studio on `langgraph dev` has an identity, though it is not authenticated
        detail = 'Nobody is signed in; keep "enable_custom_route_auth": true in langgraph.json, and send a token.'
        raise HTTPException(401, detail)
    named = {
        name: request.query_params[name]
        for name in About.model_fields
        if name in request.query_params
    }
    if named and not identity.is_operator(user, deployment.settings):
        raise HTTPException(
            403,
            "user_id and org_id are for operators; leave them out, and the request is about you.",
        )
    actor = identity.acting(
        user, identity.Context(named.get("user_id"), named.get("org_id")), deployment.settings
    )
    identity.check_person(actor)
    author = identity.Author("operator" if named else "person", user.identity)
    store = await request.app.state.store()
    return PersonRequest(
        request, deployment, actor, author, store, journal.Began(actor, request.state.came)
    )


Caller = Annotated[PersonRequest, Depends(caller_of)]


async def memories_of(
    store: BaseStore, actor: identity.Actor, deployment: Deployment
) -> dict[Namespace, Answer]:
    """Namespaces of a person's memory files, also of deleted ones, with what is told of each: one
    per assistant under `user+assistant`, none where nobody has memory of their own.
    """
    if not deployment.has_own_memory:
        return {}
    memory = deployment.memory
    if not memory.per_assistant:
        return {memory.namespace(actor, deployment.default_assistant): {}}
    ids = [
        identity.part_of(item.key)
        for item in await journal.all_items(store, namespaces.assistants(actor))
    ]
    return {memory.namespace(actor, assistant): {"assistant_id": assistant} for assistant in ids}


# Requests that compute, and how many of a person are let in; then 429.
_COMPUTING, _MOST_COMPUTING = "requests about your memory", 50


@asynccontextmanager
async def one_at_a_time(
    caller: PersonRequest, what: str = _COMPUTING, most: int = _MOST_COMPUTING
) -> AsyncIterator[None]:
    """Of such requests about a person one at a time is answered. Raises `HTTPException` 429 beyond
    so many.
    """
    with share_of(caller.actor, caller.deployment.limits).under_way(what, most):
        async with platform.lock_of(what, caller.actor):
            yield


def in_turn(what: str, most: int = 1) -> Any:
    """The same as a dependency of routes."""

    async def turn(caller: Caller) -> AsyncIterator[None]:
        async with one_at_a_time(caller, what, most):
            yield

    return Depends(turn)


# Of routes that compute.
IN_TURN = in_turn(_COMPUTING, _MOST_COMPUTING)


def revision_summary(revision: Revision) -> Answer:
    """A revision for HTTP, without its content."""
    about = {
        "revision": revision.number,
        "id": revision.id,
        "at": revision.at,
        "author": asdict(revision.author),
    }
    return {
        **about,
        "deleted": revision.content is None,
        "bytes": len((revision.content or "").encode(errors="replace")),
    }


# A header with the reason of a refusal in a word, for which the page has a sentence.
REFUSAL_KIND = "x-refusal-kind"


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    """The first of pydantic's errors, in one line. It quotes no value, which may be a credential,
    or long.
    """
    first = error.errors()[0]
    loc = (
        first["loc"][:1] if first["type"] == "json_invalid" else first["loc"]
    )  # of no JSON it has the character's number
    place = repr(".".join(map(str, loc))[:80])  # the names may be the client's, too
    return JSONResponse(
        {"detail": f"{place} is refused: {first['msg'].removeprefix('Value error, ')}"}, 422
    )


async def _refused(_: Request, error: Exception) -> Response:
    status = (
        409
        if isinstance(error, DecidedError)
        else 404
        if isinstance(error, UnknownProposalError)
        else 422
    )
    kind = getattr(error, "kind", "")
    return JSONResponse({"detail": str(error)}, status, {REFUSAL_KIND: kind} if kind else None)


async def _misconfigured(_: Request, error: SettingsError) -> Response:
    return JSONResponse({"detail": str(error)}, 400)


async def _failed(request: Request, error: ValueError) -> Response:
    """What is no refusal is an error of the server's, of a fork's routes as well. Its words are for
    the log alone.
    """
    if answer := await platform.bad_request(request, error):
        return answer
    logger.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return await _broken(request, error)


async def _broken(_: Request, error: Exception) -> Response:
    """The answer to any other error, which the server raises again and logs."""
    return JSONResponse({"detail": FAILED}, 500)


# Of all routes, the platform's as well. Without that of `ValueError` the platform would answer 400.
HANDLERS: dict[Any, Any] = {
    RequestValidationError: _invalid,
    RefusedWrite: _refused,
    identity.IdentityError: _refused,
    SettingsError: _misconfigured,
    ValueError: _failed,
    Exception: _broken,
}
