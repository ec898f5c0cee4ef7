"""The messages of a conversation that are sent to a model.

They have no cache marks of clients, and no media that the model's provider refused. A thread keeps
each message as it came. A provider that refuses one picture would refuse every later request with
it, too. So before an answer that came without the media stands a note for the person, which also
names the messages whose media are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from lasting_memory.agent.provider_errors import status_of
from lasting_memory.sent_content import (
    CACHE_MARK,
    REFUSED_MEDIA,
    media_nouns,
    refused_media_of,
    without_cache_marks,
    without_media,
)

# What a provider answers to a request that it does not take as it is: any 4xx, but for what is no
# matter of the request (the key, the account, the time, the rate). Gateways answer 404 where no
# model takes pictures, and 403 to what their moderation flags.
_REFUSALS = {*range(400, 500)} - {401, 402, 408, 409, 425, 429}
_NOTE = "The model's provider refused {}. It answers without that, now and later; you still see it in the conversation."


def sent_messages(messages: Sequence[AnyMessage], thread: Iterable[Any]) -> list[AnyMessage]:
    """These messages as a model gets them.

    `thread` are all messages of the thread, whose notes say which media are left out.
    """
    refused = set[str]()
    for message in thread:
        ids = _refused_in(message)
        refused.update(ids)
    sent = list[AnyMessage]()
    for message in messages:
        is_note = bool(_refused_in(message))
        if not is_note:
            sent.append(_sent(message, refused))
    return sent


def _refused_in(message: object) -> list[str]:
    """The ids in a note; none for what is no note."""
    if not isinstance(message, AIMessage):
        return []
    return refused_media_of(message.response_metadata)


def _sent(message: AnyMessage, refused: set[str]) -> AnyMessage:
    content = without_cache_marks(message.content)
    if message.id in refused:
        content = without_media(content)
    metadata = message.additional_kwargs
    if content is message.content and CACHE_MARK not in metadata:
        return message
    unmarked = dict(metadata)
    unmarked.pop(CACHE_MARK, None)
    return message.model_copy(update={"content": content, "additional_kwargs": unmarked})


def is_refused_request(error: BaseException) -> bool:
    """Whether a provider did not take a request as it was.

    A request that is too long is none: it is summarized, and sent again.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ContextOverflowError):
            return False
        if isinstance(cause, ModelInvalidRequestError) or status_of(cause) in _REFUSALS:
            return True
        cause = cause.__cause__
    return False


def requests_without_media(
    messages: Sequence[AnyMessage],
) -> Iterator[tuple[list[AnyMessage], AIMessage]]:
    """The same request with fewer media, each time with the note for an answer to it.

    First it is without the media of the turn, then without any. Media of the turn are those that no
    answer of the model has followed. Where the model was changed for one that looks at no pictures,
    all of them are refused.
    """
    with_media = list[int]()
    of_turn = list[int]()
    for number, message in enumerate(messages):
        if isinstance(message, AIMessage):
            of_turn.clear()
        if media_nouns(message.content):
            with_media.append(number)
            if not isinstance(message, AIMessage):
                of_turn.append(number)
    if of_turn:
        yield _without(messages, of_turn)
    if len(with_media) > len(of_turn):
        yield _without(messages, with_media)


def _without(
    messages: Sequence[AnyMessage], numbers: Sequence[int]
) -> tuple[list[AnyMessage], AIMessage]:
    """The messages without the media of these, and the note that says so."""
    changed = list(messages)
    for number in numbers:
        message = messages[number]
        content = without_media(message.content)
        changed[number] = message.model_copy(update={"content": content})
    note = _note([messages[number] for number in numbers])
    return changed, note


def _note(messages: Sequence[BaseMessage]) -> AIMessage:
    """The note to the person for messages whose media were refused."""
    nouns = dict[str, None]()
    ids = list[str]()
    for message in messages:
        for noun in media_nouns(message.content):
            nouns[f"a {noun}"] = None
        if message.id:
            ids.append(message.id)
    media = " and ".join(nouns)
    return AIMessage(_NOTE.format(media), response_metadata={REFUSED_MEDIA: ids})


def with_advice(messages: Sequence[AnyMessage], advice: str) -> list[AnyMessage]:
    """The messages of a request, with advice to the model at the end of the last one.

    It is no message of its own: the templates of some local models take turns of user and
    assistant alone.
    """
    if not messages:
        return []
    *earlier, last = messages
    text = f"\n\n[{advice}]"
    content: Any = last.content
    if isinstance(content, str):
        content += text
    else:
        content = [*content, {"type": "text", "text": text}]
    return [*earlier, last.model_copy(update={"content": content})]
