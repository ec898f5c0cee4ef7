"""Whether an agent has all the parts that keep it safe.

deepagents builds the agent, and each part of this library sees itself alone. So these checks look
at the graph that came out: when the server starts (`check_graph`), and where a run first needs the
part that is missing.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired

from deepagents import FilesystemMiddleware, FilesystemPermission
from deepagents.backends import CompositeBackend
from deepagents.middleware.filesystem import supports_execution
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.pregel import Pregel

from lasting_memory.files.backends import RouteFiles, build_permissions, interrupted_tools
from lasting_memory.settings import SettingsError

Graph = Pregel[Any, Any, Any, Any]
# The channels that every graph with policies, and with limits, has. They never hold a value.
_MARK = "_policies_shown"
_LIMITS_MARK = "_limits_held"
# deepagents' tools that write files.
_WRITERS = {"write_file", "edit_file", "delete"}
# Where the tools of this library are defined.
_LIBRARY = "lasting_memory."

_NO_MIDDLEWARE = (
    "The agent has memory and neither policies nor limits, and a client's state reaches the prompt; "
    "build it with middleware(d, ...)."
)
_FILES_FIX = "build it with **file_system(d)"
_NO_FILES = f"The agent's files are not those of the deployment's routes; {_FILES_FIX}."


class GuardedState(AgentState[Any]):
    """The state of a graph with policies: the mark by which it is known."""

    _policies_shown: NotRequired[
        Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]
    ]


class LimitedState(AgentState[Any]):
    """The state of a graph with limits: the mark by which it is known."""

    _limits_held: NotRequired[Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]]


class ShownFiles(list[str]):
    """Paths for `create_deep_agent(memory=...)`. deepagents' own memory middleware reads them in a
    run, unless `middleware(d, ...)` takes its place.
    """

    def __iter__(self) -> Iterator[str]:
        """Raises `SettingsError`: the agent was built without `middleware(d, ...)`."""
        raise SettingsError(_NO_MIDDLEWARE)


class _Agent(NamedTuple):
    """An agent of a graph, what messages call it, and how it is built safely."""

    graph: Graph
    who: str
    fix: str


def offered_tools(graph: Graph) -> list[str]:
    """Names of the tools that the model of an agent is offered, in order: without those that its
    files cannot do.

    deepagents gives every agent with files the tool `execute`, and takes it out of each call where
    nothing can execute it.
    """
    tools = _tools(graph)
    names = list(dict.fromkeys(tool.name for tool in tools))
    files = _files(tools)
    if files is None or supports_execution(files.backend):
        return names
    return [name for name in names if name != "execute"]


def check_graph(graph: Graph) -> None:
    """Raise `SettingsError` for a graph one of whose agents lacks a part of `middleware(d, ...)`,
    `file_system(d)` or `subagents(d, ...)`.

    Its agents are itself, its nodes that are agents, and their subagents, at all levels. If none of
    them has any part of this library, the graph is none of its own, and passes.
    """
    agents = list(_agents(graph))
    if not any(_has_a_part(agent.graph) for agent in agents):
        return
    for agent in agents:
        _check_middleware(agent)
        _check_file_system(agent)
        _check_approvals(agent)


def _agents(graph: Graph) -> Iterator[_Agent]:
    """The agents of a graph, at all levels, with the outermost first."""
    waiting = [_Agent(graph, "The agent", "build it with middleware(d, ...)")]
    known = set[int]()
    while waiting:
        agent = waiting.pop(0)
        if id(agent.graph) in known:
            continue
        known.add(id(agent.graph))
        tools = _tools(agent.graph)
        if "model" in agent.graph.nodes or tools:
            yield agent
        for tool in tools:
            for name, subagent in _subagents(tool).items():
                if (found := _unwrapped(subagent)) is not None:
                    waiting.append(
                        _Agent(found, f"The subagent {name!r}", "give it by subagents(d, ...)")
                    )
        for name, node in agent.graph.nodes.items():
            inner = [found for found in node.subgraphs if isinstance(found, Pregel)]
            waiting += [
                _Agent(found, f"The node {name!r}", "build its agent with middleware(d, ...)")
                for found in inner
            ]


def has_approvals(graph: Graph) -> bool:
    """Whether calls of tools wait for an approval somewhere in a graph, as `interrupt_on` names
    them.
    """
    return bool(approved_calls(graph))


def approved_calls(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval somewhere in a graph."""
    return {name for agent in _agents(graph) for name in _interrupted(agent.graph)}


def _has_a_part(graph: Graph) -> bool:
    tools = _tools(graph)
    if (
        _is_guarded(graph)
        or _is_limited(graph)
        or _has_routes(tools)
        or any(_is_of_library(tool) for tool in tools)
    ):
        return True
    return any(
        isinstance(getattr(middleware, "sources", None), ShownFiles) for middleware in _hooks(graph)
    )


def _check_middleware(agent: _Agent) -> None:
    if not _is_guarded(agent.graph):
        raise SettingsError(
            _NO_MIDDLEWARE
            if agent.who == "The agent"
            else f"{agent.who} sees no policies; {agent.fix}."
        )
    if not _is_limited(agent.graph):
        raise SettingsError(f"{agent.who} has no limits; {agent.fix}, with all that it returns.")


def _check_file_system(agent: _Agent) -> None:
    """Raise `SettingsError` for an agent with file tools, but not on all routes, by their rules and
    with their approvals.
    """
    tools = _tools(agent.graph)
    files = _files(tools)
    if files is None:
        return
    fix = "build it with **file_system(d) as it is" if "subagent" not in agent.who else agent.fix
    routes = _routes(files)
    ours = [route for route in routes.values() if isinstance(route, RouteFiles)]
    if not ours:
        raise SettingsError(
            f"{agent.who} has files that are not those of the deployment's routes; {_FILES_FIX}."
        )
    deployment = ours[0].deployment
    for path in deployment.routes:
        if not isinstance(routes.get(path), RouteFiles):
            raise SettingsError(f"{agent.who} has other files at {path}; {_FILES_FIX}.")
    rules = build_permissions(deployment)
    if not _holds(files._permissions, rules):  # noqa: SLF001  # deepagents shows them in no other way
        raise SettingsError(f"{agent.who} lacks the permissions of the deployment's routes; {fix}.")
    approved = set(interrupted_tools(deployment))
    if any(rule.mode == "interrupt" for rule in rules):
        approved |= _WRITERS
    missing = {tool.name for tool in tools} & approved - _interrupted(agent.graph)
    if missing:
        raise SettingsError(
            f"{agent.who} writes shared files by {min(missing)} without an approval; {fix}."
        )


def _check_approvals(agent: _Agent) -> None:
    """Raise `SettingsError` for approvals that a tool's own node asks for: who may answer is told
    by the node.
    """
    asking = [
        middleware
        for middleware in _hooks(agent.graph)
        if isinstance(middleware, HumanInTheLoopMiddleware)
    ]
    if any(middleware.interrupt_mode != "batched" for middleware in asking):
        fix = "build its HumanInTheLoopMiddleware with interrupt_mode='batched'"
        raise SettingsError(
            f"{agent.who} asks for approvals as a tool asks a person, who could then approve; {fix}."
        )


def _holds(
    permissions: Sequence[FilesystemPermission], rules: Sequence[FilesystemPermission]
) -> bool:
    """Whether permissions, of which the first that matches counts, are at least as strict as these
    rules.
    """
    left = list(rules)
    for permission in permissions:
        if not left:
            return True
        if permission in left:
            left.remove(permission)
        elif permission.mode != "deny":
            return False
    return not left


def _interrupted(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval."""
    found = [
        middleware
        for middleware in _hooks(graph)
        if isinstance(middleware, HumanInTheLoopMiddleware)
    ]
    return {name for middleware in found for name in middleware.interrupt_on}


def _hooks(graph: Graph) -> list[object]:
    """The middleware that has a node of its own: what runs before or after the agent or the model."""
    functions = [
        getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
        for node in graph.nodes.values()
    ]
    return [function.__self__ for function in functions if inspect.ismethod(function)]


def check_files(tools: Sequence[object]) -> None:
    """Raise `SettingsError` if these tools of an agent with policies are those of other files.
    Other tools pass.
    """
    if _has_routes(tools) is False:
        raise SettingsError(_NO_FILES)


def check_subagent(tool: object, name: object) -> None:
    """Raise `SettingsError` if a tool would call a subagent of this name that sees no policies, or
    has no limits.

    A subagent without a model of its own, or one that is no graph of this process, passes.
    """
    subagent = _unwrapped(_subagents(tool).get(str(name)))
    if subagent is not None and "model" in subagent.nodes:
        _check_middleware(
            _Agent(subagent, f"The subagent {name!r}", "give it by subagents(d, ...)")
        )


def _unwrapped(runnable: object) -> Graph | None:
    """The graph of this process that a subagent is, maybe with a configuration or retries around
    it.
    """
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return runnable if isinstance(runnable, Pregel) else None


def _is_guarded(graph: Graph) -> bool:
    return _MARK in graph.channels


def _is_limited(graph: Graph) -> bool:
    return _LIMITS_MARK in graph.channels


def _tools(graph: Graph) -> list[BaseTool]:
    """The tools that nodes of this graph call."""
    by_name: list[Mapping[str, BaseTool]] = [
        getattr(node.bound, "tools_by_name", {}) for node in graph.nodes.values()
    ]
    return [tool for tools in by_name for tool in tools.values()]


def _is_of_library(tool: BaseTool) -> bool:
    module = getattr(getattr(tool, "coroutine", None), "__module__", "")
    return module.startswith(_LIBRARY)


def _has_routes(tools: Sequence[object]) -> bool | None:
    """Whether the file tools among these reach routes of this library; None if there are no file
    tools.
    """
    files = _files(tools)
    return (
        None
        if files is None
        else any(isinstance(route, RouteFiles) for route in _routes(files).values())
    )


def _files(tools: Sequence[object]) -> FilesystemMiddleware | None:
    """The middleware whose the file tools among these are."""
    for tool in tools:
        files = _enclosed(tool, "self")
        if isinstance(files, FilesystemMiddleware):
            return files
    return None


def _routes(files: FilesystemMiddleware) -> Mapping[str, object]:
    return files.backend.routes if isinstance(files.backend, CompositeBackend) else {}


def _subagents(tool: object) -> Mapping[str, object]:
    """The subagents that deepagents' `task` tool calls, by name; none for another tool."""
    found = _enclosed(tool, "subagent_graphs")
    return found if isinstance(found, Mapping) else {}


def _enclosed(tool: object, name: str) -> object:
    """What a tool's coroutine has of this name from the function around it. deepagents shows it in
    no other way.
    """
    coroutine = getattr(tool, "coroutine", None)
    return (
        inspect.getclosurevars(coroutine).nonlocals.get(name)
        if inspect.isfunction(coroutine)
        else None
    )
