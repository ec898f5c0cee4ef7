"""The conversations that other systems export: ChatGPT, Claude, and Google's activity."""

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lasting_memory.consolidation.brought.characters import title_of, with_newlines
from lasting_memory.consolidation.brought.entries import Entry
from lasting_memory.consolidation.brought.markdown import entries_of_text
from lasting_memory.consolidation.brought.messages import date_of, entries_of_message, text_of

# What a person asked Gemini, as "My Activity" has it.
PROMPTED = re.compile(r"Prompted\s(.+)", re.DOTALL)


def entries_of_export(value: dict[str, Any]) -> Iterator[Entry] | None:
    """The entries of an object of an export; None for any other object."""
    if isinstance(value.get("mapping"), dict):
        return _entries_of_chatgpt(value)
    if isinstance(value.get("chat_messages"), list):
        return _entries_of_claude(value)
    has_header = isinstance(value.get("header"), str)
    has_title = isinstance(value.get("title"), str)
    if has_header and has_title:
        return _entries_of_activity(value)
    return None


def _entries_of_chatgpt(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = title_of(conversation.get("title"))
    mapping = conversation["mapping"]
    current = conversation.get("current_node")
    for node in _branch(mapping, current):
        message = node.get("message")
        if not isinstance(message, Mapping):
            continue
        author = message.get("author")
        if not isinstance(author, Mapping) or author.get("role") != "user":
            continue
        instructions = _instructions_of(message)
        content = message.get("content")
        if instructions is not None:
            for text in instructions.values():
                if isinstance(text, str):
                    yield from entries_of_text(with_newlines(text))
        elif isinstance(content, Mapping) and _is_text(content):
            date = date_of(message) or date_of(conversation)
            text = text_of(content)
            yield from entries_of_message(text, date, title)


def _instructions_of(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the person told about themselves in the settings, where a message has that."""
    metadata = message.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    instructions = metadata.get("user_context_message_data")
    return instructions if isinstance(instructions, Mapping) else None


def _is_text(content: Mapping[str, Any]) -> bool:
    kind = content.get("content_type")
    return kind in {"text", "multimodal_text"}


def _branch(mapping: Mapping[str, Any], current: object) -> list[Mapping[str, Any]]:
    """The nodes of the branch that the person saw last, oldest first."""
    nodes = dict[str, Mapping[str, Any]]()
    for node_key, node in mapping.items():
        if isinstance(node, Mapping):
            nodes[node_key] = node
    key = current
    if not isinstance(key, str) or key not in nodes:
        key = _last_leaf(nodes)
    branch = list[Mapping[str, Any]]()
    seen = set[str]()
    while isinstance(key, str) and key in nodes:
        if key in seen:
            break
        seen.add(key)
        node = nodes[key]
        branch.append(node)
        key = node.get("parent")
    branch.reverse()
    return branch


def _last_leaf(nodes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The key of the last node that nothing follows."""
    newest_first = reversed(list(nodes))
    for key in newest_first:
        node = nodes[key]
        if not node.get("children"):
            return key
    return None


def _entries_of_claude(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = title_of(conversation.get("name"))
    for message in conversation["chat_messages"]:
        if not isinstance(message, Mapping):
            continue
        if message.get("sender") != "human":
            continue
        text = text_of(message.get("content"))
        if not text:
            text = text_of(message.get("text"))
        date = date_of(message) or date_of(conversation)
        yield from entries_of_message(text, date, title)


def _entries_of_activity(activity: Mapping[str, Any]) -> Iterator[Entry]:
    """An item of Google's "My Activity".

    Its title is what the person did, for Gemini what they asked.
    """
    title = html.unescape(activity["title"])
    asked = PROMPTED.match(title)
    if asked:
        date = date_of(activity)
        yield from entries_of_message(asked[1], date, "")
