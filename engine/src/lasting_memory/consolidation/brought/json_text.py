"""Reads JSON and JSON lines within bounds."""

import json
import re
from collections.abc import Iterable
from typing import Any

from lasting_memory.consolidation.brought.entries import UnreadableError

MAX_DEPTH = 40
# Longer numbers take long to read, and nobody has them. They are read as texts.
_MAX_DIGITS = 120
# What can begin nothing but JSON: `[2024-05-01] - a fact` does not.
_BEGINS_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')


def json_of(text: str) -> Any:
    """The value of a JSON text, of JSON lines a list of values; None for a text that is neither.

    Raises `UnreadableError` for a text that begins as nothing but JSON does and is none, and for
    JSON that is too deep.
    """
    begins_as_json = bool(_BEGINS_JSON.match(text))
    if not begins_as_json and text.lstrip()[:1] not in {"{", "[", '"'}:
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
            problem = f"; line {len(values) + 1}: {error_of_line}"
    if not begins_as_json:
        return None
    raise UnreadableError(
        f"This begins as JSON and is none{problem}. It may have been cut; bring the whole file."
    )


def _values_of(lines: Iterable[str]) -> tuple[list[Any], ValueError | None]:
    """The values of JSON lines up to the first that is none, and what is wrong with that."""
    values = list[Any]()
    for line in lines:
        try:
            values.append(_loads(line))
        except ValueError as error:
            return values, error
    return values, None


def _loads(text: str) -> Any:
    """The value of a JSON text.

    Raises `ValueError`, and `UnreadableError` for one that is too deep.
    """
    try:
        return json.loads(text, parse_int=_number, parse_constant=lambda _: None)
    except RecursionError:
        raise too_deep() from None


def json_from(text: str, start: int) -> Any:
    """The value of the JSON that begins there in a page. Raises `UnreadableError`."""
    try:
        value, _ = json.JSONDecoder(parse_int=_number).raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"The conversations in this page cannot be read ({error}); bring conversations.json."
        ) from None
    return value


def too_deep() -> UnreadableError:
    return UnreadableError(
        f"This JSON is nested more than {MAX_DEPTH} levels deep; bring the export itself."
    )


def _number(digits: str) -> int | str:
    if len(digits) > _MAX_DIGITS:
        return digits
    return int(digits)
