"""Judges a batch's changes: whether they keep the facts of memory, and say only what stands in
their usable texts.

An *objection* refuses all changes of a batch. *Findings* are single lines that are left out of it,
by path and words (`facts.py`). A batch's *usable texts* are the files and texts that its new lines may
say again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lasting_memory import recall
from lasting_memory.consolidation.changed_places import changed_places
from lasting_memory.consolidation.facts import (
    Facts,
    Findings,
    LineWords,
    TextFile,
    differences,
    facts_in,
    facts_of,
    fields_of,
    is_plain,
    line_words_of,
    unmarked,
    weights_of,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.proposals import Changed
from lasting_memory.words import spelled_words
from lasting_memory.words import words as words_of

# Lines of one objection that the model is told, and characters of each.
_LINES_TOLD = 5
_LINE_CHARS = 80


class Objection(NamedTuple):
    """Why a batch's changes are refused: the word of the person's note, the reason as the model is
    told it, and the lines that it is about.
    """

    note_kind: str
    reason: str
    lines: list[str]


def objection(
    batch_changes: Sequence[Changed],
    given_up_lines: Mapping[str, Collection[str]],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
    unchanged_files: Iterable[TextFile] = (),
) -> Objection | None:
    """The first reason to refuse a batch's changes; None if there is none.

    A fact may move from one file to another. Blocks.

    `given_up_lines`: by path, the lines that the model named as outdated or contradicted
    (`forget_lines`). `unchanged_files`: files that have not changed, in which a fact may stand as well.
    """
    files_after = list[TextFile]()
    for change in batch_changes:
        files_after.append((change.path, change.after))
    files_after += unchanged_files
    facts_after = Facts(facts_of(files_after), rules=rules)
    for change in batch_changes:
        given_up_here = given_up_lines.get(change.path, ())
        objection_here = _objection_to(change, facts_after, given_up_here, rules)
        if objection_here:
            return objection_here
    return None


def _objection_to(
    change: Changed, facts_after: Facts, given_up_lines: Iterable[str], rules: Consolidation
) -> Objection | None:
    """The reason to refuse one change: it is of a skill, adds what is no plain text, or loses too
    many facts. None if there is none.

    `facts_after` has the facts of all files after the changes, and `given_up_lines` the lines of this
    file that the model named.
    """
    path = change.path
    if change.key.startswith("/skills/"):
        reason = f"{path} is the person's own skill, which consolidation must not change."
        return Objection("own_skill", reason, [])
    odd_line = _odd_line(change)
    if odd_line:
        reason = (
            f"{path}: only plain text, without HTML, comments, code blocks and invisible "
            f"characters: {odd_line[:_LINE_CHARS]!r}."
        )
        return Objection("not_plain", reason, [odd_line])
    lost_lines = _lost_facts(change, facts_after, given_up_lines, rules)
    if lost_lines:
        first_lines = [line[:_LINE_CHARS] for line in lost_lines[:_LINES_TOLD]]
        lines = "; ".join(first_lines)
        reason = (
            f"{path} would lose {len(lost_lines)} lines that were not given to forget_lines as outdated "
            f"or contradicted: {lines}. Only plain text counts, no line in a comment."
        )
        return Objection("would_lose", reason, lost_lines)
    return None


def _odd_line(change: Changed) -> str | None:
    """The first in order of the new lines that are no plain text; None if there is none."""
    lines_before = _lines_of(change.before)
    lines_after = _lines_of(change.after)
    new_lines = sorted(lines_after - lines_before)
    for line in new_lines:
        if not is_plain(line):
            return line
    return None


def _lines_of(text: str) -> set[str]:
    """The lines of a text, whichever line breaks it has."""
    text_with_newlines = text.replace("\r\n", "\n")
    return set(text_with_newlines.split("\n"))


def _lost_facts(
    change: Changed, facts_after: Facts, given_up_lines: Iterable[str], rules: Consolidation
) -> list[str]:
    """The facts that a change loses, if they are more than a batch may remove without a reason
    (`Consolidation.removable_share`); else [].
    """
    facts_before = facts_in(change.before, change.path)
    given_up_texts = [(change.path, line) for line in given_up_lines]
    given_up_facts = facts_of(given_up_texts)
    lost_lines = facts_after.lost(facts_before, given_up_facts)
    number_unexplained = 0
    for line_words in facts_before:
        is_gone = line_words not in facts_after.facts
        is_explained = is_gone and line_words in given_up_facts
        if not is_explained:
            number_unexplained += 1
    most_removable = number_unexplained * rules.removable_share
    if len(lost_lines) > most_removable:
        return lost_lines
    return []


def invented(
    batch_changes: Sequence[Changed],
    usable_texts: Sequence[TextFile],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that say what is not in the usable texts.

    A line is in them where all of its numbers and names (capitalised, not first in the line)
    are there, and enough of its words. The names of the changed files, and of a profile's fields,
    count as said. Blocks.
    """
    usable_facts = Facts(facts_of(usable_texts), rules=rules)
    weights = weights_of(usable_facts.stems.values())
    sayable_words = _sayable_words(batch_changes, usable_texts, usable_facts.language)
    findings = Findings()
    for change in batch_changes:
        _, new_lines = differences(change)
        facts = Facts(new_lines, usable_facts.language)
        for line_words, stems in facts.stems.items():
            line = new_lines[line_words]
            has_its_names = _names(line) <= sayable_words
            if has_its_names and usable_facts.has_enough_words(stems, sayable_words, weights):
                continue
            finding_key = (change.path, line_words)
            findings[finding_key] = line
    return findings


def _sayable_words(
    batch_changes: Sequence[Changed], usable_texts: Sequence[TextFile], language: str
) -> set[str]:
    """The words, and their stems, that a new line may say: those of the usable texts and their paths,
    of the changed files' paths, and of the names of fields in JSON files.
    """
    texts = list[str]()
    for path, text in usable_texts:
        texts += (path, text)
    for change in batch_changes:
        texts.append(change.path)
        if change.key.endswith(".json"):
            texts += _field_names(change.after)
    sayable_words = set[str]()
    for text in texts:
        stems = recall.stems(text, language)
        sayable_words.update(stems)
        words = words_of(text)
        sayable_words.update(words)
    return sayable_words


def _field_names(text: str) -> list[str]:
    """The names of the fields of a JSON object."""
    names = list[str]()
    for line in fields_of(text).splitlines():
        name, _, _ = line.partition(":")
        names.append(name)
    return names


def _names(line: str) -> set[str]:
    """A line's capitalised words but its first, in lower case."""
    words = spelled_words(unmarked(line))
    names = set[str]()
    for word in words[1:]:
        if word[0].isupper():
            parts = words_of(word)
            names.update(parts)
    return names


def without(
    batch_changes: Sequence[Changed], findings: Collection[tuple[str, LineWords]]
) -> list[Changed]:
    """The changes without these lines, which are given by path and words.

    What such a line replaced stays. A JSON file with such a line changes in nothing. Blocks.
    """
    paths_with_findings = {path for path, _ in findings}
    untouched_changes = list[Changed]()
    cleaned_changes = list[Changed]()
    for change in batch_changes:
        if change.path not in paths_with_findings:
            untouched_changes.append(change)
        elif not change.path.endswith(".json"):
            cleaned_changes += _cleaned(change, findings)
    return [*untouched_changes, *cleaned_changes]


def _cleaned(change: Changed, findings: Collection[tuple[str, LineWords]]) -> list[Changed]:
    """A change without these lines; [] if nothing of it is left."""
    text = _text_without(change, findings)
    if text == change.before:
        return []
    has_facts = bool(facts_in(text))
    if not change.before and not has_facts:
        return []
    cleaned_change = replace(change, after=text, deleted=False)
    return [cleaned_change]


def _text_without(change: Changed, findings: Collection[tuple[str, LineWords]]) -> str:
    """The text after a change without these lines, and with what they replaced."""
    lines_after = list[str]()
    for place in changed_places(change):
        remaining_lines = list[str]()
        for line in place.new_lines:
            if (change.path, line_words_of(line)) not in findings:
                remaining_lines.append(line)
        lines_after += place.unchanged_lines
        if len(remaining_lines) < len(place.new_lines):
            restored_lines = [line for line in place.old_lines if line not in remaining_lines]
            lines_after += restored_lines
        lines_after += remaining_lines
    return "\n".join(lines_after)
