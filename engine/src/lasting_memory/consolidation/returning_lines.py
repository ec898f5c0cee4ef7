"""Whether a batch's changes bring back lines that were taken back (`taken_back.py`).

Lines are compared as facts (`facts.py`): by their words. A line that is *gone* stands nowhere in
memory now. It may return only if the person says it again later.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

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
from lasting_memory.consolidation.taken_back import Dated, minute_of, not_present
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.proposals import Changed

# Characters of a line in a finding.
_LINE_CHARS = 80
_SENTENCE_END = re.compile(r"([.!?;]) ")
# Lines by their words.
Lines = dict[Key, str]


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
    gone_lines = not_present(taken_lines, present)
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


def _added_by_path(changes: Iterable[Changed]) -> dict[str, Lines]:
    """The facts that changes add, by path; without the paths to which none is added."""
    added_by_path = dict[str, Lines]()
    for change in changes:
        _, added = differences(change)
        if added:
            added_by_path[change.path] = added
    return added_by_path


def finding_of(line: Dated) -> str:
    """A line that was taken back, as the model is told of it."""
    start = line.text[:_LINE_CHARS]
    minute = minute_of(line.at)
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
        texts_gone = Lines()
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
