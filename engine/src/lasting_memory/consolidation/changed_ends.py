"""Ends of lines that the person changed, and whether a batch's changes bring one back.

Facts are compared without the day until which they hold (`facts.py`). So the line that a person
gave another day, or from which they took it, still stands in memory, and is not taken back. The day
is: what an older conversation says of it returns only if the person says the fact again later.
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
    """A line by its words, and the day until which it holds; None for a line without one."""

    key: Key
    end: date | None


def end_differences(change: Changed) -> tuple[dict[DatedKey, str], dict[DatedKey, str]]:
    """The lines that a change takes out, and those that it adds, where one has another end. Blocks."""
    has_ends = may_have_ends(change.before) or may_have_ends(change.after)
    if change.key.endswith(".json") or not has_ends:
        return {}, {}
    before = _dated_lines([change.before])
    after = _dated_lines([change.after])
    removed = {name: line for name, line in before.items() if name not in after}
    added = {name: line for name, line in after.items() if name not in before}
    return removed, added


def ends_returning(
    changes: Iterable[Changed],
    now: Mapping[str, str],
    taken: Mapping[DatedKey, Dated],
    said: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines of facts that memory has with another end, which the person took from them and
    has not said again since.

    The findings name what was taken back. `now` has the texts of the present files, by key; `said`
    what the person said since. Blocks.
    """
    if not taken:
        return {}
    present = _dated_lines(now.values())
    present_facts = {name.key: line for name, line in present.items()}
    found = Findings()
    for change in changes:
        _, added = end_differences(change)
        lines = dict[Key, str]()
        gone = dict[Key, Dated]()
        for name, line in added.items():
            has_other_end = name not in present and name.key in present_facts
            if name in taken and has_other_end:
                lines[name.key] = line
                gone[name.key] = taken[name]
        if not lines:
            continue
        comparison = Comparison(present_facts, gone, said, rules)
        for key, earlier in comparison.returning(lines).items():
            found[change.path, key] = finding_of(earlier)
    return found


def _dated_lines(texts: Iterable[str]) -> dict[DatedKey, str]:
    """The facts of texts, by their words and ends."""
    dated = dict[DatedKey, str]()
    files = [("", text) for text in texts]
    for key, line in fact_lines(files):
        dated.setdefault(DatedKey(key, end_of(line)), line)
    return dated
