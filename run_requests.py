"""What of a request reaches a run: the fields that the models below name, within their bounds, and nothing else.

A deny-list cannot keep up here: langgraph copies every key of a run's `config` that it does not know into `configurable`, over
what the platform put there, so that `{"config": {"thread_id": ...}}` would run on that thread, whoever owns it. So `auth.py`
has each request rebuilt before the run, thread, cron or assistant exists. The platform goes on with the very objects that its
handlers were given: they are changed in place. What it stamps (identity, thread, assistant, graph) it writes afterwards.

Errors are HTTP 422 and name the field; 403 where the field is an operator's. docs/security.md lists every field and why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import pydantic.dataclasses
from langgraph_sdk import Auth
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

import settings
from memory import scopes, triggers

HTTPException = Auth.exceptions.HTTPException
OWNER_KEYS = ("user_id", "org_id")
# Metadata that the platform, langgraph or this project stamps and goes by; a client that sends it has it ignored, as clients
# that echo metadata do. A test holds the list against the platform's code.
RESERVED_METADATA = frozenset(
    {
        *OWNER_KEYS,
        *triggers.METADATA,
        *("temporary", "thread_owner"),
        *("assistant_id", "created_by", "cron_id", "graph_id", "run_attempt", "run_id", "thread_id"),
        *("checkpoint_id", "checkpoint_map", "checkpoint_ns", "counters_since_delta_snapshot"),
    }
)
RESERVED_PREFIXES = ("__", "langgraph_", "lc_", "ls_")
# The graph of conversations: what a history that is put into a new thread is a history of.
CONVERSATION = "agent"
# As the platform marks a run whose request had a context. It strips the mark from what clients send.
_CONTEXT_MARK = "__context_provided__"

Text = Annotated[str, StringConstraints(strict=True, max_length=settings.MAX_METADATA_CHARS, pattern=r"^[^\x00]*$")]
Id = Annotated[UUID, AfterValidator(str)]
Scalar = Text | StrictBool | StrictInt | StrictFloat | None
Texts = Annotated[list[Text], Field(max_length=settings.MAX_METADATA_KEYS)]
Number = StrictInt | StrictFloat


def _not_reserved(given: object) -> object:
    if given is None:
        return {}
    return {key: of for key, of in given.items() if not _reserved(key)} if isinstance(given, Mapping) else given


def _reserved(key: object) -> bool:
    if triggers.creating.get() and key in triggers.METADATA:
        return False
    return key in RESERVED_METADATA or str(key).startswith(RESERVED_PREFIXES)


# By A2A's routes only: the ids of its tasks.
A2A = Annotated[dict[Text, Scalar | Texts], Field(max_length=settings.MAX_METADATA_KEYS)]


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    for key, of in metadata.items():
        if isinstance(of, dict) and key != "a2a":
            raise ValueError(f"{key!r} is an object; send texts, numbers and booleans")
    return metadata


Metadata = Annotated[
    dict[Text, Scalar | A2A],
    BeforeValidator(_not_reserved),
    Field(max_length=settings.MAX_METADATA_KEYS),
    AfterValidator(_flat),
]


class _Listed(BaseModel):
    """Takes the fields it lists; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    def given(self) -> dict[str, Any]:
        """What was given of the listed, by the names it was given, without what is null."""
        fields = ((name, field.alias or name) for name, field in type(self).model_fields.items())
        return {alias: getattr(self, name) for name, alias in fields if getattr(self, name) is not None}


class Configurable(_Listed):
    """`config.configurable`. The platform has put its own there already, some of it only at times: those have types, too."""

    # Places in the run's own thread, whose id the platform writes last.
    checkpoint_id: Id | None = None
    checkpoint_ns: Text | None = None
    checkpoint_map: dict[Text, Id] | None = None

    langgraph_auth_user: Any = None
    langgraph_auth_user_id: Any = None
    langgraph_auth_permissions: Any = None
    langgraph_request_id: Text | None = None
    event_streaming_v2: StrictBool | None = Field(None, alias="__event_streaming_v2")
    request_start_time_ms: Number | None = Field(None, alias="__request_start_time_ms__")
    after_seconds: Number | None = Field(None, alias="__after_seconds__")
    otel_traceparent: Text | None = Field(None, alias="__otel_traceparent__")
    otel_tracestate: Text | None = Field(None, alias="__otel_tracestate__")
    dd_trace_headers: dict[Text, Text] | None = Field(None, alias="__dd_trace_headers__")


class OperatorConfigurable(Configurable):
    """With what an operator's cron has, and by which operators choose where their traces go."""

    cron_id: Id | None = None
    langsmith_project: Text | None = Field(None, alias="__langsmith_project__")
    langsmith_example_id: Text | None = Field(None, alias="__langsmith_example_id__")
    baggage_trace: Text | None = Field(None, alias="langsmith-trace")
    baggage_metadata: Metadata | None = Field(None, alias="langsmith-metadata")
    baggage_tags: Texts | None = Field(None, alias="langsmith-tags")
    baggage_project: Text | None = Field(None, alias="langsmith-project")


class Config(_Listed):
    """A run's or an assistant's `config`."""

    tags: Texts | None = None
    metadata: Metadata | None = None
    recursion_limit: Annotated[StrictInt, Field(ge=1, le=settings.MAX_RECURSION_LIMIT)] | None = None
    configurable: Configurable | None = None


class OperatorConfig(Config):
    """The same with an operator's `configurable`."""

    configurable: OperatorConfigurable | None = None


class Command(_Listed):
    """A run's `command`."""

    resume: Any = None
    update: Any = None
    goto: Any = None


class Run(_Listed):
    """What of a run the worker is given, beside its context. What is of any type is checked where it is used."""

    input: Any = None
    command: Command | None = None
    webhook: str | None = None
    interrupt_before: Literal["*"] | Texts | None = None
    interrupt_after: Literal["*"] | Texts | None = None
    stream_mode: list[str] | None = None
    feedback_keys: Annotated[Texts, Field(max_length=settings.MAX_FEEDBACK_KEYS)] | None = None
    temporary: StrictBool | None = None
    subgraphs: StrictBool | None = None
    resumable: StrictBool | None = None
    checkpoint_during: StrictBool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    config: Config


class OperatorRun(Run):
    """The same with an operator's `config`."""

    config: OperatorConfig


class Cron(_Listed):
    """An operator's cron: its plan, and what every run of it is started with. The platform has checked what is of any type."""

    assistant_id: Any = None
    schedule: Any = None
    timezone: Any = None
    end_time: Any = None
    enabled: Any = None
    on_run_completed: Any = None
    input: Any = None
    metadata: Metadata | None = None
    config: OperatorConfig | None = None
    context: Any = None  # `_context` judges it
    webhook: str | None = None
    interrupt_before: Literal["*"] | Texts | None = None
    interrupt_after: Literal["*"] | Texts | None = None
    multitask_strategy: Any = None
    stream_mode: Any = None
    stream_subgraphs: Any = None
    stream_resumable: Any = None
    durability: Any = None


_Shape = TypeVar("_Shape")
_RUN, _OPERATOR_RUN, _CONFIG, _CRON = (TypeAdapter[Any](shape) for shape in (Run, OperatorRun, Config, Cron))
_METADATA: TypeAdapter[dict[str, Any]] = TypeAdapter(Metadata)
_AFTER: TypeAdapter[float] = TypeAdapter(Annotated[Number, Field(ge=0, le=settings.MAX_AFTER_SECONDS)])
_CONTEXT: TypeAdapter[Any] = TypeAdapter(pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))(scopes.Context))
_CONTEXT_FIELDS = tuple(field.name for field in dataclasses.fields(scopes.Context))


def rebuild_run(value: MutableMapping[str, Any], *, operator: bool) -> None:
    """Rebuild what `threads.create_run` is given: `kwargs`, of it `config` in place, and `metadata`.

    Raises:
        HTTPException: 422 a field cannot be used; 403 it is an operator's; 400 the context's `user_id` or `org_id` is no text.
    """
    kwargs, metadata = value["kwargs"], value["metadata"]
    for name in () if operator else _operators_fields():
        if kwargs.get(name):
            raise HTTPException(status_code=403, detail=f"{name} is for operators; leave it out.")
    _check_nesting(kwargs, ("input", "command", "context"))
    _checked(_AFTER, value.get("after_seconds") or 0, "after_seconds")
    own = _checked(_METADATA, metadata, "metadata")
    run = _checked(_OPERATOR_RUN if operator else _RUN, kwargs)
    context = _context(kwargs.get("context") or {}, told=_has_context(kwargs))
    config = kwargs["config"]
    _become(metadata, own)
    _become(config, _config(run.config))
    # Both are said, also where nobody is named, so that an assistant's context names nobody for a run.
    content = run.given() | {"config": config, "context": {**dict.fromkeys(OWNER_KEYS), **context}}
    if run.command:
        content["command"] = run.command.given()
    _become(kwargs, {name: None for name in kwargs if name in Run.model_fields} | content)


def rebuild_thread_metadata(metadata: MutableMapping[str, Any], *, new: bool) -> None:
    """Rebuild a thread's metadata in place. A new thread, which may come with a history, may say that it is a conversation.

    Raises:
        HTTPException: 422, it cannot be used.
    """
    conversation = new and metadata.get("graph_id") == CONVERSATION
    _become(metadata, _checked(_METADATA, metadata, "metadata") | ({"graph_id": CONVERSATION} if conversation else {}))


def rebuild_cron(value: MutableMapping[str, Any]) -> None:
    """Rebuild what `crons.create` and `crons.update` are given. What a cron is marked with stays: operators find it by that.

    Raises:
        HTTPException: as `rebuild_run`.
    """
    payload, metadata = value.get("payload"), value.get("metadata")
    if metadata:
        mark = {"created_by": metadata["created_by"]} if isinstance(metadata.get("created_by"), str) else {}
        _become(metadata, _checked(_METADATA, metadata, "metadata") | mark)
    if payload:
        _check_nesting(payload, ("input", "context"))
        cron = _checked(_CRON, payload)
        content = cron.given()
        if cron.config:
            content["config"] = _config(cron.config)
        if cron.context is not None:
            content["context"] = _context(cron.context)
        _become(payload, content)


def rebuild_assistant(value: Mapping[str, Any]) -> None:
    """Rebuild what `assistants.create` and `assistants.update` are given: it reaches every run of the assistant.

    Raises:
        HTTPException: as `rebuild_run`.
    """
    config, context, metadata = (value.get(name) for name in ("config", "context", "metadata"))
    if metadata:
        _become(metadata, _checked(_METADATA, metadata, "metadata"))
    if context:
        _become(context, _context(context))
    if config:
        old_style = _context(config.get("configurable") or {}, told=False)
        content = _config(_checked(_CONFIG, {**config, "configurable": None}))
        _become(config, {**content, "configurable": old_style} if old_style else content)


def _operators_fields() -> tuple[str, ...]:
    return ("interrupt_before", "interrupt_after", *(() if settings.WEBHOOKS_FOR_EVERYBODY else ("webhook",)))


def names_nobody(reason: object) -> Exception:
    """The refusal of a context whose `user_id` and `org_id` cannot be anybody's."""
    return HTTPException(status_code=400, detail=f"The context names nobody that could be: {reason}")


def _config(config: Config) -> dict[str, Any]:
    configurable = config.configurable
    return {**config.given(), **({"configurable": configurable.given()} if configurable else {})}


def _has_context(kwargs: Mapping[str, Any]) -> bool:
    """Whether the request had a context. Without one the platform passes a copy of `configurable` for it."""
    configurable = kwargs["config"].get("configurable") or {}
    return _CONTEXT_MARK in configurable and _CONTEXT_MARK not in (kwargs.get("context") or {})


def _context(given: Mapping[str, Any], *, told: bool = True) -> dict[str, Any]:
    """The fields of `scopes.Context` among those given. Others are refused, unless they only stand in `configurable`."""
    kept = given if told else {name: given[name] for name in _CONTEXT_FIELDS if name in given}
    try:
        context = _CONTEXT.validate_python(dict(kept))
    except ValidationError as error:
        if unknown := [str(found["loc"][0]) for found in error.errors() if found["type"] == "unexpected_keyword_argument"]:
            fields = ", ".join(_CONTEXT_FIELDS)
            detail = f"context has no field {unknown[0][:100]!r}; it takes {fields}."
            raise HTTPException(status_code=422, detail=detail) from None
        if any(found["loc"][0] in OWNER_KEYS for found in error.errors()):
            raise names_nobody("user_id and org_id are texts") from None
        raise _refusal(error, "context") from None
    return {name: getattr(context, name) for name in kept}


def _checked(shape: TypeAdapter[_Shape], given: object, *where: str) -> _Shape:
    try:
        return shape.validate_python(given)
    except ValidationError as error:
        raise _refusal(error, *where) from None


def _check_nesting(given: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuse what nests so deep that Python could not copy it: the thread would stay busy with a run that never came to be."""
    for name in names:
        level: list[Any] = [given.get(name)]
        for _ in range(settings.MAX_NESTING):
            level = [child for item in level for child in _children(item)]
        if level:
            raise HTTPException(status_code=422, detail=f"{name} nests deeper than {settings.MAX_NESTING} levels; flatten it.")


def _children(item: object) -> Iterable[Any]:
    if isinstance(item, Mapping):
        return item.values()
    return item if isinstance(item, list) else ()


def _refusal(error: ValidationError, *where: str) -> Exception:
    found = error.errors(include_url=False)[0]
    path = ".".join(str(part)[:100] for part in (*where, *found["loc"]))
    detail = f"{path} is {str(found['input'])[:60]!r}; {found['msg'][0].lower()}{found['msg'][1:]}."
    return HTTPException(status_code=422, detail=detail)


def _become(target: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    kept = dict(content)
    target.clear()
    target.update(kept)
