"""What of a request reaches a graph's state: messages and files of a shape that graphs can read.

It comes as `input` and `command.update` of a run, and as a state update or supersteps of a thread.
A value of another shape would break the run, which could not say why.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langgraph_sdk import Auth
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from lasting_memory import attachments, days, sent_content
from lasting_memory.auth.request_fields import checked
from lasting_memory.people.identity import SPOKEN_FOR

HTTPException = Auth.exceptions.HTTPException

# langgraph's key of a value that no reducer sees.
OVERWRITE = "__overwrite__"


def rebuild_state(kwargs: MutableMapping[str, Any]) -> None:
    """Rebuild a run's `input`, and check its `command.update`: both go into the graph's state.

    Raises `HTTPException` 422. It reads every message: call it outside of the event loop.
    """
    state = kwargs.get("input")
    if isinstance(state, Mapping):
        rebuilt = dict[str, Any]()
        for name, value in state.items():
            if value is not None or name not in _STATE_FIELDS:
                rebuilt[name] = value
        state = rebuilt
        kwargs["input"] = rebuilt
    if state is not None:
        _check_state(state, "input")
    _check_update(kwargs.get("command") or {})


def stamp_messages(kwargs: Mapping[str, Any]) -> None:
    """Stamp each message of a rebuilt `input`, and of `command.update`, with the present time.

    It was said now.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")

    def stamped(messages: list[object]) -> list[object]:
        return [days.stamped(message, now) for message in messages]

    change_messages(kwargs, "input", stamped)
    change_messages(kwargs.get("command"), "update", stamped)


def mark_spoken_for(kwargs: Mapping[str, Any]) -> None:
    """Mark each stamped message of a rebuilt `input`, and of `command.update`, as an operator's, who
    acts for somebody else.
    """

    def marked(messages: list[object]) -> list[object]:
        return [_marked(message) for message in messages]

    change_messages(kwargs, "input", marked)
    change_messages(kwargs.get("command"), "update", marked)


def _marked(message: object) -> object:
    about = message.get("additional_kwargs") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(about, Mapping):
        return message
    return {**message, "additional_kwargs": {**about, SPOKEN_FOR: True}}


def change_messages(
    holder: object, field: str, change: Callable[[list[object]], list[object]]
) -> None:
    """Change the messages of the state in a field of this holder, in place.

    The state is an object, a list of such, or a list of pairs of a field and its value.
    """
    state = holder.get(field) if isinstance(holder, Mapping) else None
    for part in _as_list(state):
        if isinstance(part, MutableMapping) and part.get("messages") is not None:
            part["messages"] = change(_as_list(part["messages"]))
    if isinstance(holder, MutableMapping) and isinstance(state, list):
        holder[field] = [_changed_pair(part, change) for part in state]


def _changed_pair(pair: Any, change: Callable[[list[object]], list[object]]) -> Any:
    """A field of the state and its value, with the messages changed; other values as they are."""
    if isinstance(pair, list | tuple) and len(pair) == 2 and pair[0] == "messages":  # noqa: PLR2004  # the name and the value
        return [pair[0], change(_as_list(pair[1]))]
    return pair


def state_holders(body: object) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Where in the body of a request that writes a thread's state the states are.

    Each is an object and a field of it. `body` is as that of `check_state_write`.
    """
    if not isinstance(body, Mapping):
        return
    yield body, "values"
    for step in _mappings(body.get("supersteps")):
        for update in _mappings(step.get("updates")):
            yield update, "values"
            command = update.get("command")
            if isinstance(command, Mapping):
                yield command, "update"


def check_state_write(body: object) -> None:
    """Hold what a request writes into a thread's state to the rule of a run's input.

    `body` is that of `POST /threads/{thread_id}/state`, or of `POST /threads` with `supersteps`.
    Takes what only the server writes out of its messages, in place. Raises `HTTPException` 422. It
    reads every message: call it outside of the event loop.
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


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_values(values: object, where: str) -> None:
    for state in _as_list(values):
        if state is not None:
            _check_state(state, where)


def _check_update(command: Mapping[str, Any]) -> None:
    """Raise `HTTPException` 422 for an update of a command that would break a run."""
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
    # Pairs of a field and its value, as the platform also takes it.
    for name, value in checked(_PAIRS, update, "command.update"):
        _check_state({name: value}, "command.update")


def _check_state(state: object, where: str) -> None:
    """Raise `HTTPException` 422 for fields of the state that would break a run.

    Takes what only the server writes out of its messages, in place.
    """
    if isinstance(state, Mapping):
        _drop_marks(state.get("messages"))
    checked(_STATE, state, where)
    if not isinstance(state, Mapping):
        return
    for name, value in state.items():
        if name != "messages" and any(_is_half_a_message(item) for item in _as_list(value)):
            raise HTTPException(
                422,
                f"{where}.{str(name)[:100]} has a role or a type that is no text; leave that out.",
            )


def _drop_marks(messages: object) -> None:
    """Take out of messages, in place, what only the server and the agent write there.

    These are the time at which something was said, notes of media that were refused, and marks of
    what a provider caches: with the agent's own beside them it would count too many.
    """
    for message in _as_list(messages):
        content = message
        if isinstance(message, MutableMapping):
            _flatten(message)
            for name in (sent_content.CACHE_MARK, days.SAID_AT):
                message.pop(name, None)
            _drop_key(message, "additional_kwargs", days.SAID_AT)
            _drop_key(message, "response_metadata", sent_content.REFUSED_MEDIA)
            content = message.get("content")
        elif isinstance(message, list | tuple) and message:  # a role, and the content
            content = message[-1]
        if isinstance(content, list):
            content[:] = sent_content.without_cache_marks(content)


def _drop_key(message: MutableMapping[str, Any], field: str, key: str) -> None:
    fields = message.get(field)
    if isinstance(fields, Mapping) and key in fields:
        message[field] = {name: value for name, value in fields.items() if name != key}


def _flatten(message: MutableMapping[str, Any]) -> None:
    """Give a message in langchain's serialized form the form that all others have, in place.

    What langchain cannot read stays as it is.
    """
    flat: Mapping[str, Any] = message
    while _is_serialized(flat):
        flat = {"type": "", **flat["kwargs"]}
    if flat is message:
        return
    try:
        (read,) = convert_to_messages([dict(message)])
    except Exception:  # noqa: BLE001  # it raises whatever it comes across; `_readable` says so
        return
    fields = {name: value for name, value in flat.items() if name != "role"}
    message.clear()
    message.update(fields, type=read.type)


def _is_serialized(message: Mapping[str, Any]) -> bool:
    """Whether langchain looks for a message's fields in its `kwargs`."""
    is_constructor = message.get("lc") == 1 and message.get("type") == "constructor"
    has_class = isinstance(message.get("id"), list) and bool(message["id"])
    return is_constructor and has_class and isinstance(message.get("kwargs"), dict)


def _is_half_a_message(item: object) -> bool:
    """Whether langgraph, which looks for messages in any field, would fail at this."""
    if not isinstance(item, Mapping):
        return False
    return any(not isinstance(item.get(key), str | None) for key in ("role", "type"))


# --- Messages and files


def _readable(messages: object) -> object:
    """Messages of a request, as they are.

    Raises `ValueError` for the first that langchain cannot read, or that may not be sent.
    """
    pictures = 0
    for number, sent in enumerate(_as_list(messages)):
        try:
            (message,) = convert_to_messages([sent])
        except Exception:  # noqa: BLE001  # it raises whatever it comes across; the run would fail with that
            raise ValueError(
                f'number {number} is no message; send {{"role": "user", "content": "..."}}'
            ) from None
        problem = _problem_of(sent, message)
        if problem:
            raise ValueError(f"message number {number}: {problem}")
        pictures += sum(1 for _ in attachments.pictures_in(message.content))
        if pictures > attachments.MAX_PICTURES:
            raise ValueError(
                f"there are more than {attachments.MAX_PICTURES} pictures; send the others with the next message"
            )
    return messages


def _problem_of(sent: object, message: BaseMessage) -> str:
    """What of a message may not be sent, or could not be read; "" if nothing.

    `sent` is the message as it was sent, `message` as langchain reads it.
    """
    return _unreadable(sent) or _unreadable_content(message.content) or _unwanted_block(message)


def _unwanted_block(message: BaseMessage) -> str:
    """Which block of a message is nothing that may be sent to a model, and why; "" if none."""
    of_person = not isinstance(message, AIMessage | ToolMessage)
    for number, block in enumerate(message.content):
        if not isinstance(block, Mapping):
            continue
        reason = attachments.refusal(block, of_person=of_person)
        if reason:
            return f"block {number} of its content {reason}"
    return ""


def _unreadable(message: object) -> str:
    """What of a message, as it was sent, graphs and models could not read; "" if nothing.

    langchain takes it all the same.
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
    """What of a message's content graphs and models could not read; "" if nothing.

    Content is text, or a list of texts and objects. Null is no content.
    """
    if isinstance(content, str | None):
        return ""
    if not isinstance(content, list):
        return "its content is neither text nor a list"
    for number, block in enumerate(content):
        problem = "" if isinstance(block, str) else _unreadable_block(block)
        if problem:
            return f"block {number} of its content {problem}"
    return ""


def _unreadable_block(block: object) -> str:
    if not isinstance(block, Mapping):
        return "is neither text nor an object"
    if not isinstance(block.get("type"), str):
        return "has no type that is text"
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        return 'has no text; send {"type": "text", "text": "..."}'
    return ""


def _merged(files: dict[str, Any]) -> dict[str, Any]:
    """Files that are merged into those of the thread.

    Raises `ValueError` for langgraph's order to put them in place of the thread's.
    """
    if OVERWRITE in files:
        raise ValueError(f"{OVERWRITE} is no path")
    return files


# Fields of the graphs' state which a value of another type would break. A field that is not here is
# ignored by the graphs, or has a reducer that takes anything. A fork's own pass.
_STATE_FIELDS: Mapping[str, Any] = {
    "messages": Annotated[Any, AfterValidator(_readable)],
    "files": Annotated[dict[str, Any], AfterValidator(_merged)],
}
_STATE = TypeAdapter[Any](
    with_config(ConfigDict(extra="allow"))(TypedDict("State", dict(_STATE_FIELDS), total=False))  # type: ignore[operator]
)
_PAIRS = TypeAdapter[Any](list[tuple[str, Any]])
