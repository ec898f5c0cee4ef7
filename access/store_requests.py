"""Rebuilds people's requests to the store API (`/store/*`): only these fields reach the store, within these bounds.

The store trusts them. A number that no database holds, or a comparison of a text with a number, is an error deep inside it.
"""

from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, TypeAdapter

from access.run_fields import Number, Scalar, Text, Texts
from access.run_requests import checked

# Items or namespaces in one answer, and before it; the platform's own default for each.
MAX_LIMIT, MAX_OFFSET = 1_000, 1_000_000
_ITEMS, _NAMESPACES = 10, 100
# Fields that a search can ask for at once.
MAX_FILTERS = 10
MAX_SECONDS = 10**9

_Limit = Annotated[StrictInt, Field(ge=0, le=MAX_LIMIT)]
_Offset = Annotated[StrictInt, Field(ge=0, le=MAX_OFFSET)]


class _Delete(BaseModel):
    pass


class _Get(BaseModel):
    refresh_ttl: StrictBool | None = None


class _Search(_Get):
    # Equality only: "$gt" and others fail for some values.
    filter: Annotated[dict[Text, Scalar], Field(max_length=MAX_FILTERS)] | None = None
    query: Text | None = None
    limit: _Limit = _ITEMS
    offset: _Offset = 0


class _Namespaces(BaseModel):
    suffix: Texts | None = None
    max_depth: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    limit: _Limit = _NAMESPACES
    offset: _Offset = 0


class _File(BaseModel):
    """A policy. `memory/blocks.py` checks its content."""

    content: str
    encoding: Literal["utf-8"] = "utf-8"
    created_at: Text | None = None
    modified_at: Text | None = None


class _Put(BaseModel):
    value: _File
    index: Literal[False] | None = None
    ttl: Annotated[Number, Field(gt=0, le=MAX_SECONDS)] | None = None


_SHAPES: Mapping[str, TypeAdapter[Any]] = {
    "get": TypeAdapter(_Get),
    "search": TypeAdapter(_Search),
    "list_namespaces": TypeAdapter(_Namespaces),
    "put": TypeAdapter(_Put),
    "delete": TypeAdapter(_Delete),
}


def rebuild_store_request(action: str, value: MutableMapping[str, Any]) -> None:
    """Rebuild the value of a handler of the store in place, except namespace and key. Raises `HTTPException` 422 for an invalid
    field.
    """
    fields = checked(_SHAPES[action], {name: given for name, given in value.items() if given is not None})
    for name in [name for name in value if name not in {"namespace", "key"}]:
        del value[name]
    value.update(fields.model_dump())
    if isinstance(fields, _Put):
        value["value"] = fields.value.model_dump(exclude_none=True)
