"""Claims of a token: where a name or path leads, and what a value of each shape counts as.

Settings and routes name claims. Identity providers put them at the top (`org_id`), under names with
periods of their own (`https://example.com/org`), or within objects (`o.id`, `app_metadata.org_id`,
`realm_access.roles`).
"""

import re
from collections.abc import Mapping
from typing import TypeGuard

from lasting_memory.people.identity import MAX_IDENTITY_BYTES, IdentityError, label


class UnreadableClaimError(ValueError):
    """A claim is there, in a shape that cannot be read.

    The message names the claim and the shape, and never the value.
    """


def claim_at(claims: Mapping[str, object], path: str) -> object:
    """The value of a claim; None where it is not there. A null counts as not there.

    A period separates levels, and may be a part of a name: at each level the longest name that is
    there comes first. Raises `UnreadableClaimError` if the path leads through a value that is no
    object.
    """
    levels = path.split(".")
    first_error: UnreadableClaimError | None = None
    for length in range(len(levels), 0, -1):
        name = ".".join(levels[:length])
        inner_path = ".".join(levels[length:])
        value = claims.get(name)
        if value is None:
            continue
        if length == len(levels):
            return value
        if not isinstance(value, Mapping):
            first_error = first_error or UnreadableClaimError(
                f"{path!r} leads through {name!r}, which is {shape_of(value)}"
            )
            continue
        try:
            inner_value = claim_at(value, inner_path)
        except UnreadableClaimError as error:
            first_error = first_error or error
            continue
        if inner_value is not None:
            return inner_value
    if first_error:
        raise first_error
    return None


def name_at(claims: Mapping[str, object], path: str) -> str | None:
    """The name that a claim holds, such as an organization's; None where the claim is not there.

    A list with one text counts as that text, and an object with one name as that name if an object
    stands under it, as Keycloak writes organizations: `{"acme": {"id": "..."}}`. Raises
    `UnreadableClaimError` for other shapes, and for a text that cannot be a part of a namespace.
    """
    value = claim_at(claims, path)
    if value is None:
        return None
    name = _only_item(value)
    if _is_named_objects(value) and len(value) == 1:
        name = next(iter(value))
    if not _can_be_name(name):
        raise UnreadableClaimError(
            f"{path!r} is {shape_of(value)}; use {_A_TEXT}, or a list or an object with one"
        )
    return name


def identity_at(claims: Mapping[str, object], path: str) -> str | None:
    """The identity that a claim holds; None where the claim is not there.

    An integer counts as its decimal text, and a list with one value as that value. Raises
    `UnreadableClaimError` for other shapes, and for a text that cannot be a part of a namespace.
    """
    value = claim_at(claims, path)
    if value is None:
        return None
    identity = _only_item(value)
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not _can_be_name(identity):
        raise UnreadableClaimError(f"{path!r} is {shape_of(value)}; use {_A_TEXT}, or an integer")
    return identity


def texts_at(claims: Mapping[str, object], path: str) -> list[str]:
    """The printable texts of a claim: of a list, or of OAuth's `scope`, one string with spaces.
    None where it is not there.

    Of an object whose values are objects the names count, as ZITADEL writes roles: `{"admin":
    {"<org>": "<domain>"}}`. Raises `UnreadableClaimError` for other shapes.
    """
    value = claim_at(claims, path)
    if value is None:
        return []
    values = value
    if isinstance(value, str):
        values = value.split()
    elif _is_named_objects(value):
        values = list(value)
    if not isinstance(values, list):
        raise UnreadableClaimError(
            f"{path!r} is {shape_of(value)}; use a list of texts, or one text with spaces"
        )
    texts = list[str]()
    for item in values:
        if isinstance(item, str) and item.isprintable():
            texts.append(item)
    return texts


def verification_of(path: str) -> str | None:
    """The path of the claim that says whether the email address at `path` is verified.

    None if the claim at `path` is no email address.
    """
    name = _LAST_NAME.search(path)
    if name is None or "mail" not in name[0].casefold():
        return None
    return f"{path[: name.start()]}email_verified"


_A_TEXT = f"a text of 1 to {MAX_IDENTITY_BYTES} bytes of UTF-8 without NUL"
_LAST_NAME = re.compile(r"[^./:]*$")


def _only_item(value: object) -> object:
    """The value of a list that has just one; anything else as it is."""
    if not isinstance(value, list) or len(value) != 1:
        return value
    return value[0]


def _is_named_objects(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether this is an object whose values are all objects: its names are the names of something."""
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(item, Mapping) for item in value.values())


def _can_be_name(value: object) -> TypeGuard[str]:
    """Whether a store can hold this as a part of a namespace."""
    if not isinstance(value, str):
        return False
    try:
        label(value)
    except IdentityError:
        return False
    return True


def shape_of(value: object) -> str:
    """What kind of JSON value this is, for messages: they show no value of a token."""
    if isinstance(value, str):
        return _shape_of_text(value)
    if isinstance(value, list):
        return _shape_of_list(value)
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, bool):
        return "a boolean"
    return "null" if value is None else "a number"


def _shape_of_list(values: list[object]) -> str:
    """How many values a list has, or what kind its only one is."""
    if not values:
        return "an empty list"
    if len(values) > 1:
        return f"a list of {len(values)} values"
    item_shape = shape_of(values[0])
    return f"a list with {item_shape}"


def _shape_of_text(text: str) -> str:
    """What kind of text this is: empty, with a NUL, of so many bytes, or half a character."""
    if not text:
        return "an empty text"
    if "\0" in text:
        return "a text with a NUL"
    try:
        return f"a text of {len(text.encode())} bytes"
    except UnicodeEncodeError:
        return "a text that is no UTF-8"
