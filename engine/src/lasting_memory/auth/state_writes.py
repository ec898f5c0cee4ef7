"""What a request writes into a thread's state past its runs: messages that the server dates.

What a client writes is said now. A message that the thread has already, with the same words, is an
echo: it keeps the time and the marks that the thread's own has. A sent message is one that a
request writes, a stored message one of its thread.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from langchain_core.messages import BaseMessage
from langgraph_sdk.errors import APIStatusError

from lasting_memory import days, platform
from lasting_memory.auth.message_forms import parsed_message, parsed_messages
from lasting_memory.auth.message_substance import Substance, substance_of
from lasting_memory.auth.state_input import check_state_write
from lasting_memory.auth.state_messages import change_messages, state_holders
from lasting_memory.auth.thread_messages import messages_at, messages_in
from lasting_memory.platform import get_client
from lasting_memory.sent_content import REFUSED_MEDIA, refused_media_of

# Digits of a number that Python reads fast.
_MAX_DIGITS = 400


async def rebuilt_state_write(body: bytes, thread_id: str) -> bytes:
    """The body of a request that writes a thread's state, its messages as the server dates them.

    `thread_id` is "" where the request makes the thread. Raises `HTTPException` 422 for state that
    would break a run. What is no JSON passes as it is: the platform answers that.
    """
    try:
        write: object = await platform.in_thread(json.loads, body, parse_int=_number)
    except (ValueError, RecursionError):
        return body
    sent_messages = await platform.in_thread(_checked_messages, write)
    if not sent_messages:
        return body
    may_repeat = any(message.id for message in sent_messages)
    stored_messages = list[object]()
    if thread_id and may_repeat:
        stored_messages = await platform.as_nobody(_stored_messages(thread_id, write))
    return await platform.in_thread(_stamped_body, write, sent_messages, stored_messages)


def _number(digits: str) -> int | float:
    """A whole number of JSON; one that Python would read slowly is only about right."""
    if len(digits) >= _MAX_DIGITS:
        return float(digits)
    return int(digits)


def _checked_messages(write: object) -> list[BaseMessage]:
    """All messages that a request writes. Raises `HTTPException` 422 as `check_state_write`."""
    check_state_write(write)
    sent_messages = list[BaseMessage]()

    def note(messages: list[object]) -> list[object]:
        sent_messages.extend(parsed_messages(messages))
        return messages

    for holder, field in state_holders(write):
        change_messages(holder, field, note)
    return sent_messages


async def _stored_messages(thread_id: str, write: object) -> list[object]:
    """The messages of a thread, and those at the checkpoint after which is written."""
    stored_messages = list[object]()
    with suppress(APIStatusError):  # the platform answers that
        thread = await get_client().threads.get(thread_id)
        stored_messages += messages_in(thread["values"])
        checkpoint_id = _checkpoint_of(write)
        if checkpoint_id:
            stored_messages += await messages_at(thread_id, str(checkpoint_id))
    return stored_messages


def _checkpoint_of(write: object) -> object:
    """The id of the checkpoint after which a request writes; empty if it names none."""
    if not isinstance(write, Mapping):
        return None
    checkpoint = write.get("checkpoint")
    if isinstance(checkpoint, Mapping):
        checkpoint_id = checkpoint.get("checkpoint_id")
        if checkpoint_id:
            return checkpoint_id
    return write.get("checkpoint_id")


def _stamped_body(
    write: object, sent_messages: Sequence[BaseMessage], stored_messages: Sequence[object]
) -> bytes:
    """The body of the request, with all messages that it writes stamped."""
    now = datetime.now(UTC)
    time = now.isoformat(timespec="seconds")
    sent_ids = {message.id for message in sent_messages}
    stored_by_id = _stored_by_id(stored_messages, sent_ids)

    def with_marks(messages: list[object]) -> list[object]:
        return [_stamped(message, stored_by_id, time) for message in messages]

    for holder, field in state_holders(write):
        change_messages(holder, field, with_marks)
    body = json.dumps(write)
    return body.encode()


class _StoredMessage(NamedTuple):
    """A message of the thread, and what is compared of it."""

    message: Mapping[str, object]
    substance: Substance


def _stored_by_id(
    stored_messages: Sequence[object], sent_ids: set[str | None]
) -> dict[str, list[_StoredMessage]]:
    """The messages of a thread with an id that is sent, too.

    There may be two with one id: at the checkpoint and now.
    """
    stored_by_id = dict[str, list[_StoredMessage]]()
    for message in stored_messages:
        if not isinstance(message, Mapping):
            continue
        message_id = message.get("id")
        if not isinstance(message_id, str) or message_id not in sent_ids:
            continue
        parsed = parsed_message(dict(message))
        same_id_messages = stored_by_id.setdefault(message_id, [])
        same_id_messages.append(_StoredMessage(message, substance_of(parsed)))
    return stored_by_id


def _stamped(
    sent_message: object, stored_by_id: Mapping[str, Sequence[_StoredMessage]], time: str
) -> object:
    """A message with this time, or with the marks of the stored one that it repeats."""
    parsed = parsed_message(sent_message)
    substance = substance_of(parsed)
    message_id = str(parsed.id)
    for stored_message in stored_by_id.get(message_id, ()):
        if stored_message.substance == substance:
            return _with_marks_of(stored_message.message, sent_message)
    return days.stamped(sent_message, time)


def _with_marks_of(stored_message: Mapping[str, object], sent_message: object) -> object:
    """The sent message with the time and the notes of refused media that the stored one has."""
    message = sent_message
    time = days.said_at(stored_message)
    if time:
        message = days.stamped(sent_message, time)
    refused_media = refused_media_of(stored_message.get("response_metadata"))
    if not refused_media or not isinstance(message, Mapping):
        return message
    metadata = dict(message.get("response_metadata") or {})
    metadata[REFUSED_MEDIA] = refused_media
    return {**message, "response_metadata": metadata}
