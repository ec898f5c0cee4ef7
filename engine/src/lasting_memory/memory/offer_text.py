"""What a line must be so that it may be offered to a group: text that the person sees as a whole, and
that names no conversation of theirs.
"""

import re
import unicodedata

from lasting_memory.memory.validation import RefusedWrite, check_content

# Characters of a text that is offered. Each decider reads it.
MAX_OFFER_CHARS = 2_000
# Joiners and marks of direction that Persian, Hindi, Hebrew and emoji need, the soft hyphen, and the
# two signs that choose between a text's and a picture's form of a character.
_JOINERS = "\u00ad\u061c\u200c\u200d\u200e\u200f\ufe0e\ufe0f"
# More of them than stand between the parts of one emoji.
_JOINED_ROW = re.compile(f"[{_JOINERS}]{{3}}")
# Invisible, though Unicode calls them letters, marks or symbols.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
# Signs that choose a form of a character, of which a row can spell a text, and code points that
# Unicode keeps for such signs.
_UNSEEN = (range(0xFE00, 0xFE0E), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000))
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Zl", "Zp"})
# The conversations that a line comes from, as consolidation notes them behind it.
_SOURCES = re.compile(r"\s?\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
_OPENS_COMMENT = "<!--"
# The ids of conversations and runs look so. In which words a line names one depends on its language.
_ID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE
)


def without_sources(text: str) -> str:
    """What a line says, without the conversations that it comes from: these stay the person's own."""
    return _SOURCES.sub("", text).strip()


def check_offer_text(text: str) -> None:
    """Raises `RefusedWrite` for a text that may not be offered to a group."""
    if not text.strip():
        raise RefusedWrite("The line says nothing; offer one with words.")
    check_content("The offer", text)
    if len(text) > MAX_OFFER_CHARS:
        raise RefusedWrite(
            f"The line has {len(text):,} characters, and an offer may have {MAX_OFFER_CHARS:,}; shorten it.",
            kind="offer_too_long",
        )
    if _has_hidden(text) or _OPENS_COMMENT in text:
        raise RefusedWrite(
            "The line holds characters that nobody sees, or opens a comment; write it anew, then offer it.",
            kind="hidden_text",
        )
    if _ID.search(text):
        raise RefusedWrite(
            "The line has an id like those of conversations and runs, which stay the person's own; "
            "take it out of the line, then offer it.",
            kind="names_conversation",
        )


def _has_hidden(text: str) -> bool:
    """Whether a text has characters that people do not see, and that no script needs."""
    if _JOINED_ROW.search(text):
        return True
    return any(map(_is_hidden, text))


def _is_hidden(character: str) -> bool:
    """Whether people do not see a character. A tab or a joiner is not hidden."""
    if character == "\t" or character in _JOINERS:
        return False
    if character in _BLANK:
        return True
    code_point = ord(character)
    if any(code_point in code_points for code_points in _UNSEEN):
        return True
    return unicodedata.category(character) in _INVISIBLE_CATEGORIES
