"""Checks the numbers that a fork decides."""

from typing import TypeVar

from pydantic import ValidationError

from lasting_memory.settings import SettingsError

Numbers = TypeVar("Numbers")


def in_one_line(kind: type[Numbers]) -> type[Numbers]:
    """Has a class raise `SettingsError` for a number that cannot be used.

    The error is one line: the number's name, its value and what is wrong.
    """
    validating_init = kind.__init__

    def init(numbers: Numbers, **values: object) -> None:
        try:
            validating_init(numbers, **values)
        except ValidationError as error:
            detail = error.errors()[0]
            path = (kind.__name__, *detail["loc"])
            name = ".".join(map(str, path))
            value = detail["input"]
            problem = detail["msg"]
            raise SettingsError(f"{name} is {value!r:.80}: {problem}.") from None

    kind.__init__ = init  # type: ignore[method-assign,assignment]
    return kind
