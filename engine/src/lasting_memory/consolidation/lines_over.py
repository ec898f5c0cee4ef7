"""Lines that are over (`memory/ends.py`): consolidation leaves them where they are, and a tidy
proposes to take them out.

The model is not shown them. So this settles what a batch does with them, whatever it was told: a
line goes only where the model says that something newer contradicts it, which a person's wish to
have it forgotten is, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deepagents.backends.protocol import FileData

from lasting_memory.memory.ends import (
    DatedLine,
    Day,
    Written,
    ends_of_text,
    has_ends,
    numbers_over,
    without_lines,
)
from lasting_memory.memory.proposals import Changed, changes
from lasting_memory.memory.restored_lines import dropped_lines, new_dated_lines, with_lines_restored

# Why a tidy takes a line out, in the word for which the page has a sentence.
OVER = "over"


@dataclass(frozen=True, slots=True)
class LinesOver:
    """Which lines of a batch's files are over.

    `written` says by key of a file when its lines were written, as far as that is known. `began` is
    when the batch was read, in ISO format. `day` is None where the deployment has no ends.
    """

    day: Day | None = None
    began: str = ""
    written: Mapping[str, Written] = field(default_factory=dict)

    def numbers(self, key: str, text: str) -> frozenset[int]:
        """The numbers of a file's lines that are over. Blocks."""
        if self.day is None or not has_ends(key):
            return frozenset()
        written = self.written.get(key, {})
        ends = ends_of_text(text, written, self.began, self.day)
        return numbers_over(ends)

    def current(self, key: str, text: str) -> str:
        """A file's text without the lines that are over. Blocks."""
        over = self.numbers(key, text)
        return without_lines(text, over)

    def kept(
        self, changed: Sequence[Changed], contradicted: Collection[tuple[str, str]]
    ) -> list[Changed]:
        """The changes with the lines that are over where they were. Blocks.

        `contradicted` are lines that may go, as path and line. A line may also move, or be put in
        other words with its day.
        """
        new = list[DatedLine]()
        for change in changed:
            new += new_dated_lines(change.before, change.after)
        result = list[Changed]()
        for change in changed:
            whole = self._with_staying(change, contradicted, new)
            if whole.deleted or whole.before != whole.after:
                result.append(whole)
        return result

    def _with_staying(
        self,
        change: Changed,
        contradicted: Collection[tuple[str, str]],
        new: Sequence[DatedLine],
    ) -> Changed:
        """A change with the lines that are over where they were."""
        before = change.before
        lines = before.split("\n")
        over = self.numbers(change.key, before)
        staying = set[int]()
        for number in dropped_lines(before, change.after, over, new):
            line = lines[number].strip()
            if (change.path, line) not in contradicted:
                staying.add(number)
        if not staying:
            return change
        text = with_lines_restored(before, change.after, staying)
        return replace(change, after=text, deleted=False)

    def taken_out(
        self, base: Mapping[str, FileData], files: Mapping[str, FileData]
    ) -> tuple[list[Changed], dict[str, dict[str, str]]]:
        """What a tidy changes of the base if it takes out the lines that are over, too; and by path
        the lines that it takes out, each with the reason. Blocks.
        """
        over = self._lines_over(base)
        everywhere = set[str]()
        for lines in over.values():
            everywhere |= lines
        cleaned = dict[str, FileData]()
        for key, file in files.items():
            there_before = set[str]()
            if key in base:
                content = base[key]["content"]
                there_before = _stripped_lines(content)
            moved_here = everywhere - there_before
            over_here = over.get(key, set())
            gone = over_here | moved_here
            cleaned[key] = _without(file, gone)
        reasons = dict[str, dict[str, str]]()
        for key, lines in over.items():
            if lines:
                path = f"/memories{key}"
                reasons[path] = dict.fromkeys(lines, OVER)
        changed = changes(base, cleaned)
        return changed, reasons

    def _lines_over(self, files: Mapping[str, FileData]) -> dict[str, set[str]]:
        """The lines of these files that are over, by key. Blocks."""
        over = dict[str, set[str]]()
        for key, file in files.items():
            over_here = set[str]()
            if file["encoding"] == "utf-8":
                text = file["content"]
                lines = text.split("\n")
                for number in self.numbers(key, text):
                    line = lines[number].strip()
                    over_here.add(line)
            over[key] = over_here
        return over


def _stripped_lines(text: str) -> set[str]:
    lines = set[str]()
    for line in text.split("\n"):
        lines.add(line.strip())
    return lines


def _without(file: FileData, gone: Collection[str]) -> FileData:
    """A file without these lines. One that is not text has none."""
    if not gone or file["encoding"] != "utf-8":
        return file
    kept = list[str]()
    for line in file["content"].split("\n"):
        if line.strip() not in gone:
            kept.append(line)
    content = "\n".join(kept)
    return FileData(content=content, encoding="utf-8")
