"""Messages in any form that langchain takes: an object, a pair of a role and content, a text."""

from collections.abc import Sequence
from typing import cast

from langchain_core.messages import (
    BaseMessage,
    MessageLikeRepresentation,
    convert_to_messages,
)


def as_list(value: object) -> list[object]:
    """The value if it is a list, or else a list of it alone."""
    if isinstance(value, list):
        return value
    return [value]


def parsed_messages(messages: Sequence[object]) -> list[BaseMessage]:
    """Messages as langchain reads them. It raises whatever it comes across in what is no message."""
    return convert_to_messages(cast("Sequence[MessageLikeRepresentation]", messages))


def parsed_message(message: object) -> BaseMessage:
    """A message as langchain reads it. Raises as `parsed_messages`."""
    (parsed,) = parsed_messages([message])
    return parsed
