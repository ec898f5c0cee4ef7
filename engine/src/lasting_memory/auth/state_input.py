"""What of a request reaches a graph's state: messages and files of a shape that graphs can read.

It comes as `input` and `command.update` of a run, and as a state update or supersteps of a thread.
A value of another shape would break the run, which could not say why. A message is one in any form
that langchain takes: an object, a pair of a role and content, a text.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Annotated

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph_sdk import Auth
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from lasting_memory import attachments, days, sent_content
from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.message_forms import as_list, parsed_message
from lasting_memory.auth.request_fields import checked
from lasting_memory.people.identity import SPOKEN_FOR

HTTPException = Auth.exceptions.HTTPException

# langgraph's key of a value that no reducer sees.
OVERWRITE = "__overwrite__"


def rebuild_state(kwargs: RunState) -> None:
    """Rebuild a run's `input`, and check its `command.update`: both go into the graph's state.

    Raises `HTTPException` 422. It reads every message: call it outside of the event loop.
    """
    state = kwargs.get("input")
    if isinstance(state, Mapping):
        state = _without_null_fields(state)
        kwargs["input"] = state
    if state is not None:
        _check_state(state, "input")
    command = kwargs.get("command") or {}
    _check_update(command)


def _without_null_fields(state: Mapping[str, object]) -> dict[str, object]:
    """The state, without those fields of the graphs that are null."""
    fields = dict[str, object]()
    for name, value in state.items():
        is_null = value is None and name in _STATE_FIELDS
        if not is_null:
            fields[name] = value
    return fields


def stamp_messages(kwargs: RunState) -> None:
    """Stamp each message of a rebuilt `input`, and of `command.update`, with the present time, in
    place: it is said now.
    """
    now = datetime.now(UTC)
    time = now.isoformat(timespec="seconds")

    def stamped(messages: list[object]) -> list[object]:
        return [days.stamped(message, time) for message in messages]

    command = kwargs.get("command")
    change_messages(kwargs, "input", stamped)
    change_messages(command, "update", stamped)


def mark_spoken_for(kwargs: RunState) -> None:
    """Mark each stamped message of a rebuilt `input`, and of `command.update`, in place, as written
    by an operator who acts for somebody else.
    """

    def marked(messages: list[object]) -> list[object]:
        return [_marked_as_spoken_for(message) for message in messages]

    command = kwargs.get("command")
    change_messages(kwargs, "input", marked)
    change_messages(command, "update", marked)


def _marked_as_spoken_for(message: object) -> object:
    """A copy of a stamped message with the mark; any other value as it is."""
    if not isinstance(message, Mapping):
        return message
    additional = message.get("additional_kwargs")
    if not isinstance(additional, Mapping):
        return message
    marked = {**additional, SPOKEN_FOR: True}
    return {**message, "additional_kwargs": marked}


def change_messages(
    holder: object, field: str, change: Callable[[list[object]], list[object]]
) -> None:
    """Change the messages of the state in a field of this holder, in place.

    `change` gets the messages and returns those in their place. The state is an object, a list of
    such, or a list of pairs of a field and its value. Any other value has no messages.
    """
    if not isinstance(holder, Mapping):
        return
    state = holder.get(field)
    for part in as_list(state):
        if not isinstance(part, MutableMapping):
            continue
        messages = part.get("messages")
        if messages is not None:
            part["messages"] = change(as_list(messages))
    if isinstance(state, list) and isinstance(holder, MutableMapping):
        holder[field] = [_with_changed_messages(part, change) for part in state]


def _with_changed_messages(part: object, change: Callable[[list[object]], list[object]]) -> object:
    """The pair of the field `messages` and its value, with the messages changed.

    Any other part of a state is returned as it is.
    """
    match part:
        case ["messages", messages]:
            changed = change(as_list(messages))
            return ["messages", changed]
        case _:
            return part


def state_holders(body: object) -> Iterator[tuple[Mapping[str, object], str]]:
    """Where the states are in the body of a request that writes a thread's state.

    Each place is an object and the name of its field. `body` is as for `check_state_write`; one that
    is no object has none.
    """
    if not isinstance(body, Mapping):
        return
    yield body, "values"
    for update in _superstep_updates(body):
        yield update, "values"
        command = update.get("command")
        if isinstance(command, Mapping):
            yield command, "update"


def _superstep_updates(body: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The updates of all `supersteps`, in order. What has another shape is left out."""
    supersteps = body.get("supersteps")
    for step in _mappings(supersteps):
        updates = step.get("updates")
        yield from _mappings(updates)


def check_state_write(body: object) -> None:
    """Check what a request writes into a thread's state by the rules for a run's input.

    `body` is that of `POST /threads/{thread_id}/state`, or of `POST /threads` with `supersteps`.
    Takes what only the server writes out of its messages, in place. Raises `HTTPException` 422. It
    reads every message: call it outside of the event loop.
    """
    if not isinstance(body, Mapping):  # the platform answers that
        return
    values = body.get("values")
    _check_states(values, "values")
    for update in _superstep_updates(body):
        update_values = update.get("values")
        _check_states(update_values, "supersteps.updates.values")
        command = update.get("command")
        if isinstance(command, Mapping):
            _check_update(command)


def _mappings(items: object) -> list[Mapping[str, object]]:
    """The objects in a list; none if this is no list."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def _check_states(values: object, where: str) -> None:
    """Check a state, or each state of a list. Null is no state. Raises as `_check_state`."""
    for state in as_list(values):
        if state is not None:
            _check_state(state, where)


def _check_update(command: Mapping[str, object]) -> None:
    """Raise `HTTPException` 422 for an update of a command that would break a run."""
    update = command.get("update")
    if update is None:
        return
    is_only_update = command.get("resume") is None and not command.get("goto")
    if update in ({}, []) and is_only_update:
        raise HTTPException(
            422, "command.update is empty, and there is nothing beside it; leave the command out."
        )
    if not isinstance(update, list):
        _check_state(update, "command.update")
        return
    # Pairs of a field and its value, as the platform also takes it.
    pairs = checked(_PAIRS, update, "command.update")
    for name, value in pairs:
        _check_state({name: value}, "command.update")


def _check_state(state: object, where: str) -> None:
    """Raise `HTTPException` 422 for fields of the state that would break a run.

    Takes what only the server writes out of its messages, in place. `where` is the field of the
    request that the answer names.
    """
    if isinstance(state, Mapping):
        messages = state.get("messages")
        _drop_server_marks(messages)
    checked(_STATE, state, where)
    if not isinstance(state, Mapping):
        return
    for name, value in state.items():
        if name == "messages":
            continue
        items = as_list(value)
        if any(_is_half_a_message(item) for item in items):
            shown_name = str(name)[:100]
            raise HTTPException(
                422,
                f"{where}.{shown_name} has a role or a type that is no text; leave that out.",
            )


def _drop_server_marks(messages: object) -> None:
    """Take out of messages, in place, what only the server and the agent write there.

    These are the time at which something was said, notes of media that were refused, and marks of
    what a provider caches: with the agent's own beside them it would count too many.
    """
    for message in as_list(messages):
        content = message
        if isinstance(message, MutableMapping):
            _flatten(message)
            message.pop(sent_content.CACHE_MARK, None)
            message.pop(days.SAID_AT, None)
            _drop_key(message, "additional_kwargs", days.SAID_AT)
            _drop_key(message, "response_metadata", sent_content.REFUSED_MEDIA)
            content = message.get("content")
        elif isinstance(message, list | tuple) and message:  # a role, and the content
            content = message[-1]
        if isinstance(content, list):
            content[:] = as_list(sent_content.without_cache_marks(content))


def _drop_key(message: MutableMapping[str, object], field: str, key: str) -> None:
    """Take a key out of a message's field that is an object. The object itself is not changed."""
    fields = message.get(field)
    if not isinstance(fields, Mapping):
        return
    if key in fields:
        fields = dict(fields)
        del fields[key]
        message[field] = fields


def _flatten(message: MutableMapping[str, object]) -> None:
    """Give a message in langchain's serialized form the form that all others have, in place.

    What langchain cannot read stays as it is.
    """
    serialized_fields = _serialized_fields(message)
    if serialized_fields is None:
        return
    flat = dict[str, object]()
    while serialized_fields is not None:
        flat = {"type": "", **serialized_fields}
        serialized_fields = _serialized_fields(flat)
    try:
        parsed = parsed_message(dict(message))
    except Exception:  # noqa: BLE001  # it raises whatever it comes across; `_check_messages` says so
        return
    flat.pop("role", None)
    message.clear()
    message.update(flat, type=parsed.type)


def _serialized_fields(message: Mapping[str, object]) -> dict[str, object] | None:
    """A message's `kwargs`, where langchain looks for its fields; None if it looks elsewhere."""
    if message.get("lc") != 1 or message.get("type") != "constructor":
        return None
    class_path = message.get("id")
    if not isinstance(class_path, list) or not class_path:
        return None
    fields = message.get("kwargs")
    if not isinstance(fields, dict):
        return None
    return fields


def _is_half_a_message(item: object) -> bool:
    """Whether langgraph, which looks for messages in any field, would fail at this."""
    if not isinstance(item, Mapping):
        return False
    has_role = isinstance(item.get("role"), str | None)
    has_type = isinstance(item.get("type"), str | None)
    return not (has_role and has_type)


# --- Messages and files


def _check_messages(messages: object) -> object:
    """Check the messages of a request, and return them as they are, as pydantic wants it.

    Raises `ValueError` for the first that langchain cannot read, or that may not be sent.
    """
    pictures = 0
    for number, sent in enumerate(as_list(messages)):
        try:
            parsed = parsed_message(sent)
        except Exception:  # noqa: BLE001  # it raises whatever it comes across; the run would fail with that
            raise ValueError(
                f'number {number} is no message; send {{"role": "user", "content": "..."}}'
            ) from None
        problem = _problem_of(sent, parsed)
        if problem:
            raise ValueError(f"message number {number}: {problem}")
        pictures += len(list(attachments.pictures_in(parsed.content)))
        if pictures > attachments.MAX_PICTURES:
            raise ValueError(
                f"there are more than {attachments.MAX_PICTURES} pictures; send the others with the next message"
            )
    return messages


def _problem_of(sent: object, parsed: BaseMessage) -> str:
    """What of a message may not be sent, or could not be read; "" if nothing.

    `sent` is the message as the client sent it, `parsed` as langchain reads it.
    """
    problem = _problem_of_fields(sent)
    if not problem:
        problem = _problem_of_content(parsed.content)
    if not problem:
        problem = _refused_block(parsed)
    return problem


def _refused_block(message: BaseMessage) -> str:
    """Which block of a message may not be sent to a model, and why; "" if none."""
    of_person = not isinstance(message, AIMessage | ToolMessage)
    for number, block in enumerate(message.content):
        if not isinstance(block, Mapping):
            continue
        reason = attachments.refusal(block, of_person=of_person)
        if reason:
            return f"block {number} of its content {reason}"
    return ""


def _problem_of_fields(message: object) -> str:
    """What of a message, as it was sent, graphs and models could not read; "" if nothing.

    langchain takes it all the same.
    """
    if isinstance(message, list | tuple):  # a role, and the content
        return _problem_of_content(message[-1])
    if not isinstance(message, Mapping):
        return ""
    for name in ("id", "name", "tool_call_id"):
        value = message.get(name)
        if not isinstance(value, str | None):
            return f"its {name} is no text"
    content = message.get("content")
    return _problem_of_content(content)


def _problem_of_content(content: object) -> str:
    """What of a message's content graphs and models could not read; "" if nothing.

    Content is text, or a list of texts and objects. Null is no content.
    """
    if isinstance(content, str | None):
        return ""
    if not isinstance(content, list):
        return "its content is neither text nor a list"
    for number, block in enumerate(content):
        problem = _problem_of_block(block)
        if problem:
            return f"block {number} of its content {problem}"
    return ""


def _problem_of_block(block: object) -> str:
    """What of a block of content graphs and models could not read; "" if nothing."""
    if isinstance(block, str):
        return ""
    if not isinstance(block, Mapping):
        return "is neither text nor an object"
    kind = block.get("type")
    if not isinstance(kind, str):
        return "has no type that is text"
    if kind == "text" and not isinstance(block.get("text"), str):
        return 'has no text; send {"type": "text", "text": "..."}'
    return ""


def _check_files(files: dict[str, object]) -> dict[str, object]:
    """Check the files of a request, and return them as they are: they are merged into the thread's.

    Raises `ValueError` for langgraph's order to put them in place of the thread's.
    """
    if OVERWRITE in files:
        raise ValueError(f"{OVERWRITE} is no path")
    return files


# Fields of the graphs' state which a value of another type would break. A field that is not here is
# ignored by the graphs, or has a reducer that takes anything. A fork's own pass.
_STATE_FIELDS: Mapping[str, object] = {
    "messages": Annotated[object, AfterValidator(_check_messages)],
    "files": Annotated[dict[str, object], AfterValidator(_check_files)],
}
_STATE = TypeAdapter[dict[str, object]](
    with_config(ConfigDict(extra="allow"))(TypedDict("State", dict(_STATE_FIELDS), total=False))  # type: ignore[operator]
)
_PAIRS = TypeAdapter(list[tuple[str, object]])
