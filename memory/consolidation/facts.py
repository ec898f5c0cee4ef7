"""The facts in memory files, and whether a change keeps them.

A fact is a line of text that is no heading and no comment. A change keeps it if its words remain in one line of any file:
with another bullet or emphasis, in another place, joined with another fact, or slightly reworded. A fact that a reader sees
must stay outside of comments, code blocks and front matter. This module compares words, not meanings.
"""

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from memory import recall
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
# What a reader of Markdown does not see. Every repetition is bounded, or ends where it matches.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HIDDEN = re.compile(
    r"\A\ufeff?---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$"
    r"|^[ \t>*+-]{0,40}(?P<fence>`{3,}|~{3,}).*?(?:^[ \t>*+-]{0,40}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?:!\[[^\[\]\n]{0,500})?\]\([^()\n]{0,2000}\)|^[ \t]{0,40}\[[^\[\]\n]{0,200}\]:[^\n]*",
    re.DOTALL | re.MULTILINE,
)
# What a new line may not have: an element, or a comment. Addresses in angle brackets are text.
_MARKUP = re.compile(r"<(?![^<>\s@]{1,200}@[^<>\s]{1,200}>|https?://[^<>\s]{1,2000}>)[a-z!?/]", re.IGNORECASE)
_CODE = re.compile(r"`[^`]{0,2000}`")
# Joiners and marks that Persian, Hindi, Hebrew and emoji need, and the soft hyphen.
_JOINERS = dict.fromkeys(map(ord, "\u00ad\u061c\u200c\u200d\u200e\u200f\ufe0e\ufe0f"))


class Fact(NamedTuple):
    """A line, and whether a reader sees it."""

    line: str
    seen: bool


def facts_of(files: Iterable[tuple[str, str]]) -> dict[Key, Fact]:
    """The facts in files, given as path (as the agent sees it) and text. A repeated line is one fact."""
    facts = dict[Key, Fact]()
    for path, content in files:
        text = _COMMENT.sub("", _fields(content) if path == PROFILE_PATH else content)
        visible = _HIDDEN.sub(lambda hidden: "\n" * hidden[0].count("\n"), text)
        for line in _lines(text):
            facts.setdefault(_key(line), Fact(line, seen=False))
        facts |= {_key(line): Fact(line, seen=True) for line in _lines(visible) if is_printable(line)}
    facts.pop((), None)
    return facts


def is_plain(line: str) -> bool:
    """Whether a line is text: without elements outside of backticks, and without invisible characters."""
    return is_printable(line) and not _MARKUP.search(_CODE.sub("", line))


def is_printable(line: str) -> bool:
    """Whether a line has no invisible characters, and none that change its direction."""
    return line.isprintable() or _normal(line).replace("\t", " ").isprintable()


class Standing:
    """The facts in all changed files after a change, for comparison with those before it."""

    def __init__(self, facts: Mapping[Key, Fact], language: str | None = None) -> None:
        self._facts = facts
        self._language = language or language_of(facts)

    def has(self, key: Key, *, seen: bool = False) -> bool:
        """Whether exactly these words remain, `seen`: where a reader sees them."""
        return key in self._facts and (self._facts[key].seen or not seen)

    def lost(self, before: Mapping[Key, Fact], given_up: Collection[Key]) -> list[str]:
        """The facts of a file that are neither kept nor given up. Blocks for about a second per 256 KiB."""
        gone = [key for key, fact in before.items() if key not in given_up and not self.has(key, seen=fact.seen)]
        if not gone:
            return []
        words = {key: words_of(key, fact.line, self._language) for key, fact in before.items()}
        weights = weights_of(words.values())
        return [before[key].line for key in gone if not any(self.keeping(words[key], weights, seen=before[key].seen))]

    def keeping(self, fact: frozenset[str], weights: Mapping[str, float], *, seen: bool = False) -> Iterator[Key]:
        """The lines that have all of a fact's numbers and enough of its words, weighted by their rarity."""
        weight = {word: weights[word] for word in fact} if any(weights[word] for word in fact) else dict.fromkeys(fact, 1.0)
        needed = FACT_WORDS_KEPT * sum(weight.values()) - _ROUNDING
        numbers = {word for word in fact if any(map(str.isdigit, word))}
        lines, by_word = self._index
        candidates = dict.fromkeys(
            number for places in sorted((by_word[word] for word in fact if word in by_word), key=len) for number in places
        )
        for number in islice(candidates, _CANDIDATES):
            key, stems, visible = lines[number]
            if len(stems) > _JOINED * len(fact) + _ADDED or (seen and not visible):
                continue
            kept = fact & stems | fact & frozenset(key)
            if numbers <= kept and sum(weight[word] for word in kept) >= needed:
                yield key

    @cached_property
    def _index(self) -> tuple[list[tuple[Key, frozenset[str], bool]], Mapping[str, list[int]]]:
        """The lines and their stems, with whether a reader sees them; and some lines with each word, those seen first."""
        facts = sorted(self._facts.items(), key=lambda entry: not entry[1].seen)
        lines = [(key, words_of(key, fact.line, self._language), fact.seen) for key, fact in facts]
        by_word = defaultdict[str, list[int]](list)
        for number, (key, stems, _) in enumerate(lines):
            for word in stems | frozenset(key):
                if len(by_word[word]) < _CANDIDATES:
                    by_word[word].append(number)
        return lines, by_word


def language_of(facts: Mapping[Key, Fact]) -> str:
    return recall.language("\n".join(fact.line for fact in facts.values()))


def weights_of(facts: Collection[frozenset[str]]) -> Mapping[str, float]:
    """The weight of each word by its rarity among these facts; a word of none of them weighs as one of a single fact."""
    frequency = Counter(word for distinct in facts for word in distinct)
    rarest = math.log(max(len(facts), 1))
    return defaultdict(lambda: rarest, {word: math.log(len(facts) / count) for word, count in frequency.items()})


def words_of(key: Key, line: str, language: str) -> frozenset[str]:
    """The stems of a line without stop words; all words if it has no others."""
    return frozenset(recall.stems(_SOURCE.sub(" ", line), language) or key)


def _key(line: str) -> Key:
    """A line's words without its source; for a line without words, its other characters."""
    text = _normal(line)
    words = _WORD.findall(_SOURCE.sub(" ", text)) or _WORD.findall(text)
    return tuple(words) or (() if text.isascii() else (text.strip(),))


def _normal(line: str) -> str:
    return unicodedata.normalize("NFKC", line.translate(_JOINERS)).casefold()


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
