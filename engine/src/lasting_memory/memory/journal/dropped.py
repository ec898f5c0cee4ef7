"""What was taken back in revisions that are no longer kept.

A history has the last revisions of a file. What an older one took back would be forgotten with it,
and consolidation would bring it back where it reads old conversations again. So each line that goes
with a revision is kept as an item of its own, until it is written again, its fact is deleted for
good, or its person is forgotten.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from langgraph.store.base import Item, PutOp

from lasting_memory.memory.journal.revisions import Log, Revision
from lasting_memory.memory.journal.texts import lines_of
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import namespaces
from lasting_memory.people.identity import AT_THEIR_WORD
from lasting_memory.people.namespaces import Namespace

# Lines of one memory that are kept, and bytes of all of them: the newest.
MAX_LINES = 2_000
MAX_BYTES = 1_048_576


class TakenBack(NamedTuple):
    """A line of a file that was taken back, and when, in ISO format, UTC; of JSON an object with
    one field.
    """

    path: str
    text: str
    at: str


def dropped_ops(
    files: Namespace, logs: Iterable[Sequence[Item]], gone: Collection[tuple[Namespace, str]]
) -> list[PutOp]:
    """The operations that keep what is taken back in revisions that go, given by the namespaces and
    keys of their items. `logs` have all items of each file. Blocks.
    """
    ops = dict[str, PutOp]()
    place = namespaces.taken_back(files)
    for log in logs:
        ids = _ids_in(log, gone)
        if not ids:
            continue
        path = _path_in(log)
        history = Log(log).history()
        for earlier, later in pairwise(reversed(history)):
            if earlier.id not in ids:
                continue
            for op in _ops_of(place, path, earlier, later):
                ops[op.key] = op
    return list(ops.values())


def _ids_in(log: Iterable[Item], gone: Collection[tuple[Namespace, str]]) -> set[str]:
    """The ids of a file's revisions that go."""
    ids = set[str]()
    for item in log:
        if (item.namespace, item.key) in gone:
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


def within_bounds(ops: Sequence[PutOp], known: Sequence[Item]) -> list[PutOp]:
    """These operations, beside the items that there are, so that no more than `MAX_LINES` and
    `MAX_BYTES` are kept: the newest.
    """
    values = _values_after(ops, known)
    newest_first = sorted(
        values, key=lambda key: (str(values[key].get("at", "")), key), reverse=True
    )
    room = MAX_BYTES
    too_many = {*newest_first[MAX_LINES:]}
    for key in newest_first[:MAX_LINES]:
        room -= len(str(values[key].get("text", "")).encode(errors="replace"))
        if room < 0:
            too_many.add(key)
    kept = [op for op in ops if op.key not in too_many]
    gone = [item for item in known if item.key in too_many]
    return kept + deletions(gone)


def _values_after(ops: Sequence[PutOp], known: Sequence[Item]) -> dict[str, Mapping[str, Any]]:
    """The values of all lines, by key, once these operations are carried out."""
    values = dict[str, Mapping[str, Any]]()
    for item in known:
        values[item.key] = item.value
    for op in ops:
        if op.value is None:
            values.pop(op.key, None)
        else:
            values[op.key] = op.value
    return values


def _ops_of(place: Namespace, path: str, earlier: Revision, later: Revision) -> Iterable[PutOp]:
    """The operations about one edit: what it takes out is kept, and what it puts in no longer."""
    if "utf-8" not in (earlier.encoding, later.encoding):
        return
    before = _parts(path, earlier.content)
    after = _parts(path, later.content)
    known = set(before)
    for text in after:
        if text not in known:
            yield PutOp(place, _key(path, text), None)
    if later.author.kind not in AT_THEIR_WORD:
        return
    now = set(after)
    for text in before:
        if text not in now:
            value = {"path": path, "text": text, "at": later.at}
            yield PutOp(place, _key(path, text), value, index=False)


def _parts(path: str, content: str | None) -> list[str]:
    """The lines of a text, or the fields of a JSON object, each as an object."""
    if path.endswith(".json"):
        try:
            fields = json.loads(content or "{}")
        except (ValueError, RecursionError):
            return []
        if not isinstance(fields, dict):
            return []
        return [json.dumps({name: value}) for name, value in fields.items()]
    return [line for line in lines_of(content or "") if line.strip()]


def _key(path: str, text: str) -> str:
    place = f"{path}\0{text}".encode(errors="replace")
    return hashlib.sha256(place).hexdigest()[:32]


def taken_back_in(items: Iterable[Item]) -> list[TakenBack]:
    """What these items of `namespaces.taken_back` keep. A damaged one is left out."""
    found = list[TakenBack]()
    for item in items:
        taken_back = _taken_back(item.value)
        if taken_back is not None:
            found.append(taken_back)
    return found


def _taken_back(value: Mapping[str, Any]) -> TakenBack | None:
    path = value.get("path")
    text = value.get("text")
    at = value.get("at")
    if isinstance(path, str) and isinstance(text, str) and isinstance(at, str):
        return TakenBack(path, text, at)
    return None
