"""What changed in a person's memory since they last looked, and what was deleted."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pydantic import AwareDatetime, Field
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.http.models import (
    DeletedFile,
    DeletedLine,
    FileChange,
    FileChanges,
    SeenUntil,
    Trash,
    author_of,
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
# Entries of one answer, the newest ones.
_MOST = 200
# What is compared for one answer, as `journal.comparison_cost` counts it: about a second.
_MOST_WORK = 1_500_000


@router.get("/memory/changes")
async def changes(caller: Caller, query: MemoryQuery) -> FileChanges:
    """What changed since you last looked (`PUT /memory/seen`): at most 200 changes.

    One run's revisions of a file that follow each other are one change. What was taken back since
    is left out (that it was is a change), and so is what a memory starts with. Older changes are
    not looked at where there are too many, or comparing them takes long; `GET /memory/history` has
    them by file.
    """
    until = datetime.now(UTC).isoformat()
    since = await controls.seen_until(caller.store, caller.actor)
    histories = await caller.histories()
    shown, more = await platform.in_thread(_changes_since, histories, since)
    return FileChanges(since=since or None, until=until, changes=shown, more=more)


class _Change(NamedTuple):
    """What one run changed in a file: its revisions one after the other, newest first."""

    path: str
    now: Revision  # the file's newest revision
    revisions: list[tuple[Revision, Revision]]  # each with the one before it

    @property
    def newest(self) -> Revision:
        """The last revision of the change."""
        newest, _ = self.revisions[0]
        return newest

    @property
    def before(self) -> Revision:
        """The revision before the change."""
        _, before = self.revisions[-1]
        return before

    @property
    def work(self) -> int:
        """How much is compared to show this, as `journal.comparison_cost` counts it."""
        total = journal.comparison_cost(self.before.content, self.newest.content)
        now = self.now.content
        for revision, before in self.revisions:
            content = revision.content
            total += journal.comparison_cost(before.content, content)
            total += journal.comparison_cost(content, now)
        return total

    def shown(self) -> FileChange | None:
        """The change for a person; None if it was taken back since."""
        newest = self.newest
        before = self.before
        oldest, _ = self.revisions[-1]
        is_known = bool(before.number) or oldest.number == 1
        if is_known and self._is_taken_back():
            return None
        difference = diff(before.content or "", newest.content or "")
        if difference:
            difference = cut_diff(f"{difference}\n")
        ids = [revision.id for revision, _ in self.revisions]
        return FileChange(
            path=f"{ROUTE}{self.path}",
            revision=newest.number,
            at=newest.at,
            author=author_of(newest.author),
            deleted=newest.content is None,
            diff=difference,
            changes=ids if is_known else None,
        )

    def _is_taken_back(self) -> bool:
        """Whether the file would stay as it is without this change."""
        content = self.now.content
        for revision, before in self.revisions:
            content = without_change(self.path, content, before.content, revision.content)
        return content == self.now.content


def _changes_since(
    histories: Sequence[tuple[str, list[Revision]]], since: str
) -> tuple[list[FileChange], int]:
    """The changes in these histories since then, newest first, and how many older ones are left out.

    Blocks.
    """
    all_changes = list[_Change]()
    for path, revisions in histories:
        all_changes += _changes_of_file(path, revisions, since)
    all_changes.sort(key=lambda change: change.newest.at, reverse=True)
    shown = list[FileChange]()
    spent = 0
    for number, change in enumerate(all_changes):
        spent += change.work
        takes_long = number > 0 and spent > _MOST_WORK
        if takes_long or len(shown) == _MOST:
            left_out = len(all_changes) - number
            return shown, left_out
        entry = change.shown()
        if entry:
            shown.append(entry)
    return shown, 0


def _changes_of_file(path: str, revisions: Sequence[Revision], since: str) -> Iterator[_Change]:
    """The changes of a file since then, newest first. What a memory starts with is none."""
    earlier = [*revisions[1:], NOTHING]
    new = list[tuple[Revision, Revision]]()
    for revision, before in zip(revisions, earlier, strict=True):
        if revision.at > since:
            new.append((revision, before))
    for _, pairs in itertools.groupby(new, key=_run_of):
        change = _Change(path, revisions[0], list(pairs))
        author = change.newest.author
        if author.kind != "seed":
            yield change


def _run_of(pair: tuple[Revision, Revision]) -> str:
    """The run that made a revision, which is given with the one before it; its own id without one."""
    revision, _ = pair
    return revision.author.run_id or revision.id


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
    before = await controls.seen_until(store, caller.actor)
    now = datetime.now(UTC)
    until = min(body.until, now).astimezone(UTC)
    since = max(until.isoformat(), before)
    is_noted = await controls.set_seen(store, caller.actor, since, caller.began)
    if not is_noted:
        raise HTTPException(409, FORGOTTEN)
    return SeenUntil(since=since)


@router.get("/memory/trash")
async def trash(caller: Caller, query: MemoryQuery) -> Trash:
    """What was deleted, as far as the histories go back: at most 200 files and 200 lines."""
    histories = await caller.histories()
    return await platform.in_thread(_trash, histories)


class _DeletedLine(NamedTuple):
    path: str
    text: str
    revision: Revision  # which took it out last


def _trash(histories: Sequence[tuple[str, list[Revision]]]) -> Trash:
    """The deleted files and lines in these histories. Blocks."""
    files = list[DeletedFile]()
    lines = list[_DeletedLine]()
    for key, revisions in histories:
        if not revisions:
            continue
        path = f"{ROUTE}{key}"
        newest = revisions[0]
        if newest.content is None:
            files += _deleted_file(path, revisions)
        elif key.endswith((".md", ".txt")):
            lines += _deleted_lines(path, revisions)
    files.sort(key=lambda file: file.at, reverse=True)
    lines.sort(key=lambda line: line.revision.at, reverse=True)
    shown_lines = [_shown_line(line) for line in lines[:_MOST]]
    return Trash(files=files[:_MOST], lines=shown_lines)


def _deleted_file(path: str, revisions: Sequence[Revision]) -> list[DeletedFile]:
    """A deleted file, if the content that it had is known."""
    if len(revisions) == 1 or revisions[1].content is None:
        return []
    deletion = revisions[0]
    file = DeletedFile(
        path=path, changes=[deletion.id], at=deletion.at, author=author_of(deletion.author)
    )
    return [file]


def _shown_line(line: _DeletedLine) -> DeletedLine:
    author = author_of(line.revision.author)
    return DeletedLine(path=line.path, text=line.text, at=line.revision.at, author=author)


def _deleted_lines(path: str, revisions: Sequence[Revision]) -> Iterator[_DeletedLine]:
    """Lines that are not in the newest revision, each once."""
    present = lines_of(revisions[0].content or "")
    known = {bare_line(line) for line in present}
    for new, old in itertools.pairwise(revisions):
        remaining = set(lines_of(new.content or ""))
        visible = without_comments(old.content or "", line_breaks=True)
        for line in lines_of(visible):
            text = bare_line(line)
            is_known = line in remaining or text in known
            is_title = text.startswith("#")
            if is_known or is_title or not text:
                continue
            if is_form(line):
                continue
            known.add(text)
            yield _DeletedLine(path, text, new)
