"""The model's tools for memory."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from deepagents.backends import CompositeBackend
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from pydantic import BaseModel, Field, ValidationError, create_model

from lasting_memory.agent.file_sections import shared_room
from lasting_memory.agent.memory_search import find_memories
from lasting_memory.agent.prompt import memory_files
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.files.backends import ScopedFiles, build_backend
from lasting_memory.files.facts import is_form
from lasting_memory.plain_text import compared, plain
from lasting_memory.validation import RefusedWrite

# The file that says which others there are.
INDEX_PATH = "/memories/topics/index.md"

MEMORY_TOOLS = ("append_memory", "save_profile", "search_memories")


def memory_tools(
    d: Deployment, descriptions: Mapping[str, str] = MappingProxyType({})
) -> list[BaseTool]:
    """`search_memories`; `append_memory`, if the agent may write `/memories/`; `save_profile`, if
    there are profiles.

    There are none of them where there is no `/memories/`.

    `descriptions` are a fork's own, by tool, in place of the whole of what the model is told of it;
    of a tool that the settings leave out one may be there. Raises `ValueError` for a name that is
    none of the three.
    """
    if unknown := descriptions.keys() - MEMORY_TOOLS:
        raise ValueError(
            f"memory_tools(d, descriptions=...) names {min(unknown)!r}; use {', '.join(MEMORY_TOOLS)}."
        )
    if not d.has_memory:
        return []
    tools, backend = [_search_memories(d)], build_backend(d)
    if d.memory.rule(d.settings) != "deny":
        tools.append(append_memory_tool(backend, d))
        if d.profile:
            tools.append(_save_profile(backend, d.profile))
    for each in tools:
        each.description = descriptions.get(each.name, each.description)
    return tools


def append_memory_tool(backend: CompositeBackend, d: Deployment) -> BaseTool:
    """`append_memory` on a graph's filesystem. Doing it twice is doing it once: what stands there
    is not added again.
    """

    @tool
    async def append_memory(path: str, text: str) -> str:
        """Add text at the end of a file under /memories/, which is created if need be. Nothing
        already there is changed.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            text: what to add; a line break goes before and after it where there is none.
        """
        if not path.startswith("/memories/"):
            raise ToolException(f"Error: '{path}' is not memory; use a path under /memories/.")

        added, after = "", ""

        def appended(before: str) -> str:
            nonlocal added, after
            added = lacking(before, text)
            gap = "\n" if before and added and not before.endswith("\n") else ""
            after = f"{before}{gap}{added}"
            return after

        await _change(backend, path, appended)
        if not added:
            return f"Nothing was added: it stands in {path} already."
        return f"Added to {path}.{await _not_shown(backend, d, path, len(after.encode()))}"

    append_memory.handle_tool_error = True
    return append_memory


def lacking(before: str, text: str) -> str:
    """What of a text is to be added to a file, as whole lines: a line of it that stands there word
    for word is not.

    What has titles, nested items, code or a table in it is added whole, or not at all: its lines
    mean something together.
    """
    lines = plain(text).rstrip().strip("\n").split("\n")
    whole = "\n".join(lines) + "\n"
    there = [compared(line) for line in before.split("\n")]
    if any(_belongs(line) for line in lines):
        wanted = "\n".join(compared(line) for line in lines)
        is_there = f"\n{wanted}\n" in "\n".join(["", *there, ""])
        return "" if is_there else whole
    known = {line.strip() for line in there}
    new = [not line.strip() or compared(line).strip() not in known for line in lines]
    kept = [line for line, is_new in zip(lines, new, strict=True) if is_new]
    return "\n".join(kept).strip("\n") + "\n" if any(line.strip() for line in kept) else ""


def _belongs(line: str) -> bool:
    """Whether a line means something by what it stands under or over: a title, what is indented,
    code, a table.
    """
    return is_form(line) or line.startswith(("#", "|", " ", "\t"))


async def _not_shown(backend: CompositeBackend, d: Deployment, path: str, size: int) -> str:
    """What the model is told where prompts will not show all of a file, of so many bytes now; ""
    where they will.
    """
    paths, budget = memory_files(d), d.limits.memory_block_bytes
    if path not in paths:
        return (
            f" Prompts do not show this file: see that {INDEX_PATH} names it."
            if INDEX_PATH in paths
            else ""
        )
    if size <= budget // len(paths):
        return ""
    files = await backend.routes["/memories/"].adownload_files(
        [path.removeprefix("/memories") for path in paths]
    )
    rooms = shared_room([len(file.content or b"") for file in files], budget)
    room = rooms[paths.index(path)]
    if size <= room:
        return ""
    return f" It has {size:,} bytes, of which prompts show {room:,}: its two ends. Move details to /memories/topics/."


def _save_profile(backend: CompositeBackend, schema: type[BaseModel]) -> BaseTool:
    """`save_profile`, whose argument and description have the fields of the schema."""

    async def save_profile(profile: BaseModel) -> str:
        given = profile.model_dump(exclude_unset=True, exclude_none=True)

        def updated(before: str) -> str:
            try:
                known = schema.model_validate_json(before) if before.strip() else schema()
            except ValidationError:
                raise RefusedWrite(
                    f"{PROFILE_PATH} holds no profile; delete it, then save again."
                ) from None
            return (
                known.model_copy(update=given).model_dump_json(
                    indent=2, exclude_none=True, by_alias=True
                )
                + "\n"
            )

        await _change(backend, PROFILE_PATH, updated)
        return f"Saved {PROFILE_PATH}."

    fields = ", ".join(schema.model_fields)
    return StructuredTool.from_function(
        coroutine=save_profile,
        description=f"Save what the user says about themselves: {fields}. What is left out stays as it is.",
        args_schema=create_model(
            "save_profile", profile=(schema, Field(description="the fields to set"))
        ),
        handle_tool_error=True,
    )


async def _change(backend: CompositeBackend, path: str, change: Callable[[str], str]) -> None:
    """Change a file under /memories/. What is refused, or waits, is an error of the tool: nobody
    takes it for written.
    """
    files = cast("ScopedFiles", backend.routes["/memories/"])
    if reason := await files.achange(path.removeprefix("/memories"), change):
        raise ToolException(reason)


def _search_memories(deployment: Deployment) -> BaseTool:
    @tool
    async def search_memories(query: str) -> str:
        """Search the files under /memories/ for what is remembered about the user.

        Args:
            query: what to look for, in plain words.
        """
        matches = await find_memories(deployment, query)
        if not matches:
            return f"Nothing in /memories/ matches {query[:100]!r}."
        # One line for each, so that no text looks like another match.
        shown = "\n\n".join(f"{found.path}\n{' '.join(found.text.split())}" for found in matches)
        return shown[: deployment.limits.search_result_chars]

    return search_memories
