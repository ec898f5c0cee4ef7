"""What changed in a person's memory since they last looked, and what was deleted.

A history is a file's revisions, the newest first. A revision's content is None where it deleted the
file, or where the content is no longer known.
"""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pydantic import AwareDatetime, Field
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.http.models.base import author_of
from lasting_memory.http.models.changes import (
    DeletedFile,
    DeletedLine,
    FileChange,
    FileChanges,
    SeenUntil,
    Trash,
)
from lasting_memory.http.requests import (
    FORGOTTEN,
    IN_TURN,
    ROUTE,
    AboutQuery,
    Caller,
    MemoryQuery,
    Sent,
    memory_router,
)
from lasting_memory.memory import controls, journal
from lasting_memory.memory.facts import bare_line, is_form, without_comments
from lasting_memory.memory.journal import (
    NOTHING,
    Revision,
    cut_diff,
    diff,
    lines_of,
    without_change,
)

router = memory_router(IN_TURN)
# Nobody looked before. Years near the first one would leave the calendar in another time zone.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
# An answer has at most so many entries, the newest ones.
_MAX_ENTRIES = 200
# What is compared for one answer, as `journal.comparison_cost` counts it: about a second.
_MAX_WORK = 1_500_000


@router.get("/memory/changes")
async def changes(caller: Caller, query: MemoryQuery) -> FileChanges:
    """What changed since you last looked (`PUT /memory/seen`): at most 200 changes.

    One run's revisions of a file that follow each other are one change. What was taken back since
    is left out (that it was is a change), and so is what a memory starts with. Older changes are
    not looked at where there are too many, or comparing them takes long; `GET /memory/history` has
    them by file.
    """
    now = datetime.now(UTC)
    since = await controls.seen_until(caller.store, caller.actor)
    histories = await caller.histories()
    entries, left_out = await platform.in_thread(_changes_since, histories, since)
    until = now.isoformat()
    return FileChanges(since=since or None, until=until, changes=entries, more=left_out)


class _Change(NamedTuple):
    """What one run changed in a file: its revisions that follow each other, newest first."""

    path: str
    current: Revision  # the file's newest revision, by whomever
    revisions: list[tuple[Revision, Revision]]  # each with the one before it

    @property
    def newest(self) -> Revision:
        """The last revision of the change."""
        newest, _ = self.revisions[0]
        return newest

    @property
    def start(self) -> Revision:
        """The revision before the change."""
        _, start = self.revisions[-1]
        return start

    @property
    def has_known_start(self) -> bool:
        """Whether the revision before the change is there, or the change made the file.

        Without it nobody can tell what the change was, so it cannot be taken back either.
        """
        if self.start.number:
            return True
        oldest, _ = self.revisions[-1]
        return oldest.number == 1

    @property
    def work(self) -> int:
        """How much is compared to show the change, as `journal.comparison_cost` counts it."""
        total = journal.comparison_cost(self.start.content, self.newest.content)
        current_content = self.current.content
        for revision, predecessor in self.revisions:
            content = revision.content
            total += journal.comparison_cost(predecessor.content, content)
            total += journal.comparison_cost(content, current_content)
        return total

    def entry(self) -> FileChange | None:
        """The change as it is answered; None if it was taken back since."""
        ids: list[str] | None = None
        if self.has_known_start:
            if self._is_taken_back():
                return None
            ids = [revision.id for revision, _ in self.revisions]
        newest = self.newest
        old_text = self.start.content or ""
        new_text = newest.content or ""
        difference = diff(old_text, new_text)
        if difference:
            difference = cut_diff(f"{difference}\n")
        return FileChange(
            path=f"{ROUTE}{self.path}",
            revision=newest.number,
            at=newest.at,
            author=author_of(newest.author),
            deleted=newest.content is None,
            diff=difference,
            changes=ids,
        )

    def _is_taken_back(self) -> bool:
        """Whether the file would stay as it is without this change."""
        current_content = self.current.content
        content = current_content
        for revision, predecessor in self.revisions:
            content = without_change(self.path, content, predecessor.content, revision.content)
        return content == current_content


def _changes_since(
    histories: Sequence[tuple[str, list[Revision]]], since: str
) -> tuple[list[FileChange], int]:
    """The changes in these histories since then, newest first, and how many older ones are left out.

    `since` is an ISO time, "" for the beginning. Blocks: call it outside of the event loop.
    """
    all_changes = list[_Change]()
    for path, revisions in histories:
        all_changes += _changes_of_file(path, revisions, since)
    all_changes.sort(key=lambda change: change.newest.at, reverse=True)
    entries = list[FileChange]()
    total_work = 0
    for number, change in enumerate(all_changes):
        total_work += change.work
        takes_long = number > 0 and total_work > _MAX_WORK
        if takes_long or len(entries) == _MAX_ENTRIES:
            left_out = len(all_changes) - number
            return entries, left_out
        entry = change.entry()
        if entry:
            entries.append(entry)
    return entries, 0


def _changes_of_file(path: str, revisions: Sequence[Revision], since: str) -> Iterator[_Change]:
    """The changes of a file since then, newest first. What a memory starts with is no change."""
    if not revisions:
        return
    current_revision = revisions[0]
    predecessors = [*revisions[1:], NOTHING]
    new_pairs = list[tuple[Revision, Revision]]()
    for pair in zip(revisions, predecessors, strict=True):
        revision, _ = pair
        if revision.at > since:
            new_pairs.append(pair)
    for _, pairs in itertools.groupby(new_pairs, key=_run_key):
        change = _Change(path, current_revision, list(pairs))
        author = change.newest.author
        if author.kind != "seed":
            yield change


def _run_key(pair: tuple[Revision, Revision]) -> str:
    """The id of the run that made a revision, or the revision's id if no run made it.

    The revision comes with the one before it.
    """
    revision, _ = pair
    run_id = revision.author.run_id
    return run_id or revision.id


class Seen(Sent):
    until: Annotated[
        AwareDatetime,
        Field(strict=False, ge=_EARLIEST, description="as `GET /memory/changes` said it"),
    ]


@router.put("/memory/seen")
async def seen(caller: Caller, query: AboutQuery, body: Seen) -> SeenUntil:
    """Note that you have looked at what changed until then.

    A time to come counts as now; one before the last, as that.
    """
    caller.check_own()
    caller.check_not_shared()
    store = caller.store
    last_seen = await controls.seen_until(store, caller.actor)
    now = datetime.now(UTC)
    until = min(body.until, now)
    until_utc = until.astimezone(UTC)
    since = max(until_utc.isoformat(), last_seen)
    was_set = await controls.set_seen(store, caller.actor, since, caller.writer)
    if not was_set:
        raise HTTPException(409, FORGOTTEN)
    return SeenUntil(since=since)


@router.get("/memory/trash")
async def trash(caller: Caller, query: MemoryQuery) -> Trash:
    """What was deleted, as far as the histories go back: at most 200 files and 200 lines."""
    histories = await caller.histories()
    return await platform.in_thread(_read_trash, histories)


class _DeletedLine(NamedTuple):
    path: str
    text: str
    revision: Revision  # the last one that took the line out


def _read_trash(histories: Sequence[tuple[str, list[Revision]]]) -> Trash:
    """The deleted files and lines in these histories, the last deleted first.

    Blocks: call it outside of the event loop.
    """
    files = list[DeletedFile]()
    lines = list[_DeletedLine]()
    for key, revisions in histories:
        if not revisions:
            continue
        path = f"{ROUTE}{key}"
        newest = revisions[0]
        if newest.content is None:
            file = _deleted_file(path, revisions)
            if file:
                files.append(file)
        elif key.endswith((".md", ".txt")):
            lines += _deleted_lines(path, revisions)
    files.sort(key=lambda file: file.at, reverse=True)
    lines.sort(key=lambda line: line.revision.at, reverse=True)
    last_files = files[:_MAX_ENTRIES]
    last_lines = [_line_entry(line) for line in lines[:_MAX_ENTRIES]]
    return Trash(files=last_files, lines=last_lines)


def _deleted_file(path: str, revisions: Sequence[Revision]) -> DeletedFile | None:
    """The entry of a deleted file; None if the content that it had is not known."""
    if len(revisions) == 1 or revisions[1].content is None:
        return None
    deletion = revisions[0]
    author = author_of(deletion.author)
    return DeletedFile(path=path, changes=[deletion.id], at=deletion.at, author=author)


def _line_entry(line: _DeletedLine) -> DeletedLine:
    """The entry of a deleted line."""
    deletion = line.revision
    author = author_of(deletion.author)
    return DeletedLine(path=line.path, text=line.text, at=deletion.at, author=author)


def _deleted_lines(path: str, revisions: Sequence[Revision]) -> Iterator[_DeletedLine]:
    """The lines of older revisions whose text is not in the newest one, each text once.

    Titles and the lines of a form are left out.
    """
    current_lines = lines_of(revisions[0].content or "")
    known_texts = {bare_line(line) for line in current_lines}
    for revision, predecessor in itertools.pairwise(revisions):
        new_lines = set(lines_of(revision.content or ""))
        old_text = without_comments(predecessor.content or "", line_breaks=True)
        for line in lines_of(old_text):
            if line in new_lines:
                continue
            text = bare_line(line)
            is_title = text.startswith("#")
            if not text or is_title or text in known_texts:
                continue
            if is_form(line):
                continue
            known_texts.add(text)
            yield _DeletedLine(path, text, revision)
