"""One fact, with its earlier wordings, in all the texts in which it may stand: what is erased when
it is deleted for good.

A wording is what a line says, in the one spelling in which facts are compared (`wording`). An
earlier wording of a fact is that of a line in whose place the fact came.
"""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lasting_memory.memory.dated_lines import without_end
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.journal import Revision, edits, lines_of
from lasting_memory.plain_text import compared
from lasting_memory.words import pieces

# How many of the words of the shorter of two lines the other one has, if it is an earlier wording.
_SHARED_WORDS = 0.5
# Reasons of records quote so many characters of a line at least.
_QUOTED_CHARS = 70
# In place of a value of JSON that is the fact.
_ERASED = object()


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, by its wordings as `wording` gives them. In JSON it is the text of a field, or of an
    item of a list.
    """

    wordings: frozenset[str]

    def is_in(self, line: str) -> bool:
        """Whether a line says the fact and nothing else."""
        return wording(line) in self.wordings

    def is_quoted(self, prose: str) -> bool:
        """Whether a sentence quotes the fact, or its beginning, as it is or as JSON."""
        text = compared(prose)
        for known_wording in self.wordings:
            beginning = known_wording[:_QUOTED_CHARS]
            json_text = json.dumps(beginning)
            as_json = json_text[1:-1]
            if beginning in text or as_json in text:
                return True
        return False

    def cleaned(self, path: str, content: str) -> str:
        """A file's text without the fact; the same text if it has nothing of it. Blocks."""
        if path.endswith(".json"):
            return self._cleaned_json(content)
        text = compared(content)
        may_have_it = any(
            known_wording in text for known_wording in self.wordings
        )  # which is quick
        if not may_have_it:
            return content
        lines_left = list[str]()
        for line in content.split("\n"):
            if not self.is_in(line):
                lines_left.append(line)
        return "\n".join(lines_left)

    def cleaned_diff(self, diff: str) -> str:
        """A diff without the fact's lines; "" if nothing but its places is left. Blocks."""
        lines_left = list[str]()
        has_changes = False
        for line in diff.split("\n"):
            content = line[1:]
            text = _unquoted(content)
            if self.is_in(text):
                continue
            lines_left.append(line)
            if line.startswith(("+", "-")):
                has_changes = True
        return "\n".join(lines_left) if has_changes else ""

    def _cleaned_json(self, content: str) -> str:
        """A JSON text without the fact; the same text if it has nothing of it, is nothing else, or is
        no JSON.
        """
        try:
            value = json.loads(content or "{}")
            pruned_value = self._pruned(value)
        except (ValueError, RecursionError):
            return content
        if pruned_value is _ERASED or pruned_value == value:
            return content
        text = json.dumps(pruned_value, indent=2, ensure_ascii=False)
        return f"{text}\n"

    def _pruned(self, value: object) -> object:
        """A value of JSON without the texts that are the fact; `_ERASED` for such a text itself."""
        if isinstance(value, str):
            return _ERASED if self.is_in(value) else value
        if isinstance(value, list):
            return self._pruned_list(value)
        if isinstance(value, dict):
            return self._pruned_object(value)
        return value

    def _pruned_list(self, value: Sequence[object]) -> list[object]:
        items = list[object]()
        for item in value:
            pruned_item = self._pruned(item)
            if pruned_item is not _ERASED:
                items.append(pruned_item)
        return items

    def _pruned_object(self, value: Mapping[str, object]) -> dict[str, object]:
        fields = dict[str, object]()
        for name, part in value.items():
            pruned_part = self._pruned(part)
            if pruned_part is not _ERASED:
                fields[name] = pruned_part
        return fields

    def threads(self, histories: Iterable[tuple[str, Sequence[Revision]]]) -> list[str]:
        """The ids of the conversations in which revisions were made that brought the fact, oldest
        first. `histories` are path and revisions of each file, newest first. Blocks.
        """
        revisions_with_it = list[Revision]()
        for path, revisions in histories:
            revisions_with_it += self._revisions_that_brought_it(path, revisions)
        revisions_with_it.sort(key=lambda revision: revision.at)
        thread_ids = dict[str, None]()  # a set in order
        for revision in revisions_with_it:
            for thread_id in revision.author.thread_id.split():
                thread_ids[thread_id] = None
        return list(thread_ids)

    def _revisions_that_brought_it(
        self, path: str, revisions: Sequence[Revision]
    ) -> list[Revision]:
        """Those of a file's revisions, newest first, that have the fact while the one before them has
        not.
        """
        brought_it = list[Revision]()
        had_it = False
        for revision in reversed(revisions):
            content = revision.content or ""
            has_it = self.cleaned(path, content) != content
            if has_it and not had_it:
                brought_it.append(revision)
            had_it = has_it
        return brought_it


def wording(line: str) -> str:
    """What a line says, in the one spelling in which facts are compared: without source and end."""
    text = bare_line(line)
    fact = without_end(text)
    return compared(fact)


def _unquoted(line: str) -> str:
    """A line of a diff; of JSON its text, without the field's name and the quotes around it."""
    text = line.strip().removesuffix(",")
    if not text.endswith('"'):
        return line
    after_name = text.find('": ') + 3
    for start in (0, after_name):
        part = text[start:]
        try:
            value = json.loads(part)
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
    for newer_revision, older_revision in itertools.pairwise(revisions):
        lines_before = lines_of(older_revision.content or "")
        lines_after = lines_of(newer_revision.content or "")
        for edit in edits(lines_before, lines_after):
            new_lines = edit.put_in(lines_after)
            wordings_put_in = wordings.intersection(map(wording, new_lines))
            for line in edit.taken_out(lines_before):
                old_wording = wording(line)
                if old_wording in present:
                    continue
                if _is_like_one_of(old_wording, wordings_put_in):
                    wordings.add(old_wording)
    return Fact(frozenset(wordings))


def _is_like_one_of(line: str, other_lines: Iterable[str]) -> bool:
    """Whether a line has half of its words in common with one of the others, or they with it."""
    return any(_is_like(line, other_line) for other_line in other_lines)


def _is_like(line: str, other_line: str) -> bool:
    """Whether the shorter of two lines has half of its words in the other. One without words is like
    none.
    """
    words = set(pieces(line))
    other_words = set(pieces(other_line))
    fewest = min(len(words), len(other_words))
    if fewest == 0:
        return False
    in_common = words & other_words
    return len(in_common) >= _SHARED_WORDS * fewest


def wordings_in(files: Mapping[str, str]) -> set[str]:
    """What each line of these texts says, as `wording` gives it; "" of an empty line. Blocks."""
    wordings = set[str]()
    for text in files.values():
        lines = lines_of(text)
        wordings.update(map(wording, lines))
    return wordings
