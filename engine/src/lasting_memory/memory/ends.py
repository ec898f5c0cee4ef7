"""Facts with an end: lines of memory that hold until a day (`dated_lines.py`).

The end counts only if its day had not passed when the line was written (`line_times.py`): `worked at
Acme (until 2024-06-30)` is history, and stays text. After its day the line is over: prompts and
searches leave it out. The text of the file never changes by itself.
"""

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple
from zoneinfo import ZoneInfo

from langgraph.store.base import Item

from lasting_memory import days
from lasting_memory.deployment import Deployment
from lasting_memory.memory.dated_lines import dated_lines, may_have_ends
from lasting_memory.memory.facts import without_comments
from lasting_memory.memory.line_times import LineTimes, changed_at, stored_times
from lasting_memory.memory.stored_files import text_of

# Characters of a line that is named to a model, and lines that are named.
_NAMED_CHARS = 80
_NAMED_LINES = 20
# What stands behind a line that is over where a search of files shows it alone.
OVER_MARK = "[over: its day has passed]"


class Day(NamedTuple):
    """The present day of whoever reads, and their time zone."""

    zone: ZoneInfo
    today: date

    @classmethod
    def now(cls, zone: ZoneInfo) -> "Day":
        """The day that it is in a time zone."""
        return cls(zone, days.today(zone))


def present_day(d: Deployment, profile: str | None) -> Day | None:
    """The day by which ends are judged: where the text of a person's profile says they are, in UTC
    for files that people share (None). None where the deployment has no ends. Blocks.
    """
    if not d.ends:
        return None
    profile_text = profile if d.profile else None
    zone = days.zone_of(profile_text)
    return Day.now(zone)


class End(NamedTuple):
    """A line whose end counts: its number in the file, from 0, its day, and whether it is over."""

    number: int
    day: date
    is_over: bool


def ends_of_text(text: str, times: LineTimes, changed_at: str, day: Day) -> list[End]:
    """The lines of a text whose end counts. Blocks.

    `changed_at` is the time of a line of which nobody noted when it was written: the last change of
    its file.
    """
    ends = list[End]()
    for line in dated_lines(text):
        written_at = times.get(line.key, changed_at)
        written_on = days.day_of(written_at, day.zone)
        last_day = line.day.isoformat()
        if not written_on or last_day < written_on:
            continue  # the day had passed when the line was written: it is history
        is_over = line.day < day.today
        ends.append(End(line.number, line.day, is_over))
    return ends


def has_ends(key: str) -> bool:
    """Whether lines of a file, given by its key, can have an end: texts for people, but no skills."""
    is_skill = key.startswith("/skills/")
    is_text = key.endswith((".md", ".txt"))
    return is_text and not is_skill


def ends_of_file(item: Item, day: Day | None) -> list[End]:
    """The lines of a stored file whose end counts; none where the deployment has no ends (None).
    Blocks.
    """
    if day is None or not has_ends(item.key):
        return []
    text = text_of(item)
    if text is None or not may_have_ends(text):
        return []
    return ends_of_text(
        text,
        times=stored_times(item.value),
        changed_at=changed_at(item),
        day=day,
    )


def numbers_over(ends: Iterable[End]) -> frozenset[int]:
    """The numbers of the lines that are over."""
    return frozenset(end.number for end in ends if end.is_over)


def without_lines(text: str, numbers: frozenset[int]) -> str:
    """A text without these lines; of a text that loses some, comments are left out, too, because
    one may begin or end in a line that goes.
    """
    if not numbers:
        return text
    lines_left = list[str]()
    lines = without_comments(text, line_breaks=True).split("\n")
    for number, line in enumerate(lines):
        if number not in numbers:
            lines_left.append(line)
    return "\n".join(lines_left)


def current_text(item: Item, text: str, day: Day | None) -> str:
    """The text of a stored file without the lines that are over. Blocks."""
    ends = ends_of_file(item, day)
    over = numbers_over(ends)
    return without_lines(text, over)


def note_of_over(text: str, numbers: frozenset[int]) -> str:
    """What a model is told of a file's lines that are over, given by their numbers; "" if there are
    none. Blocks.
    """
    if not numbers:
        return ""
    lines = text.split("\n")
    first_numbers = sorted(numbers)[:_NAMED_LINES]
    quotations = list[str]()
    for number in first_numbers:
        line = lines[number].strip()
        beginning = line[:_NAMED_CHARS]
        quotations.append(repr(beginning))
    quoted_lines = "; ".join(quotations)
    not_named = len(numbers) - len(first_numbers)
    if not_named:
        quoted_lines = f"{quoted_lines} and {not_named} more"
    return (
        f"[Over, because their day has passed: {quoted_lines}. Prompts and searches leave "
        "them out. They stay in the file until the person wants them gone; edit_file takes one out.]"
    )
