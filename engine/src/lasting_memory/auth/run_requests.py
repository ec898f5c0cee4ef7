"""What of a request reaches a run: only the fields listed here, with their types, within bounds.

A deny-list cannot keep up: langgraph copies every unknown key of a run's `config` into
`configurable`, over the platform's own values, so `{"config": {"thread_id": ...}}` would run on
anybody's thread. So `auth.py` rebuilds each request before the run or thread exists. The platform
continues with the objects that it gave to its handlers, so they are changed in place. It writes its
stamps (identity, thread, assistant, graph) afterwards. `state_input.py` has the rules of what goes
into the graph's state.

docs/security.md gives the reason for each decision. Tests compare the lists with the platform's
code: a field of a new version needs a decision.
"""

from collections.abc import Collection, Mapping, MutableMapping
from typing import Annotated, get_type_hints

from langgraph_sdk import Auth
from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, TypeAdapter, with_config
from typing_extensions import TypedDict

from lasting_memory.auth.handler_values import RunKwargs, RunRequest
from lasting_memory.auth.request_fields import (
    MAX_METADATA_KEYS,
    Id,
    Number,
    Scalar,
    Text,
    Texts,
    checked,
    only,
    rebuild,
)
from lasting_memory.conversations import marks
from lasting_memory.conversations.marks import TEMPORARY
from lasting_memory.people import identity
from lasting_memory.settings import MAX_AFTER_SECONDS

HTTPException = Auth.exceptions.HTTPException

# Links for feedback that one run may ask for: each is a call to LangSmith.
MAX_FEEDBACK_KEYS = 10
# Fields of a run that only operators may send. The platform resolves a webhook's host before it
# asks any handler.
OPERATORS_FIELDS = ("interrupt_before", "interrupt_after", "webhook")
# Highest `recursion_limit` that a run may ask for.
MAX_RECURSION_LIMIT = 10_000

OWNER_KEYS = ("user_id", "org_id")
# On a run: the verified claims with which it began, for routes that are a group's.
GROUP_CLAIMS = "group_claims"
# On a run: when the token expires that proved these claims.
GROUP_CLAIMS_EXPIRE_AT = "group_claims_expire_at"
# Metadata that the platform, langgraph or this project stamps and relies on. A client's value is
# ignored, since clients echo metadata. A test compares the list with the platform's code.
RESERVED_METADATA = {
    # This project's.
    *OWNER_KEYS,
    *marks.RUN_METADATA,
    TEMPORARY,
    marks.HELD_WHILE_PAUSED,
    "thread_owner",
    GROUP_CLAIMS,
    GROUP_CLAIMS_EXPIRE_AT,
    marks.IMPORTED,
    marks.IMPORTED_BEGAN,
    marks.IMPORTED_ENDED,
    # The platform's.
    "assistant_id",
    "created_by",
    "cron_id",
    "graph_id",
    "run_attempt",
    "run_id",
    "thread_id",
    # langgraph's.
    "checkpoint_id",
    "checkpoint_map",
    "checkpoint_ns",
    "counters_since_delta_snapshot",
}
RESERVED_PREFIXES = ("__", "langgraph_", "lc_", "ls_")
# The platform's mark of a run whose request had a context. It strips the mark from clients' input.
_CONTEXT_MARK = "__context_provided__"


def reserved(key: object) -> bool:
    """Whether clients may not set a key of metadata."""
    if key in marks.setting.get():
        return False
    if key in RESERVED_METADATA:
        return True
    return str(key).startswith(RESERVED_PREFIXES)


def _settable_metadata(value: object) -> object:
    """Metadata without what clients may not set. Raises `ValueError` for values of other types.

    Only A2A's routes send an object: the ids of its tasks.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    metadata = dict[object, object]()
    for key, field in value.items():
        if reserved(key):
            continue
        if key != "a2a" and isinstance(field, Mapping):
            raise ValueError("send texts, numbers and booleans")
        metadata[key] = field
    # Otherwise somebody's conversation would be remembered unawares.
    if not isinstance(value.get(TEMPORARY), bool | None):
        raise ValueError("temporary: send true, or leave it out")  # noqa: TRY004  # pydantic names the field
    return metadata


_A2A = Annotated[dict[Text, Scalar | Texts], Field(max_length=MAX_METADATA_KEYS)]
Metadata = Annotated[
    dict[Text, Scalar | _A2A],
    BeforeValidator(_settable_metadata),
    Field(max_length=MAX_METADATA_KEYS),
]


# The platform has put its own fields there already, or may have: they have types, too.
CONFIGURABLE: Mapping[str, object] = {
    # Checkpoints of the run's own thread: the platform writes the thread's id last.
    "checkpoint_id": Id,
    "checkpoint_ns": Text,
    "checkpoint_map": dict[Text, Id],
    **dict.fromkeys(
        ("langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"), object
    ),
    "langgraph_request_id": Text,
    "__event_streaming_v2": StrictBool,
    **dict.fromkeys(("__request_start_time_ms__", "__after_seconds__"), Number),
    **dict.fromkeys(("__otel_traceparent__", "__otel_tracestate__"), Text),
    "__dd_trace_headers__": dict[Text, Text],
}
# Of an operator's cron, and of the destination of an operator's traces.
OPERATORS_CONFIGURABLE: Mapping[str, object] = {
    **CONFIGURABLE,
    "cron_id": Id,
    **dict.fromkeys(
        (
            "__langsmith_project__",
            "__langsmith_example_id__",
            "langsmith-trace",
            "langsmith-project",
        ),
        Text,
    ),
    "langsmith-metadata": Metadata,
    "langsmith-tags": Texts,
}
CONFIG: Mapping[str, object] = {
    "tags": Texts,
    "metadata": Metadata,
    "recursion_limit": Annotated[int, Field(strict=True, ge=1, le=MAX_RECURSION_LIMIT)],
}


def _config_type(configurable: Mapping[str, object]) -> TypeAdapter[dict[str, object]]:
    """The type of a run's `config`, with these fields of its `configurable`."""
    return TypeAdapter(only({**CONFIG, "configurable": only(configurable)}))


_CONFIG = _config_type(CONFIGURABLE)
_OPERATORS_CONFIG = _config_type(OPERATORS_CONFIGURABLE)
_METADATA = TypeAdapter(Metadata)
_AFTER = TypeAdapter[float](Annotated[Number, Field(ge=0, le=MAX_AFTER_SECONDS)])
_CONTEXT_FIELDS = get_type_hints(identity.Context)
_CONTEXT = TypeAdapter[dict[str, object]](
    with_config(ConfigDict(extra="forbid"))(TypedDict("Context", _CONTEXT_FIELDS, total=False))  # type: ignore[operator]
)


def operators_field(fields: Mapping[str, object]) -> str | None:
    """Why a run with these fields is refused to people; None if it is not."""
    for name in OPERATORS_FIELDS:
        if fields.get(name):
            return f"{name} is for operators; leave it out."
    return None


def rebuild_run(value: RunRequest, *, operator: bool) -> None:
    """Rebuild `metadata` of a run's request, and of its `kwargs` `command`, `context`, `config`.

    `operator` says whether an operator sent it. Raises `HTTPException` 422, or 403 for operators'
    fields.
    """
    kwargs = value["kwargs"]
    config = kwargs["config"]
    command = kwargs.get("command") or {}
    context = kwargs.get("context") or {}
    feedback_keys = kwargs.get("feedback_keys") or ()
    after_seconds = value.get("after_seconds") or 0
    if not operator:
        _check_operators_fields(kwargs, command)
    if len(feedback_keys) > MAX_FEEDBACK_KEYS:
        raise HTTPException(422, f"feedback_keys has more than {MAX_FEEDBACK_KEYS}.")
    checked(_AFTER, after_seconds, "after_seconds")
    kwargs["context"] = _rebuilt_context(context, config)
    if command:
        kwargs["command"] = _rebuilt_command(command)
    rebuild(value["metadata"], _METADATA, "metadata")
    rebuild_config(config, operator=operator)


def _check_operators_fields(kwargs: RunKwargs, command: Mapping[str, object]) -> None:
    """Raise `HTTPException` 403 for fields of a run that only operators may send."""
    reason = operators_field(kwargs)
    if reason:
        raise HTTPException(403, reason)
    if not isinstance(command.get("goto"), str | None):  # each of several jumps is a task at once
        raise HTTPException(403, "A command.goto of more than a node's name is for operators.")


def _rebuilt_context(
    context: Mapping[str, object], config: Mapping[str, object]
) -> dict[str, object]:
    """The context of a run, with the keys of the owner at least (None where it names nobody).

    Without a context in the request the platform passes a copy of `configurable`: its other fields
    are nobody's mistake, and are dropped. The owner's keys are always set, so that an assistant's
    context cannot name a person for a run.
    """
    configurable = config.get("configurable")
    is_marked = isinstance(configurable, Mapping) and _CONTEXT_MARK in configurable
    is_clients = is_marked and _CONTEXT_MARK not in context
    fields = dict[str, object]()
    for name, value in context.items():
        if is_clients or name in _CONTEXT_FIELDS:
            fields[name] = value
    nobody = dict.fromkeys(OWNER_KEYS)
    checked_fields = checked(_CONTEXT, fields, "context")
    return {**nobody, **checked_fields}


def _rebuilt_command(command: Mapping[str, object]) -> dict[str, object] | None:
    """The known fields of a command. None without any: langgraph fails at an empty command."""
    fields = dict[str, object]()
    for name, value in command.items():
        if name in ("resume", "update", "goto") and value is not None:
            fields[name] = value
    if not fields:
        return None
    return fields


def rebuild_config(config: MutableMapping[str, object], *, operator: bool) -> None:
    """Rebuild the `config` of a run or an operator's cron, in place.

    Raises `HTTPException` 422 if a field is invalid.
    """
    config_type = _CONFIG
    if operator:
        config_type = _OPERATORS_CONFIG
    rebuild(config, config_type, "config")


def rebuild_thread_metadata(
    metadata: MutableMapping[str, object], agents: Collection[str], *, new: bool
) -> None:
    """Rebuild a thread's metadata in place. Raises `HTTPException` 422 if a field is invalid.

    A `new` thread may name one of these agents, and be temporary.
    """
    is_temporary = metadata.get(TEMPORARY) is True
    graph_id = metadata.get("graph_id")
    rebuild(metadata, _METADATA, "metadata")
    if new and is_temporary:
        metadata[TEMPORARY] = True
    if new and graph_id in agents:
        metadata["graph_id"] = graph_id
