"""Marks beside a message's words: when it was said, and that an operator wrote it for somebody.

What a client sends of those that only the server and the agent write is dropped before the server
writes its own. Messages are changed in place.
"""

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime

from lasting_memory import days, sent_content
from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.message_forms import as_list, parsed_message
from lasting_memory.auth.state_messages import change_messages
from lasting_memory.people.identity import SPOKEN_FOR


def drop_server_marks(messages: object) -> None:
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
    if not isinstance(fields, Mapping) or key not in fields:
        return
    other_fields = dict(fields)
    del other_fields[key]
    message[field] = other_fields


def _flatten(message: MutableMapping[str, object]) -> None:
    """Give a message in langchain's serialized form the form that all others have, in place.

    What langchain cannot read stays as it is.
    """
    serialized_fields = _serialized_fields(message)
    if serialized_fields is None:
        return
    flat_message = dict[str, object]()
    while serialized_fields is not None:
        flat_message = {"type": "", **serialized_fields}
        serialized_fields = _serialized_fields(flat_message)
    try:
        parsed = parsed_message(dict(message))
    except Exception:  # noqa: BLE001  # it raises whatever it comes across; `check_messages` says so
        return
    flat_message.pop("role", None)
    message.clear()
    message.update(flat_message, type=parsed.type)


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


def stamp_messages(kwargs: RunState) -> None:
    """Stamp each message of a rebuilt `input`, and of `command.update`, with the present time, in
    place: it is said now.
    """
    now = datetime.now(UTC)
    time = now.isoformat(timespec="seconds")

    def with_time(messages: list[object]) -> list[object]:
        return [days.stamped(message, time) for message in messages]

    command = kwargs.get("command")
    change_messages(kwargs, "input", with_time)
    change_messages(command, "update", with_time)


def mark_spoken_for(kwargs: RunState) -> None:
    """Mark each stamped message of a rebuilt `input`, and of `command.update`, in place, as written
    by an operator who acts for somebody else.
    """

    def with_marks(messages: list[object]) -> list[object]:
        return [_with_spoken_for(message) for message in messages]

    command = kwargs.get("command")
    change_messages(kwargs, "input", with_marks)
    change_messages(command, "update", with_marks)


def _with_spoken_for(message: object) -> object:
    """A copy of a stamped message with the mark; any other value as it is."""
    if not isinstance(message, Mapping):
        return message
    marks = message.get("additional_kwargs")
    if not isinstance(marks, Mapping):
        return message
    return {**message, "additional_kwargs": {**marks, SPOKEN_FOR: True}}
