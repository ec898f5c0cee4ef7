"""Lines that are over (`memory/ends.py`): consolidation leaves them where they are, and a tidy
proposes to take them out.

The model is not shown them. So this settles what a batch does with them, whatever it was told: a
line goes only where the model says that something newer contradicts it, which a person's wish to
have it forgotten is, too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deepagents.backends.protocol import FileData

from lasting_memory.memory import journal
from lasting_memory.memory.ends import (
    DatedLine,
    Day,
    Written,
    dated_lines,
    ends_in,
    has_ends,
    over_in,
    without_lines,
)
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
        new = [line for change in changed for line in _new_lines(change)]
        result = list[Changed]()
        for change in changed:
            numbers = self.numbers(change.key, change.before)
            gone = _gone(change, numbers, new)
            lines = change.before.split("\n")
            staying = {
                number
                for number in gone
                if (change.path, lines[number].strip()) not in contradicted
            }
            result.append(_with_lines(change, staying) if staying else change)
        return [change for change in result if change.deleted or change.before != change.after]

    def taken_out(
        self, base: Mapping[str, FileData], files: Mapping[str, FileData]
    ) -> tuple[list[Changed], dict[str, dict[str, str]]]:
        """What a tidy changes of the base if it takes out the lines that are over, too; and by path
        the lines that it takes out, each with the reason. Blocks.
        """
        over = dict[str, set[str]]()
        for key, file in base.items():
            lines = file["content"].split("\n")
            numbers = self.numbers(key, file["content"]) if file["encoding"] == "utf-8" else ()
            over[key] = {lines[number].strip() for number in numbers}
        everywhere = set[str]().union(*over.values())
        cleaned = dict[str, FileData]()
        for key, file in files.items():
            before = base[key]["content"] if key in base else ""
            moved_here = everywhere - {line.strip() for line in before.split("\n")}
            cleaned[key] = _without(file, over.get(key, set()) | moved_here)
        reasons = {
            f"/memories{key}": dict.fromkeys(gone, OVER) for key, gone in over.items() if gone
        }
        return changes(base, cleaned), reasons


def _without(file: FileData, gone: Collection[str]) -> FileData:
    """A file without these lines. One that is not text has none."""
    if not gone or file["encoding"] != "utf-8":
        return file
    kept = [line for line in file["content"].split("\n") if line.strip() not in gone]
    return FileData(content="\n".join(kept), encoding="utf-8")


def _new_lines(change: Changed) -> Iterable[DatedLine]:
    """The lines with an end that a change brings."""
    known = {line.key for line in dated_lines(change.before)}
    return (line for line in dated_lines(change.after) if line.key not in known)


def _gone(change: Changed, numbers: Collection[int], new: Sequence[DatedLine]) -> set[int]:
    """The numbers of lines that a change takes out, and that no new line says, in whichever file."""
    present = {line.key for line in dated_lines(change.after)}
    present |= {line.key for line in new}
    days_of_new = {line.day for line in new}
    gone = set[int]()
    for line in dated_lines(change.before):
        is_worded_anew = line.day in days_of_new
        if line.number in numbers and line.key not in present and not is_worded_anew:
            gone.add(line.number)
    return gone


def _with_lines(change: Changed, numbers: Collection[int]) -> Changed:
    """The change without taking out these lines of the text before."""
    old = change.before.split("\n")
    new = change.after.split("\n") if change.after else []
    result = list[str]()
    copied = 0
    for start, end, new_start, new_end in journal.edits(old, new):
        result += old[copied:start]
        result += [old[number] for number in range(start, end) if number in numbers]
        result += new[new_start:new_end]
        copied = end
    text = "\n".join([*result, *old[copied:]])
    if change.before.endswith("\n") and not text.endswith("\n"):
        text += "\n"
    return replace(change, after=text, deleted=False)
