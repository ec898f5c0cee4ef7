"""The conversations that other systems export: ChatGPT, Claude, and Google's "My Activity". Only what
the person wrote becomes entries.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from lasting_memory.consolidation.brought.characters import title_of, with_newlines
from lasting_memory.consolidation.brought.entries import Entry
from lasting_memory.consolidation.brought.markdown import entries_of_text
from lasting_memory.consolidation.brought.messages import date_of, entries_of_message, text_of

# The title of an activity: what the person asked Gemini.
PROMPTED = re.compile(r"Prompted\s(.+)", re.DOTALL)
# The messages of a conversation of ChatGPT are a tree of nodes, which name their parents by key.
_Node = Mapping[str, object]
_Nodes = dict[str, _Node]


def entries_of_export(value: Mapping[str, object]) -> Iterator[Entry] | None:
    """The entries of an object of an export: a conversation, or an activity. None for any other
    object.
    """
    mapping = value.get("mapping")
    if isinstance(mapping, dict):
        return _entries_of_chatgpt(value, mapping)
    messages = value.get("chat_messages")
    if isinstance(messages, list):
        return _entries_of_claude(value, messages)
    title = value.get("title")
    has_header = isinstance(value.get("header"), str)
    if has_header and isinstance(title, str):
        return _entries_of_activity(value, title)
    return None


def _entries_of_chatgpt(
    conversation: Mapping[str, object], mapping: Mapping[str, object]
) -> Iterator[Entry]:
    """The person's messages on the current branch of a conversation, and what they told about
    themselves in the settings. `mapping` are its nodes, by key.
    """
    title = title_of(conversation.get("title"))
    current_key = conversation.get("current_node")
    for node in _branch(mapping, current_key):
        message = node.get("message")
        if not isinstance(message, Mapping) or not _is_of_person(message):
            continue
        instructions = _instructions_of(message)
        if instructions is not None:
            for text in instructions.values():
                if isinstance(text, str):
                    lines = with_newlines(text)
                    yield from entries_of_text(lines)
            continue
        content = message.get("content")
        if isinstance(content, Mapping) and _is_text(content):
            date = date_of(message) or date_of(conversation)
            text = text_of(content)
            yield from entries_of_message(text, date, title)


def _is_of_person(message: Mapping[str, object]) -> bool:
    """Whether the person wrote a message of ChatGPT."""
    author = message.get("author")
    if not isinstance(author, Mapping):
        return False
    return author.get("role") == "user"


def _instructions_of(message: Mapping[str, object]) -> Mapping[str, object] | None:
    """What the person told about themselves in the settings, by field; None for a message that is
    not about that.
    """
    metadata = message.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    instructions = metadata.get("user_context_message_data")
    return instructions if isinstance(instructions, Mapping) else None


def _is_text(content: Mapping[str, object]) -> bool:
    """Whether the content of a message of ChatGPT is text, perhaps with images."""
    kind = content.get("content_type")
    return isinstance(kind, str) and kind in {"text", "multimodal_text"}


def _branch(mapping: Mapping[str, object], current_key: object) -> list[_Node]:
    """The nodes of the branch that the person saw last, oldest first. `current_key` is the key of its
    last node; where there is no such node, it ends with the last leaf.
    """
    nodes = _Nodes()
    for node_key, node in mapping.items():
        if isinstance(node, Mapping):
            nodes[node_key] = node
    key = current_key
    if not isinstance(key, str) or key not in nodes:
        key = _last_leaf(nodes)
    branch = list[_Node]()
    seen_keys = set[str]()
    while isinstance(key, str):
        if key not in nodes or key in seen_keys:
            break
        seen_keys.add(key)
        node = nodes[key]
        branch.append(node)
        key = node.get("parent")
    branch.reverse()
    return branch


def _last_leaf(nodes: _Nodes) -> str | None:
    """The key of the last node that nothing follows; None without one."""
    newest_first = reversed(list(nodes))
    for key in newest_first:
        node = nodes[key]
        if not node.get("children"):
            return key
    return None


def _entries_of_claude(
    conversation: Mapping[str, object], messages: Sequence[object]
) -> Iterator[Entry]:
    """The person's messages in a conversation, which has these `messages`."""
    title = title_of(conversation.get("name"))
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if message.get("sender") != "human":
            continue
        text = text_of(message.get("content"))
        if not text:
            text = text_of(message.get("text"))
        date = date_of(message) or date_of(conversation)
        yield from entries_of_message(text, date, title)


def _entries_of_activity(activity: Mapping[str, object], title: str) -> Iterator[Entry]:
    """What the person asked Gemini in an item of Google's "My Activity"; nothing for an item that is
    about something else. Its `title` says what they did.
    """
    plain_title = html.unescape(title)
    prompt_match = PROMPTED.match(plain_title)
    if prompt_match:
        date = date_of(activity)
        yield from entries_of_message(prompt_match[1], date, "")
