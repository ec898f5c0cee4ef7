"""Taking text out of the history of a person's files, as if it had never been there.

Revisions stay, with their ids and parents, so undo and merge go on working: only what they say is
less. Whoever read the text before may put it once more. So the caller notes the time when all is
rewritten (`note_erased`), which refuses those writers, and rewrites again what they have put until
then.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import platform
from lasting_memory.memory import line_times, sources
from lasting_memory.memory.journal.histories import renew_copy
from lasting_memory.memory.journal.journaled_file import JournaledFile
from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.journal.unjournaled import put_unless_forgotten
from lasting_memory.memory.journal.writers import Writer
from lasting_memory.memory.line_times import TIMES_FIELD
from lasting_memory.memory.stored_files import deletions
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace

# Gives a text, of the file with this path, without what is erased; the same text where it has
# nothing of that.
Clean = Callable[[str, str], str]


class _Rewritten(NamedTuple):
    """An item whose value has something of what is erased, and its value without that."""

    item: Item
    value: dict[str, object]


async def erase(
    store: BaseStore, files: Namespace, clean: Clean, writer: Writer, *, dry_run: bool = False
) -> Counter[str]:
    """Rewrite the revisions of a namespace's files, and the files. Returns how many `revisions` and
    `files` had some of what is erased.

    With `dry_run` it only counts. Nothing is put for a person who was forgotten since the `writer` began.
    """
    journals = namespaces.journals(files)
    revisions = await all_items(store, journals)
    present = await all_items(store, files)
    place_of_lines = namespaces.taken_back(files)
    taken_back = await all_items(store, place_of_lines)
    taken_back_lines = await platform.in_thread(_lines_with_it, taken_back, clean)
    new_revisions = await platform.in_thread(_cleaned_revisions, revisions, clean)
    new_files = await platform.in_thread(_cleaned_files, present, clean)
    count_revisions = len(new_revisions) + len(taken_back_lines)
    count_files = len(new_files)
    counts = Counter(revisions=count_revisions, files=count_files)
    if dry_run or not counts.total():
        return counts
    ops = list[PutOp]()
    for item, value in new_revisions:
        op = PutOp(item.namespace, item.key, value, index=False)
        ops.append(op)
    for item, value in new_files:
        op = PutOp(item.namespace, item.key, value)
        ops.append(op)
    ops += deletions(taken_back_lines)
    is_put = await put_unless_forgotten(store, ops, writer)
    if not is_put:
        return counts
    # Somebody may have changed a file since it was read.
    for item, _ in new_files:
        file = JournaledFile(store, files, item.key, writer, heeds_erased=False)
        await renew_copy(file)
    return counts


def _lines_with_it(taken_back: Sequence[Item], clean: Clean) -> list[Item]:
    """Those of these lines that say what is erased. They were taken back in revisions that are no
    longer kept (`dropped.py`). Blocks.
    """
    lines = list[Item]()
    for item in taken_back:
        path = str(item.value.get("path"))
        text = str(item.value.get("text"))
        if clean(path, text) != text:
            lines.append(item)
    return lines


def _cleaned_files(items: Sequence[Item], clean: Clean) -> list[_Rewritten]:
    """The files that have something of what is erased, rewritten. Blocks."""
    rewritten = list[_Rewritten]()
    for item in items:
        value = _cleaned(item.value, item.key, clean)
        if value is not None:
            rewritten.append(_Rewritten(item, value))
    return rewritten


def _cleaned_revisions(items: Sequence[Item], clean: Clean) -> list[_Rewritten]:
    """The revisions that have something of what is erased, rewritten. Blocks."""
    rewritten = list[_Rewritten]()
    for item in items:
        revision = item.value.get("revision")
        if not isinstance(revision, Mapping):
            continue
        path = str(item.value.get("path"))
        clean_revision = _cleaned(revision, path, clean)
        if clean_revision is not None:
            value = {**item.value, "revision": clean_revision}
            rewritten.append(_Rewritten(item, value))
    return rewritten


def _cleaned(value: Mapping[str, object], path: str, clean: Clean) -> dict[str, object] | None:
    """The value of a file or of a revision without what is erased; None for one that has nothing of
    it.
    """
    content = value.get("content")
    encoding = value.get("encoding", "utf-8")
    if not isinstance(content, str) or encoding != "utf-8":
        return None
    clean_content = clean(path, content)
    if clean_content == content:
        return None
    return _with_content(value, path, content, clean_content)


def _with_content(
    value: Mapping[str, object], path: str, before: str, after: str
) -> dict[str, object]:
    """The value of a file or of a revision with less of its text. Of the lines that are left it
    stays known when they were written and who vouches for them.
    """
    new_value = {**value, "content": after}
    if value.get(TIMES_FIELD):
        new_value[TIMES_FIELD] = _times_of_lines_left(value, after)
    signs = sources.signs_in(value)
    if signs:
        known_sources = sources.sources_in(path, before, signs)
        new_value[sources.FIELD] = sources.signs_of(path, after, known_sources)
    return new_value


def _times_of_lines_left(value: Mapping[str, object], content: str) -> dict[str, str]:
    """When the lines of a text were written, as the value of its file or revision says it."""
    keys_left = line_times.times_at(content, "").keys()
    times = dict[str, str]()
    for key, at in line_times.stored_times(value).items():
        if key in keys_left:
            times[key] = at
    return times
