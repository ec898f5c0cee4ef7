"""What of a conversation's messages is sent to a model: no cache marks of clients, and no media
that its provider refused.

A thread keeps each message as it came. A provider that refuses one picture would refuse every later
request with it, too. So an answer that came without the media is preceded by a note for the person,
which also names the messages whose media stay out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from lasting_memory.sent_content import (
    CACHE_MARK,
    REFUSED_MEDIA,
    media_nouns,
    refused_media_of,
    without_cache_marks,
    without_media,
)

# What a provider answers to a request that it does not take as it is.
_REFUSALS = {400, 413, 415, 422}
_NOTE = "The model's provider refused {}. It answers without that, now and later; you still see it in the conversation."


def sent_messages(messages: Sequence[AnyMessage], thread: Iterable[Any]) -> list[AnyMessage]:
    """These messages as a model gets them. `thread` are all messages of the thread, whose notes say
    which media stay out.
    """
    refused = set[str]()
    for message in thread:
        refused.update(_refused_in(message))
    return [_sent(message, refused) for message in messages if not _refused_in(message)]


def _refused_in(message: object) -> list[str]:
    """The ids in a note; none for what is no note."""
    return refused_media_of(message.response_metadata) if isinstance(message, AIMessage) else []


def _sent(message: AnyMessage, refused: set[str]) -> AnyMessage:
    content = without_cache_marks(message.content)
    if message.id in refused:
        content = without_media(content)
    about = {name: of for name, of in message.additional_kwargs.items() if name != CACHE_MARK}
    if content is message.content and len(about) == len(message.additional_kwargs):
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": about})


def is_refused_request(error: BaseException) -> bool:
    """Whether a provider did not take a request as it was. A request that is too long is
    summarized, and asked again.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ContextOverflowError):
            return False
        if isinstance(cause, ModelInvalidRequestError) or _status(cause) in _REFUSALS:
            return True
        cause = cause.__cause__
    return False


def _status(error: BaseException) -> object:
    status = getattr(error, "status_code", None)
    return (
        getattr(error, "code", None) if status is None else status
    )  # Google's clients call it a code


def requests_without_media(
    messages: Sequence[AnyMessage],
) -> Iterator[tuple[list[AnyMessage], AIMessage]]:
    """The same request with fewer media, and the note for an answer to it: first without those of
    the turn, then without any.

    Media of the turn are those that no answer of the model has followed. Where the model was
    changed for one that looks at no pictures, all of them are refused.
    """
    answered = max(
        (number for number, message in enumerate(messages) if isinstance(message, AIMessage)),
        default=-1,
    )
    with_media = [number for number, message in enumerate(messages) if media_nouns(message.content)]
    of_turn = [number for number in with_media if number > answered]
    if of_turn:
        yield _without(messages, of_turn)
    if len(with_media) > len(of_turn):
        yield _without(messages, with_media)


def _without(
    messages: Sequence[AnyMessage], numbers: Sequence[int]
) -> tuple[list[AnyMessage], AIMessage]:
    changed = list(messages)
    for number in numbers:
        changed[number] = changed[number].model_copy(
            update={"content": without_media(changed[number].content)}
        )
    return changed, _note([messages[number] for number in numbers])


def _note(messages: Sequence[BaseMessage]) -> AIMessage:
    nouns = dict.fromkeys(noun for message in messages for noun in media_nouns(message.content))
    ids = [message.id for message in messages if message.id]
    what = " and ".join(f"a {noun}" for noun in nouns)
    return AIMessage(_NOTE.format(what), response_metadata={REFUSED_MEDIA: ids})
