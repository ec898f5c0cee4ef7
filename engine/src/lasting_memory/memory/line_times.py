"""When lines with an end were written: their times, by their keys (`dated_lines.py`).

The times are kept beside the file, in its revision and in its copy (`LineTimes`): a line keeps its
time wherever it moves, and however it is worded.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from langgraph.store.base import Item

from lasting_memory import days
from lasting_memory.memory.dated_lines import DatedLine, dated_lines, may_have_ends
from lasting_memory.memory.stored_files import text_of
from lasting_memory.words import pieces

# The times of lines with an end, in ISO format, UTC, by the keys of the lines.
LineTimes = Mapping[str, str]
# The field of a file's value in the store, and of its revisions, with `LineTimes`.
TIMES_FIELD = "written"
# Lines with one day with which a line is compared, to find the one whose place it takes.
_COMPARED = 50


class Text(NamedTuple):
    """A text that was there at a time (ISO format, UTC), and the times of its lines."""

    content: str
    at: str
    times: LineTimes = MappingProxyType({})


def times_at(content: str, at: str) -> dict[str, str]:
    """The times of a text's lines, if all were written at this time. Blocks."""
    return {line.key: at for line in dated_lines(content)}


def times_after_change(
    text_before: Text, content: str, at: str, known_times: LineTimes
) -> dict[str, str]:
    """The times of the lines of a text that takes another's place at this time. Blocks.

    A line that stood there keeps its time. `known_times` are the times of lines that stood
    elsewhere, or earlier. A line in place of another with the same day, which the change takes out,
    keeps that one's time: it is the same fact in other words.
    """
    lines_after = dated_lines(content)
    if not lines_after:
        return {}
    lines_before = dated_lines(text_before.content)
    times_before = dict[str, str]()
    for line in lines_before:
        times_before[line.key] = text_before.times.get(line.key, text_before.at)
    keys_after = {line.key for line in lines_after}
    taken_out = [line for line in lines_before if line.key not in keys_after]
    times = dict[str, str]()
    for line in lines_after:
        key = line.key
        replaced_line = _most_alike(line, taken_out)
        if key in times_before:
            times[key] = times_before[key]
        elif key in known_times:
            times[key] = known_times[key]
        elif replaced_line is not None:
            times[key] = times_before[replaced_line.key]
        else:
            times[key] = at
    return times


def _most_alike(line: DatedLine, candidates: Iterable[DatedLine]) -> DatedLine | None:
    """Of the other lines with the same day the one that has most words in common; None if no other
    line has this day.
    """
    with_its_day = [candidate for candidate in candidates if candidate.day == line.day]
    words = set(pieces(line.fact))
    most_alike = None
    most_words = -1
    for candidate in with_its_day[:_COMPARED]:
        candidate_words = pieces(candidate.fact)
        in_common = words.intersection(candidate_words)
        if len(in_common) > most_words:
            most_alike = candidate
            most_words = len(in_common)
    return most_alike


def lines_of_unknown_time(text_before: Text, content: str, known_times: LineTimes) -> set[str]:
    """The keys of lines that are new in a text and whose day had passed when they were written, as
    far as that is known: either they are history, or they stood in this memory before. Blocks.
    """
    today = days.now().date().isoformat()
    keys_before = {line.key for line in dated_lines(text_before.content)}
    unknown_keys = set[str]()
    for line in dated_lines(content):
        if line.key in keys_before:
            continue
        written_at = known_times.get(line.key, today)
        written_on = written_at[: len(today)]
        if line.day.isoformat() <= written_on:
            unknown_keys.add(line.key)
    return unknown_keys


def earlier_times(base_times: LineTimes, further_times: LineTimes) -> dict[str, str]:
    """The times of all these lines: the earlier one of a line that has two."""
    times = dict(base_times)
    for key, at in further_times.items():
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
            first_time = times.get(key, at)
            times[key] = min(at, first_time)
    return times


def stored_times(value: Mapping[str, object]) -> dict[str, str]:
    """The times of lines that a stored file or revision has; {} where it says nothing that can be
    read.
    """
    stored_value = value.get(TIMES_FIELD)
    if not isinstance(stored_value, Mapping):
        return {}
    times = dict[str, str]()
    for key, at in stored_value.items():
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


def changed_at(item: Item) -> str:
    """When a stored file was changed last, in ISO format."""
    stamp = item.value.get("modified_at")
    if isinstance(stamp, str) and stamp:
        return stamp
    return item.updated_at.isoformat()
