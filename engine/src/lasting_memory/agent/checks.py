"""Whether an agent has all the parts that keep it safe.

deepagents builds the agent, and each part of this library sees itself alone. So these checks look at the graph that came out:
when the server starts (`check_graph`), and where a run first needs the part that is missing.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from deepagents import FilesystemMiddleware
from deepagents.backends import CompositeBackend
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.pregel import Pregel

from lasting_memory.files.backends import RouteFiles
from lasting_memory.settings import SettingsError

# The channel that every graph with policies has. It never holds a value.
_MARK = "_policies_shown"
# Where the tools of this library are defined.
_LIBRARY = "lasting_memory."

_NO_MIDDLEWARE = (
    "The agent has memory and neither policies nor limits, and a client's state reaches the prompt; "
    "build it with middleware(d, ...)."
)
_NO_FILES = "The agent's files are not those of the deployment's routes; build it with **file_system(d)."


class GuardedState(AgentState[Any]):
    """The state of a graph with policies: the mark by which it is known."""

    _policies_shown: NotRequired[Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]]


class ShownFiles(list[str]):
    """Paths for `create_deep_agent(memory=...)`. deepagents' own memory middleware reads them in a run, unless
    `middleware(d, ...)` takes its place.
    """

    def __iter__(self) -> Iterator[str]:
        """Raises `SettingsError`: the agent was built without `middleware(d, ...)`."""
        raise SettingsError(_NO_MIDDLEWARE)


def check_graph(graph: Pregel[Any, Any, Any, Any]) -> None:
    """Raise `SettingsError` for an agent that lacks `middleware(d, ...)`, `file_system(d)` or `subagents(d, ...)`.

    A graph without policies, files and tools of this library is none of its agents, and passes.
    """
    by_name: Mapping[str, BaseTool] = getattr(getattr(graph.nodes.get("tools"), "bound", None), "tools_by_name", {})
    tools = list(by_name.values())
    if not _is_guarded(graph):
        if _has_routes(tools) or any(_is_of_library(tool) for tool in tools):
            raise SettingsError(_NO_MIDDLEWARE)
        return
    check_files(tools)
    for tool in tools:
        for name in _subagents(tool):
            check_subagent(tool, name)


def check_files(tools: Sequence[object]) -> None:
    """Raise `SettingsError` if these tools of an agent with policies are those of other files. Other tools pass."""
    if _has_routes(tools) is False:
        raise SettingsError(_NO_FILES)


def check_subagent(tool: object, name: object) -> None:
    """Raise `SettingsError` if a tool would call a subagent of this name that sees no policies.

    A subagent without a model of its own, or one that is no graph of this process, passes.
    """
    subagent = _subagents(tool).get(str(name))
    if isinstance(subagent, Pregel) and "model" in subagent.nodes and not _is_guarded(subagent):
        raise SettingsError(f"The subagent {name!r} sees no policies; give it by subagents(d, ...).")


def _is_guarded(graph: Pregel[Any, Any, Any, Any]) -> bool:
    return _MARK in graph.channels


def _is_of_library(tool: BaseTool) -> bool:
    module = getattr(getattr(tool, "coroutine", None), "__module__", "")
    return module.startswith(_LIBRARY)


def _has_routes(tools: Sequence[object]) -> bool | None:
    """Whether the file tools among these reach routes of this library; None if there are no file tools."""
    for tool in tools:
        files = _enclosed(tool, "self")
        if isinstance(files, FilesystemMiddleware):
            routes = files.backend.routes if isinstance(files.backend, CompositeBackend) else {}
            return any(isinstance(route, RouteFiles) for route in routes.values())
    return None


def _subagents(tool: object) -> Mapping[str, object]:
    """The subagents that deepagents' `task` tool calls, by name; none for another tool."""
    found = _enclosed(tool, "subagent_graphs")
    return found if isinstance(found, Mapping) else {}


def _enclosed(tool: object, name: str) -> object:
    """What a tool's coroutine has of this name from the function around it. deepagents shows it in no other way."""
    coroutine = getattr(tool, "coroutine", None)
    return inspect.getclosurevars(coroutine).nonlocals.get(name) if inspect.isfunction(coroutine) else None
