"""Compares the facts (`facts.py`) of today's memory with those of a dream's files, whichever file
they are in: which of today's the dream does not say, and which of the dream's are new.
"""

from collections.abc import Collection, Iterator, Mapping

from lasting_memory.consolidation.dreams import DreamFile
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import (
    Facts,
    LineWords,
    TextFile,
    facts_in,
    facts_of,
    line_words_of,
    weights_of,
)
from lasting_memory.consolidation.rebuilt_lines import object_in, without_lines
from lasting_memory.deployment import Consolidation
from lasting_memory.memory.proposals import REWORDED
from lasting_memory.words import words as words_of

# Why a line goes, in a word for which the page has a sentence: the dream does not say it. The other
# reason is `REWORDED`: the dream says it in other words.
NOT_AGAIN = "not_again"


class DreamComparison:
    """Compares the facts (`facts.py`) of today's memory with those of a dream's files, whichever file
    they are in. A fact is known by its words.
    """

    def __init__(
        self,
        texts_today: Mapping[str, str],
        dream_files: Mapping[str, DreamFile],
        expired_lines: ExpiredLines,
        rules: Consolidation,
    ) -> None:
        """`texts_today` has the texts of today's files. Lines of the dream that are over do not count."""
        dream_texts = dict[str, str]()
        for key, file in dream_files.items():
            dream_texts[key] = expired_lines.current_text(key, file.content)
        self._today_lines = facts_of(_files_with_lines(texts_today))
        self._dream_lines = facts_of(_files_with_lines(dream_texts))
        today_facts = Facts(self._today_lines, rules=rules)
        self._stems_of_today = today_facts.stems
        self._dream_facts = Facts(self._dream_lines, today_facts.language, rules)
        all_stems = list(self._stems_of_today.values())
        all_stems += self._dream_facts.stems.values()
        self._weights = weights_of(all_stems)
        self._word_sets_of_dream = [frozenset(line_words) for line_words in self._dream_lines]
        # Facts of today's memory that stay: the dream has them word for word, or a fact of the
        # dream is within them.
        self._staying_lines = set[LineWords]()
        # Facts of the dream that today's memory has not.
        self._new_lines = set[LineWords]()
        for line_words in self._dream_lines:
            holder = self._holder(line_words)
            if holder is None:
                self._new_lines.add(line_words)
            else:
                self._staying_lines.add(holder)

    def _holder(self, line_words: LineWords) -> LineWords | None:
        """The fact of today's memory that is this one of the dream, or has all of its words; None if
        there is none.
        """
        if line_words in self._today_lines:
            return line_words
        stems = self._dream_facts.stems[line_words]
        if not stems:
            return None
        for today_line_words, today_stems in self._stems_of_today.items():
            if stems <= today_stems:
                return today_line_words
        return None

    def unsaid_lines(self, content: str, numbers: Collection[int]) -> dict[int, str]:
        """Those of a text's lines with these numbers that the dream does not say as they are. Each
        number has its reason: `REWORDED` or `NOT_AGAIN`.
        """
        lines = content.split("\n")
        reasons = dict[int, str]()
        for number in numbers:
            line = lines[number].strip()
            line_words = line_words_of(line)
            if line_words not in self._today_lines:  # a heading
                continue
            if line_words in self._staying_lines:
                continue
            stems = self._stems_of_today[line_words]
            reasons[number] = NOT_AGAIN
            if self._dream_facts.has_fact(stems, self._weights):
                reasons[number] = REWORDED
        return reasons

    def unsaid_fields(self, content: str, names: Collection[str]) -> set[str]:
        """Those of these fields of a JSON object whose values no line of the dream says.

        JSON has no lines to give a reason for: what the dream says elsewhere, with whichever words
        around it, stays. A value without words counts as unsaid.
        """
        fields = object_in(content) or {}
        unsaid_names = set[str]()
        for name in names:
            value = str(fields[name])
            words = set(words_of(value))
            is_said = bool(words) and self._is_in_dream(words)
            if not is_said:
                unsaid_names.add(name)
        return unsaid_names

    def _is_in_dream(self, words: set[str]) -> bool:
        """Whether a line of the dream has all of these words."""
        return any(words <= words_of_line for words_of_line in self._word_sets_of_dream)

    def with_new_facts(
        self, content: str, dream_content: str, removed_numbers: Collection[int]
    ) -> str:
        """A text of today's memory without the lines with the numbers `removed_numbers`, and at its
        end with what is new in the dream's text. `content` is "" for a file that memory has not.

        Each new fact is put in once: then it is no longer new.
        """
        is_new_file = not content
        lines_to_add = list[str]()
        has_new_fact = False
        for line in dream_content.split("\n"):
            line_words: LineWords = ()
            if facts_in(line):  # it is no heading, and no comment
                line_words = line_words_of(line.strip())
            if line_words and line_words in self._new_lines:
                self._new_lines.discard(line_words)
                lines_to_add.append(line)
                has_new_fact = True
            elif not line_words and is_new_file:
                lines_to_add.append(line)  # headings and blank lines
        lines = without_lines(content, removed_numbers)
        text = "\n".join(lines)
        if not has_new_fact:
            return text
        added_text = "\n".join(lines_to_add)
        if is_new_file:
            return added_text
        text = text.rstrip("\n")
        if not text:
            return f"{added_text}\n"
        return f"{text}\n{added_text}\n"


def _files_with_lines(texts_by_key: Mapping[str, str]) -> Iterator[TextFile]:
    """The files that are not JSON."""
    for key, text in texts_by_key.items():
        if not key.endswith(".json"):
            yield key, text
