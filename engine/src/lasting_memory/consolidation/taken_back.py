"""What was taken back, what of it is still gone, and how a model is shown it.

A line is *taken back* if the person, or an agent in a conversation, removed or changed it, or if the
person declined it. It is *gone* if it stands nowhere in memory now. The journal knows who removed
what and when. Of revisions that are no longer kept it keeps the lines that they took back.
`returning_lines.py` says whether a batch brings any of them back.

Lines are compared as facts (`facts.py`): by their words, which are their `Key`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from lasting_memory.consolidation.facts import Key, differences, facts_of, text_files
from lasting_memory.memory.journal import Revision, TakenBack
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people.identity import AT_THEIR_WORD

# The newest lines that the model is shown, and characters of each.
_SHOWN = 50
_SHOWN_CHARS = 200


class Dated(NamedTuple):
    """A line that was taken back, or a message of the person's; and when that was, in ISO format,
    UTC.
    """

    text: str
    at: str


# By what a line is known: its `Key`; where ends are compared, its `DatedKey`.
LineKey = TypeVar("LineKey", bound=Hashable)
# Compares the texts of a change: the lines that it takes out, and those that it adds.
Differences = Callable[[Changed], tuple[Mapping[LineKey, str], Mapping[LineKey, str]]]


class _Edit(NamedTuple, Generic[LineKey]):
    """The lines that an edit took back, those that it added, and when."""

    at: str
    removed: Mapping[LineKey, str]
    added: Mapping[LineKey, str] = MappingProxyType({})


def taken_back(
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[Key, Dated]:
    """The lines that were taken back and not written again since, the latest last.

    `histories` has the revisions of each file, newest first, by path; `dropped` the lines that were
    taken back in revisions that are no longer kept. Blocks.
    """
    return taken_back_by(differences, histories, declined, dropped)


def taken_back_by(
    compare: Differences[LineKey],
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[LineKey, Dated]:
    """As `taken_back`, with another comparison than that of facts. Blocks."""
    edits = list[_Edit[LineKey]]()
    for path, text, at in dropped:
        change = Changed(path, before=text, after="")
        removed, _ = compare(change)
        edit = _Edit(at, removed)
        edits.append(edit)
    for change, at in declined:
        _, declined_lines = compare(change)
        edit = _Edit(at, declined_lines)
        edits.append(edit)
    for path, revisions in histories:
        edits += _edits_of(path, revisions, compare)
    edits.sort(key=lambda edit: edit.at)
    return _replayed(edits)


def _replayed(edits: Iterable[_Edit[LineKey]]) -> dict[LineKey, Dated]:
    """What is taken back after these edits, the oldest of which is first."""
    taken_back = dict[LineKey, Dated]()
    for edit in edits:
        for line_key in edit.added:
            taken_back.pop(line_key, None)
        for line_key, text in edit.removed.items():
            # What is taken back once more moves to the end.
            taken_back.pop(line_key, None)
            if line_key in edit.added:
                continue
            taken_back[line_key] = Dated(text, edit.at)
    return taken_back


def _edits_of(
    path: str, revisions: Sequence[Revision], compare: Differences[LineKey]
) -> Iterator[_Edit[LineKey]]:
    """The edits of a file, newest first. Those of authors who do not act at the person's word take
    nothing back, but they may add a line again.
    """
    texts_before = list[str]()
    for older in revisions[1:]:
        texts_before.append(older.content or "")
    # Without a file's first revision nobody knows what its oldest one changed.
    if revisions and revisions[-1].number == 1:
        texts_before.append("")
    for revision, before in zip(revisions, texts_before, strict=False):
        if revision.encoding != "utf-8":
            continue
        after = revision.content or ""
        change = Changed(path, before, after)
        removed, added = compare(change)
        if revision.author.kind not in AT_THEIR_WORD:
            removed = {}
        yield _Edit(revision.at, removed, added)


def still_gone(
    taken_lines: Mapping[Key, Dated], present_texts: Mapping[str, str]
) -> dict[Key, Dated]:
    """Those of the lines that were taken back that are gone. A line that was moved to another file is
    not.

    `present_texts` has the texts of the present files, by key. Blocks.
    """
    present = facts_of(text_files(present_texts))
    return not_present(taken_lines, present)


def not_present(taken_lines: Mapping[Key, Dated], present: Collection[Key]) -> dict[Key, Dated]:
    """Those of the lines that were taken back that are not among the present ones."""
    gone_lines = dict[Key, Dated]()
    for key, line in taken_lines.items():
        if key in present:
            continue
        gone_lines[key] = line
    return gone_lines


def shown_lines(taken_lines: Iterable[Dated], messages: Iterable[Dated]) -> str:
    """For the model: the newest lines that were taken back, and the newest messages of the person
    since, with their times.
    """
    parts = list[str]()
    for lines in (taken_lines, messages):
        listed = _listed(lines)
        if listed:
            parts.append(listed)
    return "\n\nSaid since:\n\n".join(parts)


def _listed(lines: Iterable[Dated]) -> str:
    """The newest of these lines as a list, newest first; "" for none."""
    newest_first = sorted(lines, key=lambda line: line.at, reverse=True)
    items = list[str]()
    for line in newest_first[:_SHOWN]:
        minute = minute_of(line.at)
        words = line.text.split()
        one_line = " ".join(words)
        start = one_line[:_SHOWN_CHARS]
        items.append(f"- {minute}: {start}")
    return "\n".join(items)


def minute_of(at: str) -> str:
    """A time in ISO format up to its minute, for people."""
    until_minute = at[:16]
    return until_minute.replace("T", " ")
