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
Choices = Mapping[int, str | None]


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

    def is_in_result(self, choices: Choices) -> bool:
        """Whether the line is in the text that the chosen lines of a change make."""
        if self.sign == " ":
            return True
        is_chosen = self.number in choices
        if self.number < 0:  # a blank line that goes with no other
            is_chosen = bool(choices)
        is_put_in = self.sign == "+"
        return is_put_in == is_chosen

    def text_instead(self, choices: Choices) -> str | None:
        """What the person wants there instead of this line; None if it stays as it is."""
        if self.sign == "+" and self.has_text:
            return choices.get(self.number)
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

    def only(self, choices: Choices | None) -> tuple["Changed", "Changed"]:
        """This change with the chosen lines alone, and the change that follows it with what the
        person wants there instead.

        None chooses all. Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        if choices is None:
            no_edits = replace(self, before=self.after, deleted=False)
            return self, no_edits
        self._check_chosen(choices)
        as_proposed = list[str]()
        as_edited = list[str]()
        for line in self._walk():
            if not line.is_in_result(choices):
                continue
            edited_line = line.text_instead(choices)
            if edited_line is None:
                as_proposed.append(line.text)
            as_edited.append(edited_line or line.text)
        proposed_text = "\n".join(as_proposed)
        edited_text = "\n".join(as_edited)
        is_deleted = self.deleted and not proposed_text
        proposed_change = replace(self, after=proposed_text, deleted=is_deleted)
        edits = Changed(self.key, proposed_text, edited_text)
        return proposed_change, edits

    def _check_chosen(self, choices: Choices) -> None:
        """Raises `RefusedWrite` for what is no number of a line, or takes no text."""
        lines = self.lines()
        count = len(lines)
        for number, text in choices.items():
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
        old_lines = self.before.split("\n")
        new_lines = self.after.split("\n")
        old_place = 0  # lines of the old text
        number = 0
        for edit in journal.edits(old_lines, new_lines):
            unchanged_lines = old_lines[old_place : edit.old_start]
            yield from _unchanged_lines(unchanged_lines)
            taken_out = edit.taken_out(old_lines)
            yield from _changed_lines("-", taken_out, number)
            number += _count_with_text(taken_out)
            put_in = edit.put_in(new_lines)
            yield from _changed_lines("+", put_in, number)
            number += _count_with_text(put_in)
            old_place = edit.old_end
        yield from _unchanged_lines(old_lines[old_place:])

    def without(self, fact: Fact) -> "Changed":
        """This change without what it does to a fact that is deleted for good. Blocks."""
        key = self.key
        before = fact.cleaned(key, self.before)
        after = fact.cleaned(key, self.after)
        return replace(self, before=before, after=after)

    def without_entries(
        self, lost_entries: Collection[str], reworded_lines: Collection[str]
    ) -> "Changed":
        """This change without the `lost_entries` that it adds. Lines in `reworded_lines`, which it
        takes out since others say them in other words, stay. A change of JSON goes as a whole, if
        anything is lost. Blocks.
        """
        if self.is_json and not lost_entries:
            return self
        if self.is_json:
            return replace(self, after=self.before, deleted=False)
        after = _without_lines(self.after, lost_entries)
        if not self.before and _has_only_headings(after):
            after = ""
        reworded_numbers = _numbers_of(reworded_lines, self.before)
        text = with_lines_restored(self.before, after, reworded_numbers)
        is_deleted = self.deleted and not text
        return replace(self, after=text, deleted=is_deleted)

    def beyond(self, accepted_text: str) -> "Changed":
        """What this change would still change in `accepted_text`, the text with the part of it that
        was accepted: the lines that differ, for JSON the whole texts. Both texts are "" if nothing
        does.
        """
        if self.is_json:
            if self.after == accepted_text:
                return Changed(self.key, "", "")
            return Changed(self.key, accepted_text, self.after)
        accepted_lines = accepted_text.split("\n")
        new_lines = self.after.split("\n")
        removed_text = _lines_not_in(new_lines, accepted_lines)
        added_text = _lines_not_in(accepted_lines, new_lines)
        return Changed(self.key, removed_text, added_text)

    def merged(self, file: FileData | None) -> FileData | None:
        """The present file with this change and with others' changes since this one was made; None
        if there is no file then. Raises `RefusedWrite` for what is no text.
        """
        present = ""
        if file:
            if file["encoding"] != "utf-8":
                raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
            present = file["content"]
        merged_text = journal.merge(self.key, self.before, present, self.after)
        text = merged_text or ""
        may_be_missing = self.deleted or file is None
        if may_be_missing and not text:
            return None
        return FileData(content=text, encoding="utf-8")


def _unchanged_lines(lines: Sequence[str]) -> Iterator[_Line]:
    for line in lines:
        yield _Line(" ", line, -1)


def _changed_lines(sign: str, lines: Sequence[str], first_number: int) -> Iterator[_Line]:
    """Lines that are taken out or put in together. `first_number` is that of the first with text."""
    number = first_number
    last_number = first_number + _count_with_text(lines) - 1
    for line in lines:
        yield _Line(sign, line, min(number, last_number))
        if line.strip():
            number += 1


def _count_with_text(lines: Sequence[str]) -> int:
    count = 0
    for line in lines:
        if line.strip():
            count += 1
    return count


def _lines_not_in(present_lines: Sequence[str], lines: Sequence[str]) -> str:
    """The text of those of these lines that are not among the present ones."""
    distinct_lines = set(present_lines)
    differing_lines = [line for line in lines if line not in distinct_lines]
    return "\n".join(differing_lines)


def _without_lines(text: str, lost_entries: Collection[str]) -> str:
    """A text without the lines that have these entries."""
    staying_lines = list[str]()
    for line in text.split("\n"):
        if entry_of(line) not in lost_entries:
            staying_lines.append(line)
    return "\n".join(staying_lines)


def _numbers_of(stripped_lines: Collection[str], text: str) -> list[int]:
    """The numbers of the lines of a text that are these, without the space around them."""
    numbers = list[int]()
    for number, line in enumerate(text.split("\n")):
        if line.strip() in stripped_lines:
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
    old_texts = texts(before)
    new_texts = texts(after)
    were_no_text = before.keys() - old_texts.keys()
    are_no_text = after.keys() - new_texts.keys()
    all_changes = list[Changed]()
    keys = old_texts.keys() | new_texts.keys()
    for key in sorted(keys):
        if key in were_no_text or key in are_no_text:
            continue
        if old_texts.get(key) == new_texts.get(key):
            continue
        old_text = old_texts.get(key, "")
        new_text = new_texts.get(key, "")
        is_deleted = key not in new_texts
        change = Changed(key, old_text, new_text, is_deleted)
        all_changes.append(change)
    return all_changes


def diffs(text_changes: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    by_path = dict[str, str]()
    for change in text_changes:
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


def added_sources(change: Changed, vouch: Vouch) -> dict[str, Source]:
    """Who vouches for the entries that a change adds. Blocks."""
    old_entries = frozenset(entries(change.key, change.before))
    new_entries = entries(change.key, change.after)
    sources = dict[str, Source]()
    for entry in new_entries:
        if entry not in old_entries:
            sources[entry] = vouch(entry, None)
    return sources
