"""What is permitted of a change of a JSON file, field by field.

A field is *added* if it had no value, *removed* if it has none any more, and otherwise *updated*. Null
and empty texts, lists and objects are no values. The fields of an object within count, too. A JSON
file that is no object changes as a whole.
"""

import json
from collections.abc import Collection, Mapping
from typing import TypeGuard

from lasting_memory.consolidation.change_kinds import ForbiddenChange
from lasting_memory.deployment import Kind as ChangeKind
from lasting_memory.memory.proposals import Changed

_WHOLE_FILE = "the whole file"


def permitted_json(
    change: Changed, permitted_kinds: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """The text of a JSON file with what is permitted of its change, and what is not."""
    text_after = "" if change.deleted else change.after
    fields_before = _fields_of(change.before)
    fields_after = _fields_of(text_after)
    if fields_before is None or fields_after is None:
        return _permitted_whole(change, permitted_kinds)
    merge = _ObjectMerge(change.path, permitted_kinds)
    try:
        permitted_fields = merge.merged(fields_before, fields_after)
    except RecursionError:
        deep_change = ForbiddenChange(change.path, "update", _WHOLE_FILE)
        return change.before, [deep_change]
    if not merge.forbidden_changes:
        return change.after, []
    if _are_same(permitted_fields, fields_before):
        return change.before, merge.forbidden_changes
    if not permitted_fields:
        return "", merge.forbidden_changes
    text = json.dumps(permitted_fields, indent=2, ensure_ascii=False)
    return f"{text}\n", merge.forbidden_changes


def _permitted_whole(
    change: Changed, permitted_kinds: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """As `permitted_json`, of a file that is no object before or after the change: it changes as a
    whole, or not at all.
    """
    kind = _kind_of_file_change(change)
    if kind in permitted_kinds:
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

    def __init__(self, path: str, permitted_kinds: Collection[ChangeKind]) -> None:
        self._path = path
        self._permitted_kinds = permitted_kinds
        self.forbidden_changes = list[ForbiddenChange]()

    def merged(
        self,
        fields_before: Mapping[str, object],
        fields_after: Mapping[str, object],
        prefix: str = "",
    ) -> dict[str, object]:
        """The fields of an object with what is permitted. Notes the others in `forbidden_changes`.

        `prefix` stands before the names of an object's fields within another: `address.`. Raises
        `RecursionError` for objects that are nested too deep.
        """
        permitted_fields = dict[str, object]()
        names = dict.fromkeys([*fields_before, *fields_after])
        for name in names:
            value_before = fields_before.get(name)
            value_after = fields_after.get(name)
            if _is_object(value_before) and _is_object(value_after):
                prefix_within = f"{prefix}{name}."
                permitted_fields[name] = self.merged(value_before, value_after, prefix_within)
                continue
            kind = _kind_of_field_change(value_before, value_after)
            is_permitted = kind is None or kind in self._permitted_kinds
            fields = fields_after if is_permitted else fields_before
            if name in fields:
                permitted_fields[name] = fields[name]
            if kind is None or is_permitted:
                continue
            value = value_before if kind == "remove" else value_after
            text = f"{prefix}{name}: {value}"
            forbidden_change = ForbiddenChange(self._path, kind, text)
            self.forbidden_changes.append(forbidden_change)
        return permitted_fields


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is an object with fields."""
    return isinstance(value, dict) and bool(value)


def _kind_of_field_change(value_before: object, value_after: object) -> ChangeKind | None:
    """Which kind of change it is that a field has another value; None if it has not."""
    had_value = _has_value(value_before)
    has_value = _has_value(value_after)
    if not had_value and not has_value:
        return None
    if not had_value:
        return "add"
    if not has_value:
        return "remove"
    return None if _are_same(value_before, value_after) else "update"


def _has_value(value: object) -> bool:
    """Whether a field counts as one with a value."""
    return value not in (None, "", [], {})


def _are_same(value: object, other_value: object) -> bool:
    """Whether two values are the same JSON: Python takes true for 1."""
    text = json.dumps(value)
    other_text = json.dumps(other_value)
    return text == other_text


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
