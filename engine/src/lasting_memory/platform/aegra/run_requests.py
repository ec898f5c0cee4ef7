"""The requests of runs: what the handlers of `auth/handlers.py` are asked, and may change of them.

aegra passes handlers a copy of a run's request, of which it takes config and context back. Here
they are asked about it as langgraph-api asks them, and what they changed is written back.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypedDict, cast
from uuid import UUID

from aegra_api.core.auth_handlers import build_auth_context, handle_event
from aegra_api.core.orm import Thread, get_session_maker
from aegra_api.services.langgraph_service import get_langgraph_service
from aegra_api.utils.assistants import resolve_assistant_id
from fastapi import HTTPException
from langchain_core.runnables import RunnableConfig
from langsmith import uuid7
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from lasting_memory.platform.aegra import planned_runs, users
from lasting_memory.platform.aegra.client import label_of_thread
from lasting_memory.platform.aegra.handlers import whole_value

# Of a checkpoint that a client names: nothing else of it reaches a run's config.
_CHECKPOINT = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")

# The id of the run that this task makes; None where nobody has chosen one.
_run_id: ContextVar[UUID | None] = ContextVar("run_id", default=None)
# What a request said of a run that aegra's own model has no field for.
_sent_fields: ContextVar[Mapping[str, object]] = ContextVar("sent")

# The database session that the request of a run has open; None where it has none.
_session: ContextVar[AsyncSession | None] = ContextVar("session", default=None)


class RunRequest(Protocol):
    """What is read of a run's request, and changed (`aegra_api.models.runs.RunCreate`)."""

    assistant_id: str
    input: object
    command: object
    config: Mapping[str, object] | None
    context: Mapping[str, object] | None
    metadata: Mapping[str, object] | None
    checkpoint: Mapping[str, object] | None
    checkpoint_id: UUID | None
    multitask_strategy: str | None
    interrupt_before: object
    interrupt_after: object
    durability: str | None


class RunKwargs(TypedDict):
    """`kwargs` of a `RunValue`: what the graph is called with."""

    input: object
    command: object
    config: RunnableConfig
    context: dict[str, object]
    interrupt_before: object
    interrupt_after: object
    webhook: object
    durability: str | None


class RunValue(TypedDict):
    """The request of a run as langgraph-api passes it to handlers, which change it in place."""

    thread_id: str
    assistant_id: str
    run_id: str
    metadata: dict[str, object]
    multitask_strategy: str | None
    after_seconds: object
    if_not_exists: str
    kwargs: RunKwargs


@asynccontextmanager
async def run_session() -> AsyncIterator[AsyncSession]:
    """A database session for the request of a run.

    It gives its connection back while the handlers are asked, which need connections themselves:
    where all are in use, requests would wait for each other.
    """
    async with get_session_maker()() as session:
        token = _session.set(session)
        try:
            yield session
        finally:
            _session.reset(token)


@contextmanager
def sent_fields(fields: Mapping[str, object]) -> Iterator[None]:
    """Within this context, the request of a run also has these fields."""
    token = _sent_fields.set(fields)
    try:
        yield
    finally:
        _sent_fields.reset(token)


def run_id() -> UUID:
    """The id of a new run, with the time at which it was made: forgetting compares these times.

    It is the one that the handlers were asked about, if this task has asked them.
    """
    chosen_id = _run_id.get()
    _run_id.set(None)
    return chosen_id or uuid7()


async def authorize_run(user: users.AegraUser, thread_id: str, request: RunRequest) -> None:
    """Ask the handlers about a run, and copy back into its request what they changed.

    It replaces aegra's `_apply_create_run_auth`. The run belongs to the person whom the handlers
    name: an operator's may be somebody else's. Its thread is made with the run's metadata, as
    langgraph-api does. Raises `UnreadableUserError` where the handlers name nobody.
    """
    session = _session.get()
    if session is not None:
        await session.commit()
    assistant_id, graph_id = _assistant_of(request)
    chosen_id = uuid7()
    value = _handler_value(thread_id, assistant_id, request, str(chosen_id))
    run_context = build_auth_context(user, "threads", "create_run")
    assistant_context = build_auth_context(user, "assistants", "read")
    with whole_value():
        auth_filter = await handle_event(run_context, value)
        await handle_event(assistant_context, {"assistant_id": assistant_id})
    kwargs = value["kwargs"]
    metadata = {**value["metadata"], "graph_id": graph_id, "assistant_id": assistant_id}
    owner = users.label_in(metadata)
    if auth_filter is None:
        # Whoever sees all threads, that is an operator, also begins runs in somebody else's.
        thread_owner = await label_of_thread(thread_id)
        if thread_owner:
            owner = thread_owner
    if owner is None:
        raise users.UnreadableUserError("The handlers of auth.py name no person of this run.")
    _set_run_owner(user, kwargs["config"], owner)
    _update_request(request, kwargs, metadata, graph_id=graph_id, assistant_id=assistant_id)
    await _make_thread(thread_id, user.identity, metadata)
    fields = _sent_fields.get({})
    begin_seconds = fields.get("after_seconds")
    await planned_runs.choose_begin(thread_id, request.multitask_strategy, begin_seconds)
    _run_id.set(chosen_id)


def _assistant_of(request: RunRequest) -> tuple[str, str]:
    """The ids of a request's assistant and of its graph.

    Raises 404 for an assistant that is not a graph's own.
    """
    graphs = get_langgraph_service().list_graphs()
    assistant_id = str(resolve_assistant_id(request.assistant_id, graphs))
    for graph_id in graphs:
        graph_assistant_id = str(resolve_assistant_id(graph_id, graphs))
        if graph_assistant_id == assistant_id:
            return assistant_id, graph_id
    # Operators make others, each with a config and a context of its own.
    raise HTTPException(404, f"Assistant '{request.assistant_id}' not found")


def _handler_value(
    thread_id: str, assistant_id: str, request: RunRequest, chosen_id: str
) -> RunValue:
    """The request of a run as langgraph-api passes it to handlers. Raises 422 for a wrong config."""
    config = dict(request.config or {})
    client_configurable = config.get("configurable") or {}
    if not isinstance(client_configurable, Mapping):
        raise HTTPException(422, "`config.configurable` must be a mapping")
    configurable = dict(client_configurable)
    checkpoint = request.checkpoint or {}
    for name in _CHECKPOINT:
        if name in checkpoint:
            configurable[name] = checkpoint[name]
    if request.checkpoint_id is not None and "checkpoint_id" not in checkpoint:
        configurable["checkpoint_id"] = str(request.checkpoint_id)
    # Such a user comes from a handler alone.
    configurable.pop("langgraph_auth_user", None)
    config["configurable"] = configurable
    fields = _sent_fields.get({})
    return {
        "thread_id": thread_id,
        "assistant_id": assistant_id,
        "run_id": chosen_id,
        "metadata": dict(request.metadata or {}),
        "multitask_strategy": request.multitask_strategy,
        "after_seconds": fields.get("after_seconds") or 0,
        "if_not_exists": "create",
        "kwargs": {
            "input": request.input,
            "command": request.command,
            "config": cast("RunnableConfig", config),  # handlers check its other fields
            "context": dict(request.context or {}),
            "interrupt_before": request.interrupt_before,
            "interrupt_after": request.interrupt_after,
            "webhook": fields.get("webhook"),
            "durability": request.durability,
        },
    }


def _set_run_owner(user: users.AegraUser, config: RunnableConfig, label: str) -> None:
    """Make the run that of the person with this label, for aegra, by changing its user.

    For this library it is that of the claims: the handlers stamp an operator's into the config.
    """
    claims = config["configurable"].pop("langgraph_auth_user", None)
    if not claims:
        fields = users.user_of(user).to_dict()
        claims = fields["signed_in"]
    owner_fields = users.fields_of(claims, label)
    for name, value in owner_fields.items():
        setattr(user, name, value)


def _update_request(
    request: RunRequest,
    kwargs: RunKwargs,
    metadata: Mapping[str, object],
    *,
    graph_id: str,
    assistant_id: str,
) -> None:
    """Write back into a request what the handlers made of it: `kwargs` and `metadata`."""
    config = kwargs["config"]
    # langgraph-api puts these there: the run's user and the metadata of checkpoints come of it.
    config["configurable"].update(graph_id=graph_id, assistant_id=assistant_id)
    config_metadata = config.get("metadata") or {}
    config["metadata"] = {**config_metadata, **metadata}
    request.config = config
    request.context = kwargs["context"]
    request.input = kwargs["input"]
    request.command = kwargs["command"]
    request.durability = kwargs["durability"]
    request.metadata = dict(metadata)
    request.checkpoint = None
    request.checkpoint_id = None


async def _make_thread(thread_id: str, label: str, metadata: Mapping[str, object]) -> None:
    """Make the thread of a run, unless it is there. Raises 404 for somebody else's."""
    thread_metadata = {**metadata, "owner": label}
    insertion = insert(Thread).values(
        thread_id=thread_id, status="idle", metadata_json=thread_metadata, user_id=label
    )
    insertion = insertion.on_conflict_do_nothing(index_elements=["thread_id"])
    owner_query = select(Thread.user_id)
    owner_query = owner_query.where(Thread.thread_id == thread_id)
    new_session = get_session_maker()
    async with new_session() as session:
        await session.execute(insertion)
        await session.commit()
        owner = await session.scalar(owner_query)
    if owner != label:
        raise HTTPException(404, f"Thread '{thread_id}' not found")
