"""The change of one text: its lines, a part of it, and what it makes of the present file.

A changed line is one with text that is taken out or put in. Changed lines are numbered in order, from
0: by these numbers a person chooses some of them. A file of JSON is one change, without lines.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entries, entry_of
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.restored_lines import with_lines_restored
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch

# Who vouches for what changes add, by path and entry.
Sources = Mapping[str, Mapping[str, Source]]
# By the numbers of chosen lines: the text that the person wants there instead, or None.
Chosen = Mapping[int, str | None]


class _Line(NamedTuple):
    """A line of either text: unchanged (" "), taken out ("-") or put in ("+").

    `number` is that of the changed line that it goes with, below 0 for none. A blank line's is that
    of the next line that changes with it, or of the last one.
    """

    sign: str
    text: str
    number: int

    @property
    def has_text(self) -> bool:
        return bool(self.text.strip())

    def is_in_result(self, chosen: Chosen) -> bool:
        """Whether the line is in the text that the chosen lines of a change make."""
        if self.sign == " ":
            return True
        is_chosen = self.number in chosen
        if self.number < 0:  # a blank line that goes with no other
            is_chosen = bool(chosen)
        is_put_in = self.sign == "+"
        return is_put_in == is_chosen

    def text_instead(self, chosen: Chosen) -> str | None:
        """What the person wants there instead of this line; None if it stays as it is."""
        if self.sign == "+" and self.has_text:
            return chosen.get(self.number)
        return None


class ChangedLine(NamedTuple):
    """A changed line: taken out ("-") or put in ("+")."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of one text. A text is "" where there is no file."""

    key: str
    before: str
    after: str
    deleted: bool = False

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    @property
    def is_json(self) -> bool:
        return self.key.endswith(".json")

    def changes_something(self) -> bool:
        """Whether it deletes the file, or makes another text of it."""
        is_edited = self.before != self.after
        return is_edited or self.deleted

    def lines(self) -> list[ChangedLine]:
        """The changed lines in order. None of JSON, which has fields."""
        if self.is_json:
            return []
        changed_lines = list[ChangedLine]()
        for line in self._walk():
            if line.has_text and line.sign != " ":
                changed_line = ChangedLine(line.sign, line.text)
                changed_lines.append(changed_line)
        return changed_lines

    def only(self, chosen: Chosen | None) -> tuple["Changed", "Changed"]:
        """This change with the chosen lines alone, and the change that follows it with what the
        person wants there instead.

        None chooses all. Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        if chosen is None:
            no_edits = replace(self, before=self.after, deleted=False)
            return self, no_edits
        self._check_chosen(chosen)
        as_proposed = list[str]()
        as_edited = list[str]()
        for line in self._walk():
            if not line.is_in_result(chosen):
                continue
            edited = line.text_instead(chosen)
            if edited is None:
                as_proposed.append(line.text)
            as_edited.append(edited or line.text)
        proposed_text = "\n".join(as_proposed)
        edited_text = "\n".join(as_edited)
        is_deleted = self.deleted and not proposed_text
        proposed = replace(self, after=proposed_text, deleted=is_deleted)
        edits = Changed(self.key, proposed_text, edited_text)
        return proposed, edits

    def _check_chosen(self, chosen: Chosen) -> None:
        """Raises `RefusedWrite` for what is no number of a line, or takes no text."""
        lines = self.lines()
        count = len(lines)
        for number, text in chosen.items():
            if number >= count:
                raise RefusedWrite(
                    f"{self.path} has {count} changed lines to choose from, and no number {number}."
                )
            if text is None:
                continue
            line = lines[number]
            if line.sign == "-":
                raise RefusedWrite(
                    f"Line {number} of {self.path} is taken out; it has no other text."
                )

    def _walk(self) -> Iterator[_Line]:
        """All lines of both texts in order."""
        old = self.before.split("\n")
        new = self.after.split("\n")
        walked = 0  # lines of the old text
        number = 0
        for edit in journal.edits(old, new):
            unchanged = old[walked : edit.old_start]
            yield from _unchanged_lines(unchanged)
            taken_out = edit.taken_out(old)
            yield from _changed_lines("-", taken_out, number)
            number += _count_with_text(taken_out)
            put_in = edit.put_in(new)
            yield from _changed_lines("+", put_in, number)
            number += _count_with_text(put_in)
            walked = edit.old_end
        yield from _unchanged_lines(old[walked:])

    def without(self, fact: Fact) -> "Changed":
        """This change without what it does to a fact that is deleted for good. Blocks."""
        key = self.key
        before = fact.cleaned(key, self.before)
        after = fact.cleaned(key, self.after)
        return replace(self, before=before, after=after)

    def without_entries(self, lost: Collection[str], reworded: Collection[str]) -> "Changed":
        """This change without the `lost` entries that it adds. Lines in `reworded`, which it takes
        out since others say them in other words, stay. A change of JSON goes as a whole, if anything
        is lost. Blocks.
        """
        if self.is_json and not lost:
            return self
        if self.is_json:
            return replace(self, after=self.before, deleted=False)
        after = _without_lines(self.after, lost)
        if not self.before and _has_only_headings(after):
            after = ""
        reworded_numbers = _numbers_of(reworded, self.before)
        text = with_lines_restored(self.before, after, reworded_numbers)
        is_deleted = self.deleted and not text
        return replace(self, after=text, deleted=is_deleted)

    def beyond(self, taken: str) -> "Changed":
        """What this change would still change in `taken`, the text with the part of it that was
        accepted: the lines that differ, for JSON the whole texts. Both texts are "" if nothing does.
        """
        if self.is_json:
            if self.after == taken:
                return Changed(self.key, "", "")
            return Changed(self.key, taken, self.after)
        old = taken.split("\n")
        new = self.after.split("\n")
        removed = _lines_not_in(new, old)
        added = _lines_not_in(old, new)
        return Changed(self.key, removed, added)

    def merged(self, file: FileData | None) -> FileData | None:
        """The present file with this change and with others' changes since this one was made; None
        if there is no file then. Raises `RefusedWrite` for what is no text.
        """
        present = ""
        if file:
            if file["encoding"] != "utf-8":
                raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
            present = file["content"]
        merged = journal.merge(self.key, self.before, present, self.after)
        text = merged or ""
        may_be_missing = self.deleted or file is None
        if may_be_missing and not text:
            return None
        return FileData(content=text, encoding="utf-8")


def _unchanged_lines(lines: Sequence[str]) -> Iterator[_Line]:
    for line in lines:
        yield _Line(" ", line, -1)


def _changed_lines(sign: str, lines: Sequence[str], first: int) -> Iterator[_Line]:
    """Lines that are taken out or put in together. `first` is the number of the first with text."""
    number = first
    last = first + _count_with_text(lines) - 1
    for line in lines:
        yield _Line(sign, line, min(number, last))
        if line.strip():
            number += 1


def _count_with_text(lines: Sequence[str]) -> int:
    count = 0
    for line in lines:
        if line.strip():
            count += 1
    return count


def _lines_not_in(known: Sequence[str], lines: Sequence[str]) -> str:
    """The text of those of these lines that are not among the known ones."""
    known_lines = set(known)
    others = [line for line in lines if line not in known_lines]
    return "\n".join(others)


def _without_lines(text: str, lost: Collection[str]) -> str:
    """A text without the lines that have these entries."""
    staying_lines = list[str]()
    for line in text.split("\n"):
        if entry_of(line) not in lost:
            staying_lines.append(line)
    return "\n".join(staying_lines)


def _numbers_of(wanted_lines: Collection[str], text: str) -> list[int]:
    """The numbers of the lines of a text that are these, without the space around them."""
    numbers = list[int]()
    for number, line in enumerate(text.split("\n")):
        if line.strip() in wanted_lines:
            numbers.append(number)
    return numbers


def _has_only_headings(text: str) -> bool:
    for raw_line in text.split("\n"):
        line = raw_line.strip()
        if line and not line.startswith("#"):
            return False
    return True


def changes(before: Mapping[str, FileData], after: Mapping[str, FileData]) -> list[Changed]:
    """The differences between two states of the same files, by key. What is not text stays as it
    is.
    """
    old = texts(before)
    new = texts(after)
    were_no_text = before.keys() - old.keys()
    are_no_text = after.keys() - new.keys()
    all_changes = list[Changed]()
    keys = old.keys() | new.keys()
    for key in sorted(keys):
        if key in were_no_text or key in are_no_text:
            continue
        if old.get(key) == new.get(key):
            continue
        old_text = old.get(key, "")
        new_text = new.get(key, "")
        is_deleted = key not in new
        change = Changed(key, old_text, new_text, is_deleted)
        all_changes.append(change)
    return all_changes


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    by_path = dict[str, str]()
    for change in changed:
        path = change.path
        diff = journal.diff(change.before, change.after)
        by_path[path] = journal.cut_diff(diff)
    return by_path


def texts(files: Mapping[str, FileData]) -> dict[str, str]:
    """The text of each file that has text, by key."""
    by_key = dict[str, str]()
    for key, file in files.items():
        if file["encoding"] == "utf-8":
            by_key[key] = file["content"]
    return by_key


def added_sources(changed: Changed, vouch: Vouch) -> dict[str, Source]:
    """Who vouches for the entries that a change adds. Blocks."""
    old_entries = entries(changed.key, changed.before)
    new_entries = entries(changed.key, changed.after)
    present = set(old_entries)
    sources = dict[str, Source]()
    for entry in new_entries:
        if entry not in present:
            sources[entry] = vouch(entry, None)
    return sources
