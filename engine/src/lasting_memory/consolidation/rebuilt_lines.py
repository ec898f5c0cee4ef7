"""What of memory a dream *rebuilds*: the lines, and the fields of JSON objects, of which the journal
says that consolidation or the agent wrote them, in conversations that the dream reads.

The dream should say them again. Everything else stays: what the person wrote by hand, what they
brought, what is older than its file's history. A file's *history* is its revisions, newest first.
"""

import json
from collections.abc import Collection, Mapping, Sequence

from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.dreams import DreamFile, DreamFiles
from lasting_memory.memory import journal
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.proposals import texts

# Who writes what is said in conversations.
_FROM_CONVERSATIONS = frozenset({"consolidation", "agent", "subagent"})
_SKILLS = "/skills/"
Histories = Mapping[str, Sequence[Revision]]


def first_files(
    files: Mapping[str, FileData], histories: Histories, thread_ids: Collection[str]
) -> DreamFiles:
    """The files with which a dream begins: today's texts without what came of these conversations,
    which are all that the dream will read. Blocks.
    """
    files_at_first = DreamFiles()
    for key, content in texts(files).items():
        history = histories.get(key, ())
        if key.endswith(".json"):
            names = rebuilt_fields(content, history, thread_ids)
            remaining_text = _without_fields(content, names)
        else:
            numbers = rebuilt_lines(key, content, history, thread_ids)
            lines = without_lines(content, numbers)
            remaining_text = "\n".join(lines)
        if remaining_text.strip():
            files_at_first[key] = DreamFile(remaining_text)
    return files_at_first


def without_lines(content: str, numbers: Collection[int]) -> list[str]:
    """The lines of a text but those with these numbers, which count from 0."""
    remaining_lines = list[str]()
    lines = content.split("\n")
    for number, line in enumerate(lines):
        if number not in numbers:
            remaining_lines.append(line)
    return remaining_lines


def _without_fields(content: str, names: Collection[str]) -> str:
    """The text of a JSON object without these fields; "" if no field is left. Any other text stays
    as it is.
    """
    fields = object_in(content)
    if fields is None or not names:
        return content
    for name in names:
        del fields[name]
    return dumped_object(fields) if fields else ""


def _came_of(revision: Revision | None, thread_ids: Collection[str]) -> bool:
    """Whether a revision was written in these conversations, and in no others. False for None: a
    revision that is no longer kept.
    """
    if revision is None:
        return False
    author = revision.author
    if author.kind not in _FROM_CONVERSATIONS:
        return False
    writing_threads = set(author.thread_id.split())
    if not writing_threads:
        return False
    return writing_threads.issubset(thread_ids)


def rebuilt_lines(
    key: str, content: str, history: Sequence[Revision], thread_ids: Collection[str]
) -> set[int]:
    """The numbers of a text's lines that were written in these conversations. No skill has any."""
    if key.startswith(_SKILLS):
        return set()
    if not _is_newest(content, history):
        return set()
    numbers = set[int]()
    origins = journal.line_origins(history)
    for number, revision in enumerate(origins):
        if _came_of(revision, thread_ids):
            numbers.add(number)
    return numbers


def _is_newest(content: str, history: Sequence[Revision]) -> bool:
    """Whether a text is the newest revision of its file. Of any other one nobody knows where its
    lines are from.
    """
    if not history:
        return False
    newest_revision = history[0]
    return newest_revision.content == content


def rebuilt_fields(
    content: str, history: Sequence[Revision], thread_ids: Collection[str]
) -> set[str]:
    """The names of a JSON object's fields whose values were written in these conversations."""
    if not _is_newest(content, history):
        return set()
    fields = object_in(content) or {}
    rebuilt_names = set[str]()
    for name, value in fields.items():
        revision = _revision_with_value(name, value, history)
        if _came_of(revision, thread_ids):
            rebuilt_names.add(name)
    return rebuilt_names


def _revision_with_value(name: str, value: object, history: Sequence[Revision]) -> Revision | None:
    """The revision that gave a field the value that it has in the newest one; None if that revision
    is no longer kept.
    """
    oldest_with_value = history[0]
    for revision in history[1:]:
        content = revision.content or ""
        fields = object_in(content)
        if fields is None or name not in fields:
            return oldest_with_value
        if fields[name] != value:
            return oldest_with_value
        oldest_with_value = revision
    # All revisions that are kept have it. The first one of the file gave it, or one before these.
    if oldest_with_value.number == 1:
        return oldest_with_value
    return None


def object_in(content: str) -> dict[str, object] | None:
    """The JSON object that a text is; None for any other text."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def dumped_object(fields: Mapping[str, object]) -> str:
    """A JSON object as a file's text."""
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return f"{text}\n"
