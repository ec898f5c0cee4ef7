"""deepagents' own tools as a model is shown them, and the other names by which models call their
arguments.

deepagents describes its file tools for work on code, in words that are not true here: a file need
not be read before it is edited, and what is deleted from memory can be put back. The descriptions
in `prompts/file_tools.md` take their place, in half of the tokens. There a title `## read_file`
begins the description of a tool, and a list item `- `limit`: ...` describes one of its arguments.
A description of an argument goes into the tool's schema, where models look for it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from lasting_memory.agent.tool_calls import Tool
from lasting_memory.deployment import Deployment

_DESCRIPTIONS = "file_tools.md"
# Models take one of these names for the other, because some tools have the one, and some the other.
_OTHER_NAMES: Mapping[str, str] = {"path": "file_path", "file_path": "path"}
_TOOL_TITLE = re.compile(r"^## (\w+)\s*$", re.MULTILINE)
_ARGUMENT = re.compile(r"^- `(\w+)`: (.+)$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")
# How deepagents lists the subagents in the description of `task`, and what stands for that list in
# a description of `prompts/file_tools.md`.
_LISTED_SUBAGENTS = re.compile(r"(?:^- [\w-]+: .+\n?)+", re.MULTILINE)
_SUBAGENTS = "{helpers}"
_CHARS_OF_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """What a model is told of a tool, and of its arguments by name.

    Where `text` is "" the model is told what the tool says itself.
    """

    text: str
    arguments: Mapping[str, str]


_NO_DESCRIPTION = ToolDescription("", MappingProxyType({}))


class _ToolCopy(NamedTuple):
    """A tool, and the copy of it that a model is shown."""

    original: BaseTool
    copy: BaseTool


class ShownTools:
    """The tools of an agent as its model is shown them: with the descriptions of
    `prompts/file_tools.md`, which may be a fork's own, where it has some.

    Their arguments are JSON schemas, made once. LangChain makes the schema of a Pydantic model anew
    in each call of the model: a copy of the last tool is marked for the provider's cache, and the
    profile's fields are a model in a model.
    """

    def __init__(self, d: Deployment) -> None:
        markdown = d.prompt(_DESCRIPTIONS)
        self._descriptions = _descriptions(markdown)
        # By the tool's name: making a copy takes longer than a call of the store.
        self._copies = dict[str, _ToolCopy]()

    def of(self, tools: Sequence[Tool]) -> list[Tool | BaseTool]:
        """The tools of a request as its model is shown them.

        What is no `BaseTool`, such as a tool of the provider's own, stays as it is.
        """
        return [self._shown_tool(tool) for tool in tools]

    def _shown_tool(self, tool: Tool) -> Tool | BaseTool:
        """The copy of a tool that a model is shown. It is made anew if the tool has changed."""
        if not isinstance(tool, BaseTool):
            return tool
        tool_copy = self._copies.get(tool.name)
        if tool_copy is not None and _is_same(tool_copy.original, tool):
            return tool_copy.copy
        description = self._descriptions.get(tool.name, _NO_DESCRIPTION)
        copy = _described_tool(tool, description)
        self._copies[tool.name] = _ToolCopy(tool, copy)
        return copy


def tokens_of_tools(tools: Sequence[BaseTool]) -> int:
    """About how many tokens tools have in a request: a quarter of their characters, as JSON."""
    chars = 0
    for tool in tools:
        tool_json = convert_to_openai_tool(tool)
        function_json = json.dumps(tool_json["function"], ensure_ascii=False)
        chars += len(function_json)
    return chars // _CHARS_OF_TOKEN


def _is_same(tool: BaseTool, other_tool: BaseTool) -> bool:
    """Whether a model is told the same of two tools: deepagents makes one anew for each call."""
    if tool.description != other_tool.description:
        return False
    return tool.args_schema is other_tool.args_schema


def _descriptions(markdown: str) -> Mapping[str, ToolDescription]:
    """The descriptions in a Markdown text, by the name of the tool."""
    # Before the first title stands nothing; then each title, and what stands below it.
    parts = _TOOL_TITLE.split(markdown)
    names = parts[1::2]
    texts = parts[2::2]
    descriptions = dict[str, ToolDescription]()
    for name, text in zip(names, texts, strict=True):
        descriptions[name] = _description(text)
    return descriptions


def _description(section: str) -> ToolDescription:
    """The description below one title. The list items of arguments are taken out of its text."""
    arguments = dict(_ARGUMENT.findall(section))
    text = _ARGUMENT.sub("", section)
    text = _EMPTY_LINES.sub("\n\n", text)
    return ToolDescription(text.strip(), arguments)


def _described_tool(tool: BaseTool, description: ToolDescription) -> BaseTool:
    """A copy of a tool with this description, which only a model is shown.

    The tool itself where a copy would say less: deepagents lists the subagents in a form that is
    not known here, or the tool is of one provider's own kind.
    """
    text = description.text or tool.description
    if _SUBAGENTS in text:
        subagents = _LISTED_SUBAGENTS.search(tool.description)
        if subagents is None:
            return tool
        listed_subagents = subagents[0].strip()
        text = text.replace(_SUBAGENTS, listed_subagents)
    tool_json = convert_to_openai_tool(tool)
    if "function" not in tool_json:
        return tool
    parameters = tool_json["function"].get("parameters", {})
    schema = _with_descriptions(parameters, description.arguments)
    changes = {"description": text, "args_schema": schema}
    return tool.model_copy(update=changes)


def _with_descriptions(
    schema: Mapping[str, object], descriptions: Mapping[str, str]
) -> dict[str, object]:
    """A JSON schema of arguments with these descriptions, by the arguments' names.

    An argument that none of them is for stays as it is. A schema without a title gets one.
    """
    arguments = dict[str, object]()
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        properties = {}
    for name, argument in properties.items():
        arguments[name] = argument
        if name in descriptions:
            arguments[name] = {**argument, "description": descriptions[name]}
    return {"title": "arguments", **schema, "properties": arguments}


def with_known_arguments(message: BaseMessage, tools: Sequence[object]) -> BaseMessage:
    """A model's answer whose calls name a path as the tool does, whichever of two names it took.

    The message itself if no name is wrong. `tools` are those that the model was offered.
    """
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    names_by_tool = _argument_names(tools)
    calls = list[ToolCall]()
    for call in message.tool_calls:
        names = names_by_tool.get(call["name"], set())
        arguments = _renamed_arguments(call["args"], names)
        calls.append({**call, "args": arguments})
    if calls == message.tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls})


def _argument_names(tools: Sequence[object]) -> dict[str, set[str]]:
    """The names of the arguments of tools, by the tools' names."""
    names_by_tool = dict[str, set[str]]()
    for tool in tools:
        if isinstance(tool, BaseTool):
            names_by_tool[tool.name] = set(tool.args)
    return names_by_tool


def _renamed_arguments(arguments: Mapping[str, object], names: set[str]) -> dict[str, object]:
    """The arguments of a call, each by the name that the tool has. `names` are the tool's."""
    renamed_arguments = dict(arguments)
    for name, other_name in _OTHER_NAMES.items():
        if name not in renamed_arguments or name in names:
            continue
        # The tool has the other name, and the call gives it no value already.
        if other_name in names and other_name not in renamed_arguments:
            renamed_arguments[other_name] = renamed_arguments.pop(name)
    return renamed_arguments
