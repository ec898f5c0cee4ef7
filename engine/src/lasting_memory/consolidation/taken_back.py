"""What was taken back, what of it is still gone, and how a model is shown it.

A line is *taken back* if the person, or an agent in a conversation, removed or changed it, or if the
person declined it. It is *gone* if it stands nowhere in memory now. The journal knows who removed
what and when. Of revisions that are no longer kept it keeps the lines that they took back.
`returning_lines.py` says whether a batch brings any of them back.

Lines are compared as facts (`facts.py`): by their words.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from lasting_memory.consolidation.facts import LineWords, differences, facts_of, text_files
from lasting_memory.memory.journal import Revision, TakenBack
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people.identity import AT_THEIR_WORD

# The newest lines that the model is shown, and characters of each.
_LINES_SHOWN = 50
_SHOWN_CHARS = 200


class DatedText(NamedTuple):
    """A line that was taken back, or a message of the person's; and when that was, in ISO format,
    UTC.
    """

    text: str
    at: str


# By what a line is known: its `LineWords`; where ends are compared, its `DatedWords`.
LineIdentity = TypeVar("LineIdentity", bound=Hashable)
# Compares the texts of a change: the lines that it takes out, and those that it adds.
Differences = Callable[[Changed], tuple[Mapping[LineIdentity, str], Mapping[LineIdentity, str]]]


class _Edit(NamedTuple, Generic[LineIdentity]):
    """The lines that an edit took back, those that it added, and when."""

    at: str
    removed_lines: Mapping[LineIdentity, str]
    added_lines: Mapping[LineIdentity, str] = MappingProxyType({})


def taken_back(
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined_changes: Iterable[Declined],
    dropped_lines: Iterable[TakenBack] = (),
) -> dict[LineWords, DatedText]:
    """The lines that were taken back and not written again since, the latest last.

    `histories` has the revisions of each file, newest first, by path; `dropped_lines` those that
    were taken back in revisions that are no longer kept. Blocks.
    """
    return taken_back_by(differences, histories, declined_changes, dropped_lines)


def taken_back_by(
    compare: Differences[LineIdentity],
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined_changes: Iterable[Declined],
    dropped_lines: Iterable[TakenBack] = (),
) -> dict[LineIdentity, DatedText]:
    """As `taken_back`, with another comparison than that of facts. Blocks."""
    edits = list[_Edit[LineIdentity]]()
    for path, text, at in dropped_lines:
        change = Changed(path, before=text, after="")
        removed_lines, _ = compare(change)
        edit = _Edit(at, removed_lines)
        edits.append(edit)
    for change, at in declined_changes:
        _, declined_lines = compare(change)
        edit = _Edit(at, declined_lines)
        edits.append(edit)
    for path, revisions in histories:
        edits += _edits_of(path, revisions, compare)
    edits.sort(key=lambda edit: edit.at)
    return _replayed(edits)


def _replayed(edits: Iterable[_Edit[LineIdentity]]) -> dict[LineIdentity, DatedText]:
    """What is taken back after these edits, the oldest of which is first."""
    taken_lines = dict[LineIdentity, DatedText]()
    for edit in edits:
        for line_identity in edit.added_lines:
            taken_lines.pop(line_identity, None)
        for line_identity, text in edit.removed_lines.items():
            # What is taken back once more moves to the end.
            taken_lines.pop(line_identity, None)
            if line_identity in edit.added_lines:
                continue
            taken_lines[line_identity] = DatedText(text, edit.at)
    return taken_lines


def _edits_of(
    path: str, revisions: Sequence[Revision], compare: Differences[LineIdentity]
) -> Iterator[_Edit[LineIdentity]]:
    """The edits of a file, newest first. Those of authors who do not act at the person's word take
    nothing back, but they may add a line again.
    """
    texts_before = list[str]()
    for older_revision in revisions[1:]:
        texts_before.append(older_revision.content or "")
    # Without a file's first revision nobody knows what its oldest one changed.
    if revisions and revisions[-1].number == 1:
        texts_before.append("")
    for revision, text_before in zip(revisions, texts_before, strict=False):
        if revision.encoding != "utf-8":
            continue
        text_after = revision.content or ""
        change = Changed(path, text_before, text_after)
        removed_lines, added_lines = compare(change)
        if revision.author.kind not in AT_THEIR_WORD:
            removed_lines = {}
        yield _Edit(revision.at, removed_lines, added_lines)


def still_gone(
    taken_lines: Mapping[LineWords, DatedText], present_texts: Mapping[str, str]
) -> dict[LineWords, DatedText]:
    """Those of the lines that were taken back that are gone. A line that was moved to another file is
    not.

    `present_texts` has the texts of the present files, by key. Blocks.
    """
    present_lines = facts_of(text_files(present_texts))
    return not_present(taken_lines, present_lines)


def not_present(
    taken_lines: Mapping[LineWords, DatedText], present_lines: Collection[LineWords]
) -> dict[LineWords, DatedText]:
    """Those of the lines that were taken back that are not among the present ones."""
    gone_lines = dict[LineWords, DatedText]()
    for line_words, line in taken_lines.items():
        if line_words in present_lines:
            continue
        gone_lines[line_words] = line
    return gone_lines


def shown_lines(taken_lines: Iterable[DatedText], messages: Iterable[DatedText]) -> str:
    """For the model: the newest lines that were taken back, and the newest messages of the person
    since, with their times.
    """
    parts = list[str]()
    for lines in (taken_lines, messages):
        list_text = _listed(lines)
        if list_text:
            parts.append(list_text)
    return "\n\nSaid since:\n\n".join(parts)


def _listed(lines: Iterable[DatedText]) -> str:
    """The newest of these lines as a list, newest first; "" for none."""
    newest_first = sorted(lines, key=lambda line: line.at, reverse=True)
    items = list[str]()
    for line in newest_first[:_LINES_SHOWN]:
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
