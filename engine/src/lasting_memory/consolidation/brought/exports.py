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
    if isinstance(value.get("header"), str) and isinstance(value.get("title"), str):
        return _entries_of_activity(value)
    return None


def _entries_of_chatgpt(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = title_of(conversation.get("title"))
    for node in _branch(conversation["mapping"], conversation.get("current_node")):
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
            yield from entries_of_message(text_of(content), date, title)


def _instructions_of(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the person told about themselves in the settings, where a message has that."""
    metadata = message.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    instructions = metadata.get("user_context_message_data")
    return instructions if isinstance(instructions, Mapping) else None


def _is_text(content: Mapping[str, Any]) -> bool:
    return content.get("content_type") in {"text", "multimodal_text"}


def _branch(mapping: Mapping[str, Any], current: object) -> list[Mapping[str, Any]]:
    """The nodes of the branch that the person saw last, oldest first."""
    nodes = {key: node for key, node in mapping.items() if isinstance(node, Mapping)}
    if not isinstance(current, str) or current not in nodes:
        current = _last_leaf(nodes)
    branch = list[Mapping[str, Any]]()
    seen = set[str]()
    while isinstance(current, str) and current in nodes and current not in seen:
        seen.add(current)
        node = nodes[current]
        branch.append(node)
        current = node.get("parent")
    branch.reverse()
    return branch


def _last_leaf(nodes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The key of the last node that nothing follows."""
    for key in reversed(list(nodes)):
        if not nodes[key].get("children"):
            return key
    return None


def _entries_of_claude(conversation: Mapping[str, Any]) -> Iterator[Entry]:
    title = title_of(conversation.get("name"))
    for message in conversation["chat_messages"]:
        if isinstance(message, Mapping) and message.get("sender") == "human":
            text = text_of(message.get("content")) or text_of(message.get("text"))
            date = date_of(message) or date_of(conversation)
            yield from entries_of_message(text, date, title)


def _entries_of_activity(activity: Mapping[str, Any]) -> Iterator[Entry]:
    """An item of Google's "My Activity".

    Its title is what the person did, for Gemini what they asked.
    """
    asked = PROMPTED.match(html.unescape(activity["title"]))
    if asked:
        yield from entries_of_message(asked[1], date_of(activity), "")
