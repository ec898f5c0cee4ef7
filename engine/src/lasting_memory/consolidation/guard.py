"""A batch's changes: merging them into files that others have changed, and judging whether they keep the facts.

A fact is a line of text that is no heading and no comment. It is kept while its words and numbers remain in one line of any
file, in another order, place or form. This compares words, not meanings, and reads no Markdown.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, islice

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from lasting_memory import journal, recall
from lasting_memory.deployment import Deployment
from lasting_memory.limits import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.people.identity import Author
from lasting_memory.validation import RefusedWrite, before_write, stored_file, text_of

Key = tuple[str, ...]  # a line's words, whatever stands between them

# A line that is much longer than a fact (so many times, plus so many words) does not keep it.
_JOINED, _ADDED = 4, 8
# A fact is compared with so many lines, those with its rarest words. This bounds the time.
_CANDIDATES = 32
_ROUNDING = 1e-9
# A fact's source (date and thread) at its end, which may change.
_SOURCE = re.compile(r"\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# An element or a comment (addresses in angle brackets are text), a code block, front matter, an image, a link's definition.
_MARKUP = re.compile(
    r"<(?![^<>\s@]{1,200}@[^<>\s]{1,200}>|https?://[^<>\s]{1,2000}>)[a-z!?/]"
    r"|^[\s>*+-]{0,40}(?:`{3}|~{3})|^-{3,}\s*$|!\[|^\s{0,40}\[[^\[\]]{0,200}\]:",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]{1,2000}`")
# Joiners and marks that Persian, Hindi, Hebrew and emoji need, and the soft hyphen.
_JOINERS = dict.fromkeys(map(ord, "\u00ad\u061c\u200c\u200d\u200e\u200f\ufe0e\ufe0f"))


def facts_of(files: Iterable[tuple[str, str]]) -> dict[Key, str]:
    """The facts in files, given as path and text: their lines, by their words."""
    facts = dict[Key, str]()
    for path, content in files:
        text = _COMMENT.sub("", _fields(content) if path.endswith(".json") else content)
        for line in map(str.strip, text.splitlines()):
            if not _HEADING.match(line):
                facts.setdefault(_key(line), line)
    facts.pop((), None)
    return facts


def is_plain(line: str) -> bool:
    """Whether a line is text: without markup outside of backticks, and without invisible characters."""
    printable = line.isprintable() or _normal(line).replace("\t", " ").isprintable()
    return printable and not _MARKUP.search(_CODE.sub("", line))


class Standing:
    """Facts, for comparison with others."""

    def __init__(
        self, facts: Mapping[Key, str], language: str | None = None, rules: Consolidation = DEFAULT_CONSOLIDATION
    ) -> None:
        self.facts, self._rules = facts, rules
        self._language = language or language_of(facts)

    def lost(self, before: Mapping[Key, str], given_up: Collection[Key]) -> list[str]:
        """The facts of a file that are neither kept nor given up. Blocks for about a second per 256 KiB."""
        gone = before.keys() - self.facts.keys() - {*given_up}
        if not gone:
            return []
        words = Standing(before, self._language).words
        weights = weights_of(words.values())
        return [line for key, line in before.items() if key in gone and not any(self.keeping(words[key], weights))]

    def keeping(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines that have all of a fact's numbers and enough of its words, weighted by their rarity."""
        weight = _weight(fact, weights)
        needed = self._rules.fact_words_kept * sum(weight.values()) - _ROUNDING
        numbers = _numbers(fact)
        places = sorted((self._by_word[word] for word in fact if word in self._by_word), key=len)
        for key in islice(dict.fromkeys(chain.from_iterable(places)), _CANDIDATES):
            stems = self.words[key]
            kept = fact & (stems | frozenset(key))
            short = len(stems) <= _JOINED * len(fact) + _ADDED
            if short and numbers <= kept and sum(weight[word] for word in kept) >= needed:
                yield key

    @cached_property
    def words(self) -> dict[Key, frozenset[str]]:
        """The stems of each line without stop words; all words of one that has no others."""
        lines = {key: _SOURCE.sub(" ", line) for key, line in self.facts.items()}
        return {key: frozenset(recall.stems(line, self._language) or key) for key, line in lines.items()}

    @cached_property
    def _by_word(self) -> Mapping[str, list[Key]]:
        """Some of the lines with each word."""
        by_word = defaultdict[str, list[Key]](list)
        for key, stems in self.words.items():
            for word in stems | frozenset(key):
                if len(by_word[word]) < _CANDIDATES:
                    by_word[word].append(key)
        return by_word


def _weight(words: Collection[str], weights: Mapping[str, float]) -> Mapping[str, float]:
    """The weight of each of these words; all alike, if none has any."""
    return {word: weights[word] for word in words} if any(weights[word] for word in words) else dict.fromkeys(words, 1.0)


def _numbers(words: Iterable[str]) -> set[str]:
    return {word for word in words if any(map(str.isdigit, word))}


def language_of(facts: Mapping[Key, str]) -> str:
    return recall.language("\n".join(facts.values()))


def weights_of(facts: Collection[frozenset[str]]) -> Mapping[str, float]:
    """The weight of each word by its rarity among these facts; a word of none of them weighs as one of a single fact."""
    frequency = Counter(word for distinct in facts for word in distinct)
    rarest = math.log(max(len(facts), 1))
    return defaultdict(lambda: rarest, {word: math.log(len(facts) / count) for word, count in frequency.items()})


def _key(line: str) -> Key:
    """A line's words without its source; for a line without words, its other characters."""
    text = _normal(line)
    words = _WORD.findall(_SOURCE.sub(" ", text)) or _WORD.findall(text)
    return tuple(words) or (() if text.isascii() else (text.strip(),))


def _normal(line: str) -> str:
    return recall.normalized(line.translate(_JOINERS)).casefold()


def _fields(text: str) -> str:
    """A JSON object as one line a field; other text unchanged."""
    try:
        return "\n".join(" ".join(f"{name}: {value}".split()) for name, value in json.loads(text).items())
    except (AttributeError, ValueError, RecursionError):
        return text


# --- Changes


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch's change of one text. Its text is "" for no file."""

    key: str
    before: str
    after: str
    deleted: bool = False

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    def lines(self) -> list[tuple[str, str]]:
        """The lines that it takes out ("-") and puts in ("+"), in order, without blank ones. None of JSON, which has fields."""
        is_json = self.key.endswith(".json")
        return [] if is_json else [(sign, text) for sign, text, _ in self._walk() if sign != " " and text.strip()]

    def only(self, chosen: Mapping[int, str | None]) -> tuple["Changed", "Changed"]:
        """This change with some of its `lines`, by number, and the change that follows it with those that have another text.

        Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        lines = self.lines()
        if odd := [number for number in chosen if number >= len(lines)]:
            raise RefusedWrite(f"{self.path} has {len(lines)} changed lines to choose from, and no number {odd[0]}.")
        if odd := [number for number, text in chosen.items() if text is not None and lines[number][0] == "-"]:
            raise RefusedWrite(f"Line {odd[0]} of {self.path} is taken out; it has no other text.")
        before, after = list[str](), list[str]()
        for sign, text, number in self._walk():
            if sign == " " or (sign == "+") == (number in chosen or (number < 0 and bool(chosen))):
                given = chosen.get(number) if sign == "+" and text.strip() else None
                before += [text] if given is None else []
                after.append(given or text)
        texts = "\n".join(before), "\n".join(after)
        first = replace(self, after=texts[0], deleted=self.deleted and not texts[0])
        return first, Changed(self.key, *texts)

    def _walk(self) -> Iterator[tuple[str, str, int]]:
        """All lines of both texts in order: kept (" "), taken out and put in; and the number of the changed line that each goes
        with: a blank line's is that of the next line that changes with it, or of the last one.
        """
        old, new, at = self.before.split("\n"), self.after.split("\n"), 0
        rows, ahead, number = list[tuple[str, str]](), " ", -1
        for _, i, i_end, j, j_end in [*journal.edits(old, new), ("", len(old), len(old), 0, 0)]:
            rows += [(" ", line) for line in old[at:i]]
            rows += [("-", line) for line in old[i:i_end]] + [("+", line) for line in new[j:j_end]]
            at = i_end
        leads = list[bool]()
        for sign, text in reversed(rows):
            leads.append(ahead == sign)
            ahead = sign if text.strip() or sign == " " else ahead
        for (sign, text), is_leading in zip(rows, reversed(leads), strict=True):
            is_line = sign != " " and bool(text.strip())
            number += is_line
            yield sign, text, number + (is_leading and not is_line)

    def merged(self, file: FileData | None, author: Author, deployment: Deployment) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWrite` as `before_write`."""
        if file and file["encoding"] != "utf-8":
            raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
        text = journal.merge(self.key, self.before, file["content"] if file else "", self.after) or ""
        gone = not text and (self.deleted or file is None)
        if file or not gone:
            before_write(deployment, self.path, None if gone else text, author)
        return None if gone else FileData(content=text, encoding="utf-8")

    def merged_item(self, item: Item | None, author: Author, deployment: Deployment) -> Item | None:
        """`merged` for a store's item."""
        file, now = self.merged(stored_file(item) if item else None, author, deployment), datetime.now(UTC)
        value = {**(item.value if item else {}), **(file or {})}
        return Item(value=value, key=self.key, namespace=("changed",), created_at=now, updated_at=now) if file else None


def changes(before: Mapping[str, Item], after: Mapping[str, Item]) -> list[Changed]:
    """The differences between two states of the same files. What is not text stays as it is."""
    old, new, changed = texts(before), texts(after), list[Changed]()
    for key in sorted(old | new):
        is_text = (key in old or key not in before) and (key in new or key not in after)
        if is_text and old.get(key) != new.get(key):
            changed.append(Changed(key, old.get(key, ""), new.get(key, ""), deleted=key not in new))
    return changed


def differences(path: str, before: str, after: str) -> tuple[dict[Key, str], dict[Key, str]]:
    """The facts that only the first text has, and those that only the second has."""
    if not path.endswith(".json"):
        old, new = journal.lines_of(before), journal.lines_of(after)
        changed = journal.edits(old, new)
        before = "\n".join(line for _, i, i_end, _, _ in changed for line in old[i:i_end])
        after = "\n".join(line for _, _, _, j, j_end in changed for line in new[j:j_end])
    removed, added = facts_of([(path, before)]), facts_of([(path, after)])
    only = removed.keys() ^ added.keys()
    return {key: removed[key] for key in removed if key in only}, {key: added[key] for key in added if key in only}


def added_facts(change: Changed) -> dict[Key, str]:
    """The facts that a change adds. Blocks."""
    return differences(change.path, change.before, change.after)[1]


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    return {each.path: journal.cut(journal.diff(each.before, each.after)) for each in changed}


def texts(items: Mapping[str, Item]) -> dict[str, str]:
    """The text of each file that has text, by key."""
    return {key: text for key, item in items.items() if (text := text_of(item)) is not None}


def objections(
    changed: Sequence[Changed],
    given_up: Mapping[str, Collection[str]],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
    others: Iterable[tuple[str, str]] = (),
) -> str | None:
    """The reason to refuse a batch's changes, or None. A fact may move from one file to another. Blocks.

    `given_up`: by path, the lines that the model named as outdated or contradicted (`forget_lines`). `others`: files, as path
    and text, that have not changed, in which a fact may stand as well.
    """
    after = Standing(facts_of(chain(((change.path, change.after) for change in changed), others)), rules=rules)
    reasons = (_objection(change, given_up.get(change.path, ()), after, rules.removable_share) for change in changed)
    return next(filter(None, reasons), None)


def _objection(changed: Changed, given_up: Collection[str], after: Standing, removable: float) -> str | None:
    if changed.key.startswith("/skills/"):
        return f"{changed.path} is the person's own skill, which consolidation must not change."
    known = {*changed.before.splitlines()}
    if odd := next((line for line in changed.after.splitlines() if line not in known and not is_plain(line)), None):
        return f"{changed.path}: only plain text, without HTML, comments, code blocks and invisible characters: {odd[:80]!r}."
    before = facts_of([(changed.path, changed.before)])
    given = facts_of((changed.path, line) for line in given_up)
    lost = after.lost(before, given)
    explained = sum(key in given and key not in after.facts for key in before)
    if len(lost) <= (len(before) - explained) * removable:
        return None
    return (
        f"{changed.path} would lose {len(lost)} lines that were not given to forget_lines as outdated or contradicted: "
        f"{'; '.join(line[:80] for line in lost[:5])}. Only plain text counts, no line in a comment."
    )


def invented(
    changed: Sequence[Changed], source: Sequence[tuple[str, str]], rules: Consolidation = DEFAULT_CONSOLIDATION
) -> dict[str, dict[Key, str]]:
    """By path, the new lines without all of their numbers and names (capitalised, not first in the line) and enough of their
    words in the source, given as path and text.

    The names of the changed files, and of a profile's fields, count as said. Blocks.
    """
    known = facts_of(source)
    language = language_of(known)
    weights = weights_of(Standing(known, language).words.values())
    said = [*chain.from_iterable(source), *(change.path for change in changed)]
    fields = [_fields(change.after) for change in changed if change.key.endswith(".json")]
    said += [line.partition(":")[0] for text in fields for line in text.splitlines()]
    there = {word for text in said for word in (*recall.stems(text, language), *_WORD.findall(_normal(text)))}
    found = dict[str, dict[Key, str]]()
    for change in changed:
        new = added_facts(change)
        for key, words in Standing(new, language).words.items():
            weight = _weight(words, weights)
            kept = sum(of for word, of in weight.items() if word in there)
            names = {_normal(word) for word in _WORD.findall(_SOURCE.sub("", new[key]))[1:] if word[0].isupper()}
            if not _numbers(words) | names <= there or kept < rules.fact_words_kept * sum(weight.values()) - _ROUNDING:
                found.setdefault(change.path, {})[key] = new[key]
    return found


def not_said(lines: Mapping[str, Mapping[Key, str]]) -> str:
    """The reason to refuse lines that are `invented`, by path."""
    named = [f"{path}: {line[:80]}" for path, of in lines.items() for line in of.values()]
    return f"This says what stands nowhere in what you were given: {'; '.join(named[:5])}. Leave it out, or use its words."
