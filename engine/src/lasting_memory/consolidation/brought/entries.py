"""The entries of a text that was brought, and the parts in which runs read them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from lasting_memory.consolidation.facts import Key, key_of

# Entries that are taken of one text, and characters of one. A longer message is divided between its
# lines, never within one.
MAX_ENTRIES = 50_000
MAX_ENTRY_CHARS = 20_000
# Texts of each reason that are told to the person, and characters of each.
_TOLD = 5
_TOLD_CHARS = 120


def proposal_id(text_id: str) -> str:
    """Begins the ids of what is proposed of a text that was brought."""
    return f"bring-{text_id}"


class UnreadableError(ValueError):
    """A text that cannot be read. The message tells the person what to bring instead."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of text, with its date, and the heading or the conversation that it stands in.

    Date and title are "" where there is none.
    """

    text: str
    date: str = ""
    title: str = ""
    is_message: bool = False

    @property
    def fact(self) -> str:
        """The text as a line of memory, with its date at the end."""
        if self.date and self.date not in self.text:
            return f"{self.text} ({self.date})"
        return self.text

    @property
    def line(self) -> str:
        """The line that a model reads."""
        if self.is_message:
            return f"user: {self.text}"
        return f"- {self.fact}"

    @property
    def heading(self) -> str:
        """What stands above its line: the title, of a conversation with its date."""
        if self.is_message and self.date:
            heading = f"{self.title} ({self.date})"
            return heading.strip()
        return self.title

    @property
    def key(self) -> Key:
        text = self.text if self.is_message else self.fact
        return key_of(text)


@dataclass(slots=True)
class Brought:
    """The entries of a text, in order, and what is left out of it, by reason."""

    entries: list[Entry] = field(default_factory=list)
    # What an assistant wrote around the facts. It counts as nothing found.
    framing: list[str] = field(default_factory=list)
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def found(self) -> int:
        left_out = self.left_out.values()
        return len(self.entries) + sum(map(len, left_out))


@dataclass(frozen=True, slots=True)
class Part:
    """What one run reads of a text: some of its entries.

    `text_id` and `began` are the same for all parts of one text.
    """

    text_id: str
    began: str
    entries: list[Entry]

    def dumped(self) -> str:
        """As the input of a run. Blocks."""
        dumped = _PART.dump_json(self)
        return dumped.decode()

    @staticmethod
    def loaded(text: str) -> "Part":
        """What `dumped` gave. Blocks."""
        return _PART.validate_json(text)


_PART = TypeAdapter(Part)


def shown(entries: Sequence[Entry]) -> str:
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
    """The entries in order, in parts of at most about so many characters.

    Each has at least one entry.
    """
    result = list[list[Entry]]()
    left = 0
    for entry in entries:
        size = len(entry.line) + len(entry.heading) + 1
        if not result or size > left:
            result.append([])
            left = chars
        result[-1].append(entry)
        left -= size
    return result


def counted(left_out: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What is left out by reason: how many, and the beginnings of the first."""
    counts = dict[str, Any]()
    for reason, texts in left_out.items():
        if not texts:
            continue
        first = texts[:_TOLD]
        lines = [text[:_TOLD_CHARS] for text in first]
        counts[reason] = {"count": len(texts), "lines": lines}
    return counts
