"""One fact, with its earlier wordings, in all the texts in which it may stand: what is erased when
it is deleted for good.
"""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasting_memory.memory.ends import without_end
from lasting_memory.memory.facts import bare_line
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
        prose = compared(prose)
        for known in self.wordings:
            beginning = known[:_QUOTED_CHARS]
            as_json = json.dumps(beginning)[1:-1]
            if beginning in prose or as_json in prose:
                return True
        return False

    def cleaned(self, path: str, content: str) -> str:
        """A file's text without the fact. Blocks."""
        if path.endswith(".json"):
            return self._cleaned_json(content)
        text = compared(content)
        if not any(known in text for known in self.wordings):  # which is quick
            return content
        kept = [line for line in content.split("\n") if not self.is_in(line)]
        return "\n".join(kept)

    def cleaned_diff(self, diff: str) -> str:
        """A diff without the fact's lines; "" if nothing but its places is left. Blocks."""
        kept = list[str]()
        has_changes = False
        for line in diff.split("\n"):
            text = _unquoted(line[1:])
            if self.is_in(text):
                continue
            kept.append(line)
            if line.startswith(("+", "-")):
                has_changes = True
        return "\n".join(kept) if has_changes else ""

    def _cleaned_json(self, content: str) -> str:
        try:
            value = json.loads(content or "{}")
            pruned = self._pruned(value)
        except (ValueError, RecursionError):
            return content
        if pruned == value or pruned is _GONE:
            return content
        return json.dumps(pruned, indent=2, ensure_ascii=False) + "\n"

    def _pruned(self, value: Any) -> Any:
        if isinstance(value, str):
            return _GONE if self.is_in(value) else value
        if isinstance(value, list):
            items = map(self._pruned, value)
            return [item for item in items if item is not _GONE]
        if isinstance(value, dict):
            return self._pruned_object(value)
        return value

    def _pruned_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        fields = dict[str, Any]()
        for name, part in value.items():
            pruned = self._pruned(part)
            if pruned is not _GONE:
                fields[name] = pruned
        return fields

    def threads(self, histories: Iterable[tuple[str, Sequence[Revision]]]) -> list[str]:
        """The conversations in which revisions were made that brought the fact, oldest first.
        Blocks.
        """
        brought = list[Revision]()
        for path, revisions in histories:
            had_it = False
            for revision in reversed(revisions):
                content = revision.content or ""
                has_it = self.cleaned(path, content) != content
                if has_it and not had_it:
                    brought.append(revision)
                had_it = has_it
        brought.sort(key=lambda revision: revision.at)
        threads = dict[str, None]()
        for revision in brought:
            for thread_id in revision.author.thread_id.split():
                threads[thread_id] = None
        return list(threads)


def wording(line: str) -> str:
    """What a line says, in the one spelling in which facts are compared: without source and end."""
    return compared(without_end(bare_line(line)))


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
        for edit in edits(before, after):
            put_in = map(wording, edit.put_in(after))
            taken_out = map(wording, edit.taken_out(before))
            came = wordings.intersection(put_in)
            for line in taken_out:
                if line not in present and _is_like_one_of(line, came):
                    wordings.add(line)
    return Fact(frozenset(wordings))


def _is_like_one_of(line: str, others: Iterable[str]) -> bool:
    return any(_is_like(line, other) for other in others)


def _is_like(one: str, other: str) -> bool:
    words = set(pieces(one))
    others = set(pieces(other))
    least = min(len(words), len(others))
    shared = len(words & others)
    return least > 0 and shared >= _SHARED_WORDS * least


def lines_now(files: Mapping[str, str]) -> set[str]:
    """The lines of these texts, as `wording` gives them. Blocks."""
    wordings = set[str]()
    for text in files.values():
        wordings.update(map(wording, lines_of(text)))
    return wordings
