"""The log of a file: all its revisions, which of them are newest, and how several newest ones become
one.

A tip is a revision of the log that no other was made from; writers at the same time make several. A
merge is a revision that has several parents: with it there is one tip again. The history is the way
from the newest tip back, from each revision to the first of its parents.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from langgraph.store.base import Item
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.memory import sources
from lasting_memory.memory.journal.revisions import NOTHING, Revision, next_revision, sources_of
from lasting_memory.memory.journal.texts import merge
from lasting_memory.plain_text import plain

_REVISIONS = TypeAdapter(Revision)


def _with_plain_text(revision: Revision) -> Revision:
    """The revision with plain text, which one of an earlier version may lack."""
    if revision.content is None or revision.encoding != "utf-8":
        return revision
    text = plain(revision.content)
    if text == revision.content:
        return revision
    return replace(revision, content=text)


class Log:
    """Revisions of a file, by id; and the numbers of those that cannot be read, by id."""

    def __init__(self, items: Iterable[Item], forgotten_at: str = "") -> None:
        """Those in these items, without what was begun before its person was forgotten at this
        time.
        """
        self.by_id = dict[str, Revision]()
        self.damaged_numbers = dict[str, int]()
        for item in items:
            slot, _, revision_id = item.key.partition("-")
            try:
                began = item.value.get("began", "")
                if "" < began <= forgotten_at:
                    continue
                revision = _REVISIONS.validate_python(item.value["revision"])
                self.by_id[revision_id] = _with_plain_text(revision)
            except (AttributeError, KeyError, TypeError, ValidationError):
                number = int(slot) if slot.isdecimal() else 0
                self.damaged_numbers[revision_id] = number

    def tips(self) -> list[Revision]:
        """The revisions that no other was made from. What is older than a damaged one with
        followers counts as in it.
        """
        parent_ids = set[str]()
        for revision in self.by_id.values():
            parent_ids.update(revision.parents)
        since = 0
        for revision_id, number in self.damaged_numbers.items():
            if revision_id in parent_ids:
                since = max(since, number)
        tips = list[Revision]()
        for revision in self.by_id.values():
            if revision.id in parent_ids:
                continue
            if revision.number >= since:
                tips.append(revision)
        return tips

    def history(self) -> list[Revision]:
        """From the newest revision backwards; where one is damaged, from the next older one."""
        chain = list[Revision]()
        revision = max(self.tips(), default=None)
        while revision is not None:
            chain.append(revision)
            previous_revision = self.by_id.get(revision.previous)
            revision = previous_revision or self._newest_before(revision)
        return chain

    def _newest_before(self, revision: Revision) -> Revision | None:
        """The newest revision with a smaller number; None if there is none."""
        older = list[Revision]()
        for candidate in self.by_id.values():
            if candidate.number < revision.number:
                older.append(candidate)
        return max(older, default=None)

    async def merges(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """New revisions, the last of which has everything that is in these tips; none if there is
        one tip. The same whoever makes them.
        """
        if len(tips) == 1:
            return []
        return await platform.in_thread(self._merges, path, tips)

    def _merges(self, path: str, tips: Sequence[Revision]) -> list[Revision]:
        """The changes that the newest tip lacks, each made once more, in order, by its own author.
        Blocks.
        """
        newest = max(tips)
        changes = self._changes_beside(path, newest, tips) or [newest]
        merges = list[Revision]()
        last_revision = newest
        for change in changes:
            merged_ids = {change.id}
            if change is changes[-1]:  # with it everything is in one revision
                merged_ids.update(tip.id for tip in tips)
            merged_ids.discard(newest.id)
            last_revision = _follower(last_revision, change, sorted(merged_ids))
            merges.append(last_revision)
        return merges

    def _changes_beside(
        self, path: str, newest: Revision, tips: Sequence[Revision]
    ) -> list[Revision]:
        """The revisions that the newest tip lacks, each as a change of the text that the newest tip
        and those before it make. Those that change nothing, and merges, are left out.
        """
        changes = list[Revision]()
        present_revision = newest
        for revision in self.missing(tips):
            base = self.by_id.get(revision.previous, NOTHING)
            is_base_unknown = base.number == 0 and revision.number > 1
            if is_base_unknown and revision not in tips:
                continue  # what it changed is not known any more
            content = revision.content
            signs = revision.sources
            encodings = {base.encoding, revision.encoding, present_revision.encoding}
            if encodings == {"utf-8"}:
                content = merge(path, base.content, present_revision.content, content)
                signs = _merged_signs(path, base, present_revision, revision, content)
            is_merge = len(revision.parents) > 1
            is_same = content == present_revision.content and signs == present_revision.sources
            if is_merge or is_same:
                continue
            present_revision = replace(revision, content=content, sources=signs)
            changes.append(present_revision)
        return changes

    def missing(self, tips: Sequence[Revision]) -> list[Revision]:
        """What the newest of these tips was not made from, and the others were, oldest first."""
        newest = max(tips)
        lineage_of_all = self._lineage(tips)
        lineage_of_newest = self._lineage([newest])
        return sorted(lineage_of_all - lineage_of_newest)

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
                parent = self.by_id.get(parent_id)
                if parent is not None:
                    todo.append(parent)
        return lineage


def _follower(base: Revision, change: Revision, merged_ids: Sequence[str]) -> Revision:
    """The revision that makes a change after another, in which those with the ids `merged_ids` are.

    Its id says all that it was made from, so one id is one revision, whoever makes it.
    """
    made_from = "/".join([base.id, *merged_ids])
    digest = hashlib.sha256(made_from.encode())
    suffix = digest.hexdigest()[:24]
    return next_revision(
        base,
        change.file(),
        change.author,
        f"{change.id}-{suffix}",
        merged_ids=merged_ids,
        times=change.written,
        signs=change.sources,
    )


def _merged_signs(
    path: str, before: Revision, ours: Revision, theirs: Revision, after: str | None
) -> str:
    """The signs of the text `after`, which was merged of `ours` and `theirs`, which were made of
    `before`. Blocks.
    """
    has_signs = before.sources or ours.sources or theirs.sources
    if not has_signs:
        return ""
    merged_sources = sources.merged(
        base=sources_of(path, before),
        ours=sources_of(path, ours),
        theirs=sources_of(path, theirs),
    )
    return sources.signs_of(path, after, merged_sources)
