"""Deleting revisions that are more than is kept.

Of each file the last `revisions_kept` revisions stay. All files and revisions of a folder have room
for `stored_bytes`: where they take more, revisions of deleted files go first, then the oldest. The
lines that were taken back in a revision that goes stay known (`dropped.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from langgraph.store.base import BaseStore, Item

from lasting_memory import platform
from lasting_memory.deployment import Limits
from lasting_memory.memory.journal.dropped import dropped_ops, within_bounds
from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.journal.unjournaled import put_unless_forgotten
from lasting_memory.memory.journal.writers import Writer
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace

# For how many seconds revisions stay, whatever room there is, because somebody may be merging them.
_MERGING_SECONDS = 60
# An item's path, author, ids and times, beside its text.
_OVERHEAD_BYTES = 1_000


class _Candidate(NamedTuple):
    """A revision that goes where there is no room, unless it `must_stay`. It counts as old as `at`."""

    must_stay: bool
    file_exists: bool
    at: datetime
    item: Item


async def trim(
    store: BaseStore, files: Namespace, limits: Limits, writer: Writer | None = None
) -> None:
    """Delete the superfluous revisions of a folder's files. Deletes none if the person was forgotten
    since the `writer` began.
    """
    journals = namespaces.journals(files)
    revisions = await all_items(store, journals)
    # Read after the revisions, so that a new file does not look deleted.
    present = await all_items(store, files)
    living = set[Namespace]()
    room = limits.stored_bytes
    for item in present:
        living.add(namespaces.journal(files, item.key))
        room -= _size(item)
    logs = _newest_first(revisions)
    superfluous = _superfluous(logs, living, limits, room)
    # The lines are kept before their revisions go: a process that dies in between has lost nothing.
    may_go = await _keep_lines(store, files, logs.values(), superfluous, writer)
    if may_go:
        await store.abatch(deletions(superfluous))


def _newest_first(revisions: Sequence[Item]) -> dict[Namespace, list[Item]]:
    """The revisions of each file, newest first, by its journal's namespace. They come sorted by key,
    which begins with the revision's number.
    """
    logs = defaultdict[Namespace, list[Item]](list)
    for item in reversed(revisions):
        logs[item.namespace].append(item)
    return logs


def _superfluous(
    logs: Mapping[Namespace, Sequence[Item]],
    living: Collection[Namespace],
    limits: Limits,
    room: int,
) -> list[Item]:
    """The revisions beyond those kept of a file, and those for which there is no room.

    `logs` are the revisions as `_newest_first` gives them. `living` are the namespaces of files that
    are there, and `room` are the bytes left for revisions.
    """
    superfluous = list[Item]()
    candidates = list[_Candidate]()
    for namespace, log in logs.items():
        count = _count_kept(log, limits.revisions_kept)
        recent_items = log[:count]
        superfluous += log[count:]
        file_exists = namespace in living
        candidates += _candidates(recent_items, file_exists=file_exists)
    superfluous += _without_room(candidates, room)
    return superfluous


def _count_kept(log: Sequence[Item], limit: int) -> int:
    """How many revisions of a file, newest first, have one of the last `limit` numbers. Writers at
    the same time give one number twice.
    """
    newest = _number_of(log[0])
    first_kept = newest - limit + 1
    count = 0
    for item in log:
        if _number_of(item) < first_kept:
            break
        count += 1
    return count


def _number_of(item: Item) -> int:
    """The number of a revision: its key begins with eight digits."""
    return int(item.key[:8])


def _candidates(log: Sequence[Item], *, file_exists: bool) -> list[_Candidate]:
    """A file's revisions, newest first. Those that somebody may be merging must stay, and one of a
    file that is there.
    """
    time_to_merge = timedelta(seconds=_MERGING_SECONDS)
    merging_since = datetime.now(UTC) - time_to_merge
    count_recent = sum(item.updated_at > merging_since for item in log)
    least_staying = 1 if file_exists else 0
    count_staying = max(count_recent, least_staying)
    candidates = list[_Candidate]()
    oldest = datetime.max.replace(tzinfo=UTC)
    for number, item in enumerate(log):
        # As old as the oldest of those after it, so that older ones go before it.
        oldest = min(oldest, item.updated_at)
        candidate = _Candidate(
            must_stay=number < count_staying,
            file_exists=file_exists,
            at=oldest,
            item=item,
        )
        candidates.append(candidate)
    return candidates


def _without_room(candidates: Iterable[_Candidate], room: int) -> list[Item]:
    """Those of these revisions that go, so that the others take so many bytes at most."""
    last_to_go_first = sorted(candidates, reverse=True, key=_rank)
    without_room = list[Item]()
    for candidate in last_to_go_first:
        room -= _size(candidate.item)
        if room < 0 and not candidate.must_stay:
            without_room.append(candidate.item)
    return without_room


def _rank(candidate: _Candidate) -> tuple[bool, bool, datetime, str]:
    """By which candidates are sorted: the smallest goes first."""
    return candidate.must_stay, candidate.file_exists, candidate.at, candidate.item.key


async def _keep_lines(
    store: BaseStore,
    files: Namespace,
    logs: Iterable[Sequence[Item]],
    superfluous: Iterable[Item],
    writer: Writer | None,
) -> bool:
    """Keep the lines that were taken back in revisions that go. Returns whether these may go: False
    if the person was forgotten since the `writer` began, or a fact of theirs deleted for good.
    """
    places = set[tuple[Namespace, str]]()
    for item in superfluous:
        places.add((item.namespace, item.key))
    ops = await platform.in_thread(dropped_ops, files, logs, places)
    if not ops:
        return True
    place = namespaces.taken_back(files)
    kept_lines = await all_items(store, place)
    ops = await platform.in_thread(within_bounds, ops, kept_lines)
    if not ops:
        return True
    return await put_unless_forgotten(store, ops, writer, quotes_facts=True)


def _size(item: Item) -> int:
    """Bytes that a file or a revision takes in the store."""
    revision = item.value.get("revision")
    value = revision if isinstance(revision, dict) else item.value
    content = value.get("content")
    return stored_size(content)


def stored_size(content: object) -> int:
    """Bytes that a text takes in the store, as a file or as a revision."""
    text = str(content or "")
    text_bytes = text.encode(errors="replace")
    return len(text_bytes) + _OVERHEAD_BYTES
