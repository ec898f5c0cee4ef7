"""Ends of lines that the person changed, and whether a batch's changes bring one back.

The *end* of a line is the day until which it holds (`memory/dated_lines.py`). Facts are compared
without it (`facts.py`). So the line that a person gave another end, or from which they took it, still stands in
memory, and is not taken back. Its end is: what an older conversation says of it returns only if the
person says the fact again later.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from lasting_memory.consolidation.facts import Findings, LineWords, fact_lines
from lasting_memory.consolidation.returning_lines import Comparison, finding_of
from lasting_memory.consolidation.taken_back import DatedText
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.dated_lines import end_of, may_have_ends
from lasting_memory.memory.proposals import Changed


class DatedWords(NamedTuple):
    """A line by its words and its end; None for a line without an end."""

    words: LineWords
    end: date | None


LinesByDatedWords = dict[DatedWords, str]


def end_differences(change: Changed) -> tuple[LinesByDatedWords, LinesByDatedWords]:
    """The lines that a change takes out, and those that it adds; a line with another end is both.
    None of a text without ends. Blocks.
    """
    if change.key.endswith(".json"):
        return {}, {}
    has_ends = may_have_ends(change.before) or may_have_ends(change.after)
    if not has_ends:
        return {}, {}
    lines_before = _dated_lines([change.before])
    lines_after = _dated_lines([change.after])
    removed_lines = _without(lines_before, lines_after)
    added_lines = _without(lines_after, lines_before)
    return removed_lines, added_lines


def _without(lines: LinesByDatedWords, other_lines: LinesByDatedWords) -> LinesByDatedWords:
    """The lines that are not among the others."""
    remaining_lines = LinesByDatedWords()
    for dated_words, line in lines.items():
        if dated_words not in other_lines:
            remaining_lines[dated_words] = line
    return remaining_lines


def ends_returning(
    batch_changes: Iterable[Changed],
    present_texts: Mapping[str, str],
    taken_lines: Mapping[DatedWords, DatedText],
    messages: Sequence[DatedText],
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
    present_lines = _dated_lines(present_texts.values())
    present_facts = dict[LineWords, str]()
    for dated_words, line in present_lines.items():
        present_facts[dated_words.words] = line
    findings = Findings()
    for change in batch_changes:
        _, added_lines = end_differences(change)
        suspects = dict[LineWords, str]()
        gone_lines = dict[LineWords, DatedText]()
        for dated_words, line in added_lines.items():
            if dated_words not in taken_lines:
                continue
            is_in_memory = dated_words in present_lines
            has_other_end = dated_words.words in present_facts and not is_in_memory
            if has_other_end:
                suspects[dated_words.words] = line
                gone_lines[dated_words.words] = taken_lines[dated_words]
        if not suspects:
            continue
        comparison = Comparison(present_facts, gone_lines, messages, rules)
        for line_words, gone_line in comparison.returning(suspects).items():
            finding = finding_of(gone_line)
            findings[change.path, line_words] = finding
    return findings


def _dated_lines(texts: Iterable[str]) -> LinesByDatedWords:
    """The facts of texts, by their words and ends. Of several with the same the first counts."""
    dated_lines = LinesByDatedWords()
    files = [("", text) for text in texts]
    for line_words, line in fact_lines(files):
        end = end_of(line)
        dated_words = DatedWords(line_words, end)
        dated_lines.setdefault(dated_words, line)
    return dated_lines
