"""Revisions of a file: what is stored of them, how they differ, which are newest, and how several
newest ones become one.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author, StoredAuthor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain
from lasting_memory.stored_files import stored_file

# Makes a file's new content of the old one; None is no file. A ValueError refuses the change.
Change = Callable[[FileData | None], FileData | None]
# Characters of one file's diff, in the history and in records of consolidation.
MAX_DIFF_CHARS = 20_000
# More lines between a common beginning and end count as different: comparing takes quadratic time.
MAX_COMPARED_LINES = 2_000
# Pairs of lines that are compared in the time in which one line is looked at, roughly.
_PAIRS_A_LINE = 1_000
# In place of a field that an object lacks.
_NO_FIELD = object()


@dataclass(frozen=True, slots=True, order=True)
class Revision:
    """A file after one change; `content` is None if that deleted it. Times are ISO times in UTC.
    Later ones are larger.

    `parents` are ids: first that of the revision before it in the history, then those that were
    merged into it.
    """

    number: int
    id: str
    parents: tuple[str, ...]
    content: str | None
    encoding: str
    created_at: str
    at: str
    author: StoredAuthor

    @property
    def previous(self) -> str:
        """The id of the revision before it in the history; "" for the first."""
        return self.parents[0] if self.parents else ""

    def file(self) -> FileData | None:
        """As deepagents' file data; None for a deletion."""
        if self.content is None:
            return None
        return FileData(
            content=self.content,
            encoding=self.encoding,
            created_at=self.created_at,
            modified_at=self.at,
        )


NOTHING = Revision(0, "", (), None, "utf-8", "", "", Author("outside"))
_REVISIONS = TypeAdapter(Revision)


def made_of(
    base: Revision, file: FileData | None, author: Author, revision_id: str, *merged: str
) -> Revision:
    """The revision that follows another, in which those with the ids `merged` are too."""
    now = datetime.now(UTC).isoformat()
    content, encoding = (file["content"], file["encoding"]) if file else (None, "utf-8")
    if content is not None and encoding == "utf-8":
        content = plain(content)
    created_at = (
        base.created_at if base.content is not None or file is None else file.get("created_at", now)
    )
    parents = (*filter(None, [base.id]), *merged)
    return Revision(
        base.number + 1, revision_id, parents, content, encoding, created_at, now, author
    )


def put(files: Namespace, path: str, revision: Revision, began: str) -> PutOp:
    """Stores a revision, under a key that no other one has. `began`: when its writer did; "" if
    nobody can be forgotten.
    """
    # Postgres compares text, the in-memory store numbers: eight digits are the same in both
    slot = f"{revision.number:08}"
    value = {"slot": slot, "path": path, "began": began, "revision": asdict(revision)}
    return PutOp(namespaces.journal(files, path), f"{slot}-{revision.id}", value, index=False)


def copy(files: Namespace, path: str, revision: Revision) -> PutOp:
    """Makes the file a copy of a revision."""
    file = revision.file()
    about = {"revision": revision.number, "revision_id": revision.id, "journal": _name(files, path)}
    return PutOp(files, path, {**file, **about} if file else None)


def copied(files: Namespace, path: str, item: Item | None) -> Revision | None:
    """The revision that the file is a copy of; None if it was put around the journal, or is not
    there.
    """
    if item is None or item.value.get("journal") != _name(files, path):
        return None
    try:
        file = stored_file(item)
        number = int(item.value["revision"])
        revision_id = str(item.value["revision_id"])
        times = file.get("created_at", ""), file.get("modified_at", "")
        return Revision(
            number, revision_id, (), file["content"], file["encoding"], *times, NOTHING.author
        )
    except (KeyError, TypeError, ValueError):  # damaged
        return None


def outside(base: Revision, item: Item | None) -> Revision | None:
    """What was put or deleted around the journal since a revision, the same whoever notices it;
    None for nothing.
    """
    file = stored_file(item) if item else None
    if (file and file["content"]) == base.content:
        return None
    text = json.dumps([base.id, file and file["content"], str(item and item.updated_at)])
    return made_of(base, file, NOTHING.author, hashlib.sha256(text.encode()).hexdigest()[:32])


def _name(files: Namespace, path: str) -> str:
    """Tells a copy of this file's revision from a value copied from another file or person."""
    return hashlib.sha256(repr(namespaces.journal(files, path)).encode()).hexdigest()[:16]


def _as_text(revision: Revision) -> Revision:
    """The revision with plain text, which one of an earlier version may lack."""
    if revision.content is None or revision.encoding != "utf-8":
        return revision
    text = plain(revision.content)
    return revision if text == revision.content else replace(revision, content=text)


class Log:
    """Revisions of a file, by id; and the numbers of those that cannot be read, by id."""

    def __init__(self, items: Iterable[Item], forgotten: str = "") -> None:
        """Those in these items, without what was begun before its person was forgotten at this
        time.
        """
        self.known = dict[str, Revision]()
        self.damaged = dict[str, int]()
        for item in items:
            slot, _, revision_id = item.key.partition("-")
            try:
                if not "" < item.value.get("began", "") <= forgotten:
                    self.known[revision_id] = _as_text(
                        _REVISIONS.validate_python(item.value["revision"])
                    )
            except (AttributeError, KeyError, TypeError, ValidationError):
                self.damaged[revision_id] = int(slot) if slot.isdecimal() else 0

    def tips(self) -> list[Revision]:
        """The revisions that no other was made from. What is older than a damaged one with
        followers counts as in it.
        """
        named = {parent for each in self.known.values() for parent in each.parents}
        since = max((self.damaged[parent] for parent in named & self.damaged.keys()), default=0)
        return [
            each for each in self.known.values() if each.id not in named and each.number >= since
        ]

    def history(self) -> list[Revision]:
        """From the newest revision backwards; where one is damaged, from the next older one."""
        chain = list[Revision]()
        newest = max(self.tips(), default=None)
        while newest:
            chain.append(newest)
            before = (each for each in self.known.values() if each.number < chain[-1].number)
            newest = self.known.get(newest.previous) or max(before, default=None)
        return chain

    async def merged(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """Revisions, the last of which has everything that is in these; none if there is one. The
        same whoever makes them.
        """
        return [] if len(tips) == 1 else await platform.in_thread(self._merged, path, tips)

    def _merged(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """Each change that the newest tip lacks is made once more, in order, by its own author. A
        merge is none.
        """
        newest = max(tips)
        changes = list[Revision]()
        content = newest.content
        encoding = newest.encoding
        for each in self.lacking(tips):
            before = self.known.get(each.previous, NOTHING)
            after = each.content
            if not before.number and each.number > 1 and each not in tips:
                continue  # what it changed is not known any more
            if {before.encoding, each.encoding, encoding} == {"utf-8"}:
                after = merge(path, before.content, content, after)
            if len(each.parents) < 2 and after != content:  # noqa: PLR2004
                content = after
                encoding = each.encoding
                changes.append(replace(each, content=content))
        chain = [newest]
        for each in changes or [newest]:
            is_last = each is (changes or [newest])[-1]
            merged = sorted({each.id, *(tip.id for tip in tips if is_last)} - {newest.id})
            # Its id says all that it was made from, so one id is one revision, whoever makes it.
            made_from = hashlib.sha256("/".join([chain[-1].id, *merged]).encode()).hexdigest()[:24]
            chain.append(
                made_of(chain[-1], each.file(), each.author, f"{each.id}-{made_from}", *merged)
            )
        return chain[1:]

    def lacking(self, tips: Sequence[Revision]) -> list[Revision]:
        """What the newest of these was not made from, oldest first."""
        return sorted(self._lineage(tips) - self._lineage([max(tips)]))

    def _lineage(self, tips: Sequence[Revision]) -> set[Revision]:
        """These, and all that is known of what they were made from."""
        found = set[Revision]()
        todo = [*tips]
        while todo:
            if (each := todo.pop()) not in found:
                found.add(each)
                todo += [self.known[parent] for parent in each.parents if parent in self.known]
        return found


# --- Texts, line by line


def edits(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The differences between two sequences of lines, in order: from where to where in the first,
    and in the second.
    """
    head, tail = _common_ends(before, after)
    old = before[head : len(before) - tail]
    new = after[head : len(after) - tail]
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return [(head, head + len(old), head, head + len(new))]
    differences = list[tuple[int, int, int, int]]()
    i = 0
    j = 0
    for same_i, same_j in [*_common_lines(old, new), (len(old), len(new))]:
        if i < same_i or j < same_j:
            differences.append((head + i, head + same_i, head + j, head + same_j))
        i = same_i + 1
        j = same_j + 1
    return differences


def _common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The number of lines that two sequences have in common at their beginning, and after that at
    their end.
    """
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next(
        (n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head
    )
    return head, tail


def _common_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence in both, in order.

    This is Hyyrö's algorithm: an integer has one bit for each line of `new`, so that a step
    compares a line with all of these. `difflib` takes many times as long for some texts, and
    nothing bounds it.
    """
    places = dict[str, int]()  # of each line in `new`, as bits
    for j, line in enumerate(new):
        places[line] = places.get(line, 0) | (1 << j)
    everywhere = (1 << len(new)) - 1
    # A bit of a row is 0 where the common subsequence of the lines up to here becomes longer by
    # this line of `new`.
    row = everywhere
    rows = list[int]()
    for line in old:
        found = row & places.get(line, 0)
        row = ((row + found) | (row - found)) & everywhere
        rows.append(row)
    common = list[tuple[int, int]]()
    i = len(old)
    j = len(new)
    while i and j:
        if rows[i - 1] >> (j - 1) & 1:
            j -= 1
        elif i > 1 and not rows[i - 2] >> (j - 1) & 1:
            i -= 1
        else:
            i -= 1
            j -= 1
            common.append((i, j))
    return common[::-1]


def work(before: str | None, after: str | None) -> int:
    """How much work it is to compare two texts, in lines that are looked at. Says so in linear
    time.
    """
    old = lines_of(before or "")
    new = lines_of(after or "")
    head, tail = _common_ends(old, new)
    old_between = len(old) - head - tail
    new_between = len(new) - head - tail
    pairs = old_between * new_between
    if max(old_between, new_between) > MAX_COMPARED_LINES:
        pairs = 0
    return len(old) + len(new) + pairs // _PAIRS_A_LINE


def lines_of(text: str) -> list[str]:
    """A text's lines. Only a line feed ends one, as everywhere that lines are shown, so that no
    change hides between two.
    """
    return text.removesuffix("\n").split("\n") if text else []


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a header."""
    old = lines_of(before)
    new = lines_of(after)
    parts = list[str]()
    for i, i_end, j, j_end in edits(old, new):
        head = old[max(0, i - 1) : i]
        tail = old[i_end : i_end + 1]
        around = len(head) + len(tail)
        first = i - len(head) + 1
        second = j - len(head) + 1
        parts.append(f"@@ -{first},{i_end - i + around} +{second},{j_end - j + around} @@")
        for sign, lines in ((" ", head), ("-", old[i:i_end]), ("+", new[j:j_end]), (" ", tail)):
            parts += [f"{sign}{line}" for line in lines]
    return "\n".join(parts)


def cut(text: str) -> str:
    """A diff cut at `MAX_DIFF_CHARS`, with the number of further characters."""
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return f"{text[:MAX_DIFF_CHARS]}\n[{len(text) - MAX_DIFF_CHARS:,} more]"


def _both_changes(base: Sequence[str], one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Lines with the changes that two made of them. Long texts are not compared: what one adds to
    them is at the end.
    """
    if max(map(len, (base, one, other))) > MAX_COMPARED_LINES:
        went = Counter(base) - Counter(one)
        lines = list[str]()
        for line in other:
            went[line] -= 1
            lines += [line] if went[line] < 0 else []
        return [*lines, *(Counter(one) - Counter(base)).elements()]
    kept = [[line] for line in base]
    added = [list[str]() for _ in [*base, None]]
    for text in (one, other):
        for i, i_end, j, j_end in edits(base, text):
            kept[i:i_end] = [[]] * (i_end - i)
            added[i] += text[j:j_end]
    return [
        line for more, stays in zip(added, [*kept, []], strict=True) for line in [*more, *stays]
    ]


def merge(path: str, base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """A three-way merge. A change beats a deletion; of one line changed twice, both stay; JSON
    merges by its fields.
    """
    if theirs in (base, ours):
        return ours
    if ours in (base, None):
        return theirs
    if theirs is None:
        return ours
    if path.endswith(".json"):
        try:
            before, here, there = (json.loads(text or "{}") for text in (base, ours, theirs))
            changed = {
                name: value
                for name, value in there.items()
                if name not in before or before[name] != value
            }
            left = here.keys() - (before.keys() - there.keys()) | changed.keys()
            return (
                json.dumps(
                    {name: value for name, value in {**here, **changed}.items() if name in left},
                    indent=2,
                )
                + "\n"
            )
        except (ValueError, AttributeError, RecursionError):  # no object: as any text
            pass
    # Split at line feeds alone, so that joining gives the same text with any line endings.
    old, mine, other = ((text or "").split("\n") for text in (base, ours, theirs))
    known = Counter(old)
    # What both added is there once. What one took out is gone, also where the other has it in
    # another place.
    both = {line for line in mine if line.strip() and line not in known}
    gone = known.keys() - {*other} - (Counter(mine) - known).keys()
    merged = _both_changes(old, [line for line in other if line not in both], mine)
    return "\n".join(line for line in merged if line not in gone)


def undone(path: str, now: str | None, before: str | None, after: str | None) -> str | None:
    """A file's content `now` without an earlier change, which made `after` of `before`; None: no
    file. Later changes stay.
    """
    if now is None:
        return before if after is None else None
    merged = _fields_undone(path, now, before, after)
    if merged is None:
        merged = merge(path, after or "", now, before or "") or ""
    return None if before is None and merged.strip() in {"", "{}"} else merged


def _fields_undone(path: str, now: str, before: str | None, after: str | None) -> str | None:
    """A JSON object without an earlier change of its fields; None for other texts."""
    if not path.endswith(".json"):
        return None
    try:
        present, old, new = (json.loads(text or "{}") for text in (now, before, after))
        if not all(isinstance(each, dict) for each in (present, old, new)):
            return None
        if present == new:
            return "{}" if before is None else before
        fields = _value_undone(present, old, new)
        return now if fields == present else json.dumps(fields, indent=2) + "\n"
    except (ValueError, RecursionError):
        return None


def _value_undone(now: Any, before: Any, after: Any) -> Any:
    """A value without an earlier change: what was changed later stays, in an object field by field,
    in a list by its items.
    """
    if now == after:
        return before
    if before == after:
        return now
    if isinstance(now, list) and isinstance(before, list) and isinstance(after, list):
        kept = [item for item in now if item not in after or item in before]
        return [*kept, *(item for item in before if item not in after and item not in now)]
    if not (isinstance(now, dict) and isinstance(before, dict) and isinstance(after, dict)):
        return now
    fields = dict[str, Any]()
    for name in {**now, **before}:
        value = _value_undone(
            now.get(name, _NO_FIELD), before.get(name, _NO_FIELD), after.get(name, _NO_FIELD)
        )
        if value is not _NO_FIELD:
            fields[name] = value
    return fields


def line_origins(history: Sequence[Revision]) -> list[Revision | None]:
    """For each line of the newest of these revisions, the one that added it; None for one that is
    no longer kept. Blocks.

    Empty if a revision has more than `MAX_COMPARED_LINES` lines.
    """
    texts = [lines_of(revision.content or "") for revision in history]
    if any(len(lines) > MAX_COMPARED_LINES for lines in texts):
        return []
    before = list[str]()
    origins = list[Revision | None]()
    for revision, lines in zip(reversed(history), reversed(texts), strict=True):
        first_kept = revision is history[-1] and revision.number > 1
        for start, end, new_start, new_end in reversed(edits(before, lines)):
            origins[start:end] = [None if first_kept else revision] * (new_end - new_start)
        before = lines
    return origins
