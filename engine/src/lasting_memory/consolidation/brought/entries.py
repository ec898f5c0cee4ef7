"""The *entries* of a text that was brought, which are its facts and the person's messages, and the
*parts* in which runs read them: each run reads some entries.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from pydantic import TypeAdapter

from lasting_memory.consolidation.facts import LineWords, line_words_of

# Entries that are taken of one text, and characters of one. A longer message is divided between its
# lines, never within one.
MAX_ENTRIES = 50_000
MAX_ENTRY_CHARS = 20_000
# Texts of each reason that the person is told, and characters of each.
_TEXTS_TOLD = 5
_CHARS_TOLD = 120


def proposal_id(text_id: str) -> str:
    """The id of the proposal of a text that was brought. Those of further ones begin with it."""
    return f"bring-{text_id}"


class UnreadableError(ValueError):
    """A text that cannot be read. The message tells the person what to bring instead."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact, or a message of the person's, as one line of text.

    `title` is the heading above a fact, or the title of the conversation of a message. Date and
    title are "" where there is none.
    """

    text: str
    date: str = ""
    title: str = ""
    is_message: bool = False

    @property
    def fact(self) -> str:
        """The text as a line of memory, with its date at the end."""
        is_dated = self.date in self.text
        if is_dated:  # also without a date
            return self.text
        return f"{self.text} ({self.date})"

    @property
    def line(self) -> str:
        """The line that a model reads."""
        if self.is_message:
            return f"user: {self.text}"
        return f"- {self.fact}"

    @property
    def heading(self) -> str:
        """What stands above its line: the title, for a message with its date."""
        if not self.is_message or not self.date:
            return self.title
        heading = f"{self.title} ({self.date})"
        return heading.strip()

    @property
    def line_words(self) -> LineWords:
        """Its words, by which it is compared with facts; () if it says nothing."""
        if self.is_message:
            return line_words_of(self.text)
        return line_words_of(self.fact)


@dataclass(slots=True)
class Brought:
    """The entries of a text, in order, and the texts of those that are left out of it, by reason."""

    entries: list[Entry] = field(default_factory=list)
    # What an assistant wrote around the facts. It counts as nothing found.
    framing: list[str] = field(default_factory=list)
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def found(self) -> int:
        """How many entries the text has, with those that are left out."""
        number = len(self.entries)
        for texts in self.left_out.values():
            number += len(texts)
        return number


@dataclass(frozen=True, slots=True)
class Part:
    """What one run reads of a text: some of its entries.

    `text_id` and `began`, the time in ISO format, are the same for all parts of one text.
    """

    text_id: str
    began: str
    entries: list[Entry]

    def dumped(self) -> str:
        """The part as JSON, as a run is given it. Blocks."""
        json_bytes = _PART.dump_json(self)
        return json_bytes.decode()

    @staticmethod
    def loaded(text: str) -> "Part":
        """The part of which `dumped` gave this text. Blocks. Raises `ValidationError` for any other
        text.
        """
        return _PART.validate_json(text)


_PART = TypeAdapter(Part)


def text_of_entries(entries: Sequence[Entry]) -> str:
    """Entries as a model reads them: a line each, under their headings."""
    lines = list[str]()
    heading = ""
    for entry in entries:
        if entry.heading != heading:
            heading = entry.heading
            lines.append("")
            lines.append(f"## {heading}" if heading else "##")
        lines.append(entry.line)
    text = "\n".join(lines)
    return text.strip()


def parts(entries: Sequence[Entry], chars: int) -> list[list[Entry]]:
    """The entries in order, in parts of at most about so many characters. A longer entry is a part
    of its own.
    """
    all_parts = list[list[Entry]]()
    part = list[Entry]()
    room = 0
    for entry in entries:
        text = f"{entry.heading}\n{entry.line}"
        size = len(text)
        if not all_parts or size > room:
            part = []
            all_parts.append(part)
            room = chars
        part.append(entry)
        room -= size
    return all_parts


class Counted(TypedDict):
    """What is left out for one reason, as the person is told: the number of texts, and the
    beginnings of the first ones.
    """

    count: int
    lines: list[str]


def counted(left_out: Mapping[str, Sequence[str]]) -> dict[str, Counted]:
    """For the person, what is left out by reason. `left_out` has the texts by reason."""
    counts = dict[str, Counted]()
    for reason, texts in left_out.items():
        if not texts:
            continue
        lines = list[str]()
        for text in texts[:_TEXTS_TOLD]:
            lines.append(text[:_CHARS_TOLD])
        counts[reason] = {"count": len(texts), "lines": lines}
    return counts
