"""The change of one text: its lines, a part of it, and what it makes of the present file."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.restored_lines import with_lines_restored
from lasting_memory.memory.sources import Vouch, entries, entry_of
from lasting_memory.memory.validation import RefusedWrite

# Who vouches for what changes add, by path and entry.
Sources = Mapping[str, Mapping[str, Source]]


class _Line(NamedTuple):
    """A line of either text: kept (" "), taken out ("-") or put in ("+").

    `number` is that of the changed line that it goes with, below 0 for none. A blank line's is that
    of the next line that changes with it, or of the last one.
    """

    sign: str
    text: str
    number: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch's change of one text. Its text is "" for no file."""

    key: str
    before: str
    after: str
    deleted: bool = False

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    def lines(self) -> list[tuple[str, str]]:
        """The lines that it takes out ("-") and puts in ("+"), in order, without blank ones. None
        of JSON, which has fields.
        """
        if self.key.endswith(".json"):
            return []
        changed = list[tuple[str, str]]()
        for line in self._walk():
            if line.sign != " " and line.text.strip():
                changed.append((line.sign, line.text))
        return changed

    def only(self, chosen: Mapping[int, str | None] | None) -> tuple["Changed", "Changed"]:
        """This change with some of its `lines`, by number, and the change that follows it with
        those that have another text.

        None chooses all. Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        if chosen is None:
            return self, Changed(self.key, self.after, self.after)
        self._check_chosen(chosen)
        as_proposed = list[str]()
        as_edited = list[str]()
        for line in self._walk():
            if not _is_in_result(line, chosen):
                continue
            edited = None
            if line.sign == "+" and line.text.strip():
                edited = chosen.get(line.number)
            if edited is None:
                as_proposed.append(line.text)
            as_edited.append(edited or line.text)
        proposed_text = "\n".join(as_proposed)
        edited_text = "\n".join(as_edited)
        is_deleted = self.deleted and not proposed_text
        own = replace(self, after=proposed_text, deleted=is_deleted)
        return own, Changed(self.key, proposed_text, edited_text)

    def _check_chosen(self, chosen: Mapping[int, str | None]) -> None:
        """Raises `RefusedWrite` for what is no number of a line, or takes no text."""
        lines = self.lines()
        for number, text in chosen.items():
            if number >= len(lines):
                raise RefusedWrite(
                    f"{self.path} has {len(lines)} changed lines to choose from, and no number {number}."
                )
            if text is None:
                continue
            sign, _ = lines[number]
            if sign == "-":
                raise RefusedWrite(
                    f"Line {number} of {self.path} is taken out; it has no other text."
                )

    def _walk(self) -> Iterator[_Line]:
        """All lines of both texts in order."""
        old = self.before.split("\n")
        new = self.after.split("\n")
        place = 0
        number = 0
        for edit in journal.edits(old, new):
            yield from _kept_lines(old[place : edit.old_start])
            taken_out = edit.taken_out(old)
            yield from _changed_lines("-", taken_out, number)
            number += _count_with_text(taken_out)
            put_in = edit.put_in(new)
            yield from _changed_lines("+", put_in, number)
            number += _count_with_text(put_in)
            place = edit.old_end
        yield from _kept_lines(old[place:])

    def without(self, fact: Fact) -> "Changed":
        """This change without what it does to a fact that is deleted for good. Blocks."""
        before = fact.cleaned(self.key, self.before)
        after = fact.cleaned(self.key, self.after)
        return replace(self, before=before, after=after)

    def without_entries(self, lost: Collection[str], reworded: Collection[str]) -> "Changed":
        """This change without the entries that it adds of these, and with the lines that it takes
        out of those that are only reworded. JSON stays as it is. Blocks.
        """
        if self.key.endswith(".json"):
            return replace(self, after=self.before, deleted=False) if lost else self
        staying_lines = list[str]()
        for line in self.after.split("\n"):
            if entry_of(line) not in lost:
                staying_lines.append(line)
        kept = "\n".join(staying_lines)
        if not self.before and _has_only_headings(kept):
            kept = ""
        reworded_numbers = list[int]()
        for number, line in enumerate(self.before.split("\n")):
            if line.strip() in reworded:
                reworded_numbers.append(number)
        text = with_lines_restored(self.before, kept, reworded_numbers)
        return replace(self, after=text, deleted=self.deleted and not text)

    def beyond(self, taken: str) -> "Changed":
        """What this would change in a text that has a part of it, as the lines that differ; for
        JSON as the whole texts.
        """
        if self.key.endswith(".json"):
            if self.after == taken:
                return Changed(self.key, "", "")
            return Changed(self.key, taken, self.after)
        old = taken.split("\n")
        new = self.after.split("\n")
        gone = _lines_beside(old, new)
        came = _lines_beside(new, old)
        return Changed(self.key, "\n".join(gone), "\n".join(came))

    def merged(self, file: FileData | None) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWrite`
        for what is no text.
        """
        if file and file["encoding"] != "utf-8":
            raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
        present = file["content"] if file else ""
        text = journal.merge(self.key, self.before, present, self.after) or ""
        is_gone = not text and (self.deleted or file is None)
        if is_gone:
            return None
        return FileData(content=text, encoding="utf-8")


def _is_in_result(line: _Line, chosen: Mapping[int, str | None]) -> bool:
    """Whether a line is in the text that these lines of the change make."""
    if line.sign == " ":
        return True
    is_chosen = line.number in chosen
    if line.number < 0:  # a blank line that goes with no other
        is_chosen = bool(chosen)
    is_put_in = line.sign == "+"
    return is_put_in == is_chosen


def _kept_lines(lines: Sequence[str]) -> Iterator[_Line]:
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


def _lines_beside(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Those of these lines that are not among the others."""
    known = set(others)
    return [line for line in lines if line not in known]


def _has_only_headings(text: str) -> bool:
    lines = [line.lstrip() for line in text.split("\n") if line.strip()]
    return all(line.startswith("#") for line in lines)


def changes(before: Mapping[str, FileData], after: Mapping[str, FileData]) -> list[Changed]:
    """The differences between two states of the same files, by key. What is not text stays as it
    is.
    """
    old = texts(before)
    new = texts(after)
    changed = list[Changed]()
    for key in sorted(old | new):
        was_other = key in before and key not in old
        is_other = key in after and key not in new
        is_same = old.get(key) == new.get(key)
        if was_other or is_other or is_same:
            continue
        old_text = old.get(key, "")
        new_text = new.get(key, "")
        changed.append(Changed(key, old_text, new_text, deleted=key not in new))
    return changed


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    by_path = dict[str, str]()
    for change in changed:
        diff = journal.diff(change.before, change.after)
        by_path[change.path] = journal.cut_diff(diff)
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
    before = set(entries(changed.key, changed.before))
    added = dict[str, Source]()
    for entry in entries(changed.key, changed.after):
        if entry not in before:
            added[entry] = vouch(entry, None)
    return added
