"""What of a request reaches a run or the store: only the fields listed here, with their types, within their bounds.

A deny-list cannot keep up: langgraph copies every unknown key of a run's `config` into `configurable`, over the platform's own
values, so `{"config": {"thread_id": ...}}` would run on anybody's thread. So `auth.py` rebuilds each request before the run,
thread, cron or assistant exists. The platform continues with the objects that it gave to its handlers, so they are changed in
place. It writes its stamps (identity, thread, assistant, graph) afterwards.

docs/security.md gives the reason for each decision. Tests compare the lists with the platform's code: a field of a new version
needs a decision.
"""

import reprlib
from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any, Literal, NotRequired, Required, get_type_hints
from uuid import UUID

from langgraph_sdk import Auth
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

import settings
from memory import controls, identity
from memory.controls import TEMPORARY
from memory.files import scratch_size
from settings import MAX_SECONDS_DIGITS

HTTPException = Auth.exceptions.HTTPException

# Objects in any list of a run's input, command and context but messages: each may be a task at once.
MAX_LISTED = 50
# Keys of the metadata of one run or thread, and characters of each key and value.
MAX_METADATA_KEYS, MAX_METADATA_CHARS = 50, 2_000
# Jumps (`command.goto`) of one run, and links for feedback that it may ask for: each is a task, or a call to LangSmith.
MAX_JUMPS = MAX_FEEDBACK_KEYS = 10
# Items or namespaces in one answer of the store, and before it; fields of one search; seconds.
MAX_LIMIT, MAX_OFFSET, MAX_FILTERS, MAX_SECONDS = 1_000, 1_000_000, 10, 10**9

OWNER_KEYS = ("user_id", "org_id")
# Metadata that the platform, langgraph or this project stamps and relies on. A client's value is ignored, since clients echo
# metadata. A test compares the list with the platform's code.
RESERVED_METADATA = frozenset(
    {
        *OWNER_KEYS,
        *controls.RUN_METADATA,
        *(controls.TEMPORARY, controls.HELD_WHILE_PAUSED, "thread_owner"),
        *("assistant_id", "created_by", "cron_id", "graph_id", "run_attempt", "run_id", "thread_id"),
        *("checkpoint_id", "checkpoint_map", "checkpoint_ns", "counters_since_delta_snapshot"),
    }
)
RESERVED_PREFIXES = ("__", "langgraph_", "lc_", "ls_")
# The platform's mark of a run whose request had a context. It strips the mark from clients' input.
_CONTEXT_MARK = "__context_provided__"

Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_METADATA_CHARS, pattern=r"^[^\x00]*$")]
Id = Annotated[UUID, AfterValidator(str)]
Number = StrictInt | StrictFloat
Scalar = Text | StrictBool | Number | None
Texts = Annotated[list[Text], Field(max_length=MAX_METADATA_KEYS)]


def reserved(key: object) -> bool:
    """Whether clients may not set a key of metadata."""
    if controls.creating_run.get() and key in controls.RUN_METADATA:
        return False
    if controls.stamping.get() and key == controls.HELD_WHILE_PAUSED:
        return False
    return key in RESERVED_METADATA or str(key).startswith(RESERVED_PREFIXES)


def _own(given: object) -> object:
    """Metadata without what clients may not set. Only A2A's routes send an object: the ids of its tasks."""
    if not isinstance(given, Mapping):
        return {} if given is None else given
    if nested := [key for key, of in given.items() if isinstance(of, Mapping) and key != "a2a" and not reserved(key)]:
        raise ValueError(f"{reprlib.repr(nested[0])} is an object; send texts, numbers and booleans")
    return {key: of for key, of in given.items() if not reserved(key)}


_A2A = Annotated[dict[Text, Scalar | Texts], Field(max_length=MAX_METADATA_KEYS)]
Metadata = Annotated[dict[Text, Scalar | _A2A], BeforeValidator(_own), Field(max_length=MAX_METADATA_KEYS)]


def _given(value: object) -> object:
    return {key: of for key, of in value.items() if of is not None} if isinstance(value, Mapping) else value


def _only(fields: Mapping[str, Any]) -> Any:
    """The type of an object of which these fields are kept, if they are given: other fields and nulls are dropped."""
    return Annotated[TypedDict("Fields", dict(fields), total=False), BeforeValidator(_given)]  # type: ignore[operator]


class _Jump(TypedDict):
    """A node, and its input in place of the state."""

    node: Text
    input: NotRequired[Any]


# --- The fields ------------------------------------------------------------------------------------------------------

# The platform has put its own fields there already, or may have: they have types, too.
CONFIGURABLE: Mapping[str, Any] = {
    # Checkpoints of the run's own thread: the platform writes the thread's id last.
    "checkpoint_id": Id,
    "checkpoint_ns": Text,
    "checkpoint_map": dict[Text, Id],
    "langgraph_auth_user": Any,
    "langgraph_auth_user_id": Any,
    "langgraph_auth_permissions": Any,
    "langgraph_request_id": Text,
    "__event_streaming_v2": StrictBool,
    "__request_start_time_ms__": Number,
    "__after_seconds__": Number,
    "__otel_traceparent__": Text,
    "__otel_tracestate__": Text,
    "__dd_trace_headers__": dict[Text, Text],
}
# Of an operator's cron, and of the destination of an operator's traces.
OPERATORS_CONFIGURABLE: Mapping[str, Any] = {
    **CONFIGURABLE,
    "cron_id": Id,
    "__langsmith_project__": Text,
    "__langsmith_example_id__": Text,
    "langsmith-trace": Text,
    "langsmith-metadata": Metadata,
    "langsmith-tags": Texts,
    "langsmith-project": Text,
}
CONFIG: Mapping[str, Any] = {
    "tags": Texts,
    "metadata": Metadata,
    "recursion_limit": Annotated[StrictInt, Field(ge=1, le=settings.MAX_RECURSION_LIMIT)],
}
_Send = Annotated[_Jump, AfterValidator(lambda jump: {"input": None, **jump})]
_Jumps = Text | _Send | Annotated[list[Text | _Send], Field(max_length=MAX_JUMPS)]
_Command = _only({"resume": Any, "update": Any, "goto": _Jumps})
# Fields of any type are checked by the platform, and where they are used.
RUN: Mapping[str, Any] = {
    **dict.fromkeys(("input", "webhook", "interrupt_before", "interrupt_after", "stream_mode", "durability"), Any),
    **dict.fromkeys(("temporary", "subgraphs", "resumable", "checkpoint_during"), StrictBool),
    "command": _Command,
    "feedback_keys": Annotated[Texts, Field(max_length=MAX_FEEDBACK_KEYS)],
}
# An operator's cron: its plan, and the fields of its runs.
CRON: Mapping[str, Any] = {
    **dict.fromkeys(("assistant_id", "schedule", "timezone", "end_time", "enabled", "on_run_completed"), Any),
    **dict.fromkeys(("input", "context", "multitask_strategy", "stream_mode", "stream_subgraphs", "stream_resumable"), Any),
    **dict.fromkeys(("durability", "webhook", "interrupt_before", "interrupt_after"), Any),
    "metadata": Metadata,
}
_PAGE = {"limit": Annotated[StrictInt, Field(ge=0, le=MAX_LIMIT)], "offset": Annotated[StrictInt, Field(ge=0, le=MAX_OFFSET)]}
# A policy. `memory/validation.py` checks its content.
_File = _only({"content": Required[str], "encoding": Literal["utf-8"], "created_at": Text, "modified_at": Text})
STORE: Mapping[str, Mapping[str, Any]] = {
    "get": {"refresh_ttl": StrictBool},
    "search": {
        # Equality only: "$gt" and others fail for some values.
        "filter": Annotated[dict[Text, Scalar], Field(max_length=MAX_FILTERS)],
        "query": Text,
        **_PAGE,
        "refresh_ttl": StrictBool,
    },
    "list_namespaces": {"suffix": Texts, "max_depth": Annotated[StrictInt, Field(ge=1, le=100)], **_PAGE},
    "put": {"value": Required[_File], "index": Literal[False], "ttl": Annotated[Number, Field(gt=0, le=MAX_SECONDS)]},
    "delete": {},
}


def _config(configurable: Mapping[str, Any]) -> Any:
    return _only({**CONFIG, "configurable": _only(configurable)})


_RUNS = {
    operator: TypeAdapter[Any](_only({**RUN, "config": _config(of)}))
    for operator, of in ((False, CONFIGURABLE), (True, OPERATORS_CONFIGURABLE))
}
_CRONS = TypeAdapter[Any](_only({**CRON, "config": _config(OPERATORS_CONFIGURABLE)}))
_ASSISTANTS, _METADATA = TypeAdapter[Any](_only(CONFIG)), TypeAdapter[Any](Metadata)
_STORE = {action: TypeAdapter[Any](_only(fields)) for action, fields in STORE.items()}
_AFTER = TypeAdapter[Any](Annotated[Number, Field(ge=0, le=10**MAX_SECONDS_DIGITS)])
_CONTEXT_FIELDS = get_type_hints(identity.Context)
_CONTEXT = TypeAdapter[Any](
    with_config(ConfigDict(extra="forbid"))(TypedDict("Context", _CONTEXT_FIELDS, total=False))  # type: ignore[operator]
)

# --- What is rebuilt -------------------------------------------------------------------------------------------------


def rebuild_run(value: MutableMapping[str, Any], *, operator: bool, webhooks: bool = settings.WEBHOOKS_FOR_EVERYBODY) -> None:
    """Rebuild the value of `threads.create_run`: its `kwargs`, with `config` in place, and its `metadata`. `webhooks`: for all.
    Raises `HTTPException`: 422, a field is invalid; 403, it is for operators; 400, `user_id` or `org_id` is not text.
    """
    kwargs, config, metadata = value["kwargs"], value["kwargs"]["config"], value["metadata"]
    for name in () if operator else ("interrupt_before", "interrupt_after", *(() if webhooks else ("webhook",))):
        if kwargs.get(name):
            raise HTTPException(403, f"{name} is for operators; leave it out.")
    for name in ("input", "command", "context"):
        _check_parts(name, kwargs.get(name))
    _checked(_AFTER, value.get("after_seconds") or 0, "after_seconds")
    own, run = _checked(_METADATA, metadata, "metadata"), _checked(_RUNS[operator], kwargs)
    # Without a context in the request the platform passes a copy of `configurable`.
    given = kwargs.get("context") or {}
    told = _CONTEXT_MARK in (config.get("configurable") or {}) and _CONTEXT_MARK not in given
    # Both keys are always set, so that an assistant's context cannot name a person for a run.
    context = {**dict.fromkeys(OWNER_KEYS), **_context(given, told=told)}
    _become(metadata, own)
    _become(config, run["config"])
    _become(kwargs, {**{name: None for name in kwargs if name in RUN}, **run, "config": config, "context": context})


def rebuild_thread_metadata(metadata: MutableMapping[str, Any], *, new: bool) -> None:
    """Rebuild a thread's metadata in place. A new thread, which may have a history, may say that it is a conversation, and
    temporary. Raises `HTTPException` 422 if the metadata is invalid.
    """
    graph = metadata.get("graph_id")
    own = {"graph_id": graph} if new and graph in settings.agent_graphs() else {}
    _become(metadata, {**_checked(_METADATA, metadata, "metadata"), **own, **(_temporary(metadata) if new else {})})


def _temporary(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The mark of a new thread, or of the cron whose runs each make one, that asks to be temporary."""
    return {TEMPORARY: True} if asks_temporary(metadata) else {}


def asks_temporary(metadata: object) -> bool:
    """Whether a new thread is to be a temporary conversation. Raises `HTTPException` 422 if that is not true or false."""
    given = metadata.get(TEMPORARY) if isinstance(metadata, Mapping) else None
    if given is not None and not isinstance(given, bool):
        raise HTTPException(422, f"metadata.temporary is {reprlib.repr(given)}; send true, or leave it out.")
    return bool(given)


def rebuild_cron(value: MutableMapping[str, Any]) -> None:
    """Rebuild the value of `crons.create` and `crons.update`, except the mark by which operators find a cron. The platform
    gives that mark to the thread of each run. Raises as `rebuild_run`.
    """
    payload, metadata = value.get("payload"), value.get("metadata")
    if metadata:
        mark = {"created_by": metadata["created_by"]} if isinstance(metadata.get("created_by"), str) else {}
        _become(metadata, {**_checked(_METADATA, metadata, "metadata"), **mark, **_temporary(metadata)})
    if payload:
        _check_parts("input", payload.get("input"))
        cron = _checked(_CRONS, payload)
        if "context" in cron:
            cron["context"] = _context(cron["context"])
        if "metadata" in cron:
            cron["metadata"] |= _temporary(payload["metadata"])
        _become(payload, cron)


def rebuild_assistant(value: Mapping[str, Any]) -> None:
    """Rebuild the value of `assistants.create` and `assistants.update`, which reaches every run of the assistant. Raises as
    `rebuild_run`.
    """
    config, context, metadata = (value.get(name) for name in ("config", "context", "metadata"))
    if metadata:
        _become(metadata, _checked(_METADATA, metadata, "metadata"))
    if context:
        _become(context, _context(context))
    if config:
        old_style = _context(config.get("configurable") or {}, told=False)
        _become(config, {**_checked(_ASSISTANTS, config, "config"), **({"configurable": old_style} if old_style else {})})


def rebuild_store_request(action: str, value: MutableMapping[str, Any]) -> None:
    """Rebuild the value of a handler of the store in place, except namespace and key: the store trusts what it is given. Raises
    `HTTPException` 422 for an invalid field.
    """
    defaults = {**dict.fromkeys(STORE[action]), **({"offset": 0} if "offset" in STORE[action] else {})}
    defaults |= {"search": {"limit": 10}, "list_namespaces": {"limit": 100}}.get(action, {})
    fields = _checked(_STORE[action], value)
    if action == "put":
        fields["value"] = {"encoding": "utf-8", **fields["value"]}
    _become(value, {**{name: value[name] for name in ("namespace", "key") if name in value}, **defaults, **fields})


def _context(given: Mapping[str, Any], *, told: bool = True) -> dict[str, Any]:
    """The given fields of `identity.Context`. Others are refused, unless they come from `configurable`."""
    kept = {name: of for name, of in given.items() if told or name in _CONTEXT_FIELDS}
    try:
        return dict(_CONTEXT.validate_python(kept))
    except ValidationError as error:
        if any(each["loc"][0] in OWNER_KEYS for each in error.errors()):
            raise names_nobody("user_id and org_id are texts") from None
        raise _refusal(error, "context") from None


def names_nobody(reason: object) -> Exception:
    """The refusal of a context whose `user_id` and `org_id` cannot name a person."""
    return HTTPException(400, f"The context names nobody that could be: {reason}")


def _checked(kind: TypeAdapter[Any], given: object, *where: str) -> Any:
    """What is given, in its shape. Raises `HTTPException` 422, which names the first invalid field."""
    try:
        return kind.validate_python(given)
    except ValidationError as error:
        raise _refusal(error, *where) from None


def _refusal(error: ValidationError, *where: str) -> Exception:
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part)[:100] for part in (*where, *first["loc"]))
    return HTTPException(422, f"{path} is {reprlib.repr(first['input'])}; {first['msg'][0].lower()}{first['msg'][1:]}.")


def _check_parts(name: str, given: object) -> None:
    """Refuse input with too many tasks or too large a file. Its depth and size are bounded with the whole request's."""
    parts: list[tuple[object, Any]] = [(name, given)]
    while parts:
        key, item = parts.pop()
        if isinstance(item, Mapping):
            for path, file in item.items() if key == "files" else ():
                if scratch_size(file) > settings.MAX_FILE_BYTES:
                    limit = f"{settings.MAX_FILE_BYTES:,} bytes ({str(path)[:100]!r})"
                    raise HTTPException(422, f"{name} has a file of more than {limit}; split it.")
            parts += item.items()
        elif isinstance(item, list):
            if key != "messages" and sum(isinstance(each, Mapping | list) for each in item) > MAX_LISTED:
                raise HTTPException(422, f"{name} has a list of {len(item)} ({str(key)[:100]!r}); send at most {MAX_LISTED}.")
            parts += [(None, each) for each in item]


def _become(target: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    kept = dict(content)
    target.clear()
    target.update(kept)
