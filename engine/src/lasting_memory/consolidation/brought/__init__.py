"""What a person brought along from another assistant: a text of any of its export's forms, as
entries to choose from.

An entry is a fact, as memory lists hold it, or a message that the person wrote. What is read:

- `conversations.json` of ChatGPT (the current branch of each conversation) and of Claude, Gemini's
  activity (JSON, HTML): the person's own messages alone, never those of an assistant, a system or a
  tool (`exports.py`, `page.py`);
- any other JSON, and JSON lines: texts, objects with a text and perhaps a date, objects with fields
  (`objects.py`);
- Markdown and plain text: a line or an item of a list is a fact, `[2024-05-01] - a fact` one with
  its date (`markdown.py`).

Escapes, HTML and invisible characters are decoded (`characters.py`), so that the model, and the
guard that compares its words with these, see plain text. The functions are pure; `read` in
`document.py` takes about a second per 5 MB.
"""

from lasting_memory.consolidation.brought.document import read
from lasting_memory.consolidation.brought.entries import (
    MAX_ENTRIES,
    MAX_ENTRY_CHARS,
    Brought,
    Entry,
    Part,
    UnreadableError,
    counted,
    parts,
    proposal_id,
    text_of_entries,
)

__all__ = [
    "MAX_ENTRIES", "MAX_ENTRY_CHARS", "Brought", "Entry", "Part", "UnreadableError", "counted", "parts", "proposal_id", "read",
    "text_of_entries",
]  # fmt: skip
