"""Reads JSON, and JSON lines (a value in each line), within bounds."""

import json
import re
from collections.abc import Iterable

from lasting_memory.consolidation.brought.entries import UnreadableError

MAX_DEPTH = 40
# Longer numbers take long to read, and nobody has them. They stay texts.
_MAX_DIGITS = 120
# What can begin nothing but JSON: `[2024-05-01] - a fact` does not.
_BEGINS_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')


def json_of(text: str) -> object:
    """The value of a JSON text, of JSON lines a list of values; None for a text that is neither.

    Raises `UnreadableError` for a text that begins as nothing but JSON does and is none, and for
    JSON that is too deep.
    """
    begins_as_json = bool(_BEGINS_JSON.match(text))
    first_character = text.lstrip()[:1]
    may_be_json = begins_as_json or first_character in {"{", "[", '"'}
    if not may_be_json:
        return None
    try:
        return _loads(text)
    except UnreadableError:
        raise
    except ValueError as error:
        problem = f": {error}"
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1:
        values, error_of_line = _values_of(lines)
        if error_of_line is None:
            return values
        if values:
            number = len(values) + 1
            problem = f"; line {number}: {error_of_line}"
    if not begins_as_json:
        return None
    raise UnreadableError(
        f"This begins as JSON and is none{problem}. It may have been cut; bring the whole file."
    )


def _values_of(lines: Iterable[str]) -> tuple[list[object], ValueError | None]:
    """The values of JSON lines up to the first that is no JSON, and the error of that line; None if
    all are.
    """
    values = list[object]()
    for line in lines:
        try:
            values.append(_loads(line))
        except ValueError as error:
            return values, error
    return values, None


def _loads(text: str) -> object:
    """The value of a JSON text.

    Raises `ValueError`, and `UnreadableError` for one that is too deep.
    """
    try:
        return json.loads(text, parse_int=_number, parse_constant=lambda _: None)
    except RecursionError:
        raise too_deep() from None


def json_from(text: str, start: int) -> object:
    """The value of the JSON that begins at a position of a page, whatever follows it. Raises
    `UnreadableError` if there is none.
    """
    decoder = json.JSONDecoder(parse_int=_number)
    try:
        value, _ = decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"The conversations in this page cannot be read ({error}); bring conversations.json."
        ) from None
    return value


def too_deep() -> UnreadableError:
    """The error of JSON that is nested too deep."""
    return UnreadableError(
        f"This JSON is nested more than {MAX_DEPTH} levels deep; bring the export itself."
    )


def _number(digits: str) -> int | str:
    """A whole number of JSON; its digits as text if they are too many."""
    if len(digits) > _MAX_DIGITS:
        return digits
    return int(digits)
