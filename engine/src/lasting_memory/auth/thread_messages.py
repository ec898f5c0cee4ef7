"""Messages of a run's input whose ids its thread has already, and messages that it takes out.

langgraph's reducer puts a message in the place of the thread's message with its id, wherever that
stands. So a client could change what was said long ago, or the call that an operator is asked to
approve. Front ends send the messages that they have once more. A message that is the same as the
thread's is an echo: it is dropped, and the thread's own stays. A sent message is one of a request, a
stored message one of its thread. Two messages are the same if their substance is
(`message_substance.py`).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    RemoveMessage,
)
from langgraph_sdk import Auth
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

from lasting_memory import platform
from lasting_memory.auth.handler_values import (
    RunKwargs,
    RunState,
    checkpoint_of,
    configurable_of,
)
from lasting_memory.auth.message_forms import as_list, parsed_message, parsed_messages
from lasting_memory.auth.message_substance import Substance, substance_of
from lasting_memory.platform import get_client

HTTPException = Auth.exceptions.HTTPException


def sent_messages(kwargs: RunState) -> list[BaseMessage]:
    """The messages of a run's `input` and `command.update`.

    `kwargs` are those of a run request after `rebuild_state`, so langchain can read each message.
    """
    messages = list[BaseMessage]()
    for value in _message_fields(kwargs):
        if value is not None:
            messages += parsed_messages(as_list(value))
    return messages


def _message_fields(kwargs: RunState) -> list[object]:
    """The values of the fields `messages` of a run's `input` and `command.update`.

    The update may be an object, or a list of pairs of a field and its value.
    """
    state = kwargs.get("input")
    command = kwargs.get("command") or {}
    update = command.get("update")
    fields = list[tuple[object, object]]()
    if isinstance(update, list):
        fields += update
    if isinstance(state, Mapping):
        fields += state.items()
    if isinstance(update, Mapping):
        fields += update.items()
    return [value for name, value in fields if name == "messages"]


def removed_ids(messages: Sequence[BaseMessage]) -> set[str]:
    """Ids of the messages that a run is asked to take out of its thread.

    Raises `HTTPException` 422 where no message of a person's comes in their place.
    """
    ids = set[str]()
    has_new_message = False
    for message in messages:
        if isinstance(message, RemoveMessage):
            ids.add(str(message.id))
        elif isinstance(message, HumanMessage):
            has_new_message = True
    if ids and not has_new_message:
        raise HTTPException(
            422, "input.messages removes messages; send the message that comes in their place, too."
        )
    return ids


async def check_messages(thread: Thread | None, kwargs: RunKwargs) -> None:
    """Check that a person's run only adds messages to its thread, or replaces the last turn.

    Drops the echoes of the thread's messages from `kwargs`. Raises `HTTPException` 422 or 409 for
    anything else, with the message's id.
    """
    messages = await platform.in_thread(sent_messages, kwargs)
    ids_to_remove = removed_ids(messages)
    if ids_to_remove:
        await _check_removed(thread, ids_to_remove)
    messages_with_ids = list[BaseMessage]()
    for message in messages:
        if isinstance(message, RemoveMessage):
            continue
        if message.id and message.id not in ids_to_remove:
            messages_with_ids.append(message)
    if thread is None or not messages_with_ids:
        return
    echoed_ids = await _echoed_ids(thread, kwargs, messages_with_ids)
    if echoed_ids:
        await platform.in_thread(_drop_messages, kwargs, echoed_ids)


async def _check_removed(thread: Thread | None, ids_to_remove: set[str]) -> None:
    """Check that a run takes out the last turn of its thread and nothing else.

    So a person asks again with other words. A turn begins with a message of the person's. Raises
    `HTTPException` 422 for other messages, and 409 while a run goes on in the thread, or where a
    summary stands for the last turn already.
    """
    values: Mapping[str, object] = {}
    if thread:
        current_thread = await get_client().threads.get(thread["thread_id"])
        values = current_thread["values"] or {}
        if current_thread["status"] == "busy":
            raise HTTPException(
                409,
                "A run goes on in this conversation; wait for its end before you replace your last message.",
            )
    messages = messages_in(values)
    start = _start_of_last_turn(messages)
    ids_of_turn = set[str]()
    if start is not None:
        ids_of_turn = {_id_of(message) for message in messages[start:]}
    if start is None or ids_to_remove != ids_of_turn:
        raise HTTPException(
            422,
            "Only your last message can be replaced, with all that follows it; remove just these.",
        )
    # The model would see the summary, and not the new message.
    if _summary_length(values) > start:
        raise HTTPException(
            409,
            "Your last message has been summarized meanwhile and cannot be replaced; send another one.",
        )


def _summary_length(values: Mapping[str, object]) -> int:
    """How many of a thread's first messages a summary stands for; 0 without one."""
    event = values.get("_summarization_event")
    if not isinstance(event, Mapping):
        return 0
    length = event.get("cutoff_index")
    if not isinstance(length, int):
        return 0
    return length


def _start_of_last_turn(messages: Sequence[object]) -> int | None:
    """The index of the last message of the person; None if there is none."""
    start = None
    for index, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("type") == "human":
            start = index
    return start


def _id_of(message: object) -> str:
    """The id of a message of a thread; "" for what is no message."""
    if not isinstance(message, Mapping):
        return ""
    return str(message.get("id"))


async def _echoed_ids(
    thread: Thread, kwargs: RunKwargs, messages: Sequence[BaseMessage]
) -> set[str]:
    """Ids of those sent messages that the thread has in the same words.

    Raises `HTTPException` for a message that would replace another one.
    """
    thread_id = str(thread["thread_id"])
    current_thread = await get_client().threads.get(thread_id)
    stored_messages = messages_in(current_thread["values"])
    configurable = configurable_of(kwargs["config"])
    checkpoint_id = checkpoint_of(configurable)
    if checkpoint_id:
        # The run begins there. That checkpoint may have messages that the thread has no more.
        stored_messages += await messages_at(thread_id, checkpoint_id)
    is_busy = current_thread["status"] == "busy"
    return await platform.in_thread(_find_echoes, stored_messages, messages, is_busy=is_busy)


async def messages_at(thread_id: str, checkpoint_id: str) -> list[object]:
    """The messages at a checkpoint of a thread; none if there is no such checkpoint."""
    with suppress(NotFoundError):  # the platform answers that
        state = await get_client().threads.get_state(thread_id, checkpoint_id=checkpoint_id)
        return messages_in(state["values"])
    return []


def messages_in(values: object) -> list[object]:
    """The messages of a state's values, in a list of their own; none where it has no list of them."""
    if not isinstance(values, Mapping):
        return []
    messages = values.get("messages")
    if not isinstance(messages, list):
        return []
    return list(messages)


def _find_echoes(
    stored_messages: Sequence[object], messages: Sequence[BaseMessage], *, is_busy: bool
) -> set[str]:
    """Ids of those sent messages that are among the stored ones, with the same substance.

    `is_busy` says whether a run goes on in the thread. Raises `HTTPException` 422 for a message
    with the id of another one, and 409 for one that may replace an answer which is coming in.
    """
    sent_ids = {message.id for message in messages}
    substances_by_id = _substances_by_id(stored_messages, sent_ids)
    echoed_ids = set[str]()
    for message in messages:
        message_id = str(message.id)
        stored_substances = substances_by_id.get(message_id, [])
        sent_substance = substance_of(message)
        if any(substance != sent_substance for substance in stored_substances):
            fix = (
                "send a new message without an id, or replace your last one by removing it and all "
                "that follows it"
            )
            raise HTTPException(
                422, f"The thread has another message with the id {message_id[:100]!r}; {fix}."
            )
        if stored_substances:
            echoed_ids.add(message_id)
        elif is_busy and not isinstance(message, HumanMessage):
            # Its id may be that of an answer that is coming in now.
            raise HTTPException(
                409, "A run goes on in this conversation; send only your own message."
            )
    return echoed_ids


def _substances_by_id(
    stored_messages: Sequence[object], sent_ids: set[str | None]
) -> dict[str, list[Substance]]:
    """The substances of the stored messages whose id is sent, too.

    One id may have several: at the checkpoint where the run begins, and in the thread now.
    """
    substances_by_id = dict[str, list[Substance]]()
    for message in stored_messages:
        if not isinstance(message, Mapping) or message.get("id") not in sent_ids:
            continue
        message_id = str(message["id"])
        parsed = parsed_message(dict(message))
        substances = substances_by_id.setdefault(message_id, [])
        substances.append(substance_of(parsed))
    return substances_by_id


def _drop_messages(kwargs: RunState, message_ids: set[str]) -> None:
    """Take the messages with these ids out of a run's `input` and `command.update`."""
    state = kwargs.get("input")
    if isinstance(state, Mapping):
        kwargs["input"] = _without_messages(state, message_ids)
    command = kwargs.get("command") or {}
    update = command.get("update")
    if isinstance(update, Mapping):
        command["update"] = _without_messages(update, message_ids)
    elif isinstance(update, list):
        fields = list[tuple[object, object]]()
        for name, value in update:
            if name == "messages":
                fields.append((name, _without_ids(value, message_ids)))
            else:
                fields.append((name, value))
        command["update"] = fields


def _without_messages(state: Mapping[str, object], message_ids: set[str]) -> Mapping[str, object]:
    """A state without the messages that have these ids; the same state if it has no messages."""
    messages = state.get("messages")
    if messages is None:
        return state
    return {**state, "messages": _without_ids(messages, message_ids)}


def _without_ids(messages: object, message_ids: set[str]) -> list[object]:
    """Those of the messages, as they were sent, that have none of these ids."""
    remaining_messages = list[object]()
    for sent_message in as_list(messages):
        message = parsed_message(sent_message)
        if message.id not in message_ids:
            remaining_messages.append(sent_message)
    return remaining_messages
