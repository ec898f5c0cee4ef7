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


def facts_of(files: Iterable[tuple[str, str]]) -> dict[Key, str]:
    """The facts in files, given as path and text: their lines, by their words."""
    facts = dict[Key, str]()
    for path, content in files:
        text = fields_of(content) if path.endswith(".json") else content
        for raw_line in _COMMENT.sub("", text).split("\n"):
            line = raw_line.strip()
            if _HEADING.match(line):
                continue
            key = key_of(line)
            if key:
                facts.setdefault(key, line)
    return facts


def fields_of(text: str) -> str:
    """A JSON object as one line a field; other text unchanged."""
    lines = list[str]()
    try:
        for name, value in json.loads(text).items():
            lines.append(" ".join(f"{name}: {value}".split()))
    except (AttributeError, ValueError, RecursionError):
        return text
    return "\n".join(lines)


def unmarked(line: str) -> str:
    """A line without its source, and without the day until which it holds, whether that counts or
    not.
    """
    return SOURCE.sub(" ", without_end(line))


def key_of(line: str) -> Key:
    """A line's words without its source and its end; for a line without words, its other
    characters.
    """
    text = _normal(line)
    words = words_of(unmarked(text)) or words_of(text)
    if words:
        return tuple(words)
    return () if text.isascii() else (text.strip(),)


def _normal(line: str) -> str:
    return normalized(line.translate(_WITHOUT_JOINERS)).casefold()


def is_heading(line: str) -> bool:
    """Whether a line is a heading, and nothing else."""
    return bool(_HEADING.match(line.strip())) and is_plain(line)


def is_plain(line: str) -> bool:
    """Whether a line is text, without markup outside of backticks and invisible characters."""
    is_printable = line.isprintable() or _normal(line).replace("\t", " ").isprintable()
    return is_printable and not _MARKUP.search(_CODE.sub("", line))


def differences(change: Changed) -> tuple[dict[Key, str], dict[Key, str]]:
    """The facts that a change takes out, and those that it adds. Blocks."""
    change = change.beyond(change.before)
    before = facts_of([(change.path, change.before)])
    after = facts_of([(change.path, change.after)])
    removed = {key: line for key, line in before.items() if key not in after}
    added = {key: line for key, line in after.items() if key not in before}
    return removed, added


class Facts:
    """Facts, for comparison with others."""

    def __init__(
        self,
        facts: Mapping[Key, str],
        language: str | None = None,
        rules: Consolidation = DEFAULT_CONSOLIDATION,
    ) -> None:
        self.facts = facts
        self.language = language or recall.language("\n".join(facts.values()))
        self._share = rules.fact_words_kept - 1e-9

    def lost(self, before: Mapping[Key, str], given_up: Collection[Key]) -> list[str]:
        """The facts of a file that are neither kept nor given up.

        Blocks for about a second per 256 KiB.
        """
        gone = before.keys() - self.facts.keys() - {*given_up}
        if not gone:
            return []
        words_before = Facts(before, self.language).words
        weights = weights_of(words_before.values())
        lost = list[str]()
        for key, words in words_before.items():
            if key in gone and not any(self.keeping(words, weights)):
                lost.append(before[key])
        return lost

    def keeping(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines that have all of a fact's numbers and enough of its words.

        Words are weighted by their rarity.
        """
        max_words = _JOINED * len(fact) + _ADDED
        for key in self.saying(fact, weights):
            if len(self.words[key]) <= max_words:
                yield key

    def saying(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines as in `keeping`, also where they say much more than the fact."""
        by_word = self._by_word
        lines_with_word = [by_word[word] for word in fact if word in by_word]
        lines_with_word.sort(key=len)
        candidates = dict.fromkeys(chain.from_iterable(lines_with_word))
        for key in islice(candidates, _CANDIDATES):
            if self.has(fact, self.words[key] | frozenset(key), weights):
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
            stems = recall.stems(unmarked(line), self.language)
            words[key] = frozenset(stems or key)
        return words

    @cached_property
    def _by_word(self) -> Mapping[str, list[Key]]:
        """Some of the lines with each word."""
        by_word = defaultdict[str, list[Key]](list)
        for key, stems in self.words.items():
            for word in stems | frozenset(key):
                if len(by_word[word]) < _CANDIDATES:
                    by_word[word].append(key)
        return by_word


def weights_of(facts: Collection[frozenset[str]]) -> Mapping[str, float]:
    """The weight of each word by its rarity among these facts.

    A word of none of them weighs as one of a single fact.
    """
    frequency = Counter(chain.from_iterable(facts))
    weight_of_rarest = math.log(len(facts) + 1)
    weights = defaultdict[str, float](lambda: weight_of_rarest)
    for word, count in frequency.items():
        weights[word] = weight_of_rarest - math.log(count)
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
    others = {key: text for key, text in entries.items() if key not in said}
    written = Facts(lines, rules=rules)
    unsaid = Facts(others, written.language, rules)
    weights = weights_of([*written.words.values(), *unsaid.words.values()])
    for key, words in unsaid.words.items():
        if any(written.keeping(words, weights)):
            said.add(key)
    for words in written.words.values():
        said.update(unsaid.saying(words, weights))
    return said
