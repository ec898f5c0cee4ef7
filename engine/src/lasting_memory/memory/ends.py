"""Facts with an end: lines of memory that hold until a day.

Such a line ends with `(until 2026-12-31)`, after its source where it names one. The end counts only
if its day had not passed when the line was written: `worked at Acme (until 2024-06-30)` is history,
and stays text. After its day the line is over: prompts and searches leave it out. The text of the
file never changes by itself.

When a line was written is its time. It is kept beside the file, in its revision and in its copy
(`Written`): a line keeps its time wherever it moves, and however it is worded. The key of a line
stands for its words and its day.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import NamedTuple
from zoneinfo import ZoneInfo

from langgraph.store.base import Item

from lasting_memory import days
from lasting_memory.deployment import Deployment
from lasting_memory.memory.facts import END, SOURCE, content_lines, without_comments
from lasting_memory.memory.stored_files import text_of
from lasting_memory.plain_text import compared
from lasting_memory.words import pieces

# The times of lines with an end, in ISO format, UTC, by the keys of the lines.
Written = Mapping[str, str]
# The field of a file's value in the store, and of its revisions, with `Written`.
WRITTEN = "written"
# Lines of one file whose end counts, the first ones: the time of each is kept with each revision.
MAX_ENDS = 1_000
# Lines with one day with which a line is compared, to find the one whose place it takes.
_COMPARED = 50
# Characters of a key, and of a line that is named to a model.
_KEY_CHARS = 16
_NAMED_CHARS = 80
# Lines that are named to a model.
_NAMED_LINES = 20
_OPENING = "(until "
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
    known_profile = profile if d.profile else None
    zone = days.zone_of(known_profile)
    return Day.now(zone)


class DatedLine(NamedTuple):
    """A line with an end, whether that counts or not.

    `number` is its place in the file, from 0. `key` names the line by its words and its day,
    wherever it stands. `fact` is what it says, without source and end.
    """

    number: int
    key: str
    day: date
    fact: str


class End(NamedTuple):
    """A line whose end counts: its number in the file, from 0, its day, and whether it is over."""

    number: int
    day: date
    is_over: bool


def end_of(line: str) -> date | None:
    """The day with which a line ends; None for a line without one, and for no day of the calendar."""
    match = END.search(line.rstrip())
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def without_end(line: str) -> str:
    """A line without the day with which it ends; the same line where it has none."""
    text = line.rstrip()
    if end_of(text) is None:
        return line
    return END.sub("", text).rstrip()


def may_have_ends(text: str) -> bool:
    """Whether a line of a text may have an end: a look that does not block."""
    return _OPENING in text


def dated_lines(text: str) -> list[DatedLine]:
    """The lines of a text that end with a day, at most `MAX_ENDS`. Blocks.

    Titles, rows of tables, code and comments are none, nor is a day without words before it.
    """
    if not may_have_ends(text):
        return []
    dated = list[DatedLine]()
    lines = without_comments(text, line_breaks=True).split("\n")
    for line in content_lines(lines):
        if line.is_heading or line.raw:
            continue
        day = end_of(line.text)
        if day is None:
            continue
        text_before_end = without_end(line.text)
        fact = SOURCE.sub("", text_before_end).strip()
        if not fact:
            continue
        dated_line = DatedLine(
            number=line.number,
            key=_key(fact, day),
            day=day,
            fact=fact,
        )
        dated.append(dated_line)
        if len(dated) == MAX_ENDS:
            break
    return dated


def _key(fact: str, day: date) -> str:
    """The key of a line, by what it says and the day with which it ends."""
    words = compared(fact)
    text = f"{day.isoformat()} {words}"
    digest = hashlib.sha256(text.encode(errors="replace"))
    return digest.hexdigest()[:_KEY_CHARS]


# --- When lines were written


class Text(NamedTuple):
    """A text that was there at a time (ISO format, UTC), and the times of its lines."""

    content: str
    at: str
    written: Written = MappingProxyType({})


def times_at(content: str, at: str) -> dict[str, str]:
    """The times of a text's lines, if all were written at this time. Blocks."""
    return {line.key: at for line in dated_lines(content)}


def times_after_change(before: Text, content: str, at: str, known: Written) -> dict[str, str]:
    """The times of the lines of a text that takes another's place at this time. Blocks.

    A line that stood there keeps its time. `known` are the times of lines that stood elsewhere, or
    earlier. A line in place of another with the same day, which the change takes out, keeps that
    one's time: it is the same fact in other words.
    """
    lines_after = dated_lines(content)
    if not lines_after:
        return {}
    lines_before = dated_lines(before.content)
    times_before = dict[str, str]()
    for line in lines_before:
        times_before[line.key] = before.written.get(line.key, before.at)
    keys_after = {line.key for line in lines_after}
    taken_out = [line for line in lines_before if line.key not in keys_after]
    times = dict[str, str]()
    for line in lines_after:
        key = line.key
        replaced = _most_alike(line, taken_out)
        if key in times_before:
            times[key] = times_before[key]
        elif key in known:
            times[key] = known[key]
        elif replaced is not None:
            times[key] = times_before[replaced.key]
        else:
            times[key] = at
    return times


def _most_alike(line: DatedLine, others: Iterable[DatedLine]) -> DatedLine | None:
    """Of the other lines with the same day the one that has most words in common; None if no other
    line has this day.
    """
    with_its_day = [other for other in others if other.day == line.day]
    words = set(pieces(line.fact))
    most_alike = None
    most_words = -1
    for other in with_its_day[:_COMPARED]:
        other_words = pieces(other.fact)
        in_common = words.intersection(other_words)
        if len(in_common) > most_words:
            most_alike = other
            most_words = len(in_common)
    return most_alike


def lines_of_unknown_time(before: Text, content: str, known: Written) -> set[str]:
    """The keys of lines that are new in a text and whose day had passed when they were written, as
    far as that is known: either they are history, or they stood in this memory before. Blocks.
    """
    today = days.now().date().isoformat()
    keys_before = {line.key for line in dated_lines(before.content)}
    unknown = set[str]()
    for line in dated_lines(content):
        if line.key in keys_before:
            continue
        written_at = known.get(line.key, today)
        written_on = written_at[: len(today)]
        if line.day.isoformat() <= written_on:
            unknown.add(line.key)
    return unknown


def earlier_times(one: Written, other: Written) -> dict[str, str]:
    """The times of all these lines: the earlier one of a line that has two."""
    times = dict(one)
    for key, at in other.items():
        other_time = times.get(key, at)
        times[key] = min(at, other_time)
    return times


def first_times(items: Iterable[Item], keys: set[str]) -> dict[str, str]:
    """When the lines with these keys were written first, by the revisions in these items. Lines of
    which no revision knows it are left out. Blocks.
    """
    times = dict[str, str]()
    for item in items:
        revision = item.value.get("revision")
        if not isinstance(revision, Mapping):
            continue
        of_revision = stored_times(revision)
        for key in keys & of_revision.keys():
            at = of_revision[key]
            first = times.get(key, at)
            times[key] = min(at, first)
    return times


def stored_times(value: Mapping[str, object]) -> dict[str, str]:
    """The times of lines that a stored file or revision has; {} where it says nothing that can be
    read.
    """
    written = value.get(WRITTEN)
    if not isinstance(written, Mapping):
        return {}
    times = dict[str, str]()
    for key, at in written.items():
        if isinstance(key, str) and isinstance(at, str):
            times[key] = at
    return times


def times_of_file(item: Item) -> dict[str, str]:
    """The times of the lines of a stored file, as far as they are known; of others the time of the
    file's last change. Blocks.
    """
    text = text_of(item)
    if text is None or not may_have_ends(text):
        return {}
    of_unknown_lines = times_at(text, changed_at(item))
    return {**of_unknown_lines, **stored_times(item.value)}


# --- Which lines are over


def ends_of_text(text: str, written: Written, changed_at: str, day: Day) -> list[End]:
    """The lines of a text whose end counts. Blocks.

    `changed_at` is the time of a line of which nobody noted when it was written: the last change of
    its file.
    """
    ends = list[End]()
    for line in dated_lines(text):
        written_at = written.get(line.key, changed_at)
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
        written=stored_times(item.value),
        changed_at=changed_at(item),
        day=day,
    )


def changed_at(item: Item) -> str:
    """When a stored file was changed last, in ISO format."""
    stamp = item.value.get("modified_at")
    if isinstance(stamp, str) and stamp:
        return stamp
    return item.updated_at.isoformat()


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
    which = "; ".join(quotations)
    not_named = len(numbers) - len(first_numbers)
    if not_named:
        which = f"{which} and {not_named} more"
    return (
        f"[Over, because their day has passed: {which}. Prompts and searches leave "
        "them out. They stay in the file until the person wants them gone; edit_file takes one out.]"
    )
