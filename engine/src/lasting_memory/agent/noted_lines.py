"""The lines of a file on which its reader gets a note: prompts leave them out, or show them apart.

A line is *over* once the day with which it ends has passed (`memory/ends.py`). A line, or a field of
a JSON object, is unconfirmed where nobody vouches for it (`unconfirmed.py`).
"""

from typing import NamedTuple

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from lasting_memory.deployment import Deployment
from lasting_memory.memory import ends, restored_lines, stored_files


class LinesOver(NamedTuple):
    """A file's text, and the numbers of its lines that are over."""

    text: str = ""
    numbers: frozenset[int] = frozenset()

    def note(self) -> str:
        """What a model that reads or writes the file is told of them; "" if there are none."""
        return ends.note_of_over(self.text, self.numbers)

    def kept_in(self, before: FileData | None, content: str) -> str:
        """A new text of the file with these lines where they stood, if it drops them. Blocks."""
        if before is None or not self.numbers:
            return content
        lines = self.text.split("\n")
        lines_over = {lines[number] for number in self.numbers}
        # The file may have changed since its text was read: the lines may have other numbers.
        present_text = before["content"]
        present_numbers = set[int]()
        for number, line in enumerate(present_text.split("\n")):
            if line in lines_over:
                present_numbers.add(number)
        dropped_numbers = restored_lines.dropped_lines(present_text, content, present_numbers)
        return restored_lines.with_lines_restored(present_text, content, dropped_numbers)


class NotedLines(NamedTuple):
    """The lines of a file that its reader gets a note on: which are over, and what the unconfirmed
    ones say.
    """

    lines_over: LinesOver
    unconfirmed_entries: list[str]


def lines_over_in(deployment: Deployment, item: Item, profile: Item | None) -> LinesOver:
    """Which lines of a stored file are over, by the time zone of a profile. Blocks."""
    profile_text = stored_files.text_of(profile) if profile else None
    day = ends.present_day(deployment, profile_text)
    ends_of_file = ends.ends_of_file(item, day)
    numbers = ends.numbers_over(ends_of_file)
    text = stored_files.text_of(item) or ""
    return LinesOver(text, numbers)
