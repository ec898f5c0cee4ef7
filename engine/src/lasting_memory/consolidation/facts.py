"""The facts of a text, and comparing them with others.

A fact is a line of text that is no heading and no comment. It is kept while its words and numbers
remain in one line of any file, in another order, place or form. This compares words, not meanings,
and reads no Markdown.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice

from lasting_memory import recall
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.ends import without_end
from lasting_memory.memory.proposals import Changed
from lasting_memory.words import normalized
from lasting_memory.words import words as words_of

Key = tuple[str, ...]  # a line's words, whatever stands between them
TextFile = tuple[str, str]  # its path and its text
Findings = dict[tuple[str, Key], str]  # lines by path and words, each with what is to be said of it

# A line that is much longer than a fact (so many times, plus so many words) does not keep it.
_JOINED = 4
_ADDED = 8
# A fact is compared with so many lines, those with its rarest words. This bounds the time.
_CANDIDATES = 32
# A fact's source (date and thread) at its end, which may change.
SOURCE = re.compile(r"\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# An element or a comment (addresses in angle brackets are text), a code block, front matter, an
# image, a link's definition.
_MARKUP = re.compile(
    r"<(?![^<>\s@]{1,200}@[^<>\s]{1,200}>|https?://[^<>\s]{1,2000}>)[a-z!?/]"
    r"|^[\s>*+-]{0,40}(?:`{3}|~{3})|^-{3,}\s*$|!\[|^\s{0,40}\[[^\[\]]{0,200}\]:",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]{1,2000}`")
# Joiners and marks that Persian, Hindi, Hebrew and emoji need, and the soft hyphen.
JOINERS = "\u00ad\u061c\u200c\u200d\u200e\u200f\ufe0e\ufe0f"
_WITHOUT_JOINERS = dict.fromkeys(map(ord, JOINERS))


def text_files(texts: Mapping[str, str]) -> list[TextFile]:
    """The files of memory with these texts, which are given by key."""
    files = list[TextFile]()
    for key, text in texts.items():
        path = f"/memories{key}"
        files.append((path, text))
    return files


def facts_in(text: str, path: str = "") -> dict[Key, str]:
    """The facts in a text, as `facts_of`. Where it is of no file, the path is ""."""
    return facts_of([(path, text)])


def facts_of(files: Iterable[TextFile]) -> dict[Key, str]:
    """The facts in files: their lines, by their words."""
    facts = dict[Key, str]()
    for key, line in fact_lines(files):
        facts.setdefault(key, line)
    return facts


def fact_lines(files: Iterable[tuple[str, str]]) -> Iterator[tuple[Key, str]]:
    """The lines of `facts_of` with their words, also those that have the words of another."""
    for path, content in files:
        text = fields_of(content) if path.endswith(".json") else content
        shown = _COMMENT.sub("", text)
        for raw_line in shown.split("\n"):
            line = raw_line.strip()
            if _HEADING.match(line):
                continue
            key = key_of(line)
            if key:
                yield key, line


def fields_of(text: str) -> str:
    """A JSON object as one line a field; other text unchanged."""
    lines = list[str]()
    try:
        fields = json.loads(text)
        for name, value in fields.items():
            line = f"{name}: {value}"
            lines.append(" ".join(line.split()))
    except (AttributeError, ValueError, RecursionError):
        return text
    return "\n".join(lines)


def unmarked(line: str) -> str:
    """A line without its source, and without the day until which it holds, whether that counts or
    not.
    """
    line = without_end(line)
    return SOURCE.sub(" ", line)


def key_of(line: str) -> Key:
    """A line's words without its source and its end; for a line without words, its other
    characters.
    """
    text = _normal(line)
    words = words_of(unmarked(text))
    if not words:
        words = words_of(text)
    if words:
        return tuple(words)
    return () if text.isascii() else (text.strip(),)


def _normal(line: str) -> str:
    joined = line.translate(_WITHOUT_JOINERS)
    return normalized(joined).casefold()


def is_heading(line: str) -> bool:
    """Whether a line is a heading, and nothing else."""
    text = line.strip()
    if not _HEADING.match(text):
        return False
    return is_plain(line)


def is_plain(line: str) -> bool:
    """Whether a line is text, without markup outside of backticks and invisible characters."""
    without_code = _CODE.sub("", line)
    if _MARKUP.search(without_code):
        return False
    if line.isprintable():
        return True
    without_tabs = _normal(line).replace("\t", " ")
    return without_tabs.isprintable()


def differences(change: Changed) -> tuple[dict[Key, str], dict[Key, str]]:
    """The facts that a change takes out, and those that it adds. Blocks."""
    path = change.path
    change = change.beyond(change.before)
    before = facts_in(change.before, path)
    after = facts_in(change.after, path)
    removed = _beyond(before, after)
    added = _beyond(after, before)
    return removed, added


def _beyond(facts: Mapping[Key, str], others: Collection[Key]) -> dict[Key, str]:
    """The facts that are not among the others."""
    beyond = dict[Key, str]()
    for key, line in facts.items():
        if key not in others:
            beyond[key] = line
    return beyond


class Facts:
    """Facts, for comparison with others."""

    def __init__(
        self,
        facts: Mapping[Key, str],
        language: str | None = None,
        rules: Consolidation = DEFAULT_CONSOLIDATION,
    ) -> None:
        self.facts = facts
        self.language = language or _language_of(facts.values())
        self._share = rules.fact_words_kept - 1e-9

    def lost(self, before: Mapping[Key, str], given_up: Collection[Key]) -> list[str]:
        """The facts of a file that are neither kept nor given up.

        Blocks for about a second per 256 KiB.
        """
        gone = before.keys() - self.facts.keys()
        gone.difference_update(given_up)
        if not gone:
            return []
        facts_before = Facts(before, self.language)
        weights = weights_of(facts_before.words.values())
        lost = list[str]()
        for key, words in facts_before.words.items():
            if key in gone and not self.has_fact(words, weights):
                lost.append(before[key])
        return lost

    def has_fact(self, fact: frozenset[str], weights: Mapping[str, float]) -> bool:
        """Whether a line keeps a fact, as in `keeping`."""
        first = next(self.keeping(fact, weights), None)
        return first is not None

    def keeping(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines that have all of a fact's numbers and enough of its words.

        Words are weighted by their rarity.
        """
        max_words = _JOINED * len(fact) + _ADDED
        for key in self.saying(fact, weights):
            words = self.words[key]
            if len(words) <= max_words:
                yield key

    def saying(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines as in `keeping`, also where they say much more than the fact."""
        lines_with_word = list[list[Key]]()
        for word in fact:
            lines = self._by_word.get(word)
            if lines:
                lines_with_word.append(lines)
        lines_with_word.sort(key=len)
        rarest_first = chain.from_iterable(lines_with_word)
        candidates = dict.fromkeys(rarest_first)
        for key in islice(candidates, _CANDIDATES):
            words = self.words[key] | frozenset(key)
            if self.has(fact, words, weights):
                yield key

    def has(
        self, fact: frozenset[str], words: Collection[str], weights: Mapping[str, float]
    ) -> bool:
        """Whether these words are enough of a fact's, with all of its numbers."""
        weight = 0.0
        weight_there = 0.0
        for word in fact:
            weight += weights[word]
            if word in words:
                weight_there += weights[word]
            elif any(map(str.isdigit, word)):
                return False
        return weight_there >= self._share * weight

    @cached_property
    def words(self) -> dict[Key, frozenset[str]]:
        """The stems of each line without stop words; all words of one that has no others."""
        words = dict[Key, frozenset[str]]()
        for key, line in self.facts.items():
            text = unmarked(line)
            stems = recall.stems(text, self.language)
            words[key] = frozenset(stems or key)
        return words

    @cached_property
    def _by_word(self) -> Mapping[str, list[Key]]:
        """Some of the lines with each word."""
        by_word = defaultdict[str, list[Key]](list)
        for key, stems in self.words.items():
            words = stems.union(key)
            for word in words:
                lines = by_word[word]
                if len(lines) < _CANDIDATES:
                    lines.append(key)
        return by_word


def _language_of(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return recall.language(text)


def weights_of(facts: Collection[frozenset[str]]) -> Mapping[str, float]:
    """The weight of each word by its rarity among these facts.

    A word of none of them weighs as one of a single fact.
    """
    words = chain.from_iterable(facts)
    frequency = Counter(words)
    number_of_facts = len(facts)
    weight_of_rarest = math.log(number_of_facts + 1)
    weights = defaultdict[str, float](lambda: weight_of_rarest)
    for word, count in frequency.items():
        weight = weight_of_rarest - math.log(count)
        weights[word] = weight
    return weights


def covered(
    entries: Mapping[Key, str],
    lines: Mapping[Key, str],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> set[Key]:
    """Those of these entries that the lines say.

    A line has enough of the entry's words, or the entry of the line's. Blocks.
    """
    said = entries.keys() & lines.keys()
    others = _beyond(entries, said)
    written = Facts(lines, rules=rules)
    unsaid = Facts(others, written.language, rules)
    words_of_lines = written.words
    words_of_entries = unsaid.words
    weights = weights_of([*words_of_lines.values(), *words_of_entries.values()])
    for key, words in words_of_entries.items():
        if written.has_fact(words, weights):
            said.add(key)
    for words in words_of_lines.values():
        entries_of_line = unsaid.saying(words, weights)
        said.update(entries_of_line)
    return said
