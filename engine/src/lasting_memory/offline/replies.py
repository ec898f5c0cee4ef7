"""The offline model's messages: texts and calls of tools."""

from collections.abc import Iterable
from uuid import uuid4

from langchain_core.messages import AIMessage, ToolCall


def tool_call(tool: str, **args: object) -> ToolCall:
    """A call of the tool of this name with these arguments, with an id of its own."""
    call_id = f"offline-{uuid4()}"
    return ToolCall(name=tool, args=args, id=call_id, type="tool_call")


def message_of(parts: Iterable[str | ToolCall]) -> AIMessage:
    """One message of texts, each of them once, with a blank line between them, and tool calls."""
    texts = dict[str, None]()
    calls = list[ToolCall]()
    for part in parts:
        if isinstance(part, str):
            texts[part] = None
        else:
            calls.append(part)
    text = "\n\n".join(texts)
    return AIMessage(text, tool_calls=calls)
