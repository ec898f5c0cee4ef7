"""The facts in memory files, and whether a change keeps them.

A fact is a line of text that is no heading and no comment. A change keeps it if its words remain in one visible line
(`memory/consolidation/visible.py`) of any file: with another bullet or emphasis, in another place, joined with another fact, or
slightly reworded. A hidden fact may stay hidden. This module compares words, not meanings.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from memory import recall
from memory.consolidation.visible import is_printable, normal, texts
from memory.validation import PROFILE_PATH
from settings import FACT_WORDS_KEPT

# A line's words, whatever stands between them.
Key = tuple[str, ...]

# A line that is much longer than a fact (so many times, plus so many words) does not keep it.
_JOINED, _ADDED = 4, 8
# A fact is compared with so many lines, those with its rarest words. This bounds the time.
_CANDIDATES = 32
_ROUNDING = 1e-9
# A fact's source (date and thread) at its end, which may change.
_SOURCE = re.compile(r"\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Facts:
    """Lines by their words. A repeated line is one fact.

    Args:
        seen: the visible lines.
        everything: the visible and the hidden lines, without comments.
    """

    seen: Mapping[Key, str]
    everything: Mapping[Key, str]


def facts_of(files: Iterable[tuple[str, str]]) -> Facts:
    """The facts in files, given as path (as the agent sees it) and text."""
    seen, everything = dict[Key, str](), dict[Key, str]()
    for path, text in files:
        visible, whole = map(_lines, texts(_fields(text) if path == PROFILE_PATH else text))
        keys = {line: _key(line) for line in {**whole, **visible}}
        printable = {keys[line]: line for line in visible if keys[line] and is_printable(line)}
        seen |= printable
        everything |= {keys[line]: line for line in whole if keys[line]} | printable
    return Facts(seen, everything)


class Standing:
    """The facts in all changed files after a change, for comparison with those before it."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._language = recall.language("\n".join(facts.everything.values()))

    def lost(self, before: Facts, given_up: Collection[Key]) -> list[str]:
        """The facts of a file that are neither kept nor given up. Blocks for about a second per 256 KiB."""
        asked = {key: line for key, line in before.everything.items() if key not in given_up}
        gone = [key for key in asked if key not in (self._facts.seen if key in before.seen else self._facts.everything)]
        if not gone:
            return []
        words = {key: _words(key, line, self._language) for key, line in before.everything.items()}
        frequency = Counter(word for distinct in words.values() for word in distinct)
        weights = {word: math.log(len(words) / count) for word, count in frequency.items()}
        return [asked[key] for key in gone if not (self._seen if key in before.seen else self._all).keep(words[key], weights)]

    def has(self, key: Key) -> bool:
        """Whether exactly these words remain."""
        return key in self._facts.everything

    @cached_property
    def _seen(self) -> _Places:
        return _Places(self._facts.seen, self._language)

    @cached_property
    def _all(self) -> _Places:
        return _Places(self._facts.everything, self._language)


class _Places:
    """An index of lines by their words."""

    def __init__(self, lines: Mapping[Key, str], language: str) -> None:
        self._lines = [(_words(key, line, language), frozenset(key)) for key, line in lines.items()]
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)
        for number, (stems, words) in enumerate(self._lines):
            for word in stems | words:
                if len(self._by_word[word]) < _CANDIDATES:
                    self._by_word[word].append(number)

    def keep(self, fact: frozenset[str], weights: Mapping[str, float]) -> bool:
        """Whether one line has all of a fact's numbers and enough of its words, weighted by their rarity."""
        weight = {word: weights[word] for word in fact} if any(weights[word] for word in fact) else dict.fromkeys(fact, 1.0)
        needed = FACT_WORDS_KEPT * sum(weight.values()) - _ROUNDING
        numbers = {word for word in fact if any(map(str.isdigit, word))}
        for number in self._candidates(fact):
            stems, words = self._lines[number]
            if len(stems) > _JOINED * len(fact) + _ADDED:
                continue
            kept = fact & stems | fact & words
            if numbers <= kept and sum(weight[word] for word in kept) >= needed:
                return True
        return False

    def _candidates(self, fact: frozenset[str]) -> list[int]:
        numbers: dict[int, None] = {}
        for places in sorted((self._by_word[word] for word in fact if word in self._by_word), key=len):
            numbers |= dict.fromkeys(places)
            if len(numbers) >= _CANDIDATES:
                break
        return [*numbers][:_CANDIDATES]


def _key(line: str) -> Key:
    """A line's words without its source; for a line without words, its other characters."""
    text = normal(line)
    words = _WORD.findall(_SOURCE.sub(" ", text)) or _WORD.findall(text)
    return tuple(words) or (() if text.isascii() else (text.strip(),))


def _words(key: Key, line: str, language: str) -> frozenset[str]:
    """The stems of a line without stop words; all words if it has no others."""
    return frozenset(recall.stems(_SOURCE.sub(" ", line), language) or key)


def _lines(text: str) -> dict[str, None]:
    """The distinct lines without headings, in order."""
    return dict.fromkeys(line for line in map(str.strip, text.splitlines()) if not _HEADING.match(line))


def _fields(text: str) -> str:
    """A profile as one line a field; other text unchanged."""
    try:
        profile = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(profile, dict):
        return text
    return "\n".join(" ".join(f"{name}: {value}".split()) for name, value in profile.items())
