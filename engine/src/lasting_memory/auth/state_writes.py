"""What a request writes into a thread's state past its runs: messages that the server dates.

What a client writes is said now. A message that the thread has already, with the same words, is an
echo: it keeps the time and the marks that the thread's own has.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph_sdk.errors import APIStatusError

from lasting_memory import days, platform
from lasting_memory.auth import state_input
from lasting_memory.auth.thread_messages import Substance, messages_at, messages_in, substance_of
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
        write = await platform.in_thread(json.loads, body, parse_int=_number)
    except (ValueError, RecursionError):
        return body
    sent = await platform.in_thread(_checked_messages, write)
    if not sent:
        return body
    known = list[Any]()
    if thread_id and any(message.id for message in sent):
        known = await platform.as_nobody(_known_messages(thread_id, write))
    return await platform.in_thread(_stamped_body, write, sent, known)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_DIGITS else float(digits)


def _checked_messages(write: object) -> list[BaseMessage]:
    """All messages that a request writes. Raises `HTTPException` 422 as `check_state_write`."""
    state_input.check_state_write(write)
    sent = list[BaseMessage]()

    def noted(messages: list[object]) -> list[object]:
        sent.extend(convert_to_messages(cast("list[Any]", messages)))
        return messages

    for holder, field in state_input.state_holders(write):
        state_input.change_messages(holder, field, noted)
    return sent


async def _known_messages(thread_id: str, write: Mapping[str, Any]) -> list[Any]:
    """The messages of a thread, and those at the checkpoint after which is written."""
    known = list[Any]()
    with suppress(APIStatusError):  # the platform answers that
        thread = await get_client().threads.get(thread_id)
        known += messages_in(thread["values"])
        checkpoint = write.get("checkpoint")
        named = checkpoint.get("checkpoint_id") if isinstance(checkpoint, Mapping) else None
        checkpoint_id = named or write.get("checkpoint_id")
        if checkpoint_id:
            known += await messages_at(thread_id, str(checkpoint_id))
    return known


def _stamped_body(write: object, sent: Sequence[BaseMessage], known: Sequence[object]) -> bytes:
    """The body, with all messages that it writes stamped. `known` are those of the thread."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    stored = _stored_by_id(known, {message.id for message in sent})

    def stamped(messages: list[object]) -> list[object]:
        return [_stamped(message, stored, now) for message in messages]

    for holder, field in state_input.state_holders(write):
        state_input.change_messages(holder, field, stamped)
    return json.dumps(write).encode()


class _Stored(NamedTuple):
    """A message of the thread, and what is compared of it."""

    message: Mapping[str, Any]
    substance: Substance


def _stored_by_id(known: Sequence[object], wanted: set[str | None]) -> dict[str, list[_Stored]]:
    """The messages of a thread with a wanted id. At a checkpoint and now there may be two of one."""
    stored = dict[str, list[_Stored]]()
    for message in known:
        message_id = message.get("id") if isinstance(message, Mapping) else None
        if isinstance(message, Mapping) and isinstance(message_id, str) and message_id in wanted:
            (read,) = convert_to_messages([dict(message)])
            stored.setdefault(message_id, []).append(_Stored(message, substance_of(read)))
    return stored


def _stamped(sent: Any, stored: Mapping[str, Sequence[_Stored]], now: str) -> object:
    """A message with the present time, or with the marks of the stored one that it repeats."""
    (message,) = convert_to_messages([sent])
    substance = substance_of(message)
    for own in stored.get(str(message.id), ()):
        if own.substance == substance:
            return _with_marks_of(own.message, sent)
    return days.stamped(sent, now)


def _with_marks_of(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> object:
    at = days.said_at(stored)
    marked = days.stamped(sent, at) if at else sent
    refused = refused_media_of(stored.get("response_metadata"))
    if not refused or not isinstance(marked, Mapping):
        return marked
    metadata = {**(marked.get("response_metadata") or {}), REFUSED_MEDIA: refused}
    return {**marked, "response_metadata": metadata}
