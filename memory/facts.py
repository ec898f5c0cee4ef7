"""The facts in memory files, and which of them a change leaves standing.

A fact is a line that says something: no heading, no comment. It stands as long as its words do, in one line that a reader
sees (`memory/visible.py`), in whichever file: with another bullet or emphasis, in another place, joined with another fact,
worded a little differently. What was hidden already need not become visible, but has to stay. What a line means, and whether
a rewording turns that round, is not judged here.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from memory import lexical
from memory.profile import PROFILE_PATH
from memory.visible import is_printable, normal, texts
from settings import FACT_WORDS_KEPT

# A line's words, whatever stands between them.
Key = tuple[str, ...]

# A line keeps a fact unless it is this many times as long, and as many words more: a heap of words says nothing.
_JOINED, _ADDED = 4, 8
# Lines that are compared with one fact: those that have its rarest words. It bounds the time that any text takes.
_CANDIDATES = 32
_ROUNDING = 1e-9
# Where and when a fact was said, at its end. It may change with the wording.
_SOURCE = re.compile(r"\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Facts:
    """The lines that say something, by their words. One that stands there twice is one fact.

    Args:
        seen: those that a reader sees.
        everything: these, and those that are hidden, but for comments.
    """

    seen: Mapping[Key, str]
    everything: Mapping[Key, str]


def facts_of(files: Iterable[tuple[str, str]]) -> Facts:
    """What texts say.

    Args:
        files: path as the agent sees it, and text.
    """
    seen, everything = dict[Key, str](), dict[Key, str]()
    for path, text in files:
        visible, whole = map(_lines, texts(_fields(text) if path == PROFILE_PATH else text))
        keys = {line: _key(line) for line in {**whole, **visible}}
        found = {keys[line]: line for line in visible if keys[line] and is_printable(line)}
        seen |= found
        everything |= {keys[line]: line for line in whole if keys[line]} | found
    return Facts(seen, everything)


class Standing:
    """The facts after a change, to say of those before it whether they are kept.

    Args:
        facts: in all files that were changed.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._language = lexical.language("\n".join(facts.everything.values()))

    def lost(self, before: Facts, given_up: Collection[Key]) -> list[str]:
        """The facts of a file that no longer stand, and are not among those given up. Blocks for about a second per 256 KiB."""
        asked = {key: line for key, line in before.everything.items() if key not in given_up}
        gone = [key for key in asked if key not in (self._facts.seen if key in before.seen else self._facts.everything)]
        if not gone:
            return []
        words = {key: _words(key, line, self._language) for key, line in before.everything.items()}
        frequency = Counter(word for distinct in words.values() for word in distinct)
        weights = {word: math.log(len(words) / count) for word, count in frequency.items()}
        return [asked[key] for key in gone if not (self._seen if key in before.seen else self._all).keep(words[key], weights)]

    def has(self, key: Key) -> bool:
        """Whether these very words stand anywhere."""
        return key in self._facts.everything

    @cached_property
    def _seen(self) -> _Places:
        return _Places(self._facts.seen, self._language)

    @cached_property
    def _all(self) -> _Places:
        return _Places(self._facts.everything, self._language)


class _Places:
    """Lines by their words, to find those that keep a fact."""

    def __init__(self, lines: Mapping[Key, str], language: str) -> None:
        self._lines = [(_words(key, line, language), frozenset(key)) for key, line in lines.items()]
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)
        for number, (stems, words) in enumerate(self._lines):
            for word in stems | words:
                if len(self._by_word[word]) < _CANDIDATES:
                    self._by_word[word].append(number)

    def keep(self, fact: frozenset[str], weights: Mapping[str, float]) -> bool:
        """Whether one line has enough of a fact's words, by what tells it from the others, and all of its numbers."""
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
        found: dict[int, None] = {}
        for places in sorted((self._by_word[word] for word in fact if word in self._by_word), key=len):
            found |= dict.fromkeys(places)
            if len(found) >= _CANDIDATES:
                break
        return [*found][:_CANDIDATES]


def _key(line: str) -> Key:
    """A line's words without its source; of a line without words, what else is in it."""
    text = normal(line)
    words = _WORD.findall(_SOURCE.sub(" ", text)) or _WORD.findall(text)
    return tuple(words) or (() if text.isascii() else (text.strip(),))


def _words(key: Key, line: str, language: str) -> frozenset[str]:
    """The words of a line that matter: stems without the usual words, or all where it has no others."""
    return frozenset(lexical.stems(_SOURCE.sub(" ", line), language) or key)


def _lines(text: str) -> dict[str, None]:
    """The distinct lines but for headings, in their order."""
    return dict.fromkeys(line for line in map(str.strip, text.splitlines()) if not _HEADING.match(line))


def _fields(text: str) -> str:
    """A profile as lines, one a field, however its JSON is laid out; other text as it is."""
    try:
        profile = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(profile, dict):
        return text
    return "\n".join(" ".join(f"{name}: {value}".split()) for name, value in profile.items())
