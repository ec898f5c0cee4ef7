"""Revisions of a file: what is stored of them, and what the file is a copy of. All revisions of a
file are its log (`log.py`). How their texts differ says `texts.py`.

Signs say who vouches for the entries of a text (`memory/sources.py`).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item, PutOp

from lasting_memory import days
from lasting_memory.deployment import Source
from lasting_memory.memory import line_times, sources
from lasting_memory.memory.journal.texts import MAX_COMPARED_LINES, edits, lines_of
from lasting_memory.memory.line_times import TIMES_FIELD, LineTimes
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
    merged into it. `written` says when its lines with an end were written (`memory/line_times.py`),
    and `sources` are its signs.
    """

    number: int
    id: str
    parents: tuple[str, ...]
    content: str | None
    encoding: str
    created_at: str
    at: str
    author: StoredAuthor
    written: Mapping[str, str] = field(default_factory=dict, compare=False)
    sources: str = ""

    @property
    def previous(self) -> str:
        """The id of the revision before it in the history; "" for the first."""
        if not self.parents:
            return ""
        return self.parents[0]

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

    def text(self) -> line_times.Text:
        """Its text, with the times of its lines; "" for a deletion, and for what is no text."""
        content = ""
        if self.content is not None and self.encoding == "utf-8":
            content = self.content
        return line_times.Text(content, self.at, self.written)


# What a file is before its first revision.
NOTHING = Revision(0, "", (), None, "utf-8", "", "", Author("outside"))


def next_revision(
    base: Revision,
    file: FileData | None,
    author: Author,
    revision_id: str,
    *,
    merged_ids: Sequence[str] = (),
    times: LineTimes = MappingProxyType({}),
    signs: str = "",
) -> Revision:
    """The revision that follows `base`, made now. `file` is the new file; None for a deletion.

    `merged_ids` are the ids of revisions that are in it, too. `times` are those of lines that were
    written before.
    """
    present_time = days.now().isoformat()
    content: str | None = None
    encoding = "utf-8"
    created_at = base.created_at
    times_after = dict[str, str]()
    if file is not None:
        content = file["content"]
        encoding = file["encoding"]
        if encoding == "utf-8":
            content = plain(content)
            times_after = line_times.times_after_change(base.text(), content, present_time, times)
        if base.content is None:
            created_at = file.get("created_at", present_time)
    parents = tuple(merged_ids)
    if base.id:
        parents = (base.id, *parents)
    return Revision(
        number=base.number + 1,
        id=revision_id,
        parents=parents,
        content=content,
        encoding=encoding,
        created_at=created_at,
        at=present_time,
        author=author,
        written=times_after,
        sources=signs,
    )


def revision_op(files: Namespace, path: str, revision: Revision, began: str) -> PutOp:
    """The operation that stores a revision, under a key that no other one has. `began` is when its
    writer did; "" if nobody can be forgotten.
    """
    place = namespaces.journal(files, path)
    # Postgres compares text, the in-memory store numbers: eight digits are the same in both
    slot = f"{revision.number:08}"
    key = f"{slot}-{revision.id}"
    value = {
        "slot": slot,
        "path": path,
        "began": began,
        "revision": asdict(revision),
    }
    return PutOp(place, key, value, index=False)


def copy_op(files: Namespace, path: str, revision: Revision) -> PutOp:
    """The operation that makes the file a copy of a revision, or deletes it."""
    file = revision.file()
    if file is None:
        return PutOp(files, path, None)
    value: dict[str, object] = {
        **file,
        "revision": revision.number,
        "revision_id": revision.id,
        "journal": _journal_digest(files, path),
    }
    if revision.written:
        value[TIMES_FIELD] = dict(revision.written)
    if revision.sources:
        value[sources.FIELD] = revision.sources
    return PutOp(files, path, value)


def revision_of_copy(files: Namespace, path: str, item: Item | None) -> Revision | None:
    """The revision that the file, as an item, is a copy of; None if it was put around the journal,
    or is not there. It lacks its parents and its author, which a copy does not have.
    """
    if item is None:
        return None
    if item.value.get("journal") != _journal_digest(files, path):
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
        written=line_times.stored_times(item.value),
        sources=sources.signs_in(item.value),
    )


def _journal_digest(files: Namespace, path: str) -> str:
    """Tells a copy of this file's revision from a value copied from another file or person."""
    place = repr(namespaces.journal(files, path))
    digest = hashlib.sha256(place.encode())
    return digest.hexdigest()[:16]


def outside_change(base: Revision, item: Item | None) -> Revision | None:
    """What was put or deleted around the journal since `base`, as a revision; None for nothing.
    `item` is the file's. The revision is the same whoever notices it.
    """
    file = stored_file(item) if item else None
    content = file["content"] if file else None
    if content == base.content:
        return None
    # Who notices it next makes the same id of it.
    put_at = item.updated_at if item else None
    identity_text = json.dumps([base.id, content, str(put_at)])
    digest = hashlib.sha256(identity_text.encode())
    revision_id = digest.hexdigest()[:32]
    if item is None:
        return next_revision(base, file, NOTHING.author, revision_id)
    signs = ""
    if base.sources:
        known_sources = sources_of(item.key, base)
        signs = sources.signs_of(item.key, content, known_sources)
    times = line_times.times_of_file(item)
    return next_revision(base, file, NOTHING.author, revision_id, times=times, signs=signs)


def sources_of(path: str, revision: Revision) -> dict[str, Source]:
    """Who vouches for each entry of a revision. Blocks."""
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
    lines_before = list[str]()
    origins = list[Revision | None]()
    for revision, lines in zip(oldest_first, texts, strict=True):
        is_oldest = revision is oldest_first[0]
        has_older_ones = is_oldest and revision.number > 1  # which are no longer kept
        origin = None if has_older_ones else revision
        # From the end, so that the places before stay the same.
        for edit in reversed(edits(lines_before, lines)):
            count = edit.new_end - edit.new_start
            origins[edit.old_start : edit.old_end] = [origin] * count
        lines_before = lines
    return origins
