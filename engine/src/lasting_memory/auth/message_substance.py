"""The substance of a message, by which two messages are compared: what they say and do.

Names, marks and other data beside it do not count: clients add some, and leave out others.
"""

from collections.abc import Mapping
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from lasting_memory import sent_content
from lasting_memory.auth.message_forms import as_list

_NO_TEXT = {"type": "text", "text": ""}


class _ToolCall(NamedTuple):
    name: str
    args: dict[str, object]
    id: str | None


class Substance(NamedTuple):
    """What is said or done in a message."""

    role: str
    blocks: list[dict[str, object]]
    tool_calls: list[_ToolCall]
    answered_call: str | None


def substance_of(message: BaseMessage) -> Substance:
    """What is said or done in a message, to be compared."""
    substance = Substance(message.type, _blocks_of(message), [], None)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            tool_call = _ToolCall(call["name"], call["args"], call["id"])
            substance.tool_calls.append(tool_call)
    if isinstance(message, ToolMessage):
        return substance._replace(answered_call=message.tool_call_id)
    return substance


def _blocks_of(message: BaseMessage) -> list[dict[str, object]]:
    """A message's content as blocks, without empty texts, cache marks, and fields that are null."""
    blocks = [_block_of(part) for part in as_list(message.content)]
    comparable_blocks = list[dict[str, object]]()
    for block in as_list(sent_content.without_cache_marks(blocks)):
        if block == _NO_TEXT or not isinstance(block, Mapping):
            continue
        fields = {name: value for name, value in block.items() if value is not None}
        comparable_blocks.append(fields)
    return comparable_blocks


def _block_of(part: object) -> object:
    """A part of a message's content as a block: a text stands for a block with that text."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return part
