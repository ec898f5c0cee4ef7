"""One fact, with its earlier wordings, in all the texts in which it may stand: what is erased when
it is deleted for good.
"""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasting_memory.memory.ends import without_end
from lasting_memory.memory.facts import said
from lasting_memory.memory.journal import Revision, edits, lines_of
from lasting_memory.plain_text import compared
from lasting_memory.words import pieces

# How many of the words of the shorter of two lines the other one has, if it is an earlier wording.
_SHARED_WORDS = 0.5
# Reasons of records quote so many characters of a line at least.
_QUOTED_CHARS = 70
_GONE = object()


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, by its wordings as `wording` gives them. In JSON it is the text of a field, or of an
    item of a list.
    """

    wordings: frozenset[str]

    def is_in(self, line: str) -> bool:
        """Whether this is a line with the fact and nothing else."""
        return wording(line) in self.wordings

    def is_quoted(self, prose: str) -> bool:
        """Whether a sentence quotes the fact, or its beginning, as it is or as JSON."""
        beginnings = [known[:_QUOTED_CHARS] for known in self.wordings]
        prose = compared(prose)
        return any(text in prose or json.dumps(text)[1:-1] in prose for text in beginnings)

    def cleaned(self, path: str, content: str) -> str:
        """A file's text without the fact. Blocks."""
        if path.endswith(".json"):
            return self._cleaned_json(content)
        text = compared(content)
        if not any(known in text for known in self.wordings):  # which is quick
            return content
        lines = content.split("\n")
        kept = [line for line in lines if not self.is_in(line)]
        return content if len(kept) == len(lines) else "\n".join(kept)

    def cleaned_diff(self, diff: str) -> str:
        """A diff without the fact's lines; "" if nothing but its places is left. Blocks."""
        kept = [line for line in diff.split("\n") if not self.is_in(_unquoted(line[1:]))]
        return "\n".join(kept) if any(line[:1] in {"+", "-"} for line in kept) else ""

    def _cleaned_json(self, content: str) -> str:
        try:
            value = json.loads(content or "{}")
            pruned = self._pruned(value)
        except (ValueError, RecursionError):
            return content
        return (
            content
            if pruned == value or pruned is _GONE
            else json.dumps(pruned, indent=2, ensure_ascii=False) + "\n"
        )

    def _pruned(self, value: Any) -> Any:
        if isinstance(value, str):
            return _GONE if self.is_in(value) else value
        if isinstance(value, list):
            return [each for each in map(self._pruned, value) if each is not _GONE]
        if isinstance(value, dict):
            fields = {name: self._pruned(each) for name, each in value.items()}
            return {name: each for name, each in fields.items() if each is not _GONE}
        return value

    def threads(self, histories: Iterable[tuple[str, Sequence[Revision]]]) -> list[str]:
        """The conversations in which revisions were made that brought the fact, oldest first.
        Blocks.
        """
        found = dict[str, None]()
        made = list[Revision]()
        for path, revisions in histories:
            for new, old in itertools.zip_longest(revisions, revisions[1:]):
                before = (old and old.content) or ""
                if self._is_of(path, new.content or "") and not self._is_of(path, before):
                    made.append(new)
        for revision in sorted(made, key=lambda revision: revision.at):
            found |= dict.fromkeys(revision.author.thread_id.split())
        return [*found]

    def _is_of(self, path: str, content: str) -> bool:
        return self.cleaned(path, content) != content


def wording(line: str) -> str:
    """What a line says, in the one spelling in which facts are compared: without source and end."""
    return compared(without_end(said(line)))


def _unquoted(line: str) -> str:
    """A line of a diff; of JSON its text, without the field's name and the quotes around it."""
    text = line.strip().removesuffix(",")
    if not text.endswith('"'):
        return line
    for start in (0, text.find('": ') + 3):
        try:
            value = json.loads(text[start:])
        except ValueError:
            continue
        if isinstance(value, str):
            return value
    return line


def fact_of(text: str, revisions: Sequence[Revision], present: Collection[str]) -> Fact:
    """The fact that a line says, with its earlier wordings in a file's history, newest first.
    Blocks.

    An earlier wording is a line in whose place this one came, and which has half of its words.
    `present` are lines that are facts of their own now, as `wording` gives them.
    """
    wordings = {wording(text)}
    for new, old in itertools.pairwise(revisions):
        before = lines_of(old.content or "")
        after = lines_of(new.content or "")
        for place in edits(before, after):
            put_in = map(wording, after[place.new_start : place.new_end])
            came = wordings.intersection(put_in)
            for line in map(wording, before[place.old_start : place.old_end]):
                if line not in present and _is_like_one_of(line, came):
                    wordings.add(line)
    return Fact(frozenset(wordings))


def _is_like_one_of(line: str, others: Iterable[str]) -> bool:
    return any(_is_like(line, other) for other in others)


def _is_like(one: str, other: str) -> bool:
    words = {*pieces(one)}
    others = {*pieces(other)}
    least = min(len(words), len(others))
    return bool(least) and len(words & others) >= _SHARED_WORDS * least


def lines_now(files: Mapping[str, str]) -> set[str]:
    """The lines of these texts, as `wording` gives them. Blocks."""
    return {wording(line) for text in files.values() for line in lines_of(text)}
