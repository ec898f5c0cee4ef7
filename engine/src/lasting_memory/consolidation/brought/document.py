"""Reads a text of any form: finds out what it is, and has it read as that."""

import re
from collections.abc import Iterator

from lasting_memory.consolidation.brought.characters import with_newlines
from lasting_memory.consolidation.brought.entries import (
    MAX_ENTRIES,
    MAX_ENTRY_CHARS,
    Brought,
    Entry,
    UnreadableError,
)
from lasting_memory.consolidation.brought.json_text import json_from, json_of
from lasting_memory.consolidation.brought.markdown import entries_of_text
from lasting_memory.consolidation.brought.objects import entries_of_value
from lasting_memory.consolidation.brought.page import entries_of_page, without_tags
from lasting_memory.consolidation.facts import LineWords
from lasting_memory.plain_text import plain

_FENCES = ("```", "~~~")
_HTML = re.compile(r"\s*(?:<!doctype html|<html|<head|<body|<div|<ul|<ol|<p)\b", re.IGNORECASE)
# ChatGPT's `chat.html` holds the conversations as JSON.
_CHAT_PAGE = re.compile(r"\bvar jsonData\s*=\s*")


def read(text: str) -> Brought:
    """The entries of a text, each once, and what is left out, by reason: what is there twice, is too
    long, or is beyond `MAX_ENTRIES`. Blocks.

    Raises `UnreadableError` for an archive, broken JSON or JSON out of bounds.
    """
    text = with_newlines(plain(text))
    if text.startswith("PK\x03\x04"):
        raise UnreadableError(
            "This is a ZIP archive; unpack it, and bring the file in it, such as conversations.json."
        )
    brought_entries = Brought()
    facts_seen = set[LineWords]()
    for entry in _entries_of(text, brought_entries):
        line_words = entry.line_words
        if not line_words:  # it says nothing
            continue
        if line_words in facts_seen:
            brought_entries.left_out["twice"].append(entry.text)
        elif len(entry.text) > MAX_ENTRY_CHARS:
            brought_entries.left_out["too_long"].append(entry.text)
        elif len(brought_entries.entries) >= MAX_ENTRIES:
            brought_entries.left_out["too_many"].append(entry.text)
        else:
            facts_seen.add(line_words)
            brought_entries.entries.append(entry)
    return brought_entries


def _entries_of(text: str, brought_entries: Brought) -> Iterator[Entry]:
    """All entries of a text: JSON, a page or plain text. The framing of it is noted in `brought_entries`."""
    value = _json_in(text)
    if value is not None:
        yield from entries_of_value(value)
        return
    if not _HTML.match(text):
        yield from entries_of_text(text, brought_entries=brought_entries)
        return
    chat_match = _CHAT_PAGE.search(text)
    if chat_match:
        conversations = json_from(text, chat_match.end())
        yield from entries_of_value(conversations)
    else:
        page_text = without_tags(text)
        yield from entries_of_page(page_text, brought_entries)


def _json_in(text: str) -> object:
    """The value of a text that is JSON, or a code block with JSON and nothing else; None for any
    other text.
    """
    block = _only_block(text)
    if block is not None:
        value = json_of(block)
        if value is not None:
            return value
    return json_of(text)


def _only_block(text: str) -> str | None:
    """What is in a code block that is the whole text; None for any other text."""
    first_line, _, rest = text.strip().partition("\n")
    if not first_line.startswith(_FENCES):
        return None
    if not rest.endswith(_FENCES):
        return None
    return rest[:-3]
