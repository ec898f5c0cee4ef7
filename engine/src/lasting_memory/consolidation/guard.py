"""Judges a batch's changes: whether they keep the facts, and say only what was given."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lasting_memory import recall
from lasting_memory.consolidation.facts import (
    Facts,
    Findings,
    Key,
    TextFile,
    differences,
    facts_in,
    facts_of,
    fields_of,
    is_plain,
    key_of,
    unmarked,
    weights_of,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.journal import edits
from lasting_memory.memory.proposals import Changed
from lasting_memory.words import spelled_words
from lasting_memory.words import words as words_of

# Lines of one objection that the model is told, and characters of each.
_LINES_TOLD = 5
_LINE_CHARS = 80


class Objection(NamedTuple):
    """Why a batch's changes are refused.

    In a word, as the model is told it, and the lines that it is about.
    """

    note_kind: str
    reason: str
    lines: list[str]


def objection(
    changed: Sequence[Changed],
    given_up: Mapping[str, Collection[str]],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
    others: Iterable[TextFile] = (),
) -> Objection | None:
    """The reason to refuse a batch's changes, if there is one.

    A fact may move from one file to another. Blocks.

    `given_up`: by path, the lines that the model named as outdated or contradicted
    (`forget_lines`). `others`: files that have not changed, in which a fact may stand as well.
    """
    files_after = [(change.path, change.after) for change in changed]
    facts_after = facts_of([*files_after, *others])
    after = Facts(facts_after, rules=rules)
    for change in changed:
        lines_given_up = given_up.get(change.path, ())
        found = _objection_to(change, after, lines_given_up, rules)
        if found:
            return found
    return None


def _objection_to(
    change: Changed, after: Facts, given_up: Iterable[str], rules: Consolidation
) -> Objection | None:
    """The reason to refuse one change. `after` has the facts of all files after the changes."""
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
    before = facts_in(change.before, path)
    keys_given_up = facts_of((path, line) for line in given_up)
    lost = after.lost(before, keys_given_up)
    unexplained = 0
    for key in before:
        is_explained = key in keys_given_up and key not in after.facts
        if not is_explained:
            unexplained += 1
    if len(lost) > unexplained * rules.removable_share:
        first_lost = [line[:_LINE_CHARS] for line in lost[:_LINES_TOLD]]
        lines = "; ".join(first_lost)
        reason = (
            f"{path} would lose {len(lost)} lines that were not given to forget_lines as outdated "
            f"or contradicted: {lines}. Only plain text counts, no line in a comment."
        )
        return Objection("would_lose", reason, lost)
    return None


def _odd_line(change: Changed) -> str | None:
    """The first in order of the new lines that are no plain text; None if there is none."""
    before = _lines_of(change.before)
    after = _lines_of(change.after)
    new = sorted(after - before)
    for line in new:
        if not is_plain(line):
            return line
    return None


def _lines_of(text: str) -> set[str]:
    with_newlines = text.replace("\r\n", "\n")
    return set(with_newlines.split("\n"))


def invented(
    changed: Sequence[Changed],
    source: Sequence[TextFile],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that say what is not in the source.

    A line is in the source where all of its numbers and names (capitalised, not first in the line)
    are there, and enough of its words. The names of the changed files, and of a profile's fields,
    count as said. Blocks.
    """
    known = Facts(facts_of(source), rules=rules)
    weights = weights_of(known.words.values())
    words_said = _words_said(changed, source, known.language)
    found = Findings()
    for change in changed:
        _, new = differences(change)
        facts = Facts(new, known.language)
        for key, words in facts.words.items():
            line = new[key]
            has_its_names = _names(line) <= words_said
            is_said = has_its_names and known.has(words, words_said, weights)
            if not is_said:
                found[change.path, key] = line
    return found


def _words_said(changed: Sequence[Changed], source: Sequence[TextFile], language: str) -> set[str]:
    """The words, and their stems, that a new line may say."""
    texts = list[str]()
    for path, text in source:
        texts += (path, text)
    for change in changed:
        texts.append(change.path)
        if change.key.endswith(".json"):
            fields = fields_of(change.after)
            for line in fields.splitlines():
                name, _, _ = line.partition(":")
                texts.append(name)
    said = set[str]()
    for text in texts:
        said.update(recall.stems(text, language))
        said.update(words_of(text))
    return said


def _names(line: str) -> set[str]:
    """A line's capitalised words but its first, in lower case."""
    words = spelled_words(unmarked(line))
    names = set[str]()
    for word in words[1:]:
        if word[0].isupper():
            parts = words_of(word)
            names.update(parts)
    return names


def without(changes: Sequence[Changed], found: Collection[tuple[str, Key]]) -> list[Changed]:
    """The changes without these lines, which are given by path and words.

    What such a line replaced stays; of a JSON file nothing changes. Blocks.
    """
    touched = {path for path, _ in found}
    cleaned = [change for change in changes if change.path not in touched]
    for change in changes:
        if change.path not in touched or change.path.endswith(".json"):
            continue
        text = _text_without(change, found)
        if text == change.before:
            continue
        facts = facts_in(text)
        if change.before or facts:
            cleaned.append(replace(change, after=text, deleted=False))
    return cleaned


def _text_without(change: Changed, found: Collection[tuple[str, Key]]) -> str:
    """The text after a change without these lines, and with what they replaced."""
    old = change.before.split("\n")
    new = change.after.split("\n")
    result = list[str]()
    copied = 0  # lines of the old text that are in the result, or replaced
    for start, end, new_start, new_end in edits(old, new):
        unchanged = old[copied:start]
        replaced = old[start:end]
        added = new[new_start:new_end]
        kept = list[str]()
        for line in added:
            if (change.path, key_of(line)) not in found:
                kept.append(line)
        result += unchanged
        if len(kept) < len(added):
            result += [line for line in replaced if line not in kept]
        result += kept
        copied = end
    result += old[copied:]
    return "\n".join(result)
