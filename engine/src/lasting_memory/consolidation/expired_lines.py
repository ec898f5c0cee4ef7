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

    `written` says by key of a file when its lines were written, as far as that is known. `began` is
    when the batch was read, in ISO format. `day` is the present day; None where the deployment has
    no ends, and no line expires.
    """

    day: Day | None = None
    began: str = ""
    written: Mapping[str, LineTimes] = field(default_factory=dict)

    def numbers_in(self, key: str, text: str) -> frozenset[int]:
        """The numbers of a file's expired lines. Blocks."""
        if self.day is None:
            return frozenset()
        if not has_ends(key):
            return frozenset()
        written = self.written.get(key, {})
        ends = ends_of_text(text, written, self.began, self.day)
        return numbers_over(ends)

    def current_text(self, key: str, text: str) -> str:
        """A file's text without its expired lines. Blocks."""
        expired = self.numbers_in(key, text)
        return without_lines(text, expired)

    def put_back(
        self, changed: Sequence[Changed], contradicted: Collection[tuple[str, str]]
    ) -> list[Changed]:
        """These changes with the expired lines that they drop back where they stood. A change of
        which nothing is left then is not among them. Blocks.

        `contradicted` are lines that may go, as path and line. Nothing is put back that a change
        moves, or puts in other words with its day.
        """
        new = list[DatedLine]()
        for change in changed:
            new_here = new_dated_lines(change.before, change.after)
            new += new_here
        result = list[Changed]()
        for change in changed:
            mended = self._with_dropped(change, contradicted, new)
            changes_text = mended.before != mended.after
            if mended.deleted or changes_text:
                result.append(mended)
        return result

    def _with_dropped(
        self,
        change: Changed,
        contradicted: Collection[tuple[str, str]],
        new: Sequence[DatedLine],
    ) -> Changed:
        """A change with the expired lines that it drops. `new` are the new lines of all changes."""
        before = change.before
        lines = before.split("\n")
        expired = self.numbers_in(change.key, before)
        numbers = set[int]()
        for number in dropped_lines(before, change.after, expired, new):
            line = lines[number].strip()
            if (change.path, line) not in contradicted:
                numbers.add(number)
        if not numbers:
            return change
        text = with_lines_restored(before, change.after, numbers)
        return replace(change, after=text, deleted=False)

    def changes_without(
        self, base: Mapping[str, FileData], files: Mapping[str, FileData]
    ) -> tuple[list[Changed], dict[str, dict[str, str]]]:
        """How a tidy changes the base into these files, if their expired lines are taken out, too;
        and the lines that are taken out, each with the reason, by path. Blocks.

        An expired line goes also where the tidy moved it to another file.
        """
        expired = self._texts_in(base)
        expired_anywhere = set[str]()
        for lines in expired.values():
            expired_anywhere |= lines
        cleaned = dict[str, FileData]()
        for key, file in files.items():
            file_before = base.get(key)
            lines_before = _stripped_lines(file_before)
            moved_here = expired_anywhere - lines_before
            expired_here = expired.get(key, set())
            gone = expired_here | moved_here
            cleaned[key] = _without(file, gone)
        reasons = dict[str, dict[str, str]]()
        for key, lines in expired.items():
            if not lines:
                continue
            path = f"/memories{key}"
            reasons[path] = dict.fromkeys(lines, OVER)
        changed = changes(base, cleaned)
        return changed, reasons

    def _texts_in(self, files: Mapping[str, FileData]) -> dict[str, set[str]]:
        """The expired lines of these files by key; none of a file that is no text. Blocks."""
        expired = dict[str, set[str]]()
        for key, file in files.items():
            expired[key] = set()
            if file["encoding"] != "utf-8":
                continue
            text = file["content"]
            lines = text.split("\n")
            for number in self.numbers_in(key, text):
                line = lines[number].strip()
                expired[key].add(line)
        return expired


def _stripped_lines(file: FileData | None) -> set[str]:
    """The lines of a file without spaces around them; none of no file."""
    if file is None:
        return set()
    lines = set[str]()
    for line in file["content"].split("\n"):
        lines.add(line.strip())
    return lines


def _without(file: FileData, gone: Collection[str]) -> FileData:
    """A file without these lines. A file that is no text stays as it is."""
    if not gone:
        return file
    if file["encoding"] != "utf-8":
        return file
    lines_left = list[str]()
    for line in file["content"].split("\n"):
        if line.strip() not in gone:
            lines_left.append(line)
    content = "\n".join(lines_left)
    return FileData(content=content, encoding="utf-8")
