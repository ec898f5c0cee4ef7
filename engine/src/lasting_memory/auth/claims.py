"""Claims of a token: where a name or path leads, and what a value of each shape counts as.

Settings and routes name claims. Identity providers put them at the top (`org_id`), under names with periods of their own
(`https://example.com/org`), or within objects (`o.id`, `app_metadata.org_id`, `realm_access.roles`).
"""

from collections.abc import Mapping
from typing import Any

from lasting_memory.people.identity import MAX_IDENTITY_BYTES, IdentityError, label


class UnreadableClaimError(ValueError):
    """A claim is there, in a shape that cannot be read. The message names the claim and the shape, and never the value."""


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """The value of a claim; None where it is not there. A null counts as not there.

    A period separates levels, and may be a part of a name: at each level the longest name that is there comes first. Raises
    `UnreadableClaimError` if the path leads through a value that is no object.
    """
    levels = path.split(".")
    unreadable: UnreadableClaimError | None = None
    for length in range(len(levels), 0, -1):
        name = ".".join(levels[:length])
        rest = ".".join(levels[length:])
        value = claims.get(name)
        if value is None:
            continue
        if length == len(levels):
            return value
        if not isinstance(value, Mapping):
            unreadable = unreadable or UnreadableClaimError(f"{path!r} leads through {name!r}, which is {shape_of(value)}")
            continue
        try:
            found = claim_at(value, rest)
        except UnreadableClaimError as error:
            unreadable = unreadable or error
            continue
        if found is not None:
            return found
    if unreadable:
        raise unreadable
    return None


def name_at(claims: Mapping[str, Any], path: str) -> str | None:
    """The name that a claim holds, such as an organization's; None where the claim is not there.

    A list with one text counts as that text. Raises `UnreadableClaimError` for other shapes, and for a text that cannot be a
    part of a namespace.
    """
    value = claim_at(claims, path)
    if value is None:
        return None
    name = value[0] if isinstance(value, list) and len(value) == 1 else value
    try:
        label(name)
    except (AttributeError, IdentityError):  # no text, or none that a store could hold
        fix = f"use a text of 1 to {MAX_IDENTITY_BYTES} bytes of UTF-8 without NUL, or a list with one"
        raise UnreadableClaimError(f"{path!r} is {shape_of(value)}; {fix}") from None
    return str(name)


def texts_at(claims: Mapping[str, Any], path: str) -> list[str]:
    """The printable texts of a claim that is a list, or of OAuth's `scope`: one string with spaces. None where it is not there.

    Raises `UnreadableClaimError` for other shapes.
    """
    value = claim_at(claims, path)
    if value is None:
        return []
    values = value.split() if isinstance(value, str) else value
    if not isinstance(values, list):
        raise UnreadableClaimError(f"{path!r} is {shape_of(value)}; use a list of texts, or one text with spaces")
    return [text for text in values if isinstance(text, str) and text.isprintable()]


def shape_of(value: object) -> str:
    """What kind of JSON value this is, for messages: they show no value of a token."""
    if isinstance(value, str):
        return _shape_of_text(value)
    if isinstance(value, list):
        if not value:
            return "an empty list"
        return f"a list with {shape_of(value[0])}" if len(value) == 1 else f"a list of {len(value)} values"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, bool):
        return "a boolean"
    return "null" if value is None else "a number"


def _shape_of_text(text: str) -> str:
    if not text:
        return "an empty text"
    if "\0" in text:
        return "a text with a NUL"
    try:
        return f"a text of {len(text.encode())} bytes"
    except UnicodeEncodeError:
        return "a text that is no UTF-8"
