"""Text of files as prompts show it: without comments, and unable to open or close a block."""

import re
import unicodedata

from lasting_memory.memory.facts import without_comments

# All characters that compatibility normalization makes a "<" of.
_BRACKET = re.compile("[<\ufe64\uff1c]")
_NAMES = "|".join(r"[\W_]{0,3}".join(name) for name in ("polic", "memor", "skill"))
# What follows a "<" that opens or closes a block, also for a reader who sees letters alone.
_NAME = re.compile(rf"[\W_]{{0,40}}(?:{_NAMES})", re.IGNORECASE)
# Characters after a "<" that are normalized: that takes time quadratic in accents that follow each
# other.
_NAME_CHARS = 60


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments and surrounding space.

    A "<" that would open or close a block is escaped.
    """
    return _BRACKET.sub(_escaped, without_comments(text)).strip()


def in_one_line(text: str) -> str:
    """Text as a prompt block shows it, in one line with single spaces."""
    return " ".join(shown(text).split())


def _escaped(bracket: re.Match[str]) -> str:
    after = bracket.string[bracket.end() : bracket.end() + _NAME_CHARS]
    return "&lt;" if _NAME.match(unicodedata.normalize("NFKD", after)) else bracket[0]
