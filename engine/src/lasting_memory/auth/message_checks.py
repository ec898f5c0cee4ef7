"""Which messages of a request graphs and models can read, and which pictures may be sent.

langchain takes more than they can read. A problem is a clause about a message, such as "its content
is neither text nor a list": a caller puts before it which message it is about.
"""

from collections.abc import Mapping

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from lasting_memory import attachments
from lasting_memory.auth.message_forms import as_list, parsed_message


def check_messages(messages: object) -> object:
    """Check the messages of a request, and return them as they are, as pydantic wants it.

    Raises `ValueError` for the first that langchain cannot read, or that may not be sent.
    """
    pictures = 0
    for number, sent_message in enumerate(as_list(messages)):
        try:
            message = parsed_message(sent_message)
        except Exception:  # noqa: BLE001  # it raises whatever it comes across; the run would fail with that
            raise ValueError(
                f'number {number} is no message; send {{"role": "user", "content": "..."}}'
            ) from None
        problem = _problem_of(sent_message, message)
        if problem:
            raise ValueError(f"message number {number}: {problem}")
        pictures += len(list(attachments.pictures_in(message.content)))
        if pictures > attachments.MAX_PICTURES:
            raise ValueError(
                f"there are more than {attachments.MAX_PICTURES} pictures; send the others with the next message"
            )
    return messages


def _problem_of(sent_message: object, message: BaseMessage) -> str:
    """What of a message may not be sent, or could not be read; "" if nothing.

    `sent_message` is as the client sent it, `message` as langchain reads it.
    """
    problem = _problem_of_fields(sent_message)
    if not problem:
        problem = _problem_of_content(message.content)
    if not problem:
        problem = _problem_of_media(message)
    return problem


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


def _problem_of_media(message: BaseMessage) -> str:
    """Which block of a message may not be sent to a model, and why; "" if none."""
    of_person = not isinstance(message, AIMessage | ToolMessage)
    for number, block in enumerate(message.content):
        if not isinstance(block, Mapping):
            continue
        reason = attachments.refusal(block, of_person=of_person)
        if reason:
            return f"block {number} of its content {reason}"
    return ""
