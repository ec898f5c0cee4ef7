"""What a dream's files would change of today's memory, line by line: what is new, what would go and
why.

A line, or a field of a JSON object, is *rebuilt* if the journal says that consolidation or the agent
wrote it, in conversations that the dream has read whole: the dream should say it again. It goes only
if the dream does not. Everything else stays: what the person wrote by hand, what they brought, what
is older than its file's history.

Files are given by key; their *histories* by key, too, each with the newest revision first.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.dreams import DreamFile, DreamFiles
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import (
    Facts,
    Key,
    TextFile,
    facts_in,
    facts_of,
    key_of,
    weights_of,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Source
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entries
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.proposals import (
    REWORDED,
    Changed,
    added_sources,
    changes,
    texts,
)
from lasting_memory.memory.vouches import vouch_new_by
from lasting_memory.words import words as words_of

# Why a line goes, in a word for which the page has a sentence: the dream does not say it. The other
# reason is `REWORDED`: the dream says it in other words.
NOT_AGAIN = "not_again"
# Who writes what is said in conversations.
_FROM_CONVERSATIONS = frozenset({"consolidation", "agent", "subagent"})
_SKILLS = "/skills/"
_NO_FILE = DreamFile("")
# Values of a field that says nothing.
_EMPTY_VALUES: Sequence[object] = (None, "", [], {})

Histories = Mapping[str, Sequence[Revision]]
# Ids of the conversations that entries (`memory.entries.entries`) are from, by path and entry.
_Origins = dict[str, dict[str, Sequence[str]]]
# The same, with indexes in a list of the ids.
_Indexes = dict[str, dict[str, list[int]]]
# Who vouches for entries, by path and entry.
_Sources = dict[str, dict[str, Source]]


class Result(NamedTuple):
    """What a dream would change of today's memory.

    `reasons` say why lines go, by path and line. `sources` say who vouches for what is new, by path
    and entry. `threads` are the ids of the conversations that what is new is from. `origins` have
    those of each entry, as indexes in `threads`, by path and entry.
    """

    changed: list[Changed]
    reasons: dict[str, dict[str, str]]
    sources: _Sources
    threads: list[str]
    origins: _Indexes


# --- The first files of a dream


def first_files(
    files: Mapping[str, FileData], histories: Histories, thread_ids: Collection[str]
) -> DreamFiles:
    """The files with which a dream begins: today's texts without what came of these conversations,
    which are all that the dream will read. Blocks.
    """
    first = DreamFiles()
    for key, content in texts(files).items():
        history = histories.get(key, ())
        if key.endswith(".json"):
            names = _rebuilt_fields(content, history, thread_ids)
            staying = _without_fields(content, names)
        else:
            numbers = _rebuilt_lines(key, content, history, thread_ids)
            lines = _without_lines(content, numbers)
            staying = "\n".join(lines)
        if staying.strip():
            first[key] = DreamFile(staying)
    return first


def _without_lines(content: str, numbers: Collection[int]) -> list[str]:
    """The lines of a text but those with these numbers, which count from 0."""
    staying = list[str]()
    lines = content.split("\n")
    for number, line in enumerate(lines):
        if number not in numbers:
            staying.append(line)
    return staying


def _without_fields(content: str, names: Collection[str]) -> str:
    """The text of a JSON object without these fields; "" if no field is left. Any other text stays
    as it is.
    """
    fields = _object_in(content)
    if fields is None or not names:
        return content
    for name in names:
        del fields[name]
    return _dumped(fields) if fields else ""


# --- Its result


def result_of(
    files: Mapping[str, FileData],
    histories: Histories,
    dream_files: Mapping[str, DreamFile],
    *,
    read: Collection[str],
    expired: ExpiredLines,
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Result:
    """What would change of today's `files`, if the dream's took the place of what is rebuilt. `read`
    are the ids of the conversations that the dream has read whole. Blocks.
    """
    today = texts(files)
    comparison = _Comparison(today, dream_files, expired, rules)
    files_after = dict(files)
    reasons = dict[str, dict[str, str]]()
    for key in sorted({*today, *dream_files}):
        is_file = key in files
        has_no_text = is_file and key not in today
        if has_no_text:  # it stays as it is
            continue
        content = today.get(key, "")
        dream_content = dream_files.get(key, _NO_FILE).content
        history = histories.get(key, ())
        if key.endswith(".json"):
            rebuilt_fields = _rebuilt_fields(content, history, read)
            unsaid_fields = comparison.unsaid_fields(content, rebuilt_fields)
            after = _merged_fields(content, dream_content, unsaid_fields)
        else:
            rebuilt_lines = _rebuilt_lines(key, content, history, read)
            reasons_by_number = comparison.unsaid_lines(content, rebuilt_lines)
            after = comparison.with_new_facts(content, dream_content, reasons_by_number)
            if reasons_by_number:
                path = f"/memories{key}"
                reasons[path] = _reasons_by_line(content, reasons_by_number)
        if after == content:
            continue
        if after or is_file:
            files_after[key] = FileData(content=after, encoding="utf-8")
    changed = changes(files, files_after)
    origins = _origins(changed, dream_files)
    threads = _threads_in(origins)
    return Result(
        changed,
        reasons,
        sources=_sources(changed, dream_files),
        threads=threads,
        origins=_as_indexes(origins, threads),
    )


def _reasons_by_line(content: str, reasons_by_number: Mapping[int, str]) -> dict[str, str]:
    """Why lines of a text go, by the lines instead of by their numbers."""
    lines = content.split("\n")
    reasons = dict[str, str]()
    for number, reason in reasons_by_number.items():
        line = lines[number].strip()
        reasons[line] = reason
    return reasons


def _sources(changed: Sequence[Changed], dream_files: Mapping[str, DreamFile]) -> _Sources:
    """Who vouches for the entries that changes add, by path and entry."""
    sources = _Sources()
    for change in changed:
        dream_file = dream_files.get(change.key, _NO_FILE)
        vouch = vouch_new_by(dream_file.sources)
        sources[change.path] = added_sources(change, vouch)
    return sources


def _origins(changed: Sequence[Changed], dream_files: Mapping[str, DreamFile]) -> _Origins:
    """The conversations that the entries are from which changes add. Without entries of which that
    is not known.
    """
    origins = _Origins()
    for change in changed:
        dream_file = dream_files.get(change.key, _NO_FILE)
        entries_before = set(entries(change.key, change.before))
        of_path = origins.setdefault(change.path, {})
        for entry in entries(change.key, change.after):
            if entry in entries_before:
                continue
            thread_ids = dream_file.origins.get(entry)
            if thread_ids is not None:
                of_path[entry] = thread_ids
    return origins


def _threads_in(origins: _Origins) -> list[str]:
    """The ids of all conversations that entries are from, sorted."""
    all_ids = set[str]()
    for by_entry in origins.values():
        for thread_ids in by_entry.values():
            all_ids.update(thread_ids)
    return sorted(all_ids)


def _as_indexes(origins: _Origins, threads: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """The origins with indexes in `threads` for the ids of conversations."""
    index_of = dict[str, int]()
    for index, thread_id in enumerate(threads):
        index_of[thread_id] = index
    with_indexes = _Indexes()
    for path, by_entry in origins.items():
        of_path = with_indexes.setdefault(path, {})
        for entry, thread_ids in by_entry.items():
            of_path[entry] = [index_of[thread_id] for thread_id in thread_ids]
    return with_indexes


class _Comparison:
    """Compares the facts (`facts.py`) of today's memory with those of a dream's files, whichever file
    they are in. A fact is known by its `Key`.
    """

    def __init__(
        self,
        today: Mapping[str, str],
        dream_files: Mapping[str, DreamFile],
        expired: ExpiredLines,
        rules: Consolidation,
    ) -> None:
        """`today` has the texts of today's files. Lines of the dream that are over do not count."""
        texts_of_dream = dict[str, str]()
        for key, file in dream_files.items():
            texts_of_dream[key] = expired.current_text(key, file.content)
        self._today = facts_of(_files_with_lines(today))
        self._dream_lines = facts_of(_files_with_lines(texts_of_dream))
        facts_of_today = Facts(self._today, rules=rules)
        self._words_of_today = facts_of_today.words
        self._facts_of_dream = Facts(self._dream_lines, facts_of_today.language, rules)
        all_words = list(self._words_of_today.values())
        all_words += self._facts_of_dream.words.values()
        self._weights = weights_of(all_words)
        self._words_of_dream_lines = [frozenset(fact) for fact in self._dream_lines]
        # Facts of today's memory that stay: the dream has them word for word, or a fact of the
        # dream is within them.
        self._staying = set[Key]()
        # Facts of the dream that today's memory has not.
        self._new = set[Key]()
        for fact in self._dream_lines:
            holder = self._holder(fact)
            if holder is None:
                self._new.add(fact)
            else:
                self._staying.add(holder)

    def _holder(self, fact: Key) -> Key | None:
        """The fact of today's memory that is this one of the dream, or has all of its words; None if
        there is none.
        """
        if fact in self._today:
            return fact
        words = self._facts_of_dream.words[fact]
        if not words:
            return None
        for fact_today, words_today in self._words_of_today.items():
            if words <= words_today:
                return fact_today
        return None

    def unsaid_lines(self, content: str, numbers: Collection[int]) -> dict[int, str]:
        """Those of a text's lines with these numbers that the dream does not say as they are. Each
        number has its reason: `REWORDED` or `NOT_AGAIN`.
        """
        lines = content.split("\n")
        reasons = dict[int, str]()
        for number in numbers:
            line = lines[number].strip()
            fact = key_of(line)
            if fact not in self._today:  # a heading
                continue
            if fact in self._staying:
                continue
            words = self._words_of_today[fact]
            reasons[number] = NOT_AGAIN
            if self._facts_of_dream.has_fact(words, self._weights):
                reasons[number] = REWORDED
        return reasons

    def unsaid_fields(self, content: str, names: Collection[str]) -> set[str]:
        """Those of these fields of a JSON object whose values no line of the dream says.

        JSON has no lines to give a reason for: what the dream says elsewhere, with whichever words
        around it, stays. A value without words counts as unsaid.
        """
        fields = _object_in(content) or {}
        unsaid = set[str]()
        for name in names:
            value = str(fields[name])
            words = set(words_of(value))
            is_said = bool(words) and self._is_in_dream(words)
            if not is_said:
                unsaid.add(name)
        return unsaid

    def _is_in_dream(self, words: set[str]) -> bool:
        """Whether a line of the dream has all of these words."""
        return any(words <= words_of_line for words_of_line in self._words_of_dream_lines)

    def with_new_facts(self, content: str, dream_content: str, removed: Collection[int]) -> str:
        """A text of today's memory without the lines with the numbers `removed`, and at its end with
        what is new in the dream's text. `content` is "" for a file that memory has not.

        Each new fact is put in once: then it is no longer new.
        """
        is_new_file = not content
        new = list[str]()
        has_new_fact = False
        for line in dream_content.split("\n"):
            fact: Key = ()
            if facts_in(line):  # it is no heading, and no comment
                fact = key_of(line.strip())
            if fact and fact in self._new:
                self._new.discard(fact)
                new.append(line)
                has_new_fact = True
            elif not fact and is_new_file:
                new.append(line)  # headings and blank lines
        lines = _without_lines(content, removed)
        text = "\n".join(lines)
        if not has_new_fact:
            return text
        added = "\n".join(new)
        if is_new_file:
            return added
        text = text.rstrip("\n")
        if not text:
            return f"{added}\n"
        return f"{text}\n{added}\n"


def _files_with_lines(texts_by_key: Mapping[str, str]) -> Iterator[TextFile]:
    """The files that are not JSON."""
    for key, text in texts_by_key.items():
        if not key.endswith(".json"):
            yield key, text


# --- What came of conversations


def _came_of(revision: Revision | None, thread_ids: Collection[str]) -> bool:
    """Whether a revision was written in these conversations, and in no others. False for None: a
    revision that is no longer kept.
    """
    if revision is None:
        return False
    author = revision.author
    if author.kind not in _FROM_CONVERSATIONS:
        return False
    written_in = set(author.thread_id.split())
    if not written_in:
        return False
    return written_in.issubset(thread_ids)


def _rebuilt_lines(
    key: str, content: str, history: Sequence[Revision], thread_ids: Collection[str]
) -> set[int]:
    """The numbers of a text's lines that were written in these conversations. No skill has any."""
    if key.startswith(_SKILLS):
        return set()
    if not _is_newest(content, history):
        return set()
    rebuilt = set[int]()
    origins = journal.line_origins(history)
    for number, revision in enumerate(origins):
        if _came_of(revision, thread_ids):
            rebuilt.add(number)
    return rebuilt


def _is_newest(content: str, history: Sequence[Revision]) -> bool:
    """Whether a text is the newest revision of its file. Of any other one nobody knows where its
    lines are from.
    """
    if not history:
        return False
    newest = history[0]
    return newest.content == content


def _rebuilt_fields(
    content: str, history: Sequence[Revision], thread_ids: Collection[str]
) -> set[str]:
    """The names of a JSON object's fields whose values were written in these conversations."""
    if not _is_newest(content, history):
        return set()
    fields = _object_in(content) or {}
    rebuilt = set[str]()
    for name, value in fields.items():
        revision = _revision_with_value(name, value, history)
        if _came_of(revision, thread_ids):
            rebuilt.add(name)
    return rebuilt


def _revision_with_value(name: str, value: object, history: Sequence[Revision]) -> Revision | None:
    """The revision that gave a field the value that it has in the newest one; None if that revision
    is no longer kept.
    """
    oldest_with_value = history[0]
    for revision in history[1:]:
        content = revision.content or ""
        fields = _object_in(content)
        if fields is None or name not in fields:
            return oldest_with_value
        if fields[name] != value:
            return oldest_with_value
        oldest_with_value = revision
    # All revisions that are kept have it. The first one of the file gave it, or one before these.
    if oldest_with_value.number == 1:
        return oldest_with_value
    return None


def _merged_fields(content: str, dream_content: str, replaced: Collection[str]) -> str:
    """A JSON object of today's memory, in which the fields `replaced` are as in the dream's object,
    or are left out if that has none, and empty fields are filled from it. Today's text if either
    text is no object.
    """
    fields = _object_in(content or "{}")
    dream_fields = _object_in(dream_content or "{}")
    if fields is None or dream_fields is None:
        return content
    merged = dict[str, object]()
    for name, value in fields.items():
        if name not in replaced:
            merged[name] = value
        elif name in dream_fields:
            merged[name] = dream_fields[name]
    for name, value in dream_fields.items():
        value_today = fields.get(name)
        if value_today in _EMPTY_VALUES:
            merged[name] = value
    if merged == fields:
        return content
    return _dumped(merged)


def _object_in(content: str) -> dict[str, object] | None:
    """The JSON object that a text is; None for any other text."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dumped(fields: Mapping[str, object]) -> str:
    """A JSON object as a file's text."""
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return f"{text}\n"
