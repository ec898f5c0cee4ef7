"""What a person is shown of a question, within bounds.

The complete value is in the thread's state.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from lasting_memory.auth.interrupt_forms import Request, form
from lasting_memory.auth.interrupts import Pending

# Characters of one text within a value.
_MOST_CHARS = 4_000
# Items of one list or object.
_MOST_ITEMS = 50
# Levels of nesting.
_MOST_LEVELS = 8
# Characters of a whole value.
_MOST_TEXT = 20_000
# Characters of the name of an action or a field, and of a choice.
_MOST_NAME_CHARS = 200
# Choices of one answer that buttons are made for.
_MOST_CHOICES = 12
# Larger numbers are not exact in a browser.
_EXACT = 2**53
# The mark of what is left out.
_CUT = "…"


def shown(interrupt: Pending) -> dict[str, Any]:
    """An interrupt as the page shows it: texts within bounds, and the kind of answer that it takes.

    It reads the whole question: call it outside of the event loop.
    """
    kind, requests = form(interrupt.value)
    return {
        "id": interrupt.id,
        "answered_by": "operator" if interrupt.is_operators else "person",
        "kind": kind,
        "requests": [_shown_request(request) for request in requests],
        "text": "" if requests else _BoundedText().text_of(interrupt.value),
        "choices": _choices(interrupt.schema) if kind == "value" else [],
    }


def _shown_request(request: Request) -> dict[str, Any]:
    bounded = _BoundedText()
    args = bounded.text_of(request.args)
    # Nobody edits what they see a part of: the rest would be lost.
    allowed = [kind for kind in request.allowed if kind != "edit" or not bounded.is_cut]
    return {
        "name": request.name[:_MOST_NAME_CHARS],
        "args": args,
        "description": _BoundedText().text_of(request.description),
        "may": allowed,
    }


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    """The answers among which a question's schema lets choose; none where it takes others."""
    if schema.get("type") == "boolean":
        return [True, False]
    choices = schema.get("enum")
    if not isinstance(choices, list) or not 0 < len(choices) <= _MOST_CHOICES:
        return []
    return choices if all(_is_short(choice) for choice in choices) else []


def _is_short(choice: object) -> bool:
    return isinstance(choice, str | int | float) and len(str(choice)) <= _MOST_NAME_CHARS


class _BoundedText:
    """Turns any value into a text within bounds.

    `is_cut` says whether something of it was left out.
    """

    def __init__(self) -> None:
        self.is_cut = False

    def text_of(self, value: object) -> str:
        """A text as it is, and anything else as JSON."""
        part = self._part(value, _MOST_LEVELS)
        if not isinstance(part, str):
            part = orjson.dumps(part, option=orjson.OPT_INDENT_2).decode()
        return self._cut(part, _MOST_TEXT)

    def _part(self, value: object, levels: int) -> object:
        """A value as JSON has it, with at most so many levels of lists and objects in it."""
        if isinstance(value, BaseModel):
            value = dict(value)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if abs(value) < _EXACT else self._cut(hex(value), _MOST_NAME_CHARS)
        if isinstance(value, str):
            return self._cut(value, _MOST_CHARS)
        if levels > 0 and isinstance(value, Mapping):
            return self._object(value, levels - 1)
        if levels > 0 and isinstance(value, list | tuple | set | frozenset):
            return self._list(list(value), levels - 1)
        self.is_cut = True  # too deep, or no JSON
        return _CUT

    def _object(self, value: Mapping[Any, Any], levels: int) -> dict[str, object]:
        parts = dict[str, object]()
        for key, item in list(value.items())[:_MOST_ITEMS]:
            parts[self._cut(str(key), _MOST_NAME_CHARS)] = self._part(item, levels)
        if len(value) > _MOST_ITEMS:
            self.is_cut = True
            parts[_CUT] = _CUT
        return parts

    def _list(self, value: list[Any], levels: int) -> list[object]:
        parts = [self._part(item, levels) for item in value[:_MOST_ITEMS]]
        if len(value) > _MOST_ITEMS:
            self.is_cut = True
            parts.append(_CUT)
        return parts

    def _cut(self, text: str, most: int) -> str:
        text = text.encode(errors="replace").decode()  # half of a character is no JSON
        if len(text) <= most:
            return text
        self.is_cut = True
        return text[:most] + _CUT
