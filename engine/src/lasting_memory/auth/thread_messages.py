"""Messages of a run's input that its thread has already: echoes, other texts in their place, and
what is taken out.

langgraph's reducer puts a message in the place of the thread's message with its id, wherever that
stands. So a client could change what was said long ago, or the call that an operator is asked to
approve. Front ends send the messages that they have once more, so what is the same as in the thread
is dropped, and the thread's own stays.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

from lasting_memory import platform, sent_content

HTTPException = Auth.exceptions.HTTPException
_NO_TEXT = {"type": "text", "text": ""}


def sent_messages(kwargs: Mapping[str, Any]) -> list[BaseMessage]:
    """The messages of a run's `input` and `command.update`, once `rebuild_state` has looked at
    them.
    """
    values = [value for value in _fields(kwargs) if value is not None]
    listed = [value if isinstance(value, list) else [value] for value in values]
    return [message for some in listed for message in convert_to_messages(some)]


def _fields(kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of the fields `messages` of a run's `input` and `command.update`, which may be a
    list of pairs.
    """
    state = kwargs.get("input")
    update = (kwargs.get("command") or {}).get("update")
    pairs = list(update) if isinstance(update, list) else []
    for mapping in (state, update):
        if isinstance(mapping, Mapping):
            pairs += mapping.items()
    return [value for name, value in pairs if name == "messages"]


def removed_ids(messages: Sequence[BaseMessage]) -> set[str]:
    """Ids of the messages that a run is asked to take out of its thread.

    Raises `HTTPException` 422 where no message of a person's comes in their place.
    """
    removed = {str(message.id) for message in messages if isinstance(message, RemoveMessage)}
    if removed and not any(isinstance(message, HumanMessage) for message in messages):
        raise HTTPException(
            422, "input.messages removes messages; send the message that comes in their place, too."
        )
    return removed


async def check_messages(thread: Thread | None, kwargs: MutableMapping[str, Any]) -> None:
    """Hold a person's run to adding messages, and to replacing the last turn. Drops the echoes of
    what the thread has.

    Raises `HTTPException` 422 or 409, with the message's id, for anything else.
    """
    messages = await platform.in_thread(sent_messages, kwargs)
    removed = removed_ids(messages)
    if removed:
        await _check_removed(thread, removed)
    named = [
        message for message in messages if message.id and not isinstance(message, RemoveMessage)
    ]
    named = [message for message in named if message.id not in removed]
    if thread is None or not named:
        return
    echoed = await _echoed_ids(thread, kwargs, named)
    if echoed:
        await platform.in_thread(_drop, kwargs, lambda message: message.id in echoed)


async def _check_removed(thread: Thread | None, removed: set[str]) -> None:
    """Raise `HTTPException` unless a run takes out the last turn of its thread and nothing else,
    and no other run goes on.

    A person asks again with other words so. What else was said stays what was said.
    """
    found = await get_client().threads.get(thread["thread_id"]) if thread else None
    if found and found["status"] == "busy":
        raise HTTPException(
            409,
            "A run goes on in this conversation; wait for its end before you replace your last message.",
        )
    values: Any = found["values"] if found else {}
    messages = values.get("messages") or []
    people = [number for number, message in enumerate(messages) if message.get("type") == "human"]
    turn = {str(message.get("id")) for message in messages[people[-1] :]} if people else set[str]()
    if not turn or removed != turn:
        raise HTTPException(
            422,
            "Only your last message can be replaced, with all that follows it; remove just these.",
        )
    event = values.get("_summarization_event")
    summarized = event.get("cutoff_index") if isinstance(event, Mapping) else None
    if (
        isinstance(summarized, int) and summarized > people[-1]
    ):  # the model would see the summary, and not the new message
        raise HTTPException(
            409,
            "Your last message has been summarized meanwhile and cannot be replaced; send another one.",
        )


async def _echoed_ids(
    thread: Thread, kwargs: Mapping[str, Any], named: Sequence[BaseMessage]
) -> set[str]:
    """Ids of the messages that the thread has as they were sent. Raises `HTTPException` for one
    that would replace another.
    """
    thread_id = str(thread["thread_id"])
    found = await get_client().threads.get(thread_id)
    values: Any = found["values"] or {}
    known = list(values.get("messages") or [])
    checkpoint_id = (kwargs["config"].get("configurable") or {}).get("checkpoint_id")
    if checkpoint_id:  # the run begins there: messages may be there that the thread has no more
        with suppress(NotFoundError):  # the platform answers that
            earlier: Any = (
                await get_client().threads.get_state(thread_id, checkpoint_id=checkpoint_id)
            )["values"] or {}
            known += earlier.get("messages") or []
    return await platform.in_thread(_compared, known, named, is_busy=found["status"] == "busy")


def _compared(known: Sequence[object], named: Sequence[BaseMessage], *, is_busy: bool) -> set[str]:
    stored = list[tuple[str, object]]()
    wanted = {message.id for message in named}
    for message in known:
        if isinstance(message, Mapping) and message.get("id") in wanted:
            stored.append((str(message["id"]), _substance(convert_to_messages([dict(message)])[0])))
    echoed = set[str]()
    for message in named:
        there = [substance for message_id, substance in stored if message_id == message.id]
        if any(substance != _substance(message) for substance in there):
            fix = "send a new message without an id, or replace your last one by removing it and all that follows it"
            raise HTTPException(
                422, f"The thread has another message with the id {str(message.id)[:100]!r}; {fix}."
            )
        if there:
            echoed.add(str(message.id))
        elif is_busy and not isinstance(
            message, HumanMessage
        ):  # it may be the id of an answer that is coming in now
            raise HTTPException(
                409, "A run goes on in this conversation; send only your own message."
            )
    return echoed


def _substance(message: BaseMessage) -> object:
    """What of a message is said or done. What clients add, or leave out, of names, marks and data
    beside it does not count.
    """
    content = message.content if isinstance(message.content, list) else [message.content]
    blocks = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in content
    ]
    blocks = sent_content.without_cache_marks(blocks)
    blocks = [
        {name: of for name, of in block.items() if of is not None}
        for block in blocks
        if block != _NO_TEXT
    ]
    calls = (
        [(call["name"], call["args"], call["id"]) for call in message.tool_calls]
        if isinstance(message, AIMessage)
        else []
    )
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    return message.type, blocks, calls, answers


def _drop(kwargs: MutableMapping[str, Any], is_dropped: Callable[[BaseMessage], bool]) -> None:
    """Take messages out of a run's `input` and `command.update`."""

    def kept(value: Any) -> list[Any]:
        listed = value if isinstance(value, list) else [value]
        return [given for given in listed if not is_dropped(convert_to_messages([given])[0])]

    state = kwargs.get("input")
    if isinstance(state, Mapping) and state.get("messages") is not None:
        kwargs["input"] = {**state, "messages": kept(state["messages"])}
    command = kwargs.get("command") or {}
    update = command.get("update")
    if isinstance(update, list):
        command["update"] = [
            (name, kept(value) if name == "messages" else value) for name, value in update
        ]
    elif isinstance(update, Mapping) and update.get("messages") is not None:
        command["update"] = {**update, "messages": kept(update["messages"])}
