"""Quotations in a message, with the marks of all languages: somebody else's words, which are foreign
(`foreign_texts.py`). A quotation of a few words is a name or a term, and stays.
"""

# ruff: noqa: RUF001  # quotation marks of all languages are meant

import regex

from lasting_memory.vouching.foreign_texts import before_match, has_match
from lasting_memory.words import pieces

# A quotation of more words is somebody else's; a name or a term in quotation marks is not.
_QUOTED_WORDS = 2
# An opening and a closing mark.
_PAIRS = ('""', "“”", "„“", "„”", "«»", "»«", "‹›", "「」", "『』", "《》", "”“", "””")
_QUOTATIONS = [
    regex.compile(
        rf"{regex.escape(opening)}([^{regex.escape(opening + closing)}]{{0,4000}}){regex.escape(closing)}"
    )
    for opening, closing in map(tuple, _PAIRS)
]
# A title that leads somewhere: its words are those of whoever wrote what is there.
_LINK = regex.compile(r"\[([^\[\]]{2,4000})\]\([^()\s]{1,2000}\)")
# Between single marks apostrophes stand, which a letter follows. What such a mark opens ends with
# the next one that no letter follows: so a search that begins before the last of these succeeds.
_SINGLE = regex.compile(
    r"(?<![\p{L}\p{N}])['‘‚](?=\S)([^'‘’‚]{2,}+(?:['‘’‚](?=\p{L})[^'‘’‚]++)*+)['‘’‚](?!\p{L})"
)
_CLOSES_SINGLE = regex.compile(r"['‘’](?!\p{L})")
# A mark of a quotation that has no other one: of inches one stands alone.
_UNPAIRED = regex.compile(r"(?<!\d)\"|[“”„«»‹›「」『』《》]")
_ANY_MARK = regex.compile(r"[\"“”„«»‹›「」『』《》]")
# How often quotations within others are looked for.
_NESTED = 5
# Marks of quotations that are names keep out of the way of others as signs that no text has.
_MARKS = sorted({mark for pair in _PAIRS for mark in pair} | {*"'‘’‚"})
_SET_ASIDE = {ord(mark): 0xE000 + number for number, mark in enumerate(_MARKS)}
_PUT_BACK = {sign: mark for mark, sign in _SET_ASIDE.items()}
_TYPED_MARKS = (("``", '"'), ("''", '"'), ("<<", "«"), (">>", "»"))


def without_quotations(text: str, foreign_texts: list[str]) -> str:
    """The text without what is quoted. Where a mark stands alone, the quotation begins with the first
    mark and has no end. A quotation of a few words stays, which is a name or a term.
    """

    def replacement(match: regex.Match[str]) -> str:
        # The marks of a name are set aside, so that they open no other quotation.
        quotation = match[1]
        words = pieces(quotation)
        if len(words) <= _QUOTED_WORDS:
            name = match[0]
            return str(name.translate(_SET_ASIDE))
        foreign_texts.append(quotation.translate(_PUT_BACK))
        return " … "

    for typed_mark, mark in _TYPED_MARKS:
        text = text.replace(typed_mark, mark)
    quoting_text = text
    for _ in range(_NESTED):
        text_before = text
        for pattern in (*_QUOTATIONS, _LINK):
            text = pattern.sub(replacement, text)
        if text == text_before:
            break
    if has_match(_UNPAIRED, text):
        text = before_match(quoting_text, _ANY_MARK, foreign_texts)
    end = _end_of_single_quotations(text)
    text_with_pairs = text[:end]
    rest = text[end:]
    text = _SINGLE.sub(replacement, text_with_pairs) + rest
    return text.translate(_PUT_BACK)


def _end_of_single_quotations(text: str) -> int:
    """Where the last single mark is that may close a quotation; 0 if there is none."""
    end = 0
    for match in _CLOSES_SINGLE.finditer(text):
        end = match.end()
    return end
