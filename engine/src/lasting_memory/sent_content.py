"""What of a message's content is sent to a model: without refused media, and without cache marks.

Content is a text, or a list of texts and blocks. Media are pictures, sounds, videos and files.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, overload

from lasting_memory.attachments import noun_of

# In the `response_metadata` of a note to the person: ids of the messages whose media the model's
# provider refused.
REFUSED_MEDIA = "refused_media"
# A client's marks of what its provider should cache. A provider counts them, with ours.
CACHE_MARK = "cache_control"
_CACHE_POINTS = ("cache_point", "cachePoint")
# Where a block has further blocks: in a tool's result, a document, and langchain's `non_standard`.
_BLOCK_FIELDS = ("content", "source", "value")
# How deep blocks may be in each other.
_MAX_DEPTH = 4
# What becomes of a block: another one, or None to take it out.
_Change = Callable[[Mapping[str, object]], object]
_Block = TypeVar("_Block")


def media_nouns(content: object) -> list[str]:
    """What is in a message's content beside text: "picture", "sound", "video", "file".

    Also in a tool's result. One for each.
    """
    nouns = list[str]()

    def note(block: Mapping[str, object]) -> object:
        """Note what a block is, and leave it as it is."""
        noun = noun_of(block)
        if noun:
            nouns.append(noun)
        return block

    _map_content(content, note)
    return nouns


def without_media(content: object) -> object:
    """A message's content with a line of text in place of its media.

    The same object if it has none.
    """
    return _map_content(content, _refused_line)


def _refused_line(block: Mapping[str, object]) -> object:
    """A line of text in place of a block of media; any other block as it is."""
    noun = noun_of(block)
    if not noun:
        return block
    return {"type": "text", "text": f"[a {noun} that the model's provider refused]"}


@overload
def without_cache_marks(content: list[_Block]) -> list[_Block]: ...
@overload
def without_cache_marks(content: object) -> object: ...
def without_cache_marks(content: object) -> object:
    """A message's content without a client's marks of what its provider should cache.

    The same object if it has none.
    """
    return _map_content(content, _unmarked)


def _unmarked(block: Mapping[str, object]) -> object:
    """A block without its cache mark; None for a block that is nothing but a mark."""
    if block.get("type") in _CACHE_POINTS or any(key in block for key in _CACHE_POINTS):
        return None
    unmarked = _without_key(block, CACHE_MARK)
    extras = block.get("extras")
    if not isinstance(extras, Mapping) or CACHE_MARK not in extras:
        return unmarked
    other_extras = _without_key(extras, CACHE_MARK)
    if not other_extras:
        return _without_key(unmarked, "extras")
    return {**unmarked, "extras": other_extras}


def _without_key(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A mapping without a key; the same object if it lacks the key."""
    if key not in mapping:
        return mapping
    return {name: value for name, value in mapping.items() if name != key}


def _map_content(content: object, change: _Change, depth: int = _MAX_DEPTH) -> object:
    """Content with its blocks changed, and those in tools' results and documents.

    The same object if nothing changes.
    """
    if not isinstance(content, list):
        return content
    return _map_blocks(content, change, depth)


def _map_blocks(blocks: list[object], change: _Change, depth: int) -> list[object]:
    """The blocks of a list changed, and those inside of them to this depth.

    A block of which `change` makes None is taken out. The same object if nothing changes.
    """
    if not depth:
        return blocks
    changed_blocks = list[object]()
    is_changed = False
    for before in blocks:
        after = before
        if isinstance(before, Mapping):
            after = _map_block(before, change, depth)
        if after is not before:
            is_changed = True
        if after is not None:
            changed_blocks.append(after)
    return changed_blocks if is_changed else blocks


def _map_block(block: Mapping[str, object], change: _Change, depth: int) -> object:
    """A block as `change` makes it, with the blocks inside of it changed, too; None takes it out."""
    after = change(block)
    if not isinstance(after, Mapping):
        return after
    for key in _BLOCK_FIELDS:
        inner = after.get(key)
        if isinstance(inner, Mapping):
            blocks = _map_blocks([inner], change, depth - 1)
            changed = blocks[0] if blocks else {}
        else:
            changed = _map_content(inner, change, depth - 1)
        if changed is not inner:
            after = {**after, key: changed}
    return after


def refused_media_of(metadata: object) -> list[str]:
    """Ids of the messages whose media a provider refused, by a note's `response_metadata`.

    That of any other message has no ids: the list is empty.
    """
    if not isinstance(metadata, Mapping):
        return []
    ids = metadata.get(REFUSED_MEDIA)
    if not isinstance(ids, list):
        return []
    return [message_id for message_id in ids if isinstance(message_id, str)]
