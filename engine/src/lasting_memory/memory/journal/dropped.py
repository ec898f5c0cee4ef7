"""What was taken back in revisions that are no longer kept.

A history has the last revisions of a file. What an older one took back would be forgotten with it,
and consolidation would bring it back where it reads old conversations again. So each line that was
taken back at the person's word is kept as an item of its own when its revision goes, until it is
written again, its fact is deleted for good, or its person is forgotten. Of JSON a line is an object
with one field.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from langgraph.store.base import Item, PutOp

from lasting_memory.memory.journal.log import Log
from lasting_memory.memory.journal.revisions import Revision
from lasting_memory.memory.journal.texts import lines_of
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import namespaces
from lasting_memory.people.identity import AT_THEIR_WORD
from lasting_memory.people.namespaces import Namespace

# Lines of one memory that are kept, and bytes of all of them: the newest.
MAX_LINES = 2_000
MAX_BYTES = 1_048_576


class TakenBack(NamedTuple):
    """A line of a file that was taken back, and when, in ISO format, UTC."""

    path: str
    text: str
    at: str


def dropped_ops(
    files: Namespace,
    logs: Iterable[Sequence[Item]],
    dropped_places: Collection[tuple[Namespace, str]],
) -> list[PutOp]:
    """The operations that keep what is taken back in revisions that go. `dropped_places` are the
    namespaces and keys of their items, and `logs` have all items of each file. Blocks.
    """
    ops = dict[str, PutOp]()
    place = namespaces.taken_back(files)
    for log in logs:
        ids = _dropped_ids(log, dropped_places)
        if not ids:
            continue
        path = _path_in(log)
        oldest_first = reversed(Log(log).history())
        for earlier_revision, later_revision in pairwise(oldest_first):
            if earlier_revision.id not in ids:
                continue
            for op in _ops_of_change(place, path, earlier_revision, later_revision):
                ops[op.key] = op
    return list(ops.values())


def _dropped_ids(
    log: Iterable[Item], dropped_places: Collection[tuple[Namespace, str]]
) -> set[str]:
    """The ids of a file's revisions that go."""
    ids = set[str]()
    for item in log:
        place = (item.namespace, item.key)
        if place not in dropped_places:
            continue
        _, _, revision_id = item.key.partition("-")
        ids.add(revision_id)
    return ids


def _path_in(log: Iterable[Item]) -> str:
    """The path of a file, by its revisions; "" where all are damaged."""
    for item in log:
        path = item.value.get("path")
        if isinstance(path, str):
            return path
    return ""


def _ops_of_change(
    place: Namespace, path: str, earlier_revision: Revision, later_revision: Revision
) -> Iterable[PutOp]:
    """The operations about one change. What it puts in is no longer kept as taken back; what
    it takes out at the person's word is kept from now on.
    """
    if "utf-8" not in (earlier_revision.encoding, later_revision.encoding):
        return
    old_lines = _lines(path, earlier_revision.content)
    new_lines = _lines(path, later_revision.content)
    lines_before = set(old_lines)
    for text in new_lines:
        if text not in lines_before:
            key = _key(path, text)
            yield PutOp(place, key, None)
    is_at_their_word = later_revision.author.kind in AT_THEIR_WORD
    if not is_at_their_word:
        return
    lines_after = set(new_lines)
    for text in old_lines:
        if text not in lines_after:
            key = _key(path, text)
            value = {"path": path, "text": text, "at": later_revision.at}
            yield PutOp(place, key, value, index=False)


def _lines(path: str, content: str | None) -> list[str]:
    """The lines of a text that are not blank, or the fields of a JSON object, each as an object.
    It is empty for other JSON.
    """
    if path.endswith(".json"):
        return _field_lines(content or "{}")
    lines = list[str]()
    for line in lines_of(content or ""):
        if line.strip():
            lines.append(line)
    return lines


def _field_lines(content: str) -> list[str]:
    """The fields of a JSON object, each as an object; none of other JSON, and of no JSON."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return []
    if not isinstance(fields, dict):
        return []
    lines = list[str]()
    for name, value in fields.items():
        field = json.dumps({name: value})
        lines.append(field)
    return lines


def _key(path: str, text: str) -> str:
    """The key of a line's item."""
    place = f"{path}\0{text}"
    digest = hashlib.sha256(place.encode(errors="replace"))
    return digest.hexdigest()[:32]


def within_bounds(ops: Sequence[PutOp], items: Sequence[Item]) -> list[PutOp]:
    """These operations of `dropped_ops`, as far as no more than `MAX_LINES` lines and `MAX_BYTES`
    are kept, and operations that delete what is more: the newest lines stay. `items` are those that
    are kept so far. Blocks.
    """
    values = _values_after(ops, items)

    def time_and_key(key: str) -> tuple[str, str]:
        at = values[key].get("at", "")
        return str(at), key

    newest_first = sorted(values, key=time_and_key, reverse=True)
    room = MAX_BYTES
    too_many = set(newest_first[MAX_LINES:])
    for key in newest_first[:MAX_LINES]:
        text = str(values[key].get("text", ""))
        text_bytes = text.encode(errors="replace")
        room -= len(text_bytes)
        if room < 0:
            too_many.add(key)
    bounded_ops = [op for op in ops if op.key not in too_many]
    superfluous = [item for item in items if item.key in too_many]
    return bounded_ops + deletions(superfluous)


def _values_after(ops: Sequence[PutOp], items: Sequence[Item]) -> dict[str, Mapping[str, object]]:
    """The values of all lines, by key, once these operations are carried out."""
    values = dict[str, Mapping[str, object]]()
    for item in items:
        values[item.key] = item.value
    for op in ops:
        if op.value is None:
            values.pop(op.key, None)
        else:
            values[op.key] = op.value
    return values


def taken_back_in(items: Iterable[Item]) -> list[TakenBack]:
    """What these items of `namespaces.taken_back` keep. A damaged one is left out."""
    lines = list[TakenBack]()
    for item in items:
        line = _taken_back(item.value)
        if line is not None:
            lines.append(line)
    return lines


def _taken_back(value: Mapping[str, object]) -> TakenBack | None:
    """The line that an item's value keeps; None for a damaged one."""
    path = value.get("path")
    text = value.get("text")
    at = value.get("at")
    if not isinstance(path, str):
        return None
    if isinstance(text, str) and isinstance(at, str):
        return TakenBack(path, text, at)
    return None
