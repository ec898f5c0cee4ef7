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
    ends_in,
    has_ends,
    over_in,
    without_lines,
)
from lasting_memory.memory.over_lines import dropped, new_lines, with_lines
from lasting_memory.memory.proposals import Changed, changes

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
        return over_in(ends_in(text, self.written.get(key, {}), self.began, self.day))

    def current(self, key: str, text: str) -> str:
        """A file's text without the lines that are over. Blocks."""
        return without_lines(text, self.numbers(key, text))

    def kept(
        self, changed: Sequence[Changed], contradicted: Collection[tuple[str, str]]
    ) -> list[Changed]:
        """The changes with the lines that are over where they were. Blocks.

        `contradicted` are lines that may go, as path and line. A line may also move, or be put in
        other words with its day.
        """
        new = list[DatedLine]()
        for change in changed:
            new += new_lines(change.before, change.after)
        result = list[Changed]()
        for change in changed:
            over = self.numbers(change.key, change.before)
            lines = change.before.split("\n")
            staying = {
                number
                for number in dropped(change.before, change.after, over, new)
                if (change.path, lines[number].strip()) not in contradicted
            }
            if staying:
                text = with_lines(change.before, change.after, staying)
                result.append(replace(change, after=text, deleted=False))
            else:
                result.append(change)
        return [change for change in result if change.deleted or change.before != change.after]

    def taken_out(
        self, base: Mapping[str, FileData], files: Mapping[str, FileData]
    ) -> tuple[list[Changed], dict[str, dict[str, str]]]:
        """What a tidy changes of the base if it takes out the lines that are over, too; and by path
        the lines that it takes out, each with the reason. Blocks.
        """
        over = self._lines_over(base)
        everywhere = set[str]().union(*over.values())
        cleaned = dict[str, FileData]()
        for key, file in files.items():
            there_before = set[str]()
            if key in base:
                there_before = _stripped_lines(base[key]["content"])
            moved_here = everywhere - there_before
            over_here = over.get(key, set())
            cleaned[key] = _without(file, over_here | moved_here)
        reasons = dict[str, dict[str, str]]()
        for key, lines in over.items():
            if lines:
                reasons[f"/memories{key}"] = dict.fromkeys(lines, OVER)
        return changes(base, cleaned), reasons

    def _lines_over(self, files: Mapping[str, FileData]) -> dict[str, set[str]]:
        """The lines of these files that are over, by key. Blocks."""
        over = dict[str, set[str]]()
        for key, file in files.items():
            over[key] = set()
            if file["encoding"] != "utf-8":
                continue
            lines = file["content"].split("\n")
            for number in self.numbers(key, file["content"]):
                over[key].add(lines[number].strip())
        return over


def _stripped_lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n")}


def _without(file: FileData, gone: Collection[str]) -> FileData:
    """A file without these lines. One that is not text has none."""
    if not gone or file["encoding"] != "utf-8":
        return file
    kept = [line for line in file["content"].split("\n") if line.strip() not in gone]
    return FileData(content="\n".join(kept), encoding="utf-8")
