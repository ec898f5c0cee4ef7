"""Compares the facts (`facts.py`) of today's memory with those of a dream's files, whichever file
they are in: which of today's the dream does not say, and which of the dream's are new.
"""

from collections.abc import Collection, Iterator, Mapping

from lasting_memory.consolidation.dream_rebuilt import object_in, without_lines
from lasting_memory.consolidation.dreams import DreamFile
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import (
    Facts,
    Key,
    TextFile,
    facts_in,
    facts_of,
    key_of,
    weights_of,
)
from lasting_memory.deployment import Consolidation
from lasting_memory.memory.proposals import REWORDED
from lasting_memory.words import words as words_of

# Why a line goes, in a word for which the page has a sentence: the dream does not say it. The other
# reason is `REWORDED`: the dream says it in other words.
NOT_AGAIN = "not_again"


class DreamComparison:
    """Compares the facts (`facts.py`) of today's memory with those of a dream's files, whichever file
    they are in. A fact is known by its `Key`.
    """

    def __init__(
        self,
        today: Mapping[str, str],
        dream_files: Mapping[str, DreamFile],
        expired: ExpiredLines,
        rules: Consolidation,
    ) -> None:
        """`today` has the texts of today's files. Lines of the dream that are over do not count."""
        texts_of_dream = dict[str, str]()
        for key, file in dream_files.items():
            texts_of_dream[key] = expired.current_text(key, file.content)
        self._today = facts_of(_files_with_lines(today))
        self._dream_lines = facts_of(_files_with_lines(texts_of_dream))
        facts_of_today = Facts(self._today, rules=rules)
        self._words_of_today = facts_of_today.words
        self._facts_of_dream = Facts(self._dream_lines, facts_of_today.language, rules)
        all_words = list(self._words_of_today.values())
        all_words += self._facts_of_dream.words.values()
        self._weights = weights_of(all_words)
        self._words_of_dream_lines = [frozenset(fact) for fact in self._dream_lines]
        # Facts of today's memory that stay: the dream has them word for word, or a fact of the
        # dream is within them.
        self._staying = set[Key]()
        # Facts of the dream that today's memory has not.
        self._new = set[Key]()
        for fact in self._dream_lines:
            holder = self._holder(fact)
            if holder is None:
                self._new.add(fact)
            else:
                self._staying.add(holder)

    def _holder(self, fact: Key) -> Key | None:
        """The fact of today's memory that is this one of the dream, or has all of its words; None if
        there is none.
        """
        if fact in self._today:
            return fact
        words = self._facts_of_dream.words[fact]
        if not words:
            return None
        for fact_today, words_today in self._words_of_today.items():
            if words <= words_today:
                return fact_today
        return None

    def unsaid_lines(self, content: str, numbers: Collection[int]) -> dict[int, str]:
        """Those of a text's lines with these numbers that the dream does not say as they are. Each
        number has its reason: `REWORDED` or `NOT_AGAIN`.
        """
        lines = content.split("\n")
        reasons = dict[int, str]()
        for number in numbers:
            line = lines[number].strip()
            fact = key_of(line)
            if fact not in self._today:  # a heading
                continue
            if fact in self._staying:
                continue
            words = self._words_of_today[fact]
            reasons[number] = NOT_AGAIN
            if self._facts_of_dream.has_fact(words, self._weights):
                reasons[number] = REWORDED
        return reasons

    def unsaid_fields(self, content: str, names: Collection[str]) -> set[str]:
        """Those of these fields of a JSON object whose values no line of the dream says.

        JSON has no lines to give a reason for: what the dream says elsewhere, with whichever words
        around it, stays. A value without words counts as unsaid.
        """
        fields = object_in(content) or {}
        unsaid = set[str]()
        for name in names:
            value = str(fields[name])
            words = set(words_of(value))
            is_said = bool(words) and self._is_in_dream(words)
            if not is_said:
                unsaid.add(name)
        return unsaid

    def _is_in_dream(self, words: set[str]) -> bool:
        """Whether a line of the dream has all of these words."""
        return any(words <= words_of_line for words_of_line in self._words_of_dream_lines)

    def with_new_facts(self, content: str, dream_content: str, removed: Collection[int]) -> str:
        """A text of today's memory without the lines with the numbers `removed`, and at its end with
        what is new in the dream's text. `content` is "" for a file that memory has not.

        Each new fact is put in once: then it is no longer new.
        """
        is_new_file = not content
        new = list[str]()
        has_new_fact = False
        for line in dream_content.split("\n"):
            fact: Key = ()
            if facts_in(line):  # it is no heading, and no comment
                fact = key_of(line.strip())
            if fact and fact in self._new:
                self._new.discard(fact)
                new.append(line)
                has_new_fact = True
            elif not fact and is_new_file:
                new.append(line)  # headings and blank lines
        lines = without_lines(content, removed)
        text = "\n".join(lines)
        if not has_new_fact:
            return text
        added = "\n".join(new)
        if is_new_file:
            return added
        text = text.rstrip("\n")
        if not text:
            return f"{added}\n"
        return f"{text}\n{added}\n"


def _files_with_lines(texts_by_key: Mapping[str, str]) -> Iterator[TextFile]:
    """The files that are not JSON."""
    for key, text in texts_by_key.items():
        if not key.endswith(".json"):
            yield key, text
