"""What a dream's files would change of today's memory, line by line: what is new, what would go and
why.

A line, or a field of a JSON object, that the dream rebuilds (`rebuilt_lines.py`) goes only if the
dream does not say it (`dream_comparison.py`). Everything else stays.

Files are given by key; their *histories* by key, too, each with the newest revision first.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.dream_comparison import DreamComparison
from lasting_memory.consolidation.dreams import DreamFile
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.rebuilt_lines import (
    Histories,
    dumped_object,
    object_in,
    rebuilt_fields,
    rebuilt_lines,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Source
from lasting_memory.memory.entries import entries
from lasting_memory.memory.proposals import Changed, added_sources, changes, texts
from lasting_memory.memory.vouches import vouch_new_by

_NO_FILE = DreamFile("")
# Values of a field that says nothing.
_EMPTY_VALUES: Sequence[object] = (None, "", [], {})

# Ids of the conversations that entries (`memory.sources.entries`) are from, by path and entry.
_Origins = dict[str, dict[str, Sequence[str]]]
# The same, with indexes in a list of the ids.
_Indexes = dict[str, dict[str, list[int]]]
# Who vouches for entries, by path and entry.
_Sources = dict[str, dict[str, Source]]


class Result(NamedTuple):
    """What a dream would change of today's memory.

    `reasons` say why lines go, by path and line. `sources` say who vouches for what is new, by path
    and entry. `thread_ids` are the ids of the conversations that what is new is from. `origins` have
    those of each entry, as indexes in `thread_ids`, by path and entry.
    """

    changes: list[Changed]
    reasons: dict[str, dict[str, str]]
    sources: _Sources
    thread_ids: list[str]
    origins: _Indexes


def result_of(
    files: Mapping[str, FileData],
    histories: Histories,
    dream_files: Mapping[str, DreamFile],
    *,
    read_thread_ids: Collection[str],
    expired_lines: ExpiredLines,
    rules: Consolidation = DEFAULT_CONSOLIDATION,
) -> Result:
    """What would change of today's `files`, if the dream's took the place of what is rebuilt. Blocks.

    `read_thread_ids` are those of the conversations that the dream has read whole.
    """
    texts_today = texts(files)
    comparison = DreamComparison(texts_today, dream_files, expired_lines, rules)
    files_after = dict(files)
    reasons = dict[str, dict[str, str]]()
    for key in sorted({*texts_today, *dream_files}):
        is_file = key in files
        has_no_text = is_file and key not in texts_today
        if has_no_text:  # it stays as it is
            continue
        content = texts_today.get(key, "")
        dream_content = dream_files.get(key, _NO_FILE).content
        history = histories.get(key, ())
        if key.endswith(".json"):
            field_names = rebuilt_fields(content, history, read_thread_ids)
            unsaid_fields = comparison.unsaid_fields(content, field_names)
            text_after = _merged_fields(content, dream_content, unsaid_fields)
        else:
            numbers = rebuilt_lines(key, content, history, read_thread_ids)
            reasons_by_number = comparison.unsaid_lines(content, numbers)
            text_after = comparison.with_new_facts(content, dream_content, reasons_by_number)
            if reasons_by_number:
                path = f"/memories{key}"
                reasons[path] = _reasons_by_line(content, reasons_by_number)
        if text_after == content:
            continue
        if text_after or is_file:
            files_after[key] = FileData(content=text_after, encoding="utf-8")
    memory_changes = changes(files, files_after)
    origins = _origins(memory_changes, dream_files)
    thread_ids = _threads_in(origins)
    return Result(
        memory_changes,
        reasons,
        sources=_sources(memory_changes, dream_files),
        thread_ids=thread_ids,
        origins=_as_indexes(origins, thread_ids),
    )


def _reasons_by_line(content: str, reasons_by_number: Mapping[int, str]) -> dict[str, str]:
    """Why lines of a text go, by the lines instead of by their numbers."""
    lines = content.split("\n")
    reasons = dict[str, str]()
    for number, reason in reasons_by_number.items():
        line = lines[number].strip()
        reasons[line] = reason
    return reasons


def _sources(memory_changes: Sequence[Changed], dream_files: Mapping[str, DreamFile]) -> _Sources:
    """Who vouches for the entries that changes add, by path and entry."""
    sources = _Sources()
    for change in memory_changes:
        dream_file = dream_files.get(change.key, _NO_FILE)
        vouch = vouch_new_by(dream_file.sources)
        sources[change.path] = added_sources(change, vouch)
    return sources


def _origins(memory_changes: Sequence[Changed], dream_files: Mapping[str, DreamFile]) -> _Origins:
    """The conversations that the entries are from which changes add. Without entries of which that
    is not known.
    """
    origins = _Origins()
    for change in memory_changes:
        dream_file = dream_files.get(change.key, _NO_FILE)
        entries_before = set(entries(change.key, change.before))
        origins_of_path = origins.setdefault(change.path, {})
        for entry in entries(change.key, change.after):
            if entry in entries_before:
                continue
            thread_ids = dream_file.origins.get(entry)
            if thread_ids is not None:
                origins_of_path[entry] = thread_ids
    return origins


def _threads_in(origins: _Origins) -> list[str]:
    """The ids of all conversations that entries are from, sorted."""
    all_ids = set[str]()
    for origins_by_entry in origins.values():
        for thread_ids in origins_by_entry.values():
            all_ids.update(thread_ids)
    return sorted(all_ids)


def _as_indexes(origins: _Origins, thread_ids: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """The origins with indexes in `thread_ids` for the ids of conversations."""
    index_of = dict[str, int]()
    for index, thread_id in enumerate(thread_ids):
        index_of[thread_id] = index
    indexes = _Indexes()
    for path, origins_by_entry in origins.items():
        origins_of_path = indexes.setdefault(path, {})
        for entry, origin_ids in origins_by_entry.items():
            origins_of_path[entry] = [index_of[thread_id] for thread_id in origin_ids]
    return indexes


def _merged_fields(content: str, dream_content: str, replaced_names: Collection[str]) -> str:
    """A JSON object of today's memory, in which the fields `replaced_names` are as in the dream's
    object, or are left out if that has none, and empty fields are filled from it. Today's text if
    either text is no object.
    """
    fields_today = object_in(content or "{}")
    dream_fields = object_in(dream_content or "{}")
    if fields_today is None or dream_fields is None:
        return content
    merged_fields = dict[str, object]()
    for name, value in fields_today.items():
        if name not in replaced_names:
            merged_fields[name] = value
        elif name in dream_fields:
            merged_fields[name] = dream_fields[name]
    for name, value in dream_fields.items():
        value_today = fields_today.get(name)
        if value_today in _EMPTY_VALUES:
            merged_fields[name] = value
    if merged_fields == fields_today:
        return content
    return dumped_object(merged_fields)
