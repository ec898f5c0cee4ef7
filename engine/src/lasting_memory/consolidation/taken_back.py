"""What was taken back, and whether a batch's changes bring it back.

A line is *taken back* if the person, or an agent in a conversation, removed or changed it, or if the
person declined it. It is *gone* if it stands nowhere in memory now. It may return only if the person
says it again later. The journal knows who removed what and when, the platform's runs when the person
said what. Of revisions that are no longer kept the journal keeps the lines that they took back.

Lines are compared as facts (`facts.py`): by their words, which are their `Key`.
"""

import re
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from lasting_memory.consolidation.facts import (
    Facts,
    Findings,
    Key,
    TextFile,
    differences,
    facts_of,
    text_files,
    weights_of,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.journal import Revision, TakenBack
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people.identity import AT_THEIR_WORD

# The newest lines that the model is shown, and characters of each.
_SHOWN = 50
_SHOWN_CHARS = 200
# Characters of a line in a finding.
_LINE_CHARS = 80
_SENTENCE_END = re.compile(r"([.!?;]) ")
# Lines by their words.
_Lines = dict[Key, str]


class Dated(NamedTuple):
    """A line that was taken back, or a message of the person's; and when that was, in ISO format,
    UTC.
    """

    text: str
    at: str


# By what a line is known: its `Key`; where ends are compared, its `DatedKey`.
LineKey = TypeVar("LineKey", bound=Hashable)
# Compares the texts of a change: the lines that it takes out, and those that it adds.
Differences = Callable[[Changed], tuple[Mapping[LineKey, str], Mapping[LineKey, str]]]


class _Edit(NamedTuple, Generic[LineKey]):
    """The lines that an edit took back, those that it added, and when."""

    at: str
    removed: Mapping[LineKey, str]
    added: Mapping[LineKey, str] = MappingProxyType({})


# --- What was taken back


def taken_back(
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[Key, Dated]:
    """The lines that were taken back and not written again since, the latest last.

    `histories` has the revisions of each file, newest first, by path; `dropped` the lines that were
    taken back in revisions that are no longer kept. Blocks.
    """
    return taken_back_by(differences, histories, declined, dropped)


def taken_back_by(
    compare: Differences[LineKey],
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[LineKey, Dated]:
    """As `taken_back`, with another comparison than that of facts. Blocks."""
    edits = list[_Edit[LineKey]]()
    for path, text, at in dropped:
        change = Changed(path, before=text, after="")
        removed, _ = compare(change)
        edit = _Edit(at, removed)
        edits.append(edit)
    for change, at in declined:
        _, declined_lines = compare(change)
        edit = _Edit(at, declined_lines)
        edits.append(edit)
    for path, revisions in histories:
        edits += _edits_of(path, revisions, compare)
    edits.sort(key=lambda edit: edit.at)
    return _replayed(edits)


def _replayed(edits: Iterable[_Edit[LineKey]]) -> dict[LineKey, Dated]:
    """What is taken back after these edits, the oldest of which is first."""
    taken_back = dict[LineKey, Dated]()
    for edit in edits:
        for line_key in edit.added:
            taken_back.pop(line_key, None)
        for line_key, text in edit.removed.items():
            # What is taken back once more moves to the end.
            taken_back.pop(line_key, None)
            if line_key in edit.added:
                continue
            taken_back[line_key] = Dated(text, edit.at)
    return taken_back


def _edits_of(
    path: str, revisions: Sequence[Revision], compare: Differences[LineKey]
) -> Iterator[_Edit[LineKey]]:
    """The edits of a file, newest first. Those of authors who do not act at the person's word take
    nothing back, but they may add a line again.
    """
    texts_before = list[str]()
    for older in revisions[1:]:
        texts_before.append(older.content or "")
    # Without a file's first revision nobody knows what its oldest one changed.
    if revisions and revisions[-1].number == 1:
        texts_before.append("")
    for revision, before in zip(revisions, texts_before, strict=False):
        if revision.encoding != "utf-8":
            continue
        after = revision.content or ""
        change = Changed(path, before, after)
        removed, added = compare(change)
        if revision.author.kind not in AT_THEIR_WORD:
            removed = {}
        yield _Edit(revision.at, removed, added)


# --- What comes back


def still_gone(
    taken_lines: Mapping[Key, Dated], present_texts: Mapping[str, str]
) -> dict[Key, Dated]:
    """Those of the lines that were taken back that are gone. A line that was moved to another file is
    not.

    `present_texts` has the texts of the present files, by key. Blocks.
    """
    present = facts_of(text_files(present_texts))
    return _gone(taken_lines, present)


def _gone(taken_lines: Mapping[Key, Dated], present: Collection[Key]) -> dict[Key, Dated]:
    """Those of the lines that were taken back that are not among the present ones."""
    gone_lines = dict[Key, Dated]()
    for key, line in taken_lines.items():
        if key in present:
            continue
        gone_lines[key] = line
    return gone_lines


def returning(
    changes: Sequence[Changed],
    present_texts: Mapping[str, str],
    taken_lines: Mapping[Key, Dated],
    messages: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that bring back one of the lines that were taken back, and that the person has
    not said again later. Each finding names the line that it brings back.

    `present_texts` has the texts of the present files, by key; `messages` what the person said since
    they first took something back. Blocks.
    """
    present = facts_of(text_files(present_texts))
    gone_lines = _gone(taken_lines, present)
    added_by_path = _added_by_path(changes)
    if not gone_lines or not added_by_path:
        return {}
    comparison = Comparison(present, gone_lines, messages, rules)
    findings = Findings()
    for path, added in added_by_path.items():
        for key, line_gone in comparison.returning(added).items():
            finding = finding_of(line_gone)
            findings[path, key] = finding
    return findings


def _added_by_path(changes: Iterable[Changed]) -> dict[str, _Lines]:
    """The facts that changes add, by path; without the paths to which none is added."""
    added_by_path = dict[str, _Lines]()
    for change in changes:
        _, added = differences(change)
        if added:
            added_by_path[change.path] = added
    return added_by_path


def finding_of(line: Dated) -> str:
    """A line that was taken back, as the model is told of it."""
    start = line.text[:_LINE_CHARS]
    minute = _minute(line.at)
    return f"{start} (at {minute})"


class Comparison:
    """Compares new lines with those that are gone from memory, those that are in it, and what the
    person said since. A *fact* is here a line that is gone, by the stems of its words.
    """

    def __init__(
        self,
        present: Mapping[Key, str],
        gone_lines: Mapping[Key, Dated],
        messages: Sequence[Dated],
        rules: Consolidation,
    ) -> None:
        texts_gone = _Lines()
        for key, line in gone_lines.items():
            texts_gone[key] = line.text
        all_lines = Facts({**present, **texts_gone})
        self._language = all_lines.language
        self._rules = rules
        self._gone_lines = gone_lines
        self._facts_gone = self._facts(texts_gone)
        self._memory = self._facts(present)
        all_words = list(self._facts_gone.words.values())
        all_words += self._memory.words.values()
        self._weights = weights_of(all_words)
        self._messages = messages
        self._sentences_said_after = dict[str, Facts]()  # by time

    def _facts(self, lines: Mapping[Key, str]) -> Facts:
        """Lines to compare, in the language of memory."""
        return Facts(lines, self._language, self._rules)

    def returning(self, lines: Mapping[Key, str]) -> dict[Key, Dated]:
        """Those of these new lines that bring back a line that is gone, each with that line: they have
        enough of its words, and neither memory nor the person since says it so.
        """
        new = self._facts(lines)
        returning_lines = dict[Key, Dated]()
        for key_gone, fact in self._facts_gone.words.items():
            line_gone = self._gone_lines[key_gone]
            for key in new.keeping(fact, self._weights):
                words = new.words[key]
                is_other_line = key != key_gone
                if is_other_line and self._is_said_instead(fact, words):
                    continue
                if self._is_said_again(fact, words, line_gone.at):
                    continue
                returning_lines[key] = line_gone
        return returning_lines

    def _is_said_instead(self, fact: frozenset[str], words: frozenset[str]) -> bool:
        """Whether a new line with these words says, instead of a fact, the line that memory has in
        its place: `green tea` for `tea`. It may say more.
        """
        for key in self._memory.keeping(fact, self._weights):
            words_instead = self._memory.words[key]
            only_instead = words_instead - fact
            only_in_fact = fact - words_instead
            has_words_instead = only_instead <= words
            if has_words_instead and only_in_fact.isdisjoint(words):
                return True
        return False

    def _is_said_again(self, fact: frozenset[str], words: frozenset[str], at: str) -> bool:
        """Whether the person said a fact, or a new line with these words that resembles it, after a
        time.
        """
        sentences = self._said_after(at)
        if sentences.has_fact(fact, self._weights):
            return True
        if sentences.has_fact(words, self._weights):
            return True
        has_all_of_fact = fact <= words
        if has_all_of_fact:
            return False
        # The new line has other words in place of some of the fact's: did the person say these?
        other_words = words - fact
        if not other_words:
            return False
        return any(other_words <= sentence for sentence in sentences.words.values())

    def _said_after(self, at: str) -> Facts:
        """The sentences that the person said after a time."""
        known = self._sentences_said_after.get(at)
        if known is not None:
            return known
        sentences = list[TextFile]()
        for message in self._messages:
            if message.at > at:
                a_line_each = _SENTENCE_END.sub(r"\1\n", message.text)
                sentences.append(("", a_line_each))
        facts = self._facts(facts_of(sentences))
        self._sentences_said_after[at] = facts
        return facts


# --- What the model is shown


def shown_lines(taken_lines: Iterable[Dated], messages: Iterable[Dated]) -> str:
    """For the model: the newest lines that were taken back, and the newest messages of the person
    since, with their times.
    """
    parts = list[str]()
    for lines in (taken_lines, messages):
        listed = _listed(lines)
        if listed:
            parts.append(listed)
    return "\n\nSaid since:\n\n".join(parts)


def _listed(lines: Iterable[Dated]) -> str:
    """The newest of these lines as a list, newest first; "" for none."""
    newest_first = sorted(lines, key=lambda line: line.at, reverse=True)
    items = list[str]()
    for line in newest_first[:_SHOWN]:
        minute = _minute(line.at)
        words = line.text.split()
        one_line = " ".join(words)
        start = one_line[:_SHOWN_CHARS]
        items.append(f"- {minute}: {start}")
    return "\n".join(items)


def _minute(at: str) -> str:
    """A time in ISO format up to its minute, for people."""
    until_minute = at[:16]
    return until_minute.replace("T", " ")
