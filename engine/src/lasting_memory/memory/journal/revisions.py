"""Revisions of a file: what is stored of them, which are newest, and how several newest ones become
one. How their texts differ says `texts.py`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import days, platform
from lasting_memory.deployment import Source
from lasting_memory.memory import ends, sources
from lasting_memory.memory.ends import WRITTEN, Written
from lasting_memory.memory.journal.texts import MAX_COMPARED_LINES, edits, lines_of, merge
from lasting_memory.memory.stored_files import stored_file
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author, StoredAuthor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain

# Makes a file's new content of the old one; None is no file. A ValueError refuses the change.
Change = Callable[[FileData | None], FileData | None]


@dataclass(frozen=True, slots=True, order=True)
class Revision:
    """A file after one change; `content` is None if that deleted it. Times are ISO times in UTC.
    Later ones are larger.

    `parents` are ids: first that of the revision before it in the history, then those that were
    merged into it. `written` says when its lines with an end were written (`memory/ends.py`).
    """

    number: int
    id: str
    parents: tuple[str, ...]
    content: str | None
    encoding: str
    created_at: str
    at: str
    author: StoredAuthor
    # When lines with an end were written, by the line; and who vouches for each entry, as
    # `memory/sources.py` has it.
    written: Mapping[str, str] = field(default_factory=dict, compare=False)
    sources: str = ""

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

    def text(self) -> ends.Text:
        """Its text, with the times of its lines; "" for a deletion, and for what is no text."""
        content = self.content
        if content is None or self.encoding != "utf-8":
            content = ""
        return ends.Text(content, self.at, self.written)


NOTHING = Revision(0, "", (), None, "utf-8", "", "", Author("outside"))
_REVISIONS = TypeAdapter(Revision)


def made_of(
    base: Revision,
    file: FileData | None,
    author: Author,
    revision_id: str,
    *merged: str,
    known: Written = MappingProxyType({}),
    signs: str = "",
) -> Revision:
    """The revision that follows another, in which those with the ids `merged` are too. `known` are
    the times of lines that were written before, and `signs` say who vouches for its entries.
    """
    now = days.now().isoformat()
    content = file["content"] if file else None
    encoding = file["encoding"] if file else "utf-8"
    written = dict[str, str]()
    if content is not None and encoding == "utf-8":
        content = plain(content)
        written = ends.written_after(base.text(), content, now, known)
    created_at = base.created_at
    if base.content is None and file is not None:
        created_at = file.get("created_at", now)
    parents = (base.id, *merged) if base.id else merged
    return Revision(
        base.number + 1,
        revision_id,
        parents,
        content,
        encoding,
        created_at,
        now,
        author,
        written,
        signs,
    )


def put(files: Namespace, path: str, revision: Revision, began: str) -> PutOp:
    """Stores a revision, under a key that no other one has. `began`: when its writer did; "" if
    nobody can be forgotten.
    """
    # Postgres compares text, the in-memory store numbers: eight digits are the same in both
    slot = f"{revision.number:08}"
    value = {"slot": slot, "path": path, "began": began, "revision": asdict(revision)}
    place = namespaces.journal(files, path)
    return PutOp(place, f"{slot}-{revision.id}", value, index=False)


def copy(files: Namespace, path: str, revision: Revision) -> PutOp:
    """Makes the file a copy of a revision."""
    file = revision.file()
    about = {"revision": revision.number, "revision_id": revision.id, "journal": _name(files, path)}
    if revision.written:
        about[WRITTEN] = dict(revision.written)
    if revision.sources:
        about[sources.FIELD] = revision.sources
    value = {**file, **about} if file else None
    return PutOp(files, path, value)


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
    except (KeyError, TypeError, ValueError):  # damaged
        return None
    return Revision(
        number=number,
        id=revision_id,
        parents=(),
        content=file["content"],
        encoding=file["encoding"],
        created_at=file.get("created_at", ""),
        at=file.get("modified_at", ""),
        author=NOTHING.author,
        written=ends.written_in(item.value),
        sources=sources.signs_in(item.value),
    )


def outside(base: Revision, item: Item | None) -> Revision | None:
    """What was put or deleted around the journal since a revision, the same whoever notices it;
    None for nothing.
    """
    file = stored_file(item) if item else None
    content = file["content"] if file else None
    if content == base.content:
        return None
    # Who notices it next makes the same id of it.
    put_at = item.updated_at if item else None
    noticed = json.dumps([base.id, content, str(put_at)])
    digest = hashlib.sha256(noticed.encode())
    revision_id = digest.hexdigest()[:32]
    if item is None:
        return made_of(base, file, NOTHING.author, revision_id)
    signs = ""
    if base.sources:
        known_sources = sources.sources_in(item.key, base.content, base.sources)
        signs = sources.signs_of(item.key, content, known_sources)
    written = ends.written_of(item)
    return made_of(base, file, NOTHING.author, revision_id, known=written, signs=signs)


def _name(files: Namespace, path: str) -> str:
    """Tells a copy of this file's revision from a value copied from another file or person."""
    place = repr(namespaces.journal(files, path))
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _as_text(revision: Revision) -> Revision:
    """The revision with plain text, which one of an earlier version may lack."""
    if revision.content is None or revision.encoding != "utf-8":
        return revision
    text = plain(revision.content)
    if text == revision.content:
        return revision
    return replace(revision, content=text)


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
                if "" < item.value.get("began", "") <= forgotten:
                    continue
                revision = _REVISIONS.validate_python(item.value["revision"])
                self.known[revision_id] = _as_text(revision)
            except (AttributeError, KeyError, TypeError, ValidationError):
                self.damaged[revision_id] = int(slot) if slot.isdecimal() else 0

    def tips(self) -> list[Revision]:
        """The revisions that no other was made from. What is older than a damaged one with
        followers counts as in it.
        """
        named = set[str]()
        for revision in self.known.values():
            named.update(revision.parents)
        since = 0
        for revision_id, number in self.damaged.items():
            if revision_id in named:
                since = max(since, number)
        tips = list[Revision]()
        for revision in self.known.values():
            if revision.id not in named and revision.number >= since:
                tips.append(revision)
        return tips

    def history(self) -> list[Revision]:
        """From the newest revision backwards; where one is damaged, from the next older one."""
        chain = list[Revision]()
        revision = max(self.tips(), default=None)
        while revision is not None:
            chain.append(revision)
            previous = self.known.get(revision.previous)
            revision = previous or self._newest_before(revision)
        return chain

    def _newest_before(self, revision: Revision) -> Revision | None:
        """The newest revision with a smaller number; None if there is none."""
        older = [known for known in self.known.values() if known.number < revision.number]
        return max(older, default=None)

    async def merged(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """Revisions, the last of which has everything that is in these; none if there is one. The
        same whoever makes them.
        """
        if len(tips) == 1:
            return []
        return await platform.in_thread(self._merged, path, tips)

    def _merged(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """Each change that the newest tip lacks is made once more, in order, by its own author. A
        merge is none.
        """
        newest = max(tips)
        changes = self._changes_beside(path, newest, tips) or [newest]
        chain = list[Revision]()
        last = newest
        for change in changes:
            merged = {change.id}
            if change is changes[-1]:
                merged.update(tip.id for tip in tips)
            merged.discard(newest.id)
            last = _follower(last, change, sorted(merged))
            chain.append(last)
        return chain

    def _changes_beside(
        self, path: str, newest: Revision, tips: Sequence[Revision]
    ) -> list[Revision]:
        """The revisions that the newest tip lacks, each as a change of the text that the newest tip
        and those before it make.
        """
        changes = list[Revision]()
        now = newest
        for theirs in self.lacking(tips):
            before = self.known.get(theirs.previous, NOTHING)
            is_unknown = not before.number and theirs.number > 1
            if is_unknown and theirs not in tips:
                continue  # what it changed is not known any more
            after = theirs.content
            signs = theirs.sources
            if {before.encoding, theirs.encoding, now.encoding} == {"utf-8"}:
                after = merge(path, before.content, now.content, after)
                signs = _merged_signs(path, before, now, theirs, after)
            is_merge = len(theirs.parents) > 1
            is_same = after == now.content and signs == now.sources
            if not is_merge and not is_same:
                now = replace(theirs, content=after, sources=signs)
                changes.append(now)
        return changes

    def lacking(self, tips: Sequence[Revision]) -> list[Revision]:
        """What the newest of these was not made from, oldest first."""
        newest = max(tips)
        lacking = self._lineage(tips) - self._lineage([newest])
        return sorted(lacking)

    def _lineage(self, tips: Sequence[Revision]) -> set[Revision]:
        """These, and all that is known of what they were made from."""
        lineage = set[Revision]()
        todo = list(tips)
        while todo:
            revision = todo.pop()
            if revision in lineage:
                continue
            lineage.add(revision)
            for parent_id in revision.parents:
                parent = self.known.get(parent_id)
                if parent is not None:
                    todo.append(parent)
        return lineage


def _follower(last: Revision, change: Revision, merged: Sequence[str]) -> Revision:
    """The revision that makes a change after another, in which those with the ids `merged` are.

    Its id says all that it was made from, so one id is one revision, whoever makes it.
    """
    made_from = "/".join([last.id, *merged])
    digest = hashlib.sha256(made_from.encode()).hexdigest()
    revision_id = f"{change.id}-{digest[:24]}"
    return made_of(
        last,
        change.file(),
        change.author,
        revision_id,
        *merged,
        known=change.written,
        signs=change.sources,
    )


def _merged_signs(
    path: str, before: Revision, ours: Revision, theirs: Revision, after: str | None
) -> str:
    """Who vouches for the entries of a text that was merged of `ours` and `theirs`, which was made
    of `before`. Blocks.
    """
    if not (before.sources or ours.sources or theirs.sources):
        return ""
    merged = sources.merged(
        _sources_of(path, before), _sources_of(path, ours), _sources_of(path, theirs)
    )
    return sources.signs_of(path, after, merged)


def _sources_of(path: str, revision: Revision) -> dict[str, Source]:
    return sources.sources_in(path, revision.content, revision.sources)


def line_origins(history: Sequence[Revision]) -> list[Revision | None]:
    """For each line of the newest of these revisions, the one that added it; None for one that is
    no longer kept. Blocks.

    Empty if a revision has more than `MAX_COMPARED_LINES` lines.
    """
    oldest_first = list(reversed(history))
    texts = list[list[str]]()
    for revision in oldest_first:
        lines = lines_of(revision.content or "")
        if len(lines) > MAX_COMPARED_LINES:
            return []
        texts.append(lines)
    before = list[str]()
    origins = list[Revision | None]()
    for revision, lines in zip(oldest_first, texts, strict=True):
        is_first_kept = revision is oldest_first[0] and revision.number > 1
        origin = None if is_first_kept else revision
        # From the end, so that the places before stay the same.
        for edit in reversed(edits(before, lines)):
            count = edit.new_end - edit.new_start
            origins[edit.old_start : edit.old_end] = [origin] * count
        before = lines
    return origins
