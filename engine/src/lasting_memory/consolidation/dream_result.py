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
from lasting_memory.consolidation.facts import Facts, Key, facts_of, key_of, weights_of
from lasting_memory.consolidation.lines_over import LinesOver
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Source
from lasting_memory.memory import journal
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.proposals import REWORDED, Changed, added_sources, changes, texts
from lasting_memory.memory.sources import entries, noted

# Why a line goes, in words for which the page has sentences.
NOT_AGAIN = "not_again"
# Who writes what is said in conversations.
_FROM_CONVERSATIONS = frozenset({"consolidation", "agent", "subagent"})
_SKILLS = "/skills/"

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
            fields = _object(content)
            rebuilt = _rebuilt_fields(content, history, there)
            kept = content
            if fields is not None and rebuilt:
                left = {name: value for name, value in fields.items() if name not in rebuilt}
                kept = _dumped(left) if left else ""
        else:
            rebuilt_lines = _rebuilt_lines(key, content, history, there)
            lines = content.split("\n")
            kept_lines = [line for n, line in enumerate(lines) if n not in rebuilt_lines]
            kept = "\n".join(kept_lines)
        if kept.strip():
            draft[key] = DraftFile(kept)
    return draft


def result_of(
    files: Mapping[str, FileData],
    histories: Histories,
    draft: Mapping[str, DraftFile],
    *,
    read: Collection[str],
    over: LinesOver,
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Result:
    """What would change of today's files, if the draft took the place of what it was made anew
    from. `read` are the conversations that were read whole. Blocks.
    """
    today = texts(files)
    comparison = _Comparison(today, draft, over, rules)
    after = dict(files)
    reasons = dict[str, dict[str, str]]()
    for key in sorted({*today, *draft}):
        content = today.get(key, "")
        new = draft[key].content if key in draft else ""
        history = histories.get(key, ())
        if key in files and key not in today:  # no text
            continue
        if key.endswith(".json"):
            result = _merged_fields(content, new, _rebuilt_fields(content, history, read))
        else:
            going = comparison.going(content, _rebuilt_lines(key, content, history, read))
            result = comparison.merged(content, new, going)
            if going:
                lines = content.split("\n")
                reasons[f"/memories{key}"] = {lines[n].strip(): why for n, why in going.items()}
        if result != content and (result or key in files):
            after[key] = FileData(content=result, encoding="utf-8")
    changed = changes(files, after)
    origins = _origins(changed, draft)
    threads = sorted(
        {thread_id for ids in origins.values() for each in ids.values() for thread_id in each}
    )
    numbers = {thread_id: number for number, thread_id in enumerate(threads)}
    places = dict[str, dict[str, list[int]]]()
    for path, by_entry in origins.items():
        places[path] = {}
        for entry, ids in by_entry.items():
            places[path][entry] = [numbers[thread_id] for thread_id in ids]
    return Result(changed, reasons, _sources(changed, draft), threads, places)


def _sources(
    changed: Sequence[Changed], draft: Mapping[str, DraftFile]
) -> dict[str, dict[str, Source]]:
    sources = dict[str, dict[str, Source]]()
    for change in changed:
        known = draft[change.key].sources if change.key in draft else {}
        sources[change.path] = added_sources(change, noted(known))
    return sources


def _origins(
    changed: Sequence[Changed], draft: Mapping[str, DraftFile]
) -> dict[str, dict[str, Sequence[str]]]:
    """The conversations that what is new is from, by path and entry."""
    found = dict[str, dict[str, Sequence[str]]]()
    for change in changed:
        before = {*entries(change.key, change.before)}
        known = draft[change.key].origins if change.key in draft else {}
        of_path = dict[str, Sequence[str]]()
        for entry in entries(change.key, change.after):
            if entry not in before and entry in known:
                of_path[entry] = known[entry]
        found[change.path] = of_path
    return found


class _Comparison:
    """Compares the facts of today's memory with those of a draft, whichever files they are in."""

    def __init__(
        self,
        today: Mapping[str, str],
        draft: Mapping[str, DraftFile],
        over: LinesOver,
        rules: Consolidation,
    ) -> None:
        current = dict[str, str]()
        for key, file in draft.items():
            current[key] = over.current(key, file.content)
        self._today = facts_of(_text_files(today))
        self._draft = facts_of(_text_files(current))
        present = Facts(self._today, rules=rules)
        self._words = present.words
        self._written = Facts(self._draft, present.language, rules)
        self._weights = weights_of([*self._words.values(), *self._written.words.values()])
        # Facts of the draft that today's memory has word for word, or within a longer line, which
        # stays then.
        self._pinned = set[Key]()
        self._new = set[Key]()
        for fact in self._draft:
            holder = fact if fact in self._today else self._holder(fact)
            if holder is None:
                self._new.add(fact)
            else:
                self._pinned.add(holder)

    def _holder(self, key: Key) -> Key | None:
        """The line of today's that has all words of a line of the draft; None if there is none."""
        words = self._written.words[key]
        if not words:
            return None
        return next((other for other, has in self._words.items() if words <= has), None)

    def going(self, content: str, rebuilt: Collection[int]) -> dict[int, str]:
        """Those of these lines, by number, that the draft does not say, with the reason."""
        lines = content.split("\n")
        found = dict[int, str]()
        for number in rebuilt:
            key = key_of(lines[number].strip())
            if key not in self._today or key in self._pinned:
                continue
            in_other_words = any(self._written.keeping(self._words[key], self._weights))
            found[number] = REWORDED if in_other_words else NOT_AGAIN
        return found

    def merged(self, content: str, draft: str, going: Collection[int]) -> str:
        """Today's text without the lines that go, and with what is new in the draft's."""
        lines = content.split("\n")
        kept = [line for number, line in enumerate(lines) if number not in going]
        is_new_file = not content
        new = list[str]()
        has_fact = False
        for line in draft.split("\n"):
            key = key_of(line.strip()) if facts_of([("", line)]) else ()
            if key and key in self._new:
                new.append(line)
                has_fact = True
                self._new.discard(key)  # a fact of two files is proposed once
            elif not key and is_new_file:
                new.append(line)  # headings and blank lines
        if not has_fact:
            return "\n".join(kept)
        if is_new_file:
            return "\n".join(new)
        text = "\n".join(kept).rstrip("\n")
        return "\n".join([*([text] if text else []), *new]) + "\n"


def _text_files(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((key, text) for key, text in files.items() if not key.endswith(".json"))


# --- What came of conversations


def _came_of(revision: Revision | None, there: Collection[str]) -> bool:
    """Whether a revision says what was said in these conversations, and in no others."""
    if revision is None or revision.author.kind not in _FROM_CONVERSATIONS:
        return False
    ids = revision.author.thread_id.split()
    return bool(ids) and all(thread_id in there for thread_id in ids)


def _rebuilt_lines(
    key: str, content: str, history: Sequence[Revision], there: Collection[str]
) -> set[int]:
    """The numbers of a text's lines that came of these conversations.

    None where the newest revision is not the text: then nobody knows.
    """
    if key.startswith(_SKILLS) or not history or history[0].content != content:
        return set()
    origins = journal.line_origins(history)
    return {number for number, origin in enumerate(origins) if _came_of(origin, there)}


def _rebuilt_fields(content: str, history: Sequence[Revision], there: Collection[str]) -> set[str]:
    """The fields of a JSON object whose values came of these conversations."""
    fields = _object(content)
    if not fields or not history or history[0].content != content:
        return set()
    rebuilt = set[str]()
    for name, value in fields.items():
        if _came_of(_origin_of(name, value, history), there):
            rebuilt.add(name)
    return rebuilt


def _origin_of(name: str, value: Any, history: Sequence[Revision]) -> Revision | None:
    """The revision that gave a field its value; None for one that is no longer kept."""
    newer = history[0]
    for revision in history[1:]:
        fields = _object(revision.content or "") or {}
        if name not in fields or fields[name] != value:
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
        if name not in fields or fields[name] in (None, "", [], {}):
            merged[name] = value
    return content if merged == fields else _dumped(merged)


def _object(content: str) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dumped(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
