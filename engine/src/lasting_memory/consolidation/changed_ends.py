"""Ends of lines that the person changed, and whether a batch's changes bring one back.

The *end* of a line is the day until which it holds (`memory/ends.py`). Facts are compared without it
(`facts.py`). So the line that a person gave another end, or from which they took it, still stands in
memory, and is not taken back. Its end is: what an older conversation says of it returns only if the
person says the fact again later.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from lasting_memory.consolidation.facts import Findings, Key, fact_lines
from lasting_memory.consolidation.taken_back import Comparison, Dated, finding_of
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.ends import end_of, may_have_ends
from lasting_memory.memory.proposals import Changed


class DatedKey(NamedTuple):
    """A line by its words and its end; None for a line without an end."""

    key: Key
    end: date | None


DatedLines = dict[DatedKey, str]


def end_differences(change: Changed) -> tuple[DatedLines, DatedLines]:
    """The lines that a change takes out, and those that it adds; a line with another end is both.
    None of a text without ends. Blocks.
    """
    if change.key.endswith(".json"):
        return {}, {}
    has_ends = may_have_ends(change.before) or may_have_ends(change.after)
    if not has_ends:
        return {}, {}
    before = _dated_lines([change.before])
    after = _dated_lines([change.after])
    removed = _not_among(before, after)
    added = _not_among(after, before)
    return removed, added


def _not_among(lines: DatedLines, others: DatedLines) -> DatedLines:
    """The lines that are not among the others."""
    found = DatedLines()
    for name, line in lines.items():
        if name not in others:
            found[name] = line
    return found


def ends_returning(
    changes: Iterable[Changed],
    now: Mapping[str, str],
    taken: Mapping[DatedKey, Dated],
    said: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that bring back one of the lines with an end that were `taken` back, which the
    person has not said again since. Memory has the fact with another end. Each finding names the
    line that it brings back.

    `now` has the texts of the present files, by key; `said` what the person said since they first
    took something back. Blocks.
    """
    if not taken:
        return {}
    present = _dated_lines(now.values())
    present_facts = dict[Key, str]()
    for name, line in present.items():
        present_facts[name.key] = line
    findings = Findings()
    for change in changes:
        _, added = end_differences(change)
        suspects = dict[Key, str]()
        gone = dict[Key, Dated]()
        for name, line in added.items():
            if name not in taken:
                continue
            is_in_memory = name in present
            has_other_end = name.key in present_facts and not is_in_memory
            if has_other_end:
                suspects[name.key] = line
                gone[name.key] = taken[name]
        if not suspects:
            continue
        comparison = Comparison(present_facts, gone, said, rules)
        for key, line_gone in comparison.returning(suspects).items():
            finding = finding_of(line_gone)
            findings[change.path, key] = finding
    return findings


def _dated_lines(texts: Iterable[str]) -> DatedLines:
    """The facts of texts, by their words and ends. Of several with the same the first counts."""
    dated_lines = DatedLines()
    files = [("", text) for text in texts]
    for key, line in fact_lines(files):
        end = end_of(line)
        name = DatedKey(key, end)
        dated_lines.setdefault(name, line)
    return dated_lines
