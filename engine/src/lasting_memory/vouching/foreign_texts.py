"""Takes foreign texts out of a message: what is quoted, brought, or matches a pattern.

Functions here take a text and the list `foreign_texts`. They return the text without what is foreign,
and add that to the list. In place of quoted lines the text has the sign `QUOTED`.
"""

import regex

# Stands for lines that were quoted: no text has it (`_LOOKS` in `own_words.py`).
QUOTED = "\ue0ff"


def has_match(pattern: regex.Pattern[str], text: str) -> bool:
    """Whether a pattern matches anywhere in a text."""
    return pattern.search(text) is not None


def without_matches(text: str, pattern: regex.Pattern[str], foreign_texts: list[str]) -> str:
    """The text with a line break in place of each match, which is foreign."""
    matches = pattern.finditer(text)
    foreign_texts += [match[0] for match in matches]
    return str(pattern.sub("\n", text))


def before_match(text: str, pattern: regex.Pattern[str], foreign_texts: list[str]) -> str:
    """The text before the first match of a pattern; the whole text if nothing matches.

    The match and what follows are foreign, unless quoted lines follow it (`add_brought`).
    """
    match = pattern.search(text)
    if match is None:
        return text
    start = match.start()
    text_after = text[match.end() :]
    if is_quoted_by_line(text_after):
        add_brought(text_after, foreign_texts)
    else:
        add_foreign(text[start:], foreign_texts)
    return text[:start]


def is_quoted_by_line(text: str) -> bool:
    """Whether a text begins with quoted lines."""
    return text.lstrip().startswith(QUOTED)


def add_foreign(text: str, foreign_texts: list[str]) -> None:
    """Add a text without the sign for quoted lines to `foreign_texts`."""
    foreign_text = text.replace(QUOTED, "")
    foreign_texts.append(foreign_text)


def add_brought(text: str, foreign_texts: list[str]) -> None:
    """Add a text that the person brought to `foreign_texts`, unless it is quoted line by line.

    Then the quoted lines are there already. What stands below them may be the person's answer, or
    more of that text: it is neither foreign nor their word.
    """
    if not is_quoted_by_line(text):
        add_foreign(text, foreign_texts)


def without_part(text: str, start: int, end: int, foreign_texts: list[str]) -> str:
    """The text with a line break in place of the part between two places, which is foreign."""
    part = text[start:end]
    foreign_texts.append(part)
    text_before = text[:start]
    text_after = text[end:]
    return f"{text_before}\n{text_after}"
