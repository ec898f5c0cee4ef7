"""Text of files as prompts show it: without comments, and unable to open or close a block.

A block is a part of the prompt between two tags, such as `<memory>` and `</memory>`.
"""

import re
import unicodedata

from lasting_memory.memory.facts import without_comments

# All characters that compatibility normalization makes a "<" of.
_BRACKET = re.compile("[<\ufe64\uff1c]")
_BLOCK_NAMES = "|".join(r"[\W_]{0,3}".join(name) for name in ("polic", "memor", "skill"))
# What follows a "<" that opens or closes a block, also for a reader who sees letters alone.
_BLOCK_NAME = re.compile(rf"[\W_]{{0,40}}(?:{_BLOCK_NAMES})", re.IGNORECASE)
# Characters after a "<" that are normalized: that takes time quadratic in accents that follow each
# other.
_NAME_CHARS = 60


def prompt_text(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments and surrounding space.

    A "<" that would open or close a block is escaped.
    """
    visible_text = without_comments(text)
    escaped_text = _BRACKET.sub(_escaped_bracket, visible_text)
    return escaped_text.strip()


def in_one_line(text: str) -> str:
    """Text as a prompt block shows it, in one line with single spaces."""
    words = prompt_text(text).split()
    return " ".join(words)


def _escaped_bracket(bracket: re.Match[str]) -> str:
    """What takes the place of a "<": `&lt;` if it would open or close a block, else itself."""
    start = bracket.end()
    following_text = bracket.string[start : start + _NAME_CHARS]
    normalized_text = unicodedata.normalize("NFKD", following_text)
    if _BLOCK_NAME.match(normalized_text):
        return "&lt;"
    return bracket[0]
