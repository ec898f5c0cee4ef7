"""Ends of lines that the person changed, and whether a batch's changes bring one back.

The *end* of a line is the day until which it holds (`memory/dated_lines.py`). Facts are compared
without it (`facts.py`). So the line that a person gave another end, or from which they took it, still stands in
memory, and is not taken back. Its end is: what an older conversation says of it returns only if the
person says the fact again later.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from lasting_memory.consolidation.facts import Findings, Key, fact_lines
from lasting_memory.consolidation.taken_back import Comparison, Dated, finding_of
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.dated_lines import end_of, may_have_ends
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
    not_among = DatedLines()
    for dated_key, line in lines.items():
        if dated_key not in others:
            not_among[dated_key] = line
    return not_among


def ends_returning(
    changes: Iterable[Changed],
    present_texts: Mapping[str, str],
    taken_lines: Mapping[DatedKey, Dated],
    messages: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that bring back one of the lines with an end that were taken back, and that the
    person has not said again since. Memory has the fact with another end. Each finding names the
    line that it brings back.

    `present_texts` has the texts of the present files, by key; `messages` what the person said since
    they first took something back. Blocks.
    """
    if not taken_lines:
        return {}
    present = _dated_lines(present_texts.values())
    present_facts = dict[Key, str]()
    for dated_key, line in present.items():
        present_facts[dated_key.key] = line
    findings = Findings()
    for change in changes:
        _, added = end_differences(change)
        suspects = dict[Key, str]()
        gone_lines = dict[Key, Dated]()
        for dated_key, line in added.items():
            if dated_key not in taken_lines:
                continue
            is_in_memory = dated_key in present
            has_other_end = dated_key.key in present_facts and not is_in_memory
            if has_other_end:
                suspects[dated_key.key] = line
                gone_lines[dated_key.key] = taken_lines[dated_key]
        if not suspects:
            continue
        comparison = Comparison(present_facts, gone_lines, messages, rules)
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
        dated_key = DatedKey(key, end)
        dated_lines.setdefault(dated_key, line)
    return dated_lines
