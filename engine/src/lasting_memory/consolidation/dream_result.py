"""What a dream would change of today's memory, line by line: what is new, what would go and why.

A line goes only if the journal says that consolidation or the agent wrote it, in conversations that
the dream has read whole, and the draft does not say it. Everything else stays: what the person
wrote by hand, what they brought, what is older than its file's history.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.dreams import DraftFile
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
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.proposals import REWORDED, Changed, added_sources, changes, texts
from lasting_memory.memory.sources import entries, vouch_new_by
from lasting_memory.words import words as words_of

# Why a line goes, in words for which the page has sentences.
NOT_AGAIN = "not_again"
# Who writes what is said in conversations.
_FROM_CONVERSATIONS = frozenset({"consolidation", "agent", "subagent"})
_SKILLS = "/skills/"
_EMPTY = DraftFile("")

Histories = Mapping[str, Sequence[Revision]]


class Result(NamedTuple):
    """What would change, why lines go (by path and line), who vouches for what is new (by path and
    entry), and the conversations that it is from: which of them each entry is from, as their places
    in `threads`, by path and entry.
    """

    changed: list[Changed]
    reasons: dict[str, dict[str, str]]
    sources: dict[str, dict[str, Source]]
    threads: list[str]
    origins: dict[str, dict[str, list[int]]]


def kept_by_hand(
    files: Mapping[str, FileData], histories: Histories, there: Collection[str]
) -> dict[str, DraftFile]:
    """The draft with which a dream begins: today's texts without what came of the conversations
    that are there. Blocks.
    """
    draft = dict[str, DraftFile]()
    for key, content in texts(files).items():
        history = histories.get(key, ())
        if key.endswith(".json"):
            rebuilt_fields = _rebuilt_fields(content, history, there)
            kept = _without_fields(content, rebuilt_fields)
        else:
            rebuilt_lines = _rebuilt_lines(key, content, history, there)
            kept_lines = _without_lines(content, rebuilt_lines)
            kept = "\n".join(kept_lines)
        if kept.strip():
            draft[key] = DraftFile(kept)
    return draft


def _without_lines(content: str, numbers: Collection[int]) -> list[str]:
    """The lines of a text but those with these numbers."""
    kept = list[str]()
    for number, line in enumerate(content.split("\n")):
        if number not in numbers:
            kept.append(line)
    return kept


def _without_fields(content: str, names: Collection[str]) -> str:
    """The text of a JSON object without these fields; "" if none is left."""
    fields = _object(content)
    if fields is None or not names:
        return content
    for name in names:
        del fields[name]
    return _dumped(fields) if fields else ""


def result_of(
    files: Mapping[str, FileData],
    histories: Histories,
    draft: Mapping[str, DraftFile],
    *,
    read: Collection[str],
    expired: ExpiredLines,
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Result:
    """What would change of today's files, if the draft took the place of what it was made anew
    from. `read` are the conversations that were read whole. Blocks.
    """
    today = texts(files)
    comparison = _Comparison(today, draft, expired, rules)
    after = dict(files)
    reasons = dict[str, dict[str, str]]()
    for key in sorted({*today, *draft}):
        is_file = key in files
        if is_file and key not in today:  # no text
            continue
        content = today.get(key, "")
        new = draft.get(key, _EMPTY).content
        history = histories.get(key, ())
        if key.endswith(".json"):
            rebuilt_fields = _rebuilt_fields(content, history, read)
            unsaid_fields = comparison.unsaid_fields(content, rebuilt_fields)
            result = _merged_fields(content, new, unsaid_fields)
        else:
            rebuilt_lines = _rebuilt_lines(key, content, history, read)
            going = comparison.going(content, rebuilt_lines)
            result = comparison.merged(content, new, going)
            if going:
                path = f"/memories{key}"
                reasons[path] = _reasons_by_line(content, going)
        is_changed = result != content
        if is_changed and (result or is_file):
            after[key] = FileData(content=result, encoding="utf-8")
    changed = changes(files, after)
    sources = _sources(changed, draft)
    origins = _origins(changed, draft)
    threads = _threads(origins)
    return Result(changed, reasons, sources, threads, _places(origins, threads))


def _reasons_by_line(content: str, going: Mapping[int, str]) -> dict[str, str]:
    """Why lines of a text go, by the lines instead of by their numbers."""
    lines = content.split("\n")
    reasons = dict[str, str]()
    for number, reason in going.items():
        line = lines[number].strip()
        reasons[line] = reason
    return reasons


def _sources(
    changed: Sequence[Changed], draft: Mapping[str, DraftFile]
) -> dict[str, dict[str, Source]]:
    sources = dict[str, dict[str, Source]]()
    for change in changed:
        file = draft.get(change.key, _EMPTY)
        vouch = vouch_new_by(file.sources)
        sources[change.path] = added_sources(change, vouch)
    return sources


def _origins(
    changed: Sequence[Changed], draft: Mapping[str, DraftFile]
) -> dict[str, dict[str, Sequence[str]]]:
    """The conversations that what is new is from, by path and entry."""
    found = dict[str, dict[str, Sequence[str]]]()
    for change in changed:
        file = draft.get(change.key, _EMPTY)
        before = set(entries(change.key, change.before))
        of_path = dict[str, Sequence[str]]()
        for entry in entries(change.key, change.after):
            if entry not in before and entry in file.origins:
                of_path[entry] = file.origins[entry]
        found[change.path] = of_path
    return found


def _threads(origins: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """The conversations that what is new is from."""
    ids = set[str]()
    for by_entry in origins.values():
        for of_entry in by_entry.values():
            ids.update(of_entry)
    return sorted(ids)


def _places(
    origins: Mapping[str, Mapping[str, Sequence[str]]], threads: Sequence[str]
) -> dict[str, dict[str, list[int]]]:
    """The origins with the places of conversations among these, for their ids."""
    numbers = {thread_id: number for number, thread_id in enumerate(threads)}
    places = dict[str, dict[str, list[int]]]()
    for path, by_entry in origins.items():
        places[path] = {}
        for entry, ids in by_entry.items():
            places[path][entry] = [numbers[thread_id] for thread_id in ids]
    return places


class _Comparison:
    """Compares the facts of today's memory with those of a draft, whichever files they are in."""

    def __init__(
        self,
        today: Mapping[str, str],
        draft: Mapping[str, DraftFile],
        expired: ExpiredLines,
        rules: Consolidation,
    ) -> None:
        current = dict[str, str]()
        for key, file in draft.items():
            current[key] = expired.current_text(key, file.content)
        self._today = facts_of(_files_with_lines(today))
        self._draft = facts_of(_files_with_lines(current))
        present = Facts(self._today, rules=rules)
        self._written = Facts(self._draft, present.language, rules)
        self._draft_lines = [frozenset(key) for key in self._draft]
        self._words = present.words
        words_of_draft = self._written.words
        words_of_both = [*self._words.values(), *words_of_draft.values()]
        self._weights = weights_of(words_of_both)
        # Facts of the draft that today's memory has word for word, or within a longer line, which
        # stays then.
        self._pinned = set[Key]()
        self._new = set[Key]()
        for fact in self._draft:
            holder = self._holder(fact)
            if holder is None:
                self._new.add(fact)
            else:
                self._pinned.add(holder)

    def _holder(self, fact: Key) -> Key | None:
        """The line of today's that is a line of the draft, or has all of its words; None if there is
        none.
        """
        if fact in self._today:
            return fact
        words = self._written.words[fact]
        if not words:
            return None
        for key, words_of_line in self._words.items():
            if words <= words_of_line:
                return key
        return None

    def going(self, content: str, rebuilt: Collection[int]) -> dict[int, str]:
        """Those of these lines, by number, that the draft does not say, with the reason."""
        lines = content.split("\n")
        found = dict[int, str]()
        for number in rebuilt:
            line = lines[number].strip()
            key = key_of(line)
            if key not in self._today or key in self._pinned:
                continue
            words = self._words[key]
            in_other_words = self._written.has_fact(words, self._weights)
            found[number] = REWORDED if in_other_words else NOT_AGAIN
        return found

    def unsaid_fields(self, content: str, rebuilt: Collection[str]) -> set[str]:
        """Those of these fields of a JSON object whose values no line of the draft says. JSON has
        no lines to give a reason for: what the draft says elsewhere, in whichever words, stays.
        """
        fields = _object(content) or {}
        unsaid = set[str]()
        for name in rebuilt:
            said = set(words_of(str(fields[name])))
            is_said = any(said.issubset(line) for line in self._draft_lines)
            if not said or not is_said:
                unsaid.add(name)
        return unsaid

    def merged(self, content: str, draft: str, going: Collection[int]) -> str:
        """Today's text without the lines that go, and with what is new in the draft's."""
        kept = _without_lines(content, going)
        is_new_file = not content
        new = list[str]()
        has_fact = False
        for line in draft.split("\n"):
            is_fact = facts_in(line)
            key = key_of(line.strip()) if is_fact else ()
            if key and key in self._new:
                new.append(line)
                has_fact = True
                self._new.discard(key)  # a fact of two files is proposed once
            elif not key and is_new_file:
                new.append(line)  # headings and blank lines
        text = "\n".join(kept)
        added = "\n".join(new)
        if not has_fact:
            return text
        if is_new_file:
            return added
        text = text.rstrip("\n")
        if not text:
            return f"{added}\n"
        return f"{text}\n{added}\n"


def _files_with_lines(files: Mapping[str, str]) -> Iterator[TextFile]:
    for key, text in files.items():
        if not key.endswith(".json"):
            yield key, text


# --- What came of conversations


def _came_of(revision: Revision | None, there: Collection[str]) -> bool:
    """Whether a revision says what was said in these conversations, and in no others."""
    if revision is None:
        return False
    author = revision.author
    if author.kind not in _FROM_CONVERSATIONS:
        return False
    ids = author.thread_id.split()
    return bool(ids) and all(thread_id in there for thread_id in ids)


def _rebuilt_lines(
    key: str, content: str, history: Sequence[Revision], there: Collection[str]
) -> set[int]:
    """The numbers of a text's lines that came of these conversations.

    None where the newest revision is not the text: then nobody knows.
    """
    if key.startswith(_SKILLS) or not _is_newest(content, history):
        return set()
    rebuilt = set[int]()
    for number, origin in enumerate(journal.line_origins(history)):
        if _came_of(origin, there):
            rebuilt.add(number)
    return rebuilt


def _is_newest(content: str, history: Sequence[Revision]) -> bool:
    """Whether a text is the newest revision of its file."""
    if not history:
        return False
    newest = history[0]
    return newest.content == content


def _rebuilt_fields(content: str, history: Sequence[Revision], there: Collection[str]) -> set[str]:
    """The fields of a JSON object whose values came of these conversations."""
    fields = _object(content)
    if not fields or not _is_newest(content, history):
        return set()
    rebuilt = set[str]()
    for name, value in fields.items():
        origin = _origin_of(name, value, history)
        if _came_of(origin, there):
            rebuilt.add(name)
    return rebuilt


def _origin_of(name: str, value: Any, history: Sequence[Revision]) -> Revision | None:
    """The revision that gave a field its value; None for one that is no longer kept."""
    newer = history[0]
    for revision in history[1:]:
        fields = _object(revision.content or "") or {}
        had_field = name in fields
        if not had_field or fields[name] != value:
            return newer
        newer = revision
    return newer if newer.number == 1 else None


def _merged_fields(content: str, draft: str, rebuilt: Collection[str]) -> str:
    """Today's object, of which these fields are as in the draft, with what is new there."""
    fields = _object(content or "{}")
    new = _object(draft or "{}")
    if fields is None or new is None:
        return content
    merged = dict[str, Any]()
    for name, value in fields.items():
        if name not in rebuilt:
            merged[name] = value
        elif name in new:
            merged[name] = new[name]
    for name, value in new.items():
        has_value = fields.get(name) not in (None, "", [], {})
        if not has_value:
            merged[name] = value
    if merged == fields:
        return content
    return _dumped(merged)


def _object(content: str) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dumped(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return f"{text}\n"
