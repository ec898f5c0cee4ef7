"""The model's tools for memory: they add to a file, save the profile, search, and prepare offers.

What a tool refuses it answers with an error, which the model reads and which says what to do.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from deepagents.backends import CompositeBackend
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.v1 import ValidationError as ValidationErrorV1

from lasting_memory.agent.additions import lacking, with_addition
from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.memory_search import find_memories
from lasting_memory.agent.offers import prepare_offer_tool
from lasting_memory.agent.omissions import omission_note
from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.agent.unconfirmed import note_of_unconfirmed
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.plain_text import plain

MEMORY_TOOLS = ("append_memory", "save_profile", "search_memories", "prepare_offer")


def memory_tools(
    d: Deployment, descriptions: Mapping[str, str] = MappingProxyType({})
) -> list[BaseTool]:
    """The tools for `/memories/`; none where there is no such folder.

    They are `search_memories`; `append_memory`, if the agent may write there; `save_profile`, if it
    may and there are profiles; and `prepare_offer`, where a group has a folder to which lines
    may be offered.

    `descriptions` are a fork's own, by tool. Each replaces all that the model is told of the tool.
    The settings may leave out a tool that has one. Raises `ValueError` for a name that is none of
    them.
    """
    unknown_names = descriptions.keys() - MEMORY_TOOLS
    if unknown_names:
        raise ValueError(
            f"memory_tools(d, descriptions=...) names {min(unknown_names)!r}; use {', '.join(MEMORY_TOOLS)}."
        )
    if not d.has_memory:
        return []
    tools = [_search_memories(d)]
    backend = build_backend(d)
    if d.memory.rule(d.settings) != "deny":
        append_memory = append_memory_tool(backend, d)
        append_memory.description = d.prompt("append_memory.md").strip()
        tools.append(append_memory)
        if d.profile:
            tools.append(_save_profile(backend, d.profile))
    if d.has_offers:
        tools.append(prepare_offer_tool(d))
    for memory_tool in tools:
        if memory_tool.name in descriptions:
            memory_tool.description = descriptions[memory_tool.name]
    return tools


def append_memory_tool(backend: CompositeBackend, d: Deployment) -> BaseTool:
    """`append_memory` on a graph's filesystem.

    Doing it twice is doing it once: what stands in the file already is not added again.
    """

    @tool(parse_docstring=True)
    async def append_memory(path: str, text: str) -> str:
        """Add text at the end of a file under /memories/, which is created if need be. Nothing
        already there is changed.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            text: what to add; a line break goes before and after it where there is none.
        """
        if not path.startswith("/memories/"):
            raise ToolException(f"Error: '{path}' is not memory; use a path under /memories/.")
        if not plain(text).strip():
            raise ToolException("Error: the text is empty; give the text that is to be added.")

        # What the last attempt at the change made: a file that moves meanwhile is changed anew.
        addition = ""
        after = ""

        def append(before: str) -> str:
            nonlocal addition, after
            addition = lacking(before, text)
            after = with_addition(before, addition)
            return after

        await _change(backend, path, append)
        if not addition:
            return f"Nothing was added: it stands in {path} already."
        size = len(after.encode())
        note = await omission_note(backend, d, path, size)
        return f"Added to {path}.{note}"

    append_memory.handle_tool_error = True
    return append_memory


def _save_profile(backend: CompositeBackend, schema: type[BaseModel]) -> BaseTool:
    """`save_profile`, whose argument and description have the fields of the schema."""

    async def save_profile(profile: BaseModel) -> str:
        # The fields that the model gave. The others stay as they are.
        fields = profile.model_dump(exclude_unset=True, exclude_none=True)

        def set_fields(before: str) -> str:
            profile_before = _parsed_profile(before, schema)
            new_profile = profile_before.model_copy(update=fields)
            text = new_profile.model_dump_json(indent=2, exclude_none=True, by_alias=True)
            return f"{text}\n"

        await _change(backend, PROFILE_PATH, set_fields)
        return f"Saved {PROFILE_PATH}."

    names = ", ".join(schema.model_fields)
    field = Field(description="the fields to set")
    arguments = create_model("save_profile", profile=(schema, field))

    def refusal(error: ValidationError | ValidationErrorV1) -> str:
        """What the model is told of fields that the schema does not take."""
        reasons = list[str]()
        for detail in error.errors():
            field_path = [str(part) for part in detail["loc"] if part != "profile"]
            field_name = ".".join(field_path) or "profile"
            message = detail["msg"]
            reasons.append(f"{field_name}: {message}")
        listed_reasons = "; ".join(reasons)
        return f"Error: nothing was saved. {listed_reasons}. The fields are {names}."

    return _ProfileTool.from_function(
        coroutine=save_profile,
        description=f"Save what the user says about themselves: {names}. What is left out stays as it is.",
        args_schema=arguments,
        handle_tool_error=True,
        handle_validation_error=refusal,
    )


def _parsed_profile(text: str, schema: type[BaseModel]) -> BaseModel:
    """The profile in the text of its file; an empty one for an empty text.

    Raises `RefusedWrite` for a text that is no profile.
    """
    if not text.strip():
        return schema()
    try:
        return schema.model_validate_json(text)
    except ValidationError:
        raise RefusedWrite(
            f"{PROFILE_PATH} holds no profile; delete it, then save again."
        ) from None


class _ProfileTool(StructuredTool):
    """`save_profile`. Small models often give the fields themselves, in place of one `profile`."""

    def _parse_input(
        self, tool_input: str | dict[str, object], tool_call_id: str | None
    ) -> str | dict[str, object]:
        """The arguments of a call, checked; fields without their `profile` get one around them."""
        are_fields = isinstance(tool_input, dict) and "profile" not in tool_input
        if tool_input and are_fields:
            tool_input = {"profile": tool_input}
        return super()._parse_input(tool_input, tool_call_id)


async def _change(backend: CompositeBackend, path: str, change: Callable[[str], str]) -> None:
    """Changes a file under /memories/.

    Raises `ToolException` for a change that is refused, or that waits: nobody takes it for written.
    """
    files = cast("ScopedFiles", backend.routes["/memories/"])
    key = path.removeprefix("/memories")
    reason = await files.achange(key, change)
    if reason:
        raise ToolException(reason)


def _search_memories(deployment: Deployment) -> BaseTool:
    """`search_memories`: of each file its path, the note on its unconfirmed lines, and its text."""

    @tool(parse_docstring=True)
    async def search_memories(query: str) -> str:
        """Search the files under /memories/ for what is remembered about the user.

        Args:
            query: what to look for, in plain words.
        """
        matches = await find_memories(deployment, query)
        if not matches:
            return f"Nothing in /memories/ matches {query[:100]!r}."
        parts = list[str]()
        for match in matches:
            # In one line, so that no text looks like another match.
            text = " ".join(match.text.split())
            note = note_of_unconfirmed(match.unconfirmed)
            lines = [match.path, note, text]
            part = "\n".join(line for line in lines if line)
            parts.append(part)
        max_chars = deployment.limits.search_result_chars
        return "\n\n".join(parts)[:max_chars]

    return search_memories
