"""What a person is shown of a question, within bounds.

The complete value is in the thread's state.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, TypeGuard

import orjson
from pydantic import BaseModel

from lasting_memory.auth.interrupt_forms import Kind, Request, form
from lasting_memory.auth.interrupts import Pending

# Characters of one text within a value.
_MAX_CHARS = 4_000
# Items of one list or object.
_MAX_ITEMS = 50
# Levels of nesting.
_MAX_LEVELS = 8
# Characters of a whole value.
_MAX_TEXT_CHARS = 20_000
# Characters of the name of an action or a field, and of a choice.
_MAX_NAME_CHARS = 200
# Choices of one answer that buttons are made for.
_MAX_CHOICES = 12
# Larger numbers are not exact in a browser.
_EXACT_NUMBERS = 2**53
# The mark of what is left out.
_CUT = "…"


# An answer that a button gives.
Choice = bool | int | float | str


class ShownRequest(TypedDict):
    """An action of a question as the page shows it, and the types of answers that it offers."""

    name: str
    args: str
    description: str
    may: list[str]


class ShownQuestion(TypedDict):
    """A question as the page shows it. `text` is that of one about no action."""

    id: str
    answered_by: Literal["person", "operator"]
    kind: Kind
    requests: list[ShownRequest]
    text: str
    choices: list[Choice]


def shown(interrupt: Pending) -> ShownQuestion:
    """An interrupt as the page shows it: texts within bounds, and the kind of answer that it takes.

    It reads the whole question: call it outside of the event loop.
    """
    kind, requests = form(interrupt.value)
    text = ""
    if not requests:
        text = _BoundedText().text_of(interrupt.value)
    choices = list[Choice]()
    if kind == "value":
        choices = _choices(interrupt.schema)
    return {
        "id": interrupt.id,
        "answered_by": "operator" if interrupt.is_operators else "person",
        "kind": kind,
        "requests": [_shown_request(request) for request in requests],
        "text": text,
        "choices": choices,
    }


def _shown_request(request: Request) -> ShownRequest:
    """What the page shows of an action."""
    bounded_args = _BoundedText()
    args = bounded_args.text_of(request.args)
    bounded_description = _BoundedText()
    description = bounded_description.text_of(request.description)
    kinds = list(request.allowed_kinds)
    if bounded_args.is_cut and "edit" in kinds:
        # Nobody edits what they see a part of: the rest would be lost.
        kinds.remove("edit")
    return {
        "name": request.name[:_MAX_NAME_CHARS],
        "args": args,
        "description": description,
        "may": kinds,
    }


def _choices(schema: Mapping[str, object]) -> list[Choice]:
    """The answers among which a question's schema lets choose; none where it takes others."""
    if schema.get("type") == "boolean":
        return [True, False]
    answers = schema.get("enum")
    if not isinstance(answers, list) or not 0 < len(answers) <= _MAX_CHOICES:
        return []
    choices = list[Choice]()
    for choice in answers:
        if not _fits_on_button(choice):
            return []
        choices.append(choice)
    return choices


def _fits_on_button(choice: object) -> TypeGuard[Choice]:
    """Whether a choice is a short text or a number."""
    if not isinstance(choice, str | int | float):
        return False
    return len(str(choice)) <= _MAX_NAME_CHARS


class _BoundedText:
    """Turns any value into a text within bounds.

    `is_cut` says whether something of it was left out.
    """

    def __init__(self) -> None:
        self.is_cut = False

    def text_of(self, value: object) -> str:
        """A text as it is, and anything else as JSON."""
        part = self._part(value, _MAX_LEVELS)
        if not isinstance(part, str):
            part = orjson.dumps(part, option=orjson.OPT_INDENT_2).decode()
        return self._cut(part, _MAX_TEXT_CHARS)

    def _part(self, value: object, levels: int) -> object:
        """A value as JSON has it, with at most so many levels of lists and objects in it."""
        if isinstance(value, BaseModel):
            value = dict(value)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, str):
            return self._cut(value, _MAX_CHARS)
        if levels > 0 and isinstance(value, Mapping):
            return self._object(value, levels - 1)
        if levels > 0 and isinstance(value, list | tuple | set | frozenset):
            return self._list(list(value), levels - 1)
        self.is_cut = True  # too deep, or no JSON
        return _CUT

    def _number(self, number: int) -> int | str:
        """A whole number, or the text of one that a browser would show wrongly."""
        if abs(number) < _EXACT_NUMBERS:
            return number
        return self._cut(hex(number), _MAX_NAME_CHARS)

    def _object(self, value: Mapping[object, object], levels: int) -> dict[str, object]:
        """An object of JSON, with at most so many levels in each field."""
        parts = dict[str, object]()
        fields = list(value.items())
        for key, item in fields[:_MAX_ITEMS]:
            name = self._cut(str(key), _MAX_NAME_CHARS)
            parts[name] = self._part(item, levels)
        if len(fields) > _MAX_ITEMS:
            self.is_cut = True
            parts[_CUT] = _CUT
        return parts

    def _list(self, value: Sequence[object], levels: int) -> list[object]:
        """A list of JSON, with at most so many levels in each item."""
        parts = [self._part(item, levels) for item in value[:_MAX_ITEMS]]
        if len(value) > _MAX_ITEMS:
            self.is_cut = True
            parts.append(_CUT)
        return parts

    def _cut(self, text: str, max_chars: int) -> str:
        """A text of at most so many characters, with a mark where the rest is left out."""
        text = text.encode(errors="replace").decode()  # half of a character is no JSON
        if len(text) <= max_chars:
            return text
        self.is_cut = True
        return text[:max_chars] + _CUT
