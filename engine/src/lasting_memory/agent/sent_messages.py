"""The messages of a conversation that are sent to a model.

They have no cache marks of clients, and no media that the model's provider refused. Media are
pictures, sounds, videos and files in a message. A thread keeps each message as it came. A provider
that refuses one picture would refuse every later request with it, too. So before an answer that came
without the media stands a note: a message of its own for the person, whose metadata also name the
messages whose media are left out.
"""

from collections.abc import Iterable, Iterator, Sequence

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


def sent_messages(messages: Sequence[AnyMessage], thread: Iterable[object]) -> list[AnyMessage]:
    """These messages as a model gets them: without notes, cache marks and refused media.

    `thread` are all messages of the thread, whose notes say which media are left out.
    """
    refused_ids = set[str]()
    for message in thread:
        ids = _ids_in_note(message)
        refused_ids.update(ids)
    messages_to_send = list[AnyMessage]()
    for message in messages:
        is_note = bool(_ids_in_note(message))
        if not is_note:
            messages_to_send.append(_message_to_send(message, refused_ids))
    return messages_to_send


def _ids_in_note(message: object) -> list[str]:
    """The ids of the messages that a note names; none for what is no note."""
    if not isinstance(message, AIMessage):
        return []
    return refused_media_of(message.response_metadata)


def _message_to_send(message: AnyMessage, refused_ids: set[str]) -> AnyMessage:
    """A message as a model gets it; the message itself where nothing is taken out of it.

    `refused_ids` are those of the messages whose media are left out.
    """
    content = without_cache_marks(message.content)
    if message.id in refused_ids:
        content = without_media(content)
    metadata = message.additional_kwargs
    if content is message.content and CACHE_MARK not in metadata:
        return message
    unmarked_metadata = dict(metadata)
    unmarked_metadata.pop(CACHE_MARK, None)
    return message.model_copy(update={"content": content, "additional_kwargs": unmarked_metadata})


def is_refused_request(error: BaseException) -> bool:
    """Whether a provider did not take a request as it was.

    It looks at the error and at what it came from. A request that is too long does not count: it
    is summarized, and sent again.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ContextOverflowError):
            return False
        if isinstance(cause, ModelInvalidRequestError):
            return True
        if status_of(cause) in _REFUSALS:
            return True
        cause = cause.__cause__
    return False


def requests_without_media(
    messages: Sequence[AnyMessage],
) -> Iterator[tuple[list[AnyMessage], AIMessage]]:
    """The same request with fewer media, each time with the note for an answer to it.

    First it is without the media of the turn, then without any. Media of the turn are those that no
    answer of the model has followed. Where the model was changed for one that looks at no pictures,
    all of them are refused. Nothing comes for a request without media.
    """
    # The places of messages with media, in the list of messages.
    numbers_with_media = list[int]()
    numbers_of_turn = list[int]()
    for number, message in enumerate(messages):
        is_answer = isinstance(message, AIMessage)
        if is_answer:
            numbers_of_turn.clear()
        if not media_nouns(message.content):
            continue
        numbers_with_media.append(number)
        if not is_answer:
            numbers_of_turn.append(number)
    if numbers_of_turn:
        yield _without_media_at(numbers_of_turn, messages)
    if len(numbers_with_media) > len(numbers_of_turn):
        yield _without_media_at(numbers_with_media, messages)


def _without_media_at(
    numbers: Sequence[int], messages: Sequence[AnyMessage]
) -> tuple[list[AnyMessage], AIMessage]:
    """The messages without the media of those at these places, and the note that says so."""
    messages_without_media = list(messages)
    originals = list[AnyMessage]()
    for number in numbers:
        original = messages[number]
        content = without_media(original.content)
        messages_without_media[number] = original.model_copy(update={"content": content})
        originals.append(original)
    return messages_without_media, _note(originals)


def _note(messages: Sequence[BaseMessage]) -> AIMessage:
    """The note to the person for messages whose media were refused."""
    media = list[str]()
    ids = list[str]()
    for message in messages:
        for noun in media_nouns(message.content):
            noun_phrase = f"a {noun}"
            if noun_phrase not in media:
                media.append(noun_phrase)
        if message.id:
            ids.append(message.id)
    text = _NOTE.format(" and ".join(media))
    return AIMessage(text, response_metadata={REFUSED_MEDIA: ids})


def with_advice(messages: Sequence[AnyMessage], advice: str) -> list[AnyMessage]:
    """The messages of a request, with advice to the model at the end of the last one.

    It is no message of its own: the templates of some local models take turns of user and
    assistant alone.
    """
    if not messages:
        return []
    *earlier_messages, last_message = messages
    text = f"\n\n[{advice}]"
    content = last_message.content
    if isinstance(content, str):
        content += text
    else:
        content = [*content, {"type": "text", "text": text}]
    return [*earlier_messages, last_message.model_copy(update={"content": content})]
