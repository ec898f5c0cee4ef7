"""The facts of a text, and comparing them with others.

A *fact* is a line of text that is no heading and no comment. Its *line words* are its words, in
order and in lower case: by them it is known. A fact is kept while its words and numbers remain in one
line of any file, in another order, place or form. This compares words, not meanings, and reads no
Markdown.

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

LineWords = tuple[str, ...]  # a line's words, in order, whatever stands between them
TextFile = tuple[str, str]  # its path and its text
Lines = dict[LineWords, str]  # lines by their words
Stems = frozenset[str]  # the stems of a line's words
Weights = Mapping[str, float]  # how much words and stems count
Findings = dict[tuple[str, LineWords], str]  # by path and line, what is to be said of it

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
    """The facts in files, as lines by their words; of several with the same words the first."""
    facts = Lines()
    for line_words, line in fact_lines(files):
        facts.setdefault(line_words, line)
    return facts


def fact_lines(files: Iterable[tuple[str, str]]) -> Iterator[tuple[LineWords, str]]:
    """The words and lines of all facts in files, also those with the same words as another."""
    for path, content in files:
        text = content
        if path.endswith(".json"):
            text = fields_of(content)
        text_without_comments = _COMMENT.sub("", text)
        for raw_line in text_without_comments.split("\n"):
            line = raw_line.strip()
            if _HEADING.match(line):
                continue
            line_words = line_words_of(line)
            if line_words:
                yield line_words, line


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


def line_words_of(line: str) -> LineWords:
    """A line's words without its source and its end. Those of a line without words are its text,
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
    text_without_joiners = line.translate(_WITHOUT_JOINERS)
    return normalized(text_without_joiners).casefold()


def is_heading(line: str) -> bool:
    """Whether a line is a heading, and nothing else."""
    text = line.strip()
    if not _HEADING.match(text):
        return False
    return is_plain(line)


def is_plain(line: str) -> bool:
    """Whether a line is text, without markup outside of backticks and invisible characters."""
    text_without_code = _CODE.sub("", line)
    if _MARKUP.search(text_without_code):
        return False
    if line.isprintable():
        return True
    text_without_tabs = _normal(line).replace("\t", " ")
    return text_without_tabs.isprintable()


def differences(change: Changed) -> tuple[Lines, Lines]:
    """The facts that a change takes out, and those that it adds. Blocks."""
    path = change.path
    # Lines that are in both texts need no look.
    differing_part = change.beyond(change.before)
    facts_before = facts_in(differing_part.before, path)
    facts_after = facts_in(differing_part.after, path)
    removed_lines = _without(facts_before, facts_after)
    added_lines = _without(facts_after, facts_before)
    return removed_lines, added_lines


def _without(facts: Mapping[LineWords, str], other_facts: Collection[LineWords]) -> Lines:
    """The facts that are not among these others."""
    remaining_facts = Lines()
    for line_words, line in facts.items():
        if line_words not in other_facts:
            remaining_facts[line_words] = line
    return remaining_facts


class Facts:
    """Facts, for comparison with others.

    They are given as lines by their keys. A fact that is compared with them is given as its stems
    (`stems`), with the weights of all words. Which share of its words they must have, `rules` say.
    """

    def __init__(
        self,
        facts: Mapping[LineWords, str],
        language: str | None = None,
        rules: Consolidation = DEFAULT_CONSOLIDATION,
    ) -> None:
        """Take lines by their words. `language` tells how to stem; None: that of the lines."""
        self.facts = facts
        self.language = language or _language_of(facts.values())
        # A little less than the share, because sums of fractions are not exact.
        self._share = rules.fact_words_kept - 1e-9

    def lost(
        self, earlier_facts: Mapping[LineWords, str], given_up_facts: Collection[LineWords]
    ) -> list[str]:
        """The lines of earlier facts that these do not keep, and that are not given up.

        Blocks for about a second per 256 KiB.
        """
        missing_facts = earlier_facts.keys() - self.facts.keys()
        missing_facts.difference_update(given_up_facts)
        if not missing_facts:
            return []
        compared_facts = Facts(earlier_facts, self.language)
        weights = weights_of(compared_facts.stems.values())
        lost_lines = list[str]()
        for line_words, stems in compared_facts.stems.items():
            if line_words not in missing_facts:
                continue
            is_kept = self.has_fact(stems, weights)
            if not is_kept:
                line = earlier_facts[line_words]
                lost_lines.append(line)
        return lost_lines

    def has_fact(self, fact_stems: Stems, weights: Weights) -> bool:
        """Whether one of the lines keeps a fact (`keeping`)."""
        first_line = next(self.keeping(fact_stems, weights), None)
        return first_line is not None

    def keeping(self, fact_stems: Stems, weights: Weights) -> Iterator[LineWords]:
        """The lines that have all of a fact's numbers and enough of its words, and do not say much
        more.
        """
        words_of_joined_facts = _JOINED * len(fact_stems)
        max_words = words_of_joined_facts + _ADDED
        for line_words in self.saying(fact_stems, weights):
            stems = self.stems[line_words]
            if len(stems) <= max_words:
                yield line_words

    def saying(self, fact_stems: Stems, weights: Weights) -> Iterator[LineWords]:
        """As `keeping`, also lines that say much more than the fact."""
        lines_with_word = list[list[LineWords]]()
        for stem in fact_stems:
            lines = self._lines_by_word.get(stem)
            if lines:
                lines_with_word.append(lines)
        lines_with_word.sort(key=len)
        rarest_first = chain.from_iterable(lines_with_word)
        candidates = dict.fromkeys(rarest_first)
        for line_words in islice(candidates, _CANDIDATES):
            stems = self.stems[line_words]
            words = stems.union(line_words)
            if self.has_enough_words(fact_stems, words, weights):
                yield line_words

    def has_enough_words(self, fact_stems: Stems, words: Collection[str], weights: Weights) -> bool:
        """Whether these words are enough of a fact's, with all of its numbers. Their weight is
        compared with the weight of the whole fact.
        """
        weight = 0.0
        weight_there = 0.0
        for stem in fact_stems:
            weight += weights[stem]
            if stem in words:
                weight_there += weights[stem]
            elif any(map(str.isdigit, stem)):  # no number may be missing
                return False
        least_weight = self._share * weight
        return weight_there >= least_weight

    @cached_property
    def stems(self) -> dict[LineWords, Stems]:
        """The stems of each line without stop words; all words of a line of stop words."""
        stems_by_line = dict[LineWords, Stems]()
        for line_words, line in self.facts.items():
            text = unmarked(line)
            stems = recall.stems(text, self.language)
            stems_or_words = stems or line_words
            stems_by_line[line_words] = frozenset(stems_or_words)
        return stems_by_line

    @cached_property
    def _lines_by_word(self) -> Mapping[str, list[LineWords]]:
        """Some of the lines with each word."""
        lines_by_word = defaultdict[str, list[LineWords]](list)
        for line_words, stems in self.stems.items():
            words = stems.union(line_words)
            for word in words:
                lines = lines_by_word[word]
                if len(lines) < _CANDIDATES:
                    lines.append(line_words)
        return lines_by_word


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
    entries: Mapping[LineWords, str],
    lines: Mapping[LineWords, str],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> set[LineWords]:
    """The words of those entries that the lines say.

    A line says an entry if it has enough of the entry's words, or the entry of the line's. Blocks.
    """
    covered_facts = entries.keys() & lines.keys()
    other_entries = _without(entries, covered_facts)
    line_facts = Facts(lines, rules=rules)
    entry_facts = Facts(other_entries, line_facts.language, rules)
    stems_of_lines = line_facts.stems
    stems_of_entries = entry_facts.stems
    all_stems = [*stems_of_lines.values(), *stems_of_entries.values()]
    weights = weights_of(all_stems)
    for line_words, stems in stems_of_entries.items():
        if line_facts.has_fact(stems, weights):
            covered_facts.add(line_words)
    for stems in stems_of_lines.values():
        entries_of_line = entry_facts.saying(stems, weights)
        covered_facts.update(entries_of_line)
    return covered_facts
