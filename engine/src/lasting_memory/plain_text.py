"""Text as files keep it, and as it is compared: what ends a line, and when two lines are the same, is said here alone."""

import unicodedata


def plain(text: str) -> str:
    """A text as files keep it: a line feed ends each line, and no byte order mark begins it."""
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def compared(line: str) -> str:
    """A line as it is compared, never as it is kept: in the normal form NFC, without white space at its end."""
    return unicodedata.normalize("NFC", line).rstrip()


def spelled_as_in(text: str, part: str) -> str:
    """A part of a text in the normal form in which the text has it; as it is where the text has it in none."""
    if part in text:
        return part
    spellings = (unicodedata.normalize(form, part) for form in ("NFC", "NFD"))
    return next((spelling for spelling in spellings if spelling in text), part)
