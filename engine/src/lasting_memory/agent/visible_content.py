"""Whether a person can see or hear something in a model's answer."""

import unicodedata

from langchain_core.messages import AIMessage, BaseMessage

from lasting_memory.agent.answer_endings import SILENT
from lasting_memory.agent.answer_errors import EmptyAnswerError
from lasting_memory.attachments import without_thoughts

# Blocks of an answer that a person can see or hear, though they are no text.
_MEDIA = {"image", "image_url", "image_generation_call", "audio", "video", "file"}
# Invisible, though Unicode calls them letters, marks or symbols: fillers, selectors of variants,
# Braille's blank.
_BLANK = "\u034f\u115f\u1160\u2800\u3164\uffa0\ufe0e\ufe0f"


def says_something(message: BaseMessage) -> bool:
    """Whether a message has text, or something else that a person can see or hear."""
    if has_media(message):
        return True
    return has_words(str(message.text))


def has_words(text: str) -> bool:
    """Whether a person can see something in a model's whole text, beside its thoughts."""
    visible_text = without_thoughts(text)
    return any(map(_is_visible, visible_text))


def _is_visible(character: str) -> bool:
    """Whether a person sees a character: it is no space, no control character and no blank."""
    if character in _BLANK:
        return False
    category = unicodedata.category(character)
    # Separators and spaces (Z), and control characters (C).
    return category[0] not in "ZC"


def has_media(message: BaseMessage) -> bool:
    """Whether a message has something other than text that a person can see or hear."""
    if "audio" in message.additional_kwargs:
        return True
    blocks = [block for block in message.content if isinstance(block, dict)]
    return any(block.get("type") in _MEDIA for block in blocks)


def check_said(message: BaseMessage) -> None:
    """Raises `EmptyAnswerError` for a whole answer without text and without calls."""
    if isinstance(message, AIMessage):
        calls = message.tool_calls or message.invalid_tool_calls
        if calls:
            return
    if not says_something(message):
        raise EmptyAnswerError(SILENT)
