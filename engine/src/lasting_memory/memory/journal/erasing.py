"""Taking text out of the history of a person's files, as if it had never been there.

Revisions stay, with their ids and parents, so undo and merge go on working: only what they say is
less. Whoever read the text before may put it once more. So the caller notes the time when all is
rewritten (`note_erased`), which refuses those writers, and rewrites again what they have put until
then.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import platform
from lasting_memory.memory import ends, sources
from lasting_memory.memory.ends import WRITTEN
from lasting_memory.memory.journal.writing import (
    Began,
    _File,
    _publish,
    all_items,
    put_unless_forgotten,
)
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace

# Gives a text, of the file with this path, without what is erased; the same text where it has
# nothing of that.
Clean = Callable[[str, str], str]


async def erase(
    store: BaseStore, files: Namespace, clean: Clean, began: Began, *, dry_run: bool = False
) -> Counter[str]:
    """Rewrite the revisions of a namespace's files, and the files. Returns how many `revisions` and
    `files` had some of it.

    With `dry_run` it only counts. Nothing is put for a person who was forgotten since this `began`.
    """
    revisions = await all_items(store, namespaces.journals(files))
    present = await all_items(store, files)
    dropped = await all_items(store, namespaces.taken_back(files))
    gone = await platform.in_thread(_erased, dropped, clean)
    new_revisions = await platform.in_thread(_cleaned_revisions, revisions, clean)
    new_files = await platform.in_thread(_cleaned_files, present, clean)
    count_revisions = len(new_revisions) + len(gone)
    counts = Counter(revisions=count_revisions, files=len(new_files))
    if dry_run or not counts.total():
        return counts
    ops = list[PutOp]()
    for item, value in new_revisions:
        ops.append(PutOp(item.namespace, item.key, value, index=False))
    for item, value in new_files:
        ops.append(PutOp(item.namespace, item.key, value))
    ops += deletions(gone)
    is_put = await put_unless_forgotten(store, ops, began)
    if is_put:
        for item, _ in new_files:
            file = _File(store, files, item.key, began, heeds_erased=False)
            await _renew_copy(file)
    return counts


def _erased(dropped: Sequence[Item], clean: Clean) -> list[Item]:
    """The lines taken back in revisions that are gone, as items, that say what is erased. Blocks."""
    found = list[Item]()
    for item in dropped:
        path = str(item.value.get("path"))
        text = str(item.value.get("text"))
        if clean(path, text) != text:
            found.append(item)
    return found


async def _renew_copy(file: _File) -> None:
    """Make a file the copy of its newest revision again, where somebody has put one since it was
    read.
    """
    item = await file.item()
    log, _ = await file.look()
    base = file.copied(item)
    newest = max(log.tips(), default=None)
    if base is None or newest is None:
        return
    is_copy = base.id == newest.id and base.content == newest.content
    if not is_copy:
        await _publish(file, newest, [])


def _cleaned_files(items: Sequence[Item], clean: Clean) -> list[tuple[Item, dict[str, Any]]]:
    """The files that have something of what is erased, with their new values. Blocks."""
    found = list[tuple[Item, dict[str, Any]]]()
    for item in items:
        value = _cleaned(item.value, item.key, clean)
        if value is not None:
            found.append((item, value))
    return found


def _cleaned_revisions(items: Sequence[Item], clean: Clean) -> list[tuple[Item, dict[str, Any]]]:
    """The revisions that have something of what is erased, with their new values. Blocks."""
    found = list[tuple[Item, dict[str, Any]]]()
    for item in items:
        revision = item.value.get("revision")
        if not isinstance(revision, Mapping):
            continue
        path = str(item.value.get("path"))
        cleaned = _cleaned(revision, path, clean)
        if cleaned is not None:
            found.append((item, {**item.value, "revision": cleaned}))
    return found


def _cleaned(value: Mapping[str, Any], path: str, clean: Clean) -> dict[str, Any] | None:
    """A stored file or revision without what is erased; None for one that has nothing of it."""
    content = value.get("content")
    encoding = value.get("encoding", "utf-8")
    if not isinstance(content, str) or encoding != "utf-8":
        return None
    new = clean(path, content)
    if new == content:
        return None
    return _with_content(value, path, content, new)


def _with_content(value: Mapping[str, Any], path: str, before: str, after: str) -> dict[str, Any]:
    """A stored file or revision with less of its text. Of the lines that are left it stays known
    when they were written and who vouches for them.
    """
    changed = {**value, "content": after}
    if value.get(WRITTEN):
        left = ends.written_at(after, "")
        written = dict[str, str]()
        for key, at in ends.written_in(value).items():
            if key in left:
                written[key] = at
        changed[WRITTEN] = written
    signs = sources.signs_in(value)
    if signs:
        known = sources.sources_in(path, before, signs)
        changed[sources.FIELD] = sources.signs_of(path, after, known)
    return changed
