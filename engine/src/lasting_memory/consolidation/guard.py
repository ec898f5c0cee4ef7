"""Judges a batch's changes: whether they keep the facts, say only what was given, and bring nothing
back that was taken back.

A fact is a line of text that is no heading and no comment. It is kept while its words and numbers
remain in one line of any file, in another order, place or form. This compares words, not meanings,
and reads no Markdown.

A line that the person, or an agent in a conversation, removed or changed, and a declined line, may
return only if the person says it again later. The journal knows who removed what and when, the
platform's runs when the person said what; nothing else is kept for this. A line that fell out of
its file's history is no longer known as taken back.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage, convert_to_messages
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from lasting_memory import platform, recall
from lasting_memory.attachments import own_text
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.journal import Revision, edits
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people import identity
from lasting_memory.words import normalized, spelled_words
from lasting_memory.words import words as words_of

Key = tuple[str, ...]  # a line's words, whatever stands between them
Found = dict[tuple[str, Key], str]  # lines by path and words, each with what is to be said of it


class Dated(NamedTuple):
    """A line that was taken back, or what the person said; and when, in ISO format, UTC."""

    text: str
    at: str


# A line that is much longer than a fact (so many times, plus so many words) does not keep it.
_JOINED = 4
_ADDED = 8
# A fact is compared with so many lines, those with its rarest words. This bounds the time.
_CANDIDATES = 32
# A fact's source (date and thread) at its end, which may change.
_SOURCE = re.compile(r"\((?:\d{4}-\d\d-\d\d,? thread [\w.-]{1,64}[;,]? ?){1,9}\)")
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
# Authors who act at the person's word. Consolidation merges and shortens, seeds and scripts know
# nothing of the person.
_AT_THEIR_WORD = frozenset({"person", "operator", "agent", "subagent", "client"})
# The newest lines that the model is shown, and characters of each.
_SHOWN = 50
_SHOWN_CHARS = 200
# The newest runs of a conversation, in which its person may have said something again.
_RUNS = 100


def facts_of(files: Iterable[tuple[str, str]]) -> dict[Key, str]:
    """The facts in files, given as path and text: their lines, by their words."""
    facts = dict[Key, str]()
    for path, content in files:
        text = _COMMENT.sub("", _fields(content) if path.endswith(".json") else content)
        for line in map(str.strip, text.split("\n")):
            if not _HEADING.match(line):
                facts.setdefault(key_of(line), line)
    facts.pop((), None)
    return facts


def is_heading(line: str) -> bool:
    """Whether a line is a heading, and nothing else."""
    return bool(_HEADING.match(line.strip())) and is_plain(line)


def is_plain(line: str) -> bool:
    """Whether a line is text: without markup outside of backticks, and without invisible
    characters.
    """
    printable = line.isprintable() or _normal(line).replace("\t", " ").isprintable()
    return printable and not _MARKUP.search(_CODE.sub("", line))


class Standing:
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
        """The facts of a file that are neither kept nor given up. Blocks for about a second per 256
        KiB.
        """
        gone = before.keys() - self.facts.keys() - {*given_up}
        words = Standing(before, self.language).words if gone else {}
        weights = weights_of(words.values())
        return [
            before[key]
            for key in words
            if key in gone and not any(self.keeping(words[key], weights))
        ]

    def keeping(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines that have all of a fact's numbers and enough of its words, weighted by their
        rarity.
        """
        most = _JOINED * len(fact) + _ADDED
        return (key for key in self.saying(fact, weights) if len(self.words[key]) <= most)

    def saying(self, fact: frozenset[str], weights: Mapping[str, float]) -> Iterator[Key]:
        """The lines as in `keeping`, also where they say much more than the fact."""
        places = sorted((self._by_word[word] for word in fact if word in self._by_word), key=len)
        for key in islice(dict.fromkeys(chain.from_iterable(places)), _CANDIDATES):
            if self.has(fact, self.words[key] | frozenset(key), weights):
                yield key

    def has(
        self, fact: frozenset[str], words: Collection[str], weights: Mapping[str, float]
    ) -> bool:
        """Whether these words are enough of a fact's, with all of its numbers."""
        there = {word for word in fact if word in words}
        needed = self._share * sum(weights[word] for word in fact)
        numbers = {word for word in fact if any(map(str.isdigit, word))}
        return sum(weights[word] for word in there) >= needed and numbers <= there

    @cached_property
    def words(self) -> dict[Key, frozenset[str]]:
        """The stems of each line without stop words; all words of one that has no others."""
        lines = {key: _SOURCE.sub(" ", line) for key, line in self.facts.items()}
        return {
            key: frozenset(recall.stems(line, self.language) or key) for key, line in lines.items()
        }

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
    """The weight of each word by its rarity among these facts; a word of none of them weighs as one
    of a single fact.
    """
    frequency = Counter(word for distinct in facts for word in distinct)
    rarest = math.log(len(facts) + 1)
    return defaultdict(
        lambda: rarest, {word: rarest - math.log(count) for word, count in frequency.items()}
    )


def key_of(line: str) -> Key:
    """A line's words without its source; for a line without words, its other characters."""
    text = _normal(line)
    found = words_of(_SOURCE.sub(" ", text)) or words_of(text)
    return tuple(found) or (() if text.isascii() else (text.strip(),))


def _normal(line: str) -> str:
    return normalized(line.translate(_WITHOUT_JOINERS)).casefold()


def _fields(text: str) -> str:
    """A JSON object as one line a field; other text unchanged."""
    try:
        return "\n".join(
            " ".join(f"{name}: {value}".split()) for name, value in json.loads(text).items()
        )
    except (AttributeError, ValueError, RecursionError):
        return text


# --- Changes


def differences(change: Changed) -> tuple[dict[Key, str], dict[Key, str]]:
    """The facts that a change takes out, and those that it adds. Blocks."""
    change = change.beyond(change.before)
    removed = facts_of([(change.path, change.before)])
    added = facts_of([(change.path, change.after)])
    return (
        {key: line for key, line in removed.items() if key not in added},
        {key: line for key, line in added.items() if key not in removed},
    )


class Objection(NamedTuple):
    """Why a batch's changes are refused: in a word, as the model is told it, and the lines that it
    is about.
    """

    kind: str
    reason: str
    lines: list[str]


def objection(
    changed: Sequence[Changed],
    given_up: Mapping[str, Collection[str]],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
    others: Iterable[tuple[str, str]] = (),
) -> Objection | None:
    """The reason to refuse a batch's changes, if there is one. A fact may move from one file to
    another. Blocks.

    `given_up`: by path, the lines that the model named as outdated or contradicted
    (`forget_lines`). `others`: files, as path and text, that have not changed, in which a fact may
    stand as well.
    """
    after = Standing(
        facts_of(chain(((change.path, change.after) for change in changed), others)), rules=rules
    )
    for change in changed:
        path = change.path
        if change.key.startswith("/skills/"):
            told = f"{path} is the person's own skill, which consolidation must not change."
            return Objection("own_skill", told, [])
        known, lines = (
            {*text.replace("\r\n", "\n").split("\n")} for text in (change.before, change.after)
        )
        if odd := min((line for line in lines - known if not is_plain(line)), default=None):
            told = f"{path}: only plain text, without HTML, comments, code blocks and invisible characters: {odd[:80]!r}."
            return Objection("not_plain", told, [odd])
        before = facts_of([(path, change.before)])
        given = facts_of((path, line) for line in given_up.get(path, ()))
        lost = after.lost(before, given)
        explained = sum(key in given and key not in after.facts for key in before)
        if len(lost) > (len(before) - explained) * rules.removable_share:
            told = (
                f"{path} would lose {len(lost)} lines that were not given to forget_lines as outdated or contradicted: "
                f"{'; '.join(line[:80] for line in lost[:5])}. Only plain text counts, no line in a comment."
            )
            return Objection("would_lose", told, lost)
    return None


def invented(
    changed: Sequence[Changed],
    source: Sequence[tuple[str, str]],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Found:
    """The new lines without all of their numbers and names (capitalised, not first in the line) and
    enough of their words in the source, given as path and text.

    The names of the changed files, and of a profile's fields, count as said. Blocks.
    """
    known = Standing(facts_of(source), rules=rules)
    weights = weights_of(known.words.values())
    said = [*chain.from_iterable(source), *(change.path for change in changed)]
    fields = [_fields(change.after) for change in changed if change.key.endswith(".json")]
    said += [line.partition(":")[0] for text in fields for line in text.splitlines()]
    there = {
        word for text in said for word in (*recall.stems(text, known.language), *words_of(text))
    }
    found = Found()
    for change in changed:
        _, new = differences(change)
        for key, words in Standing(new, known.language).words.items():
            if not (_names(new[key]) <= there and known.has(words, there, weights)):
                found[change.path, key] = new[key]
    return found


def _names(line: str) -> set[str]:
    """A line's capitalised words but its first, in lower case."""
    capitalised = [word for word in spelled_words(_SOURCE.sub("", line))[1:] if word[0].isupper()]
    return {name for word in capitalised for name in words_of(word)}


def covered(
    entries: Mapping[Key, str],
    lines: Mapping[Key, str],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> set[Key]:
    """Those of these entries that the lines say: a line has enough of the entry's words, or the
    entry of the line's. Blocks.
    """
    found = {key for key in entries if key in lines}
    written = Standing(lines, rules=rules)
    others = Standing(
        {key: text for key, text in entries.items() if key not in found}, written.language, rules
    )
    weights = weights_of([*written.words.values(), *others.words.values()])
    for key, words in others.words.items():
        if any(written.keeping(words, weights)):
            found.add(key)
    for words in written.words.values():
        found.update(others.saying(words, weights))
    return found


# --- What was taken back


def taken_back(
    histories: Sequence[tuple[str, Sequence[Revision]]], declined: Iterable[Declined]
) -> dict[Key, Dated]:
    """What was taken back and not written again since, by the files' histories and the declined
    changes. Blocks.
    """
    events = [(at, differences(change)[1], dict[Key, str]()) for change, at in declined]
    for path, revisions in histories:
        older = [revision.content or "" for revision in revisions[1:]]
        if revisions and revisions[-1].number == 1:
            older.append("")  # otherwise nobody knows what the oldest one changed
        for revision, before in zip(revisions, older, strict=False):
            if revision.encoding == "utf-8":
                removed, added = differences(Changed(path, before, revision.content or ""))
                events.append(
                    (revision.at, removed if revision.author.kind in _AT_THEIR_WORD else {}, added)
                )
    taken = dict[Key, Dated]()
    for at, removed, added in sorted(events, key=lambda event: event[0]):
        for key in (*removed, *added):
            taken.pop(key, None)
        taken |= {key: Dated(line, at) for key, line in removed.items() if key not in added}
    return taken


def returning(
    changes: Sequence[Changed],
    now: Mapping[str, str],
    taken: Mapping[Key, Dated],
    said: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Found:
    """The new lines that bring back what was taken back, which they name, and was not said again
    later. Blocks.

    `now` has the texts of the present files, by key; `said` what the person said since.
    """
    present = facts_of((f"/memories{key}", text) for key, text in now.items())
    gone = {key: each.text for key, each in taken.items() if key not in present}
    new = {change.path: lines for change in changes if (lines := differences(change)[1])}
    if not gone or not new:
        return {}
    language = Standing({**present, **gone}).language
    facts = Standing(gone, language, rules).words
    memory = Standing(present, language, rules)
    weights = weights_of([*facts.values(), *memory.words.values()])

    @cache
    def said_after(at: str) -> Standing:
        sentences = (re.sub(r"([.!?;]) ", r"\1\n", each.text) for each in said if each.at > at)
        return Standing(facts_of(("", text) for text in sentences), language, rules)

    def is_back(key: Key, says: frozenset[str], *, as_it_was: bool) -> bool:
        fact = facts[key]
        instead = (memory.words[line] for line in memory.keeping(fact, weights))
        if not as_it_was and any(
            line - fact <= says and not (fact - line) & says for line in instead
        ):
            return False  # it says what memory says instead (`green tea` for `tea`), or more
        again = said_after(taken[key].at)
        adds = says - fact
        if any(again.keeping(fact, weights)) or any(again.keeping(says, weights)):
            return False
        return not (
            adds and fact - says and any(adds <= sentence for sentence in again.words.values())
        )

    found = Found()
    for path, lines in new.items():
        written = Standing(lines, language, rules)
        for key in gone:
            for line in written.keeping(facts[key], weights):
                if is_back(key, written.words[line], as_it_was=line == key):
                    found[path, line] = f"{taken[key].text[:80]} (at {_minute(taken[key].at)})"
    return found


def without(changes: Sequence[Changed], found: Collection[tuple[str, Key]]) -> list[Changed]:
    """The changes without these lines. What such a line replaced stays; of a JSON file nothing
    changes. Blocks.
    """
    touched = {path for path, _ in found}
    cleaned = [change for change in changes if change.path not in touched]
    for change in changes:
        if change.path not in touched or change.path.endswith(".json"):
            continue
        old = change.before.split("\n")
        new = change.after.split("\n")
        result = list[str]()
        at = 0
        for i, i_end, j, j_end in edits(old, new):
            lines = [line for line in new[j:j_end] if (change.path, key_of(line)) not in found]
            replaced = old[i:i_end] if len(lines) < j_end - j else []
            result += [*old[at:i], *(line for line in replaced if line not in lines), *lines]
            at = i_end
        text = "\n".join([*result, *old[at:]])
        if text != change.before and (change.before or facts_of([("", text)])):
            cleaned.append(replace(change, after=text, deleted=False))
    return cleaned


def shown_lines(taken: Iterable[Dated], said: Iterable[Dated]) -> str:
    """For the model: the newest of these lines, and what the person said since, each with its time."""
    lists = [
        "\n".join(
            f"- {_minute(at)}: {' '.join(text.split())[:_SHOWN_CHARS]}"
            for text, at in newest[:_SHOWN]
        )
        for newest in (sorted(of, key=lambda each: each.at, reverse=True) for of in (taken, said))
    ]
    return "\n\nSaid since:\n\n".join(filter(None, lists))


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


async def said_since(
    client: LangGraphClient, thread_ids: Sequence[str], owned: Sequence[dict[str, str]], since: str
) -> list[Dated]:
    """What the person said in these conversations after a time: the last message of each run's
    input, as long as it is still in its conversation. The threads have one of these metadata.
    """
    said = list[Dated]()
    threads = await recall.threads_by_id(client.threads, thread_ids, owned, ["thread_id", "values"])
    for thread in threads:
        talk = await platform.in_thread(recall.conversation, thread, ("user",))
        present = {turn.text for turn in talk.turns}
        with suppress(NotFoundError):  # it was deleted meanwhile
            found: Any = await client.runs.list(
                thread["thread_id"], limit=_RUNS, select=["run_id", "kwargs"]
            )
            new = [
                (run, at)
                for run in found
                if (at := identity.time_of_run(str(run["run_id"]))) > since
            ]
            said += [Dated(text, at) for run, at in new if (text := last_words(run)) in present]
    return said


def last_words(run: Mapping[str, Any]) -> str:
    """The last message of a person in a run's input; "" for none."""
    given = (run.get("kwargs") or {}).get("input")
    messages: Any = given.get("messages") if isinstance(given, Mapping) else None
    try:
        listed = convert_to_messages(messages if isinstance(messages, list) else [messages])
    except (NotImplementedError, ValueError):  # what the graph itself refused
        return ""
    last = next(
        (message for message in reversed(listed) if isinstance(message, HumanMessage)), None
    )
    return own_text(last.model_dump()) if last else ""
