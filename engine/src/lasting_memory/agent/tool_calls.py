"""Calls of tools: which are refused before they are made, and which have succeeded with a text."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.memory.validation import RefusedWrite, check_text

# A tool as an agent has it: a `BaseTool`, or one of the provider's own as JSON.
Tool = TypeVar("Tool")
# What a call of a tool gives: its message, or an update of the thread.
ToolResult = ToolMessage | Command[str]
# Tools that temporary conversations do not have.
_MEMORY_TOOLS = {
    "append_memory",
    "save_profile",
    "search_memories",
    "prepare_offer",
    "search_past_conversations",
    "read_conversation",
}
# deepagents tries a pattern as a regular expression on every path. Each `**` multiplies the time by
# the path's depth, and the whole process waits. So these are bounded: characters; `**` and groups
# such as {md,txt}, together; commas in groups.
MAX_PATTERN_CHARS = 200
MAX_MULTIPLIERS = 2
MAX_COMMAS = 20
# The argument of each file tool that is a pattern.
_PATTERN_ARGUMENTS = {"glob": "pattern", "grep": "glob"}


def allowed_tools(tools: Sequence[Tool]) -> list[Tool]:
    """The tools that this run may be offered: a temporary conversation has none of memory."""
    if not in_temporary_conversation():
        return list(tools)
    tools_without_memory = list[Tool]()
    for tool in tools:
        name = getattr(tool, "name", None)
        if name not in _MEMORY_TOOLS:
            tools_without_memory.append(tool)
    return tools_without_memory


def text_result(result: object) -> ToolMessage | None:
    """The result of a tool's call, if the call has succeeded with a text; None: it has not."""
    if not isinstance(result, ToolMessage) or result.status == "error":
        return None
    if not isinstance(result.content, str):
        return None
    return result


def check_call(name: str, args: Mapping[str, object]) -> None:
    """Raises `RefusedWrite` for a tool's call that must not be made."""
    check_text(args)
    if name in _MEMORY_TOOLS and in_temporary_conversation():
        raise RefusedWrite(
            "this is a temporary conversation, without memory and past conversations."
        )
    if name in _PATTERN_ARGUMENTS:
        argument = _PATTERN_ARGUMENTS[name]
        pattern = args.get(argument) or ""
        _check_pattern(str(pattern))


def _check_pattern(pattern: str) -> None:
    """Raises `RefusedWrite` for a pattern that would take too long."""
    multipliers = pattern.count("**") + pattern.count("{")
    is_bounded = (
        len(pattern) <= MAX_PATTERN_CHARS
        and multipliers <= MAX_MULTIPLIERS
        and pattern.count(",") <= MAX_COMMAS
        and ".." not in pattern
    )
    if is_bounded:
        return
    bounds = (
        f"{MAX_PATTERN_CHARS} characters and {MAX_MULTIPLIERS} of ** and {{...}} together, "
        "and no '..'"
    )
    raise RefusedWrite(f"the pattern {pattern[:80]!r} is too complex; use at most {bounds}, or ls.")
