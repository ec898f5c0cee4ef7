"""What is permitted of a change of a JSON file, field by field.

A field is *added* if it had no value, *removed* if it has none any more, and otherwise *updated*. Null
and empty texts, lists and objects are no values. The fields of an object within count, too. A JSON
file that is no object changes as a whole.

`may` are everywhere the kinds of change that are permitted.
"""

import json
from collections.abc import Collection, Mapping
from typing import TypeGuard

from lasting_memory.consolidation.change_kinds import ForbiddenChange
from lasting_memory.deployment import Kind as ChangeKind
from lasting_memory.memory.proposals import Changed

_WHOLE_FILE = "the whole file"


def permitted_json(
    change: Changed, may: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """The text of a JSON file with what is permitted of its change, and what is not."""
    after = "" if change.deleted else change.after
    old = _fields_of(change.before)
    new = _fields_of(after)
    if old is None or new is None:
        return _permitted_whole(change, may)
    merge = _ObjectMerge(change.path, may)
    try:
        result = merge.merged(old, new)
    except RecursionError:
        too_deep = ForbiddenChange(change.path, "update", _WHOLE_FILE)
        return change.before, [too_deep]
    if not merge.forbidden:
        return change.after, []
    if _are_same(result, old):
        return change.before, merge.forbidden
    if not result:
        return "", merge.forbidden
    text = json.dumps(result, indent=2, ensure_ascii=False)
    return f"{text}\n", merge.forbidden


def _permitted_whole(
    change: Changed, may: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """As `permitted_json`, of a file that is no object before or after the change: it changes as a
    whole, or not at all.
    """
    kind = _kind_of_file_change(change)
    if kind in may:
        return change.after, []
    whole_file = ForbiddenChange(change.path, kind, _WHOLE_FILE)
    return change.before, [whole_file]


def _kind_of_file_change(change: Changed) -> ChangeKind:
    """Which kind of change it is that a file changes as a whole."""
    if not change.before:
        return "add"
    if change.deleted:
        return "remove"
    return "update"


class _ObjectMerge:
    """Merges what is permitted of a change of a JSON object into the object."""

    def __init__(self, path: str, may: Collection[ChangeKind]) -> None:
        self._path = path
        self._may = may
        self.forbidden = list[ForbiddenChange]()

    def merged(
        self, old: Mapping[str, object], new: Mapping[str, object], prefix: str = ""
    ) -> dict[str, object]:
        """The fields of an object with what is permitted. Notes the others in `forbidden`.

        `prefix` stands before the names of an object's fields within another: `address.`. Raises
        `RecursionError` for objects that are nested too deep.
        """
        result = dict[str, object]()
        names = dict.fromkeys([*old, *new])
        for name in names:
            before = old.get(name)
            after = new.get(name)
            if _is_object(before) and _is_object(after):
                prefix_within = f"{prefix}{name}."
                result[name] = self.merged(before, after, prefix_within)
                continue
            kind = _kind_of_field_change(before, after)
            is_permitted = kind is None or kind in self._may
            fields = new if is_permitted else old
            if name in fields:
                result[name] = fields[name]
            if kind is None or is_permitted:
                continue
            value = before if kind == "remove" else after
            text = f"{prefix}{name}: {value}"
            forbidden = ForbiddenChange(self._path, kind, text)
            self.forbidden.append(forbidden)
        return result


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is an object with fields."""
    return isinstance(value, dict) and bool(value)


def _kind_of_field_change(before: object, after: object) -> ChangeKind | None:
    """Which kind of change it is that a field has another value; None if it has not."""
    had_value = _has_value(before)
    has_value = _has_value(after)
    if not had_value and not has_value:
        return None
    if not had_value:
        return "add"
    if not has_value:
        return "remove"
    return None if _are_same(before, after) else "update"


def _has_value(value: object) -> bool:
    """Whether a field counts as one with a value."""
    return value not in (None, "", [], {})


def _are_same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: Python takes true for 1."""
    one_text = json.dumps(one)
    other_text = json.dumps(other)
    return one_text == other_text


def _fields_of(text: str) -> dict[str, object] | None:
    """The fields of a JSON object: {} for an empty text, None for what is no object."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None
