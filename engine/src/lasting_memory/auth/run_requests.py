"""What of a request reaches a run: only the fields listed here, with their types, within their
bounds.

A deny-list cannot keep up: langgraph copies every unknown key of a run's `config` into
`configurable`, over the platform's own values, so `{"config": {"thread_id": ...}}` would run on
anybody's thread. So `auth.py` rebuilds each request before the run or thread exists. The platform
continues with the objects that it gave to its handlers, so they are changed in place. It writes its
stamps (identity, thread, assistant, graph) afterwards.

docs/security.md gives the reason for each decision. Tests compare the lists with the platform's
code: a field of a new version needs a decision.
"""

import reprlib
from collections.abc import Collection, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Annotated, Any, get_type_hints
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langgraph_sdk import Auth
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from lasting_memory import attachments, controls, days, sent_content
from lasting_memory.controls import TEMPORARY
from lasting_memory.people import identity
from lasting_memory.settings import MAX_AFTER_SECONDS

HTTPException = Auth.exceptions.HTTPException

# Keys of the metadata of one run or thread, and characters of each key and value.
MAX_METADATA_KEYS, MAX_METADATA_CHARS = 50, 2_000
# Links for feedback that one run may ask for: each is a call to LangSmith.
MAX_FEEDBACK_KEYS = 10
# Fields of a run that only operators may send. The platform resolves a webhook's host before it
# asks any handler.
OPERATORS_FIELDS = ("interrupt_before", "interrupt_after", "webhook")

OWNER_KEYS = ("user_id", "org_id")
# On a run: the verified claims with which it began, for routes that are a group's, and when the
# token expires that proved them.
GROUP_CLAIMS, GROUP_CLAIMS_EXPIRE_AT = "group_claims", "group_claims_expire_at"
# Metadata that the platform, langgraph or this project stamps and relies on. A client's value is
# ignored, since clients echo metadata. A test compares the list with the platform's code.
RESERVED_METADATA = {
    *OWNER_KEYS,
    *controls.RUN_METADATA,
    TEMPORARY,
    controls.HELD_WHILE_PAUSED,
    "thread_owner",
    GROUP_CLAIMS,
}
RESERVED_METADATA |= {
    GROUP_CLAIMS_EXPIRE_AT,
    controls.IMPORTED,
    controls.IMPORTED_BEGAN,
    controls.IMPORTED_ENDED,
}
RESERVED_METADATA |= {
    "assistant_id",
    "created_by",
    "cron_id",
    "graph_id",
    "run_attempt",
    "run_id",
    "thread_id",
}
RESERVED_METADATA |= {
    "checkpoint_id",
    "checkpoint_map",
    "checkpoint_ns",
    "counters_since_delta_snapshot",
}
RESERVED_PREFIXES = ("__", "langgraph_", "lc_", "ls_")
# The platform's mark of a run whose request had a context. It strips the mark from clients' input.
_CONTEXT_MARK = "__context_provided__"
# langgraph's key of a value that no reducer sees.
OVERWRITE = "__overwrite__"

Text = Annotated[str, Field(strict=True, max_length=MAX_METADATA_CHARS, pattern=r"^[^\x00]*$")]
Id = Annotated[UUID, AfterValidator(str)]
Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
Scalar = Text | StrictBool | Number | None
Texts = Annotated[list[Text], Field(max_length=MAX_METADATA_KEYS)]


def reserved(key: object) -> bool:
    """Whether clients may not set a key of metadata."""
    return key not in controls.setting.get() and (
        key in RESERVED_METADATA or str(key).startswith(RESERVED_PREFIXES)
    )


def _own(given: object) -> object:
    """Metadata without what clients may not set. Only A2A's routes send an object: the ids of its
    tasks.
    """
    if not isinstance(given, Mapping):
        return {} if given is None else given
    own = {key: of for key, of in given.items() if not reserved(key)}
    if any(isinstance(of, Mapping) for key, of in own.items() if key != "a2a"):
        raise ValueError("send texts, numbers and booleans")
    if not isinstance(
        given.get(TEMPORARY), bool | None
    ):  # else somebody's conversation would be remembered unawares
        raise ValueError("temporary: send true, or leave it out")  # noqa: TRY004  # pydantic names the field
    return own


_A2A = Annotated[dict[Text, Scalar | Texts], Field(max_length=MAX_METADATA_KEYS)]
Metadata = Annotated[
    dict[Text, Scalar | _A2A], BeforeValidator(_own), Field(max_length=MAX_METADATA_KEYS)
]


def _given(value: object) -> object:
    return (
        {key: of for key, of in value.items() if of is not None}
        if isinstance(value, Mapping)
        else value
    )


def _only(fields: Mapping[str, Any]) -> Any:
    """The type of an object of which these fields are kept, if they are given: other fields and
    nulls are dropped.
    """
    return Annotated[TypedDict("Fields", dict(fields), total=False), BeforeValidator(_given)]  # type: ignore[operator]


# The platform has put its own fields there already, or may have: they have types, too.
CONFIGURABLE: Mapping[str, Any] = {
    # Checkpoints of the run's own thread: the platform writes the thread's id last.
    "checkpoint_id": Id,
    "checkpoint_ns": Text,
    "checkpoint_map": dict[Text, Id],
    **dict.fromkeys(
        ("langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"), Any
    ),
    "langgraph_request_id": Text,
    "__event_streaming_v2": StrictBool,
    **dict.fromkeys(("__request_start_time_ms__", "__after_seconds__"), Number),
    **dict.fromkeys(("__otel_traceparent__", "__otel_tracestate__"), Text),
    "__dd_trace_headers__": dict[Text, Text],
}
# Highest `recursion_limit` that a run may ask for.
MAX_RECURSION_LIMIT = 10_000
# Of an operator's cron, and of the destination of an operator's traces.
OPERATORS_CONFIGURABLE: Mapping[str, Any] = {
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
CONFIG: Mapping[str, Any] = {
    "tags": Texts,
    "metadata": Metadata,
    "recursion_limit": Annotated[int, Field(strict=True, ge=1, le=MAX_RECURSION_LIMIT)],
}
_CONFIGS = {
    operator: TypeAdapter[Any](_only({**CONFIG, "configurable": _only(of)}))
    for operator, of in ((False, CONFIGURABLE), (True, OPERATORS_CONFIGURABLE))
}
_METADATA = TypeAdapter[Any](Metadata)
_AFTER = TypeAdapter[Any](Annotated[Number, Field(ge=0, le=MAX_AFTER_SECONDS)])
_CONTEXT_FIELDS = get_type_hints(identity.Context)
_CONTEXT = TypeAdapter[Any](
    with_config(ConfigDict(extra="forbid"))(TypedDict("Context", _CONTEXT_FIELDS, total=False))  # type: ignore[operator]
)


def operators_field(fields: Mapping[str, Any]) -> str | None:
    """Why a run with these fields is refused to people; None if it is not."""
    for name in OPERATORS_FIELDS:
        if fields.get(name):
            return f"{name} is for operators; leave it out."
    return None


def _readable(messages: object) -> object:
    """Messages of a request, as they are. Raises `ValueError` for the first that langchain cannot
    read or may not be sent.
    """
    pictures = 0
    for number, message in enumerate(messages if isinstance(messages, list) else [messages]):
        try:
            (read,) = convert_to_messages([message])
        except Exception:  # noqa: BLE001  # it raises whatever it comes across; the run would fail with that
            raise ValueError(
                f'number {number} is no message; send {{"role": "user", "content": "..."}}'
            ) from None
        if (
            problem := _unreadable(message)
            or _unreadable_content(read.content)
            or _unwanted_block(read)
        ):
            raise ValueError(f"message number {number}: {problem}")
        pictures += sum(1 for _ in attachments.pictures_in(read.content))
        if pictures > attachments.MAX_PICTURES:
            raise ValueError(
                f"there are more than {attachments.MAX_PICTURES} pictures; send the others with the next message"
            )
    return messages


def _unwanted_block(message: BaseMessage) -> str:
    """Which block of a message is nothing that may be sent to a model, and why; "" if none."""
    of_person = not isinstance(message, AIMessage | ToolMessage)
    for number, block in enumerate(message.content):
        if isinstance(block, Mapping) and (
            reason := attachments.refusal(block, of_person=of_person)
        ):
            return f"block {number} of its content {reason}"
    return ""


def _unreadable(message: object) -> str:
    """What of a message, as it was sent, graphs and models could not read, though langchain takes
    it; "" if nothing.
    """
    if isinstance(message, list | tuple):  # a role, and the content
        return _unreadable_content(message[-1])
    if not isinstance(message, Mapping):
        return ""
    for name in ("id", "name", "tool_call_id"):
        if not isinstance(message.get(name), str | None):
            return f"its {name} is no text"
    return _unreadable_content(message.get("content"))


def _unreadable_content(content: object) -> str:
    """The same of a message's content, which is text, or a list of texts and objects. Null is no
    content.
    """
    if isinstance(content, str | None):
        return ""
    if not isinstance(content, list):
        return "its content is neither text nor a list"
    for number, block in enumerate(content):
        if isinstance(block, str):
            continue
        if not isinstance(block, Mapping):
            return f"block {number} of its content is neither text nor an object"
        if not isinstance(block.get("type"), str):
            return f"block {number} of its content has no type that is text"
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            return (
                f'block {number} of its content has no text; send {{"type": "text", "text": "..."}}'
            )
    return ""


def _merged(files: dict[str, Any]) -> dict[str, Any]:
    """Files that are merged into those of the thread. Raises `ValueError` for langgraph's order to
    put them in their place.
    """
    if OVERWRITE in files:
        raise ValueError(f"{OVERWRITE} is no path")
    return files


# Fields of the graphs' state which a value of another type would break: the run would fail, and
# could not say why. A field that is not here is ignored by the graphs, or has a reducer that takes
# anything. A fork's own pass.
_STATE_FIELDS: Mapping[str, Any] = {
    "messages": Annotated[Any, AfterValidator(_readable)],
    "files": Annotated[dict[str, Any], AfterValidator(_merged)],
}
_STATE = TypeAdapter[Any](
    with_config(ConfigDict(extra="allow"))(TypedDict("State", dict(_STATE_FIELDS), total=False))  # type: ignore[operator]
)
_PAIRS = TypeAdapter[Any](list[tuple[str, Any]])


def rebuild_state(kwargs: MutableMapping[str, Any]) -> None:
    """Rebuild `input`, and check `command.update`: both go into the graph's state. Raises
    `HTTPException` 422.

    It reads every message: call it outside of the event loop.
    """
    given = kwargs.get("input")
    if isinstance(given, Mapping):
        given = {
            name: of for name, of in given.items() if of is not None or name not in _STATE_FIELDS
        }
        kwargs["input"] = given
    if given is not None:
        _check_state(given, "input")
    _check_update(kwargs.get("command") or {})


def stamp_messages(kwargs: Mapping[str, Any]) -> None:
    """Stamp each message of a rebuilt `input`, and of `command.update`, with the present time: it
    was said now.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    command = kwargs.get("command") or {}
    update = command.get("update")
    for given in (kwargs.get("input"), update):
        if isinstance(given, dict) and given.get("messages") is not None:
            given["messages"] = _stamped(given["messages"], now)
    if isinstance(update, list):  # pairs of a field and its value
        command["update"] = [
            [pair[0], _stamped(pair[1], now)] if len(pair) == 2 and pair[0] == "messages" else pair  # noqa: PLR2004
            for pair in update
        ]


def _stamped(messages: object, at: str) -> list[object]:
    return [
        days.stamped(message, at)
        for message in (messages if isinstance(messages, list) else [messages])
    ]


def check_state_write(body: object) -> None:
    """Hold what a request writes into a thread's state, or into that of a new one, to the rule of a
    run's input.

    `body` is that of `POST /threads/{thread_id}/state`, or of `POST /threads` with `supersteps`.
    Raises `HTTPException` 422. It reads every message: call it outside of the event loop.
    """
    if not isinstance(body, Mapping):  # the platform answers that
        return
    _check_values(body.get("values"), "values")
    for step in _mappings(body.get("supersteps")):
        for update in _mappings(step.get("updates")):
            _check_values(update.get("values"), "supersteps.updates.values")
            command = update.get("command")
            _check_update(command if isinstance(command, Mapping) else {})


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _check_values(values: object, where: str) -> None:
    for some in values if isinstance(values, list) else [values]:
        if some is not None:
            _check_state(some, where)


def _check_update(command: Mapping[str, Any]) -> None:
    update = command.get("update")
    if update is None:
        return
    if update in ({}, []) and command.get("resume") is None and not command.get("goto"):
        raise HTTPException(
            422, "command.update is empty, and there is nothing beside it; leave the command out."
        )
    if not isinstance(update, list):
        _check_state(update, "command.update")
        return
    for name, of in _checked(_PAIRS, update, "command.update"):  # as the platform also takes it
        _check_state({name: of}, "command.update")


def _check_state(given: object, where: str) -> None:
    """Raise `HTTPException` 422 for fields of the state that would break a run. Drops cache marks
    from its messages.
    """
    if isinstance(given, Mapping):
        _drop_cache_marks(given.get("messages"))
    _checked(_STATE, given, where)
    if not isinstance(given, Mapping):
        return
    for name, value in given.items():
        items = value if isinstance(value, list) else [value]
        if name != "messages" and any(_is_half_a_message(item) for item in items):
            raise HTTPException(
                422,
                f"{where}.{str(name)[:100]} has a role or a type that is no text; leave that out.",
            )


def _drop_cache_marks(messages: object) -> None:
    """Take a client's cache marks out of messages, in place: with the agent's own, a provider would
    count too many.
    """
    for message in messages if isinstance(messages, list) else [messages]:
        content = message
        if isinstance(message, MutableMapping):
            message.pop(sent_content.CACHE_MARK, None)
            content = message.get("content")
        elif isinstance(message, list | tuple) and message:  # a role, and the content
            content = message[-1]
        if isinstance(content, list):
            content[:] = sent_content.without_cache_marks(content)


def _is_half_a_message(item: object) -> bool:
    """Whether langgraph, which looks for messages in any field, would fail at this."""
    if not isinstance(item, Mapping):
        return False
    return any(not isinstance(item.get(key), str | None) for key in ("role", "type"))


def rebuild_run(value: MutableMapping[str, Any], *, operator: bool) -> None:
    """Rebuild `metadata`, and of `kwargs` `command`, `context`, `config`. Raises 422, or 403 for
    operators' fields.
    """
    kwargs, config = value["kwargs"], value["kwargs"]["config"]
    command = kwargs.get("command") or {}
    if not operator:
        if reason := operators_field(kwargs):
            raise HTTPException(403, reason)
        if not isinstance(
            command.get("goto"), str | None
        ):  # each of several jumps is a task at once
            raise HTTPException(403, "A command.goto of more than a node's name is for operators.")
    if len(kwargs.get("feedback_keys") or ()) > MAX_FEEDBACK_KEYS:
        raise HTTPException(422, f"feedback_keys has more than {MAX_FEEDBACK_KEYS}.")
    _checked(_AFTER, value.get("after_seconds") or 0, "after_seconds")
    # Without a context in the request the platform passes a copy of `configurable`: its other
    # fields are nobody's mistake.
    given = kwargs.get("context") or {}
    told = _CONTEXT_MARK in (config.get("configurable") or {}) and _CONTEXT_MARK not in given
    # Both keys are always set, so that an assistant's context cannot name a person for a run.
    context = {name: of for name, of in given.items() if told or name in _CONTEXT_FIELDS}
    kwargs["context"] = {**dict.fromkeys(OWNER_KEYS), **_checked(_CONTEXT, context, "context")}
    if command:
        named = ("resume", "update", "goto")
        # langgraph fails at a command in which nothing is named.
        kwargs["command"] = {
            name: of for name, of in command.items() if name in named and of is not None
        } or None
    _rebuild(value["metadata"], _METADATA, "metadata")
    rebuild_config(config, operator=operator)


def rebuild_config(config: MutableMapping[str, Any], *, operator: bool) -> None:
    """Rebuild the `config` of a run or an operator's cron. Raises `HTTPException` 422 if a field is
    invalid.
    """
    _rebuild(config, _CONFIGS[operator], "config")


def rebuild_thread_metadata(
    metadata: MutableMapping[str, Any], agents: Collection[str], *, new: bool
) -> None:
    """Rebuild metadata in place. A new thread may name one of these agents, and be temporary.
    Raises `HTTPException` 422.
    """
    marks: dict[str, Any] = {TEMPORARY: True} if metadata.get(TEMPORARY) is True else {}
    marks |= {"graph_id": graph} if (graph := metadata.get("graph_id")) in agents else {}
    _rebuild(metadata, _METADATA, "metadata", **(marks if new else {}))


def _checked(kind: TypeAdapter[Any], given: object, where: str) -> Any:
    try:
        return kind.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part)[:100] for part in (where, *first["loc"]))
        raise HTTPException(
            422, f"{path} is {reprlib.repr(first['input'])}: {first['msg']}."
        ) from None


def _rebuild(
    target: MutableMapping[str, Any], kind: TypeAdapter[Any], where: str, **marks: Any
) -> None:
    kept = {**_checked(kind, target, where), **marks}
    target.clear()
    target.update(kept)
