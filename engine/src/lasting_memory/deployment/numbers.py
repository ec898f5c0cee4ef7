"""Checks the numbers that a fork decides."""

from typing import Any, TypeVar

from pydantic import ValidationError

from lasting_memory.settings import SettingsError

Numbers = TypeVar("Numbers")


def in_one_line(kind: type[Numbers]) -> type[Numbers]:
    """Has a class raise `SettingsError` for a number that cannot be used.

    The error is one line: the number's name, its value and what is wrong.
    """
    validated = kind.__init__

    def init(numbers: Numbers, **values: Any) -> None:
        try:
            validated(numbers, **values)
        except ValidationError as error:
            detail = error.errors()[0]
            name = ".".join(map(str, (kind.__name__, *detail["loc"])))
            raise SettingsError(f"{name} is {detail['input']!r:.80}: {detail['msg']}.") from None

    kind.__init__ = init  # type: ignore[method-assign,assignment]
    return kind
