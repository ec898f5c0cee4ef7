"""deepagents' own tools as a model is shown them, and the other names by which models call their
arguments.

deepagents describes its file tools for work on code, in words that are not true here: a file need
not be read before it is edited, and what is deleted from memory can be put back. The descriptions
in `prompts/file_tools.md` take their place, in half of the tokens. What they say of an argument
stands in the tool's schema, where models look for it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from lasting_memory.deployment import Deployment

PROMPT = "file_tools.md"
# Other names of an argument, which models take for it.
_OTHER_NAMES: Mapping[str, str] = {"path": "file_path", "file_path": "path"}
_TOOL = re.compile(r"^## (\w+)\s*$", re.MULTILINE)
_ARGUMENT = re.compile(r"^- `(\w+)`: (.+)$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")
# How deepagents lists the subagents in the description of `task`.
_HELPERS = re.compile(r"(?:^- [\w-]+: .+\n?)+", re.MULTILINE)
_CHARS_OF_TOKEN = 4
# What stands for that list in a description.
HELPERS = "{helpers}"


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """What a model is told of a tool ("": what the tool says itself), and of its arguments by name."""

    text: str
    arguments: Mapping[str, str]


_AS_IT_IS = ToolDescription("", MappingProxyType({}))


class ShownTools:
    """The tools of an agent as its model is shown them: with the descriptions of
    `prompts/file_tools.md`, which may be a fork's own, where it has some.

    Their arguments are JSON schemas, made once. LangChain makes the schema of a Pydantic model anew
    in each call of the model: a copy of the last tool is marked for the provider's cache, and the
    profile's fields are a model in a model.
    """

    def __init__(self, d: Deployment) -> None:
        markdown = d.prompt(PROMPT)
        self._descriptions = _descriptions(markdown)
        # Tools and their copies, by name: making one takes longer than a call of the store.
        self._copies = dict[str, tuple[BaseTool, BaseTool]]()

    def of(self, tools: Sequence[Any]) -> list[Any]:
        """The tools of a request. One that is no `BaseTool` stays as it is."""
        return [self._shown(tool) for tool in tools]

    def _shown(self, tool: Any) -> Any:
        if not isinstance(tool, BaseTool):
            return tool
        if tool.name in self._copies:
            copied, copy = self._copies[tool.name]
            if _is_same(copied, tool):
                return copy
        description = self._descriptions.get(tool.name, _AS_IT_IS)
        copy = _described(tool, description)
        self._copies[tool.name] = (tool, copy)
        return copy


def tokens_of_tools(tools: Sequence[BaseTool]) -> int:
    """About how many tokens tools have in a request: a quarter of their characters, as JSON."""
    chars = 0
    for tool in tools:
        sent_form = convert_to_openai_tool(tool)["function"]
        chars += len(json.dumps(sent_form, ensure_ascii=False))
    return chars // _CHARS_OF_TOKEN


def _is_same(one: BaseTool, other: BaseTool) -> bool:
    """Whether a model is told the same of two tools: deepagents makes one anew for each call."""
    if one.description != other.description:
        return False
    return one.args_schema is other.args_schema


def _descriptions(markdown: str) -> Mapping[str, ToolDescription]:
    """The descriptions in a Markdown text, by tool: a title each."""
    # Before the first title stands nothing; then each title, and what stands below it.
    parts = _TOOL.split(markdown)
    names = parts[1::2]
    texts = parts[2::2]
    descriptions = dict[str, ToolDescription]()
    for name, text in zip(names, texts, strict=True):
        descriptions[name] = _description(text)
    return descriptions


def _description(section: str) -> ToolDescription:
    """A description of which the list items that begin with a name in backquotes are arguments."""
    arguments = dict(_ARGUMENT.findall(section))
    text = _ARGUMENT.sub("", section)
    text = _EMPTY_LINES.sub("\n\n", text)
    return ToolDescription(text.strip(), arguments)


def _described(tool: BaseTool, description: ToolDescription) -> BaseTool:
    """A copy of a tool, which only a model is shown."""
    text = description.text or tool.description
    if HELPERS in text:
        helpers = _HELPERS.search(tool.description)
        if helpers is None:
            return tool
        listed = helpers[0].strip()
        text = text.replace(HELPERS, listed)
    converted = convert_to_openai_tool(tool)
    if "function" not in converted:  # a tool of one provider's own kind
        return tool
    parameters = converted["function"].get("parameters", {})
    schema = _with_arguments(parameters, description.arguments)
    return tool.model_copy(update={"description": text, "args_schema": schema})


def _with_arguments(schema: Mapping[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """A JSON schema with other descriptions of its properties."""
    properties = dict[str, Any]()
    for name, shape in schema.get("properties", {}).items():
        described = shape
        if name in descriptions:
            described = {**shape, "description": descriptions[name]}
        properties[name] = described
    return {"title": "arguments", **schema, "properties": properties}


def with_known_arguments(message: BaseMessage, tools: Sequence[Any]) -> BaseMessage:
    """A model's answer whose calls name a path as the tool does, whichever of two names it took."""
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    arguments = _arguments_of(tools)
    calls = list[Any]()
    for call in message.tool_calls:
        known = arguments.get(call["name"], set())
        renamed = _renamed(call["args"], known)
        calls.append({**call, "args": renamed})
    if calls == message.tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls})


def _arguments_of(tools: Sequence[Any]) -> dict[str, set[str]]:
    """The names of the arguments of tools, by the tools' names."""
    arguments = dict[str, set[str]]()
    for tool in tools:
        if isinstance(tool, BaseTool):
            arguments[tool.name] = set(tool.args)
    return arguments


def _renamed(args: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The arguments of a call, each by the name that the tool knows."""
    renamed = dict(args)
    for name, other in _OTHER_NAMES.items():
        is_wrong = name in renamed and name not in known
        is_other_free = other in known and other not in renamed
        if is_wrong and is_other_free:
            renamed[other] = renamed.pop(name)
    return renamed
