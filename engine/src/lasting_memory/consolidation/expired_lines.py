"""Expired lines: lines of memory whose day has passed (`memory/ends.py` calls them over).

Consolidation leaves them where they are, and a tidy proposes to take them out. The model is not
shown them, so a text that it writes anew lacks them. This puts them back, whatever the model was
told: a line goes only where the model says that something newer contradicts it. A person's wish to
have the line forgotten is such a contradiction, too.

Files are given by their keys (`/topics/food.md`), and lines by their numbers in a file, from 0, or
by their texts without spaces around them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deepagents.backends.protocol import FileData

from lasting_memory.memory.dated_lines import DatedLine
from lasting_memory.memory.ends import Day, ends_of_text, has_ends, numbers_over, without_lines
from lasting_memory.memory.line_times import LineTimes
from lasting_memory.memory.proposals import Changed, changes
from lasting_memory.memory.restored_lines import dropped_lines, new_dated_lines, with_lines_restored

# Why a tidy takes a line out, in the word for which the page has a sentence.
OVER = "over"


@dataclass(frozen=True, slots=True)
class ExpiredLines:
    """Finds the expired lines of a batch's files, and settles what becomes of them.

    `times_written` says by key of a file when its lines were written, as far as that is known.
    `began` is when the batch was read, in ISO format. `day` is the present day; None where the
    deployment has no ends, and no line expires.
    """

    day: Day | None = None
    began: str = ""
    times_written: Mapping[str, LineTimes] = field(default_factory=dict)

    def numbers_in(self, key: str, text: str) -> frozenset[int]:
        """The numbers of a file's expired lines. Blocks."""
        if self.day is None:
            return frozenset()
        if not has_ends(key):
            return frozenset()
        times_written = self.times_written.get(key, {})
        ends = ends_of_text(text, times_written, self.began, self.day)
        return numbers_over(ends)

    def current_text(self, key: str, text: str) -> str:
        """A file's text without its expired lines. Blocks."""
        expired_numbers = self.numbers_in(key, text)
        return without_lines(text, expired_numbers)

    def put_back(
        self, batch_changes: Sequence[Changed], contradicted_lines: Collection[tuple[str, str]]
    ) -> list[Changed]:
        """These changes with the expired lines that they drop back where they stood. A change of
        which nothing is left then is not among them. Blocks.

        `contradicted_lines` are lines that may go, as path and line. Nothing is put back that a
        change moves, or puts in other words with its day.
        """
        new_lines = list[DatedLine]()
        for change in batch_changes:
            new_lines += new_dated_lines(change.before, change.after)
        mended_changes = list[Changed]()
        for change in batch_changes:
            mended_change = self._with_dropped(change, contradicted_lines, new_lines)
            changes_text = mended_change.before != mended_change.after
            if mended_change.deleted or changes_text:
                mended_changes.append(mended_change)
        return mended_changes

    def _with_dropped(
        self,
        change: Changed,
        contradicted_lines: Collection[tuple[str, str]],
        new_lines: Sequence[DatedLine],
    ) -> Changed:
        """A change with the expired lines that it drops. `new_lines` are those of all changes."""
        text_before = change.before
        lines = text_before.split("\n")
        expired_numbers = self.numbers_in(change.key, text_before)
        restored_numbers = set[int]()
        for number in dropped_lines(text_before, change.after, expired_numbers, new_lines):
            line = lines[number].strip()
            if (change.path, line) not in contradicted_lines:
                restored_numbers.add(number)
        if not restored_numbers:
            return change
        text = with_lines_restored(text_before, change.after, restored_numbers)
        return replace(change, after=text, deleted=False)

    def changes_without(
        self, base: Mapping[str, FileData], files: Mapping[str, FileData]
    ) -> tuple[list[Changed], dict[str, dict[str, str]]]:
        """How a tidy changes the base into these files, if their expired lines are taken out, too;
        and the lines that are taken out, each with the reason, by path. Blocks.

        An expired line goes also where the tidy moved it to another file.
        """
        expired_by_key = self._texts_in(base)
        all_expired_lines = set[str]()
        for lines in expired_by_key.values():
            all_expired_lines |= lines
        cleaned_files = dict[str, FileData]()
        for key, file in files.items():
            file_before = base.get(key)
            lines_before = _stripped_lines(file_before)
            lines_moved_here = all_expired_lines - lines_before
            expired_lines_here = expired_by_key.get(key, set())
            lines_to_drop = expired_lines_here | lines_moved_here
            cleaned_files[key] = _without(file, lines_to_drop)
        reasons = dict[str, dict[str, str]]()
        for key, lines in expired_by_key.items():
            if not lines:
                continue
            path = f"/memories{key}"
            reasons[path] = dict.fromkeys(lines, OVER)
        batch_changes = changes(base, cleaned_files)
        return batch_changes, reasons

    def _texts_in(self, files: Mapping[str, FileData]) -> dict[str, set[str]]:
        """The expired lines of these files by key; none of a file that is no text. Blocks."""
        expired_by_key = dict[str, set[str]]()
        for key, file in files.items():
            expired_by_key[key] = set()
            if file["encoding"] != "utf-8":
                continue
            text = file["content"]
            lines = text.split("\n")
            for number in self.numbers_in(key, text):
                line = lines[number].strip()
                expired_by_key[key].add(line)
        return expired_by_key


def _stripped_lines(file: FileData | None) -> set[str]:
    """The lines of a file without spaces around them; none of no file."""
    if file is None:
        return set()
    lines = set[str]()
    for line in file["content"].split("\n"):
        lines.add(line.strip())
    return lines


def _without(file: FileData, lines_to_drop: Collection[str]) -> FileData:
    """A file without these lines. A file that is no text stays as it is."""
    if not lines_to_drop:
        return file
    if file["encoding"] != "utf-8":
        return file
    remaining_lines = list[str]()
    for line in file["content"].split("\n"):
        if line.strip() not in lines_to_drop:
            remaining_lines.append(line)
    content = "\n".join(remaining_lines)
    return FileData(content=content, encoding="utf-8")
