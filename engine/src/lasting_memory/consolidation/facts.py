"""The facts of a text, and comparing them with others.

A *fact* is a line of text that is no heading and no comment. Its *key* are its words, in order and
in lower case. A fact is kept while its words and numbers remain in one line of any file, in another
order, place or form. This compares words, not meanings, and reads no Markdown.

How much a word counts in a comparison is its *weight*: the fewer facts have it, the more
(`weights_of`).
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
from lasting_memory.memory.dated_lines import without_end
from lasting_memory.memory.proposals import Changed
from lasting_memory.words import normalized
from lasting_memory.words import words as words_of

Key = tuple[str, ...]  # a line's words, whatever stands between them
TextFile = tuple[str, str]  # its path and its text
Lines = dict[Key, str]  # lines by their keys
Stems = frozenset[str]  # the stems of a line's words
Weights = Mapping[str, float]  # how much words and stems count
Findings = dict[tuple[str, Key], str]  # lines by path and key, each with what is to be said of it

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
    """The files of memory with these texts, which are given by the files' keys, such as
    `/topics/food.md`.
    """
    files = list[TextFile]()
    for key, text in texts.items():
        path = f"/memories{key}"
        files.append((path, text))
    return files


def facts_in(text: str, path: str = "") -> Lines:
    """The facts in a text, as `facts_of`. The path tells JSON from text; "" for text of no file."""
    return facts_of([(path, text)])


def facts_of(files: Iterable[TextFile]) -> Lines:
    """The facts in files, as lines by their keys; of several with one key the first."""
    facts = Lines()
    for key, line in fact_lines(files):
        facts.setdefault(key, line)
    return facts


def fact_lines(files: Iterable[tuple[str, str]]) -> Iterator[tuple[Key, str]]:
    """The keys and lines of all facts in files, also those with the key of another."""
    for path, content in files:
        text = content
        if path.endswith(".json"):
            text = fields_of(content)
        without_comments = _COMMENT.sub("", text)
        for raw_line in without_comments.split("\n"):
            line = raw_line.strip()
            if _HEADING.match(line):
                continue
            key = key_of(line)
            if key:
                yield key, line


def fields_of(text: str) -> str:
    """A JSON object as one line a field, `name: value`; other text unchanged."""
    lines = list[str]()
    try:
        fields = json.loads(text)
        for name, value in fields.items():
            words = f"{name}: {value}".split()
            line = " ".join(words)
            lines.append(line)
    except (AttributeError, ValueError, RecursionError):  # no object, or no JSON
        return text
    return "\n".join(lines)


def unmarked(line: str) -> str:
    """A line without its source (date and thread), and without the day until which it holds,
    whether that counts or not.
    """
    line = without_end(line)
    return SOURCE.sub(" ", line)


def key_of(line: str) -> Key:
    """A line's words without its source and its end. The key of a line without words is its text,
    such as an emoji; () for one of ASCII characters alone, which is no fact.
    """
    text = _normal(line)
    words = words_of(unmarked(text))
    if not words:
        words = words_of(text)
    if words:
        return tuple(words)
    if text.isascii():
        return ()
    return (text.strip(),)


def _normal(line: str) -> str:
    """A line as it is compared: without invisible joiners, in lower case."""
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


def differences(change: Changed) -> tuple[Lines, Lines]:
    """The facts that a change takes out, and those that it adds. Blocks."""
    path = change.path
    # Lines that are in both texts need no look.
    differing = change.beyond(change.before)
    before = facts_in(differing.before, path)
    after = facts_in(differing.after, path)
    removed = _without(before, after)
    added = _without(after, before)
    return removed, added


def _without(facts: Mapping[Key, str], others: Collection[Key]) -> Lines:
    """The facts that are not among the others."""
    remaining = Lines()
    for key, line in facts.items():
        if key not in others:
            remaining[key] = line
    return remaining


class Facts:
    """Facts, for comparison with others.

    They are given as lines by their keys. A fact that is compared with them is given as its stems
    (`words`), with the weights of all words. Which share of its words they must have, `rules` say.
    """

    def __init__(
        self,
        facts: Mapping[Key, str],
        language: str | None = None,
        rules: Consolidation = DEFAULT_CONSOLIDATION,
    ) -> None:
        """Take lines by their keys. `language` tells how to stem; None: that of the lines."""
        self.facts = facts
        self.language = language or _language_of(facts.values())
        # A little less than the share, because sums of fractions are not exact.
        self._share = rules.fact_words_kept - 1e-9

    def lost(self, before: Mapping[Key, str], given_up: Collection[Key]) -> list[str]:
        """The lines of facts from before that these do not keep, and whose keys are not `given_up`.

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
            if key not in gone:
                continue
            is_kept = self.has_fact(words, weights)
            if not is_kept:
                line = before[key]
                lost.append(line)
        return lost

    def has_fact(self, fact: Stems, weights: Weights) -> bool:
        """Whether one of the lines keeps a fact (`keeping`)."""
        first = next(self.keeping(fact, weights), None)
        return first is not None

    def keeping(self, fact: Stems, weights: Weights) -> Iterator[Key]:
        """The keys of the lines that have all of a fact's numbers and enough of its words, and do
        not say much more.
        """
        words_of_joined_facts = _JOINED * len(fact)
        max_words = words_of_joined_facts + _ADDED
        for key in self.saying(fact, weights):
            words = self.words[key]
            if len(words) <= max_words:
                yield key

    def saying(self, fact: Stems, weights: Weights) -> Iterator[Key]:
        """As `keeping`, also lines that say much more than the fact."""
        lines_with_word = list[list[Key]]()
        for word in fact:
            lines = self._by_word.get(word)
            if lines:
                lines_with_word.append(lines)
        lines_with_word.sort(key=len)
        rarest_first = chain.from_iterable(lines_with_word)
        candidates = dict.fromkeys(rarest_first)
        for key in islice(candidates, _CANDIDATES):
            stems = self.words[key]
            words = stems.union(key)
            if self.has_enough_words(fact, words, weights):
                yield key

    def has_enough_words(self, fact: Stems, words: Collection[str], weights: Weights) -> bool:
        """Whether these words are enough of a fact's, with all of its numbers. Their weight is
        compared with the weight of the whole fact.
        """
        weight = 0.0
        weight_there = 0.0
        for word in fact:
            weight += weights[word]
            if word in words:
                weight_there += weights[word]
            elif any(map(str.isdigit, word)):  # no number may be missing
                return False
        enough = self._share * weight
        return weight_there >= enough

    @cached_property
    def words(self) -> dict[Key, Stems]:
        """The stems of each line without stop words; all words of a line of stop words."""
        words = dict[Key, Stems]()
        for key, line in self.facts.items():
            text = unmarked(line)
            stems = recall.stems(text, self.language)
            words_or_all = stems or key
            words[key] = frozenset(words_or_all)
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
    """The language that most of these lines are in, by whose rules words have stems."""
    text = "\n".join(lines)
    return recall.language(text)


def weights_of(facts: Collection[Stems]) -> Weights:
    """The weight of each word by its rarity among these facts.

    A word of none of them weighs as one of a single fact.
    """
    words = chain.from_iterable(facts)
    number_of_facts_by_word = Counter(words)
    number_of_facts = len(facts)
    weight_of_rarest = math.log(number_of_facts + 1)
    weights = defaultdict[str, float](lambda: weight_of_rarest)
    for word, count in number_of_facts_by_word.items():
        weight_lost = math.log(count)
        weights[word] = weight_of_rarest - weight_lost
    return weights


def covered(
    entries: Mapping[Key, str],
    lines: Mapping[Key, str],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> set[Key]:
    """The keys of those entries that the lines say.

    A line says an entry if it has enough of the entry's words, or the entry of the line's. Blocks.
    """
    covered_keys = entries.keys() & lines.keys()
    other_entries = _without(entries, covered_keys)
    line_facts = Facts(lines, rules=rules)
    entry_facts = Facts(other_entries, line_facts.language, rules)
    words_of_lines = line_facts.words
    words_of_entries = entry_facts.words
    all_words = [*words_of_lines.values(), *words_of_entries.values()]
    weights = weights_of(all_words)
    for key, words in words_of_entries.items():
        if line_facts.has_fact(words, weights):
            covered_keys.add(key)
    for words in words_of_lines.values():
        entries_of_line = entry_facts.saying(words, weights)
        covered_keys.update(entries_of_line)
    return covered_keys
