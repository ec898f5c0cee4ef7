"""Requests to /memory: who asks about whom, what may be asked, and where the person's memory is.

Outside of runs the platform scopes nothing. So every route takes a `Caller`, then its query as a
model. The actor is the person whom a request is about, the author whoever sends it: an operator may
ask about somebody else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request, Response, params
from langgraph.store.base import BaseStore, Item
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.auth.share import share_of
from lasting_memory.deployment import NO_MEMORY, Deployment
from lasting_memory.http.models.base import Refusal
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, controls
from lasting_memory.memory.own_offers import note_groups
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.validation import check_path
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.settings import SharedWrites

ROUTE = "/memories"
# A person's memory for their other programs, by the Model Context Protocol.
MCP_PATH = "/memory/mcp"
FORGOTTEN = "You were forgotten meanwhile; call again."
IMPORT_IS_GONE = "You were forgotten meanwhile; what was imported is gone."


def key_of(path: str) -> str:
    """The key of a path such as /memories/preferences.md. Raises `ValueError` for other paths."""
    if not path.startswith(f"{ROUTE}/"):
        raise ValueError(f"{path[:80]!r} does not name a file such as {ROUTE}/preferences.md")
    return check_path(path.removeprefix(ROUTE))


def _check_path(path: str) -> str:
    """The path as it is. Raises `ValueError` for one that is not of a file of the person's."""
    key_of(path)
    return path


Path = Annotated[str, AfterValidator(_check_path), Field(examples=[f"{ROUTE}/preferences.md"])]


def revision_of(item: Item) -> int | None:
    """The number of the revision that a stored file is at; None where other code wrote it."""
    revision = item.value.get("revision")
    if not isinstance(revision, int):
        return None
    return revision


class About(BaseModel, extra="forbid"):
    """Parameters of every route.

    Unknown ones are refused, because a misspelled name must not widen a request.
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
    """The body of a request.

    Without fields it is that of a route that takes none: to ignore one could widen the request.
    """


# Every refusal has the same body; FastAPI's own schema of a 422 would be another.
_REFUSALS: dict[int | str, dict[str, object]] = {
    "4XX": {"model": Refusal, "description": "Refused"},
    "5XX": {"model": Refusal, "description": "Failed"},
}


def memory_router(*dependencies: params.Depends) -> APIRouter:
    """A router for routes under /memory, whose refusals are in the schema."""
    return APIRouter(tags=["Memory"], dependencies=dependencies, responses=_REFUSALS)


def json_response(answer: BaseModel, status: int = 200) -> Response:
    """The answer of a route whose schema FastAPI only describes, because it has several."""
    return Response(answer.model_dump_json(), status, media_type="application/json")


AboutQuery = Annotated[About, Query()]
MemoryQuery = Annotated[OneMemory, Query()]
FileQuery = Annotated[OneFile, Query()]
ReadableQuery = Annotated[OneReadable, Query()]
NoBody = Annotated[Sent | None, Body()]


class Group(NamedTuple):
    """A folder that the members of a group share."""

    namespace: Namespace
    path: str  # of the folder, such as /team/
    claim: str  # its name, and its value for the caller
    value: str
    writes: SharedWrites  # whether the caller's agent writes there

    def path_of(self, key: str) -> str:
        """The path of a file in it."""
        return f"{self.path[:-1]}{key}"


class Place(NamedTuple):
    """Where the store has a file, and whether it is a group's."""

    namespace: Namespace
    key: str
    is_shared: bool


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """A request by a caller who may make it.

    Its methods raise `HTTPException`, or errors that `errors.py` answers.
    """

    http: Request
    deployment: Deployment
    actor: identity.Actor  # the person whose memory it is about
    author: identity.Author  # of its writes
    store: BaseStore
    writer: journal.Writer

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
        assistant_id = self.http.query_params.get("assistant_id")
        if assistant_id is None:
            return self.deployment.default_assistant
        deployment = self.deployment
        is_per_assistant = deployment.has_memory and deployment.memory.per_assistant
        if not is_per_assistant:
            raise HTTPException(
                422, "assistant_id is for MEMORY_SCOPE=user+assistant; leave it out."
            )
        return str(UUID(assistant_id))

    @property
    def groups(self) -> list[Group]:
        """The folders of the caller's groups that are read over HTTP. None for an operator who asks
        about another.
        """
        if self.author.kind == "operator":
            return []
        claims = identity.claims_of(self.http.user)
        groups = list[Group]()
        for path, scope in self.deployment.routes.items():
            claim = scope.claim
            if claim not in claims or not scope.over_http:
                continue
            namespace = scope.namespace(self.actor, "", claims)
            writes = scope.rule(self.deployment.settings)
            group = Group(namespace, path, claim, claims[claim], writes)
            groups.append(group)
        return groups

    def place(self, path: str) -> Place:
        """Where the store has a file that the caller may read. Raises for other paths."""
        for group in self.groups:
            if path.startswith(group.path):
                folder = group.path[:-1]
                return Place(group.namespace, path.removeprefix(folder), is_shared=True)
        try:
            namespace = self.namespace
            key = key_of(path)
        except ValueError as error:
            raise HTTPException(422, f"'query.path' is refused: {error}") from None
        return Place(namespace, key, is_shared=False)

    async def items(self) -> list[Item]:
        """The person's files, as the store has them."""
        return await journal.all_items(self.store, self.namespace)

    async def histories(self) -> list[tuple[str, list[journal.Revision]]]:
        """The revisions of all files of the person, also of deleted ones, by key."""
        return await journal.histories(self.store, self.namespace, self.deployment.limits)

    async def controls(self) -> Controls:
        """What the person has paused, or reviews."""
        return await controls(self.store, self.actor, self.deployment)

    async def is_forgotten(self) -> bool:
        """Whether the person was forgotten after the request had begun."""
        return await journal.is_forgotten(self.store, self.writer)

    @property
    def memory(self) -> Memory:
        """The person's files, for what is proposed of them."""
        return Memory(self.store, self.actor, self.namespace, self.deployment, self.writer)

    @property
    def files(self) -> ScopedFiles:
        """The person's files, for writing. MEMORY_WRITES limits agents, not the person."""
        namespace = self.namespace
        return ScopedFiles(
            self.deployment,
            lambda _: namespace,
            route=ROUTE,
            author=self.author,
            writer=self.writer,
            store=self.store,
        )


async def caller_of(request: Request) -> PersonRequest:
    """Who asks, and about whom. Raises `HTTPException`, and `IdentityError` for a user who is
    nobody.
    """
    deployment: Deployment = request.app.state.deployment
    user = request.scope.get("user")
    # Studio on `langgraph dev` has an identity, though it is not authenticated.
    if user is None or not user.identity:
        raise HTTPException(
            401,
            'Nobody is signed in; keep "enable_custom_route_auth": true in langgraph.json, and send a token.',
        )
    params = request.query_params
    is_about_another = any(name in params for name in About.model_fields)
    if is_about_another and not identity.is_operator(user, deployment.settings):
        raise HTTPException(
            403,
            "user_id and org_id are for operators; leave them out, and the request is about you.",
        )
    person = identity.Context(params.get("user_id"), params.get("org_id"))
    actor = identity.acting(user, person, deployment.settings)
    identity.check_person(actor)
    author = identity.Author("operator" if is_about_another else "person", user.identity)
    store = await request.app.state.store()
    writer = journal.Writer(actor, request.state.came)
    if not is_about_another:
        await note_groups(store, actor, deployment, user, writer)
    return PersonRequest(request, deployment, actor, author, store, writer)


Caller = Annotated[PersonRequest, Depends(caller_of)]


async def memories_of(
    store: BaseStore, actor: identity.Actor, deployment: Deployment
) -> dict[Namespace, str]:
    """The namespaces of a person's memory files, also of deleted ones, each with its assistant's id.

    Under `user+assistant` there is one for each assistant. Otherwise there is one, whose id is "",
    or none where nobody has memory of their own.
    """
    if not deployment.has_own_memory:
        return {}
    memory = deployment.memory
    if not memory.per_assistant:
        return {memory.namespace(actor, deployment.default_assistant): ""}
    assistant_by_namespace = dict[Namespace, str]()
    noted_assistants = await journal.all_items(store, namespaces.assistants(actor))
    for item in noted_assistants:
        assistant = identity.part_of(item.key)
        namespace = memory.namespace(actor, assistant)
        assistant_by_namespace[namespace] = assistant
    return assistant_by_namespace


# Requests that compute.
_COMPUTING = "requests about your memory"
# How many of them, of a person, are let in; then 429.
_MAX_COMPUTING = 50


@asynccontextmanager
async def one_at_a_time(
    caller: PersonRequest, kind: str = _COMPUTING, limit: int = _MAX_COMPUTING
) -> AsyncIterator[None]:
    """Waits until no other request of this kind about this person is being answered.

    As many as the limit may wait or be answered. Raises `HTTPException` 429 for a further one.
    """
    with share_of(caller.actor, caller.deployment.limits).under_way(kind, limit):
        async with platform.lock_of(kind, caller.actor):
            yield


def in_turn(kind: str, limit: int = 1) -> params.Depends:
    """A dependency of routes, which has a person's requests of this kind carried out one by one.

    As many as the limit may wait or be answered; a further one is refused with 429.
    """

    async def turn(caller: Caller) -> AsyncIterator[None]:
        async with one_at_a_time(caller, kind, limit):
            yield

    dependency: params.Depends = Depends(turn)
    return dependency


# Of routes that compute.
IN_TURN = in_turn(_COMPUTING, _MAX_COMPUTING)
