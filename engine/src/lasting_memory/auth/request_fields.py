"""Types of the fields of requests, and the check of a value against one."""

import reprlib
from collections.abc import Mapping, MutableMapping
from typing import Annotated, TypeVar, cast
from uuid import UUID

from langgraph_sdk import Auth
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
)
from typing_extensions import TypedDict

HTTPException = Auth.exceptions.HTTPException

# Keys of the metadata of one run or thread, and tags of a run.
MAX_METADATA_KEYS = 50
# Characters of each key and value of metadata.
MAX_METADATA_CHARS = 2_000

Text = Annotated[str, Field(strict=True, max_length=MAX_METADATA_CHARS, pattern=r"^[^\x00]*$")]
Id = Annotated[UUID, AfterValidator(str)]
Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
Scalar = Text | StrictBool | Number | None
Texts = Annotated[list[Text], Field(max_length=MAX_METADATA_KEYS)]


_Value = TypeVar("_Value")
_Object = TypeVar("_Object", bound=Mapping[str, object])


def only(fields: Mapping[str, object]) -> type[dict[str, object]]:
    """The type of an object of which these fields are kept, if the request has them.

    Other fields and nulls are dropped.
    """
    return cast(
        "type[dict[str, object]]",
        Annotated[_typed_dict(fields), BeforeValidator(_without_nulls)],
    )


def _typed_dict(fields: Mapping[str, object]) -> object:
    """The type of an object with these fields, each of which may be missing."""
    return TypedDict("Fields", dict(fields), total=False)  # type: ignore[operator]


def _without_nulls(value: object) -> object:
    """An object without its fields that are null; any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    return {name: field for name, field in value.items() if field is not None}


def checked(kind: TypeAdapter[_Value], value: object, place: str) -> _Value:
    """A value as its type has it. Raises `HTTPException` 422 that names the invalid field.

    `place` is the place of the value in the request, such as "config".
    """
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        problem = problems[0]
        parts = [str(part)[:100] for part in (place, *problem["loc"])]
        path = ".".join(parts)
        shown_value = reprlib.repr(problem["input"])
        message = problem["msg"]
        raise HTTPException(422, f"{path} is {shown_value}: {message}.") from None


def rebuild(target: MutableMapping[str, object], kind: TypeAdapter[_Object], place: str) -> None:
    """Replace the content of an object by what its type keeps of it, in place."""
    fields = checked(kind, target, place)
    target.clear()
    target.update(fields)
