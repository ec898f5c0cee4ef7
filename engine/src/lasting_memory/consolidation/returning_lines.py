"""Whether a batch's changes bring back lines that were taken back (`taken_back.py`).

Lines are compared as facts (`facts.py`): by their words. A line that is *gone* stands nowhere in
memory now. It may return only if the person says it again later.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from lasting_memory.consolidation.facts import (
    Facts,
    Findings,
    Lines,
    LineWords,
    TextFile,
    differences,
    facts_of,
    text_files,
    weights_of,
)
from lasting_memory.consolidation.taken_back import DatedText, minute_of, not_present
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.proposals import Changed

# Characters of a line in a finding.
_LINE_CHARS = 80
_SENTENCE_END = re.compile(r"([.!?;]) ")


def returning(
    batch_changes: Sequence[Changed],
    present_texts: Mapping[str, str],
    taken_lines: Mapping[LineWords, DatedText],
    messages: Sequence[DatedText],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that bring back one of the lines that were taken back, and that the person has
    not said again later. Each finding names the line that it brings back.

    `present_texts` has the texts of the present files, by key; `messages` what the person said since
    they first took something back. Blocks.
    """
    present_lines = facts_of(text_files(present_texts))
    gone_lines = not_present(taken_lines, present_lines)
    added_by_path = _added_by_path(batch_changes)
    has_nothing_to_compare = not gone_lines or not added_by_path
    if has_nothing_to_compare:
        return {}
    comparison = Comparison(present_lines, gone_lines, messages, rules)
    findings = Findings()
    for path, added_lines in added_by_path.items():
        for line_words, gone_line in comparison.returning(added_lines).items():
            finding = finding_of(gone_line)
            findings[path, line_words] = finding
    return findings


def _added_by_path(batch_changes: Iterable[Changed]) -> dict[str, Lines]:
    """The facts that changes add, by path; without the paths to which none is added."""
    added_by_path = dict[str, Lines]()
    for change in batch_changes:
        _, added_lines = differences(change)
        if added_lines:
            added_by_path[change.path] = added_lines
    return added_by_path


def finding_of(line: DatedText) -> str:
    """A line that was taken back, as the model is told of it."""
    start = line.text[:_LINE_CHARS]
    minute = minute_of(line.at)
    return f"{start} (at {minute})"


class Comparison:
    """Compares new lines with those that are gone from memory, those that are in it, and what the
    person said since. They are compared by the stems of their words.
    """

    def __init__(
        self,
        present_lines: Mapping[LineWords, str],
        gone_lines: Mapping[LineWords, DatedText],
        messages: Sequence[DatedText],
        rules: Consolidation,
    ) -> None:
        gone_texts = Lines()
        for line_words, line in gone_lines.items():
            gone_texts[line_words] = line.text
        all_lines = Facts({**present_lines, **gone_texts})
        self._language = all_lines.language
        self._rules = rules
        self._gone_lines = gone_lines
        self._gone_facts = self._facts(gone_texts)
        self._present_facts = self._facts(present_lines)
        all_stems = list(self._gone_facts.stems.values())
        all_stems += self._present_facts.stems.values()
        self._weights = weights_of(all_stems)
        self._messages = messages
        self._sentences_said_after = dict[str, Facts]()  # by time

    def _facts(self, lines: Mapping[LineWords, str]) -> Facts:
        """Lines to compare, in the language of memory."""
        return Facts(lines, self._language, self._rules)

    def returning(self, lines: Mapping[LineWords, str]) -> dict[LineWords, DatedText]:
        """Those of these new lines that bring back a line that is gone, each with that line: they have
        enough of its words, and neither memory nor the person since says it so.
        """
        new_facts = self._facts(lines)
        returning_lines = dict[LineWords, DatedText]()
        for gone_words, gone_stems in self._gone_facts.stems.items():
            gone_line = self._gone_lines[gone_words]
            for line_words in new_facts.keeping(gone_stems, self._weights):
                new_stems = new_facts.stems[line_words]
                is_other_line = line_words != gone_words
                if is_other_line and self._is_said_instead(gone_stems, new_stems):
                    continue
                if self._is_said_again(gone_stems, new_stems, gone_line.at):
                    continue
                returning_lines[line_words] = gone_line
        return returning_lines

    def _is_said_instead(self, gone_stems: frozenset[str], new_stems: frozenset[str]) -> bool:
        """Whether a new line with these stems says, instead of one that is gone, the line that
        memory has in its place: `green tea` for `tea`. It may say more.
        """
        for line_words in self._present_facts.keeping(gone_stems, self._weights):
            stems_instead = self._present_facts.stems[line_words]
            stems_only_instead = stems_instead - gone_stems
            stems_only_gone = gone_stems - stems_instead
            has_words_instead = stems_only_instead <= new_stems
            if has_words_instead and stems_only_gone.isdisjoint(new_stems):
                return True
        return False

    def _is_said_again(
        self, gone_stems: frozenset[str], new_stems: frozenset[str], time: str
    ) -> bool:
        """Whether the person said a line that is gone, or a new line with these stems that resembles
        it, after a time.
        """
        sentences = self._said_after(time)
        if sentences.has_fact(gone_stems, self._weights):
            return True
        if sentences.has_fact(new_stems, self._weights):
            return True
        has_all_of_gone_line = gone_stems <= new_stems
        if has_all_of_gone_line:
            return False
        # The new line has other words in place of some that are gone: did the person say these?
        other_stems = new_stems - gone_stems
        if not other_stems:
            return False
        return any(other_stems <= sentence_stems for sentence_stems in sentences.stems.values())

    def _said_after(self, time: str) -> Facts:
        """The sentences that the person said after a time."""
        sentences_known = self._sentences_said_after.get(time)
        if sentences_known is not None:
            return sentences_known
        sentences = list[TextFile]()
        for message in self._messages:
            if message.at > time:
                text_with_line_breaks = _SENTENCE_END.sub(r"\1\n", message.text)
                sentences.append(("", text_with_line_breaks))
        facts = self._facts(facts_of(sentences))
        self._sentences_said_after[time] = facts
        return facts
