"""What was taken back, and whether a batch's changes bring it back.

A line that the person, or an agent in a conversation, removed or changed, and a declined line, may
return only if the person says it again later. The journal knows who removed what and when, the
platform's runs when the person said what. Of revisions that are no longer kept the journal keeps
the lines that they took back.
"""

import re
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Generic, NamedTuple, TypeVar

from lasting_memory.consolidation.facts import (
    Facts,
    Findings,
    Key,
    TextFile,
    differences,
    facts_of,
    text_files,
    weights_of,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory.journal import Revision, TakenBack
from lasting_memory.memory.proposals import Changed, Declined
from lasting_memory.people.identity import AT_THEIR_WORD

# The newest lines that the model is shown, and characters of each.
_SHOWN = 50
_SHOWN_CHARS = 200
# Characters of a line by which the model is told of it.
_LINE_CHARS = 80
_SENTENCE_END = re.compile(r"([.!?;]) ")


class Dated(NamedTuple):
    """A line that was taken back, or what the person said; and when, in ISO format, UTC."""

    text: str
    at: str


# A line by its words; where ends are compared, with the day until which it holds.
Name = TypeVar("Name", bound=Hashable)
# The lines that a change takes out, and those that it adds.
Differences = Callable[[Changed], tuple[Mapping[Name, str], Mapping[Name, str]]]


class _Edit(NamedTuple, Generic[Name]):
    """The lines that an edit took back, and those that it added."""

    at: str
    removed: Mapping[Name, str]
    added: Mapping[Name, str]


def taken_back(
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[Key, Dated]:
    """What was taken back and not written again since.

    By the files' histories, given by path with the newest revision first, the declined changes, and
    what was taken back in revisions that are no longer kept. Blocks.
    """
    return taken_back_by(differences, histories, declined, dropped)


def taken_back_by(
    compare: Differences[Name],
    histories: Sequence[tuple[str, Sequence[Revision]]],
    declined: Iterable[Declined],
    dropped: Iterable[TakenBack] = (),
) -> dict[Name, Dated]:
    """As `taken_back`, by what a comparison takes for one line. Blocks."""
    edits = list[_Edit[Name]]()
    for path, text, at in dropped:
        lines, _ = compare(Changed(path, text, ""))
        edits.append(_Edit(at, removed=lines, added={}))
    for change, at in declined:
        _, lines = compare(change)
        edits.append(_Edit(at, removed=lines, added={}))
    for path, revisions in histories:
        edits.extend(_edits_of(path, revisions, compare))
    edits.sort(key=lambda edit: edit.at)
    taken = dict[Name, Dated]()
    for edit in edits:
        for key in edit.added:
            taken.pop(key, None)
        for key, text in edit.removed.items():
            # What is taken back once more moves to the end.
            taken.pop(key, None)
            if key not in edit.added:
                taken[key] = Dated(text, edit.at)
    return taken


def _edits_of(
    path: str, revisions: Sequence[Revision], compare: Differences[Name]
) -> Iterator[_Edit[Name]]:
    """The edits of one file. Only who acts at the person's word takes lines back."""
    older = list[str]()
    for revision in revisions[1:]:
        older.append(revision.content or "")
    # Without a file's first revision nobody knows what its oldest one changed.
    if revisions and revisions[-1].number == 1:
        older.append("")
    for revision, before in zip(revisions, older, strict=False):
        if revision.encoding != "utf-8":
            continue
        after = revision.content or ""
        change = Changed(path, before, after)
        removed, added = compare(change)
        if revision.author.kind not in AT_THEIR_WORD:
            removed = {}
        yield _Edit(revision.at, removed, added)


def still_gone(taken: Mapping[Key, Dated], now: Mapping[str, str]) -> dict[Key, Dated]:
    """What was taken back and stands nowhere in these texts, given by key: a line that was moved to
    another file was not taken back. Blocks.
    """
    present = facts_of(text_files(now))
    return _not_among(taken, present)


def _not_among(taken: Mapping[Key, Dated], present: Collection[Key]) -> dict[Key, Dated]:
    gone = dict[Key, Dated]()
    for key, line in taken.items():
        if key not in present:
            gone[key] = line
    return gone


def returning(
    changes: Sequence[Changed],
    now: Mapping[str, str],
    taken: Mapping[Key, Dated],
    said: Sequence[Dated],
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Findings:
    """The new lines that bring back what was taken back and not said again later.

    The findings name what was taken back. `now` has the texts of the present files, by key; `said`
    what the person said since. Blocks.
    """
    present = facts_of(text_files(now))
    gone = _not_among(taken, present)
    new = _added_by_file(changes)
    if not gone or not new:
        return {}
    comparison = Comparison(present, gone, said, rules)
    found = Findings()
    for path, lines in new.items():
        for key, line in comparison.returning(lines).items():
            found[path, key] = finding_of(line)
    return found


def finding_of(line: Dated) -> str:
    """A line that was taken back, as the model is told of it."""
    return f"{line.text[:_LINE_CHARS]} (at {_minute(line.at)})"


def _added_by_file(changes: Sequence[Changed]) -> dict[str, dict[Key, str]]:
    """The facts that changes add, by path."""
    new = dict[str, dict[Key, str]]()
    for change in changes:
        _, added = differences(change)
        if added:
            new[change.path] = added
    return new


class Comparison:
    """Compares new lines with what is gone from memory, what is in it, and what was said since.

    A new line is given by its words.
    """

    def __init__(
        self,
        present: Mapping[Key, str],
        gone: Mapping[Key, Dated],
        said: Sequence[Dated],
        rules: Consolidation,
    ) -> None:
        lines_gone = {key: line.text for key, line in gone.items()}
        everything = Facts({**present, **lines_gone})
        self._language = everything.language
        self._gone = gone
        self._facts_gone = Facts(lines_gone, self._language, rules)
        self._memory = Facts(present, self._language, rules)
        words_of_gone = self._facts_gone.words.values()
        words_of_memory = self._memory.words.values()
        self._weights = weights_of([*words_of_gone, *words_of_memory])
        self._said = said
        self._rules = rules
        self._said_after_times = dict[str, Facts]()

    def returning(self, lines: Mapping[Key, str]) -> dict[Key, Dated]:
        """Those of these new lines that bring something back, each with what it brings back."""
        written = Facts(lines, self._language, self._rules)
        found = dict[Key, Dated]()
        for key_gone, fact in self._facts_gone.words.items():
            gone = self._gone[key_gone]
            for key in written.keeping(fact, self._weights):
                words = written.words[key]
                is_other_line = key != key_gone
                if is_other_line and self._is_said_instead(fact, words):
                    continue
                if not self._is_said_again(fact, words, gone.at):
                    found[key] = gone
        return found

    def _is_said_instead(self, fact: frozenset[str], words: frozenset[str]) -> bool:
        """Whether a new line says what memory says in place of a fact (`green tea` for `tea`).

        It may say more.
        """
        for line in self._memory.keeping(fact, self._weights):
            instead = self._memory.words[line]
            its_own_words = instead - fact
            words_of_fact_alone = fact - instead
            if its_own_words <= words and words_of_fact_alone.isdisjoint(words):
                return True
        return False

    def _is_said_again(self, fact: frozenset[str], words: frozenset[str], at: str) -> bool:
        """Whether the person said a fact, or a new line that resembles it, after a time."""
        again = self._said_after(at)
        if again.has_fact(fact, self._weights):
            return True
        if again.has_fact(words, self._weights):
            return True
        added = words - fact
        says_all_of_fact = fact <= words
        if not added or says_all_of_fact:
            return False
        return any(added <= sentence for sentence in again.words.values())

    def _said_after(self, at: str) -> Facts:
        """The sentences that the person said after a time."""
        facts = self._said_after_times.get(at)
        if facts is not None:
            return facts
        sentences = list[TextFile]()
        for line in self._said:
            if line.at > at:
                text = _SENTENCE_END.sub(r"\1\n", line.text)
                sentences.append(("", text))
        facts = Facts(facts_of(sentences), self._language, self._rules)
        self._said_after_times[at] = facts
        return facts


def shown_lines(taken: Iterable[Dated], said: Iterable[Dated]) -> str:
    """For the model: the newest of these lines and what the person said since, with their times."""
    parts = list[str]()
    for lines in (taken, said):
        newest = _newest_of(lines)
        if newest:
            parts.append(newest)
    return "\n\nSaid since:\n\n".join(parts)


def _newest_of(lines: Iterable[Dated]) -> str:
    newest_first = sorted(lines, key=lambda line: line.at, reverse=True)
    items = list[str]()
    for text, at in newest_first[:_SHOWN]:
        minute = _minute(at)
        words = text.split()
        one_line = " ".join(words)
        start = one_line[:_SHOWN_CHARS]
        items.append(f"- {minute}: {start}")
    return "\n".join(items)


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
