"""Whether an agent has all the parts that keep it safe.

deepagents builds the agent, and each part of this library sees itself alone. So these checks look
at the finished graph: when the server starts (`check_graph`), and where a run first needs a part
that is missing.

The parts are policies and memory in the prompt, limits, and files in the folders of the
deployment's routes. A graph with policies is guarded, one with limits is limited; each has a channel
of its state as the mark by which it is known. A finished graph has no list of its tools, middleware
and subagents: they are read from its nodes, and from the variables around its tools' functions.
"""

import inspect
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, NotRequired

from deepagents import FilesystemMiddleware, FilesystemPermission
from deepagents.backends import CompositeBackend
from deepagents.middleware.filesystem import supports_execution
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.pregel import Pregel

from lasting_memory.agent.backends import RouteFiles, build_permissions, interrupted_tools
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Context
from lasting_memory.platform import Graph
from lasting_memory.settings import SettingsError

# The channels that every graph with policies, and with limits, has. They never hold a value.
_GUARDED_MARK = "_policies_shown"
_LIMITED_MARK = "_limits_held"
# deepagents' tools that write files.
_WRITERS = {"write_file", "edit_file", "delete"}
# Where the tools of this library are defined.
_LIBRARY = "lasting_memory."

# What errors call the graph itself.
_OUTERMOST = "The agent"
_NO_MIDDLEWARE = (
    "The agent has memory and neither policies nor limits, and a client's state reaches the prompt; "
    "build it with middleware(d, ...)."
)
_FILES_FIX = "build it with **file_system(d)"
_NO_FILES = f"The agent's files are not those of the deployment's routes; {_FILES_FIX}."


class GuardedState(AgentState[object]):
    """The state of a graph with policies: the mark by which it is known."""

    _policies_shown: NotRequired[
        Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]
    ]


class LimitedState(AgentState[object]):
    """The state of a graph with limits: the mark by which it is known."""

    _limits_held: NotRequired[Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]]


class ShownFiles(list[str]):
    """Paths for `create_deep_agent(memory=...)`.

    deepagents' own memory middleware reads them in a run, unless `middleware(d, ...)` takes its
    place.
    """

    def __iter__(self) -> Iterator[str]:
        """Raises `SettingsError`: the agent was built without `middleware(d, ...)`."""
        raise SettingsError(_NO_MIDDLEWARE)


class _Agent(NamedTuple):
    """An agent of a graph, what errors call it, and what they say of how it is built safely."""

    graph: Graph
    who: str
    fix: str


def offered_tools(graph: Graph) -> list[BaseTool]:
    """The tools that the model of an agent is offered, in order, one of each name.

    deepagents gives every agent with files the tool `execute`, and takes it out of each call where
    nothing can execute it.
    """
    tools = _tools(graph)
    by_name = dict[str, BaseTool]()
    for tool in tools:
        by_name.setdefault(tool.name, tool)
    files = _file_middleware(tools)
    if files is not None and not supports_execution(files.backend):
        by_name.pop("execute", None)
    return list(by_name.values())


def check_graph(graph: Graph) -> None:
    """Raises `SettingsError` for a graph of which an agent lacks a part that keeps it safe.

    The parts are those of `middleware(d, ...)`, `file_system(d)` and `subagents(d, ...)`. The
    agents are the graph itself, its nodes that are agents, and their subagents, at all levels. A
    graph in which no agent has any part of this library passes.
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
    outermost = _Agent(graph, _OUTERMOST, "build it with middleware(d, ...)")
    waiting = deque([outermost])
    seen_ids = set[int]()
    while waiting:
        agent = waiting.popleft()
        graph_id = id(agent.graph)
        if graph_id in seen_ids:
            continue
        seen_ids.add(graph_id)
        calls_model = "model" in agent.graph.nodes
        if calls_model or _tools(agent.graph):
            yield agent
        waiting.extend(_subagents_of(agent.graph))
        waiting.extend(_nodes_with_graphs(agent.graph))


def _subagents_of(graph: Graph) -> Iterator[_Agent]:
    """The subagents that tools of a graph call, if they are graphs of this process."""
    for tool in _tools(graph):
        for name, subagent in _subagents(tool).items():
            inner = _unwrapped(subagent)
            if inner is not None:
                yield _subagent(inner, name)


def _subagent(graph: Graph, name: object) -> _Agent:
    """A graph as the agent that errors call a subagent of this name."""
    return _Agent(graph, f"The subagent {name!r}", "give it by subagents(d, ...)")


def _nodes_with_graphs(graph: Graph) -> Iterator[_Agent]:
    """The graphs that are nodes of a graph, as agents."""
    for name, node in graph.nodes.items():
        for inner in node.subgraphs:
            if isinstance(inner, Pregel):
                yield _Agent(inner, f"The node {name!r}", "build its agent with middleware(d, ...)")


def has_approvals(graph: Graph) -> bool:
    """Whether calls of tools wait for an approval somewhere in a graph."""
    return bool(approved_calls(graph))


def approved_calls(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval somewhere in a graph."""
    names = set[str]()
    for agent in _agents(graph):
        names |= _approved_tools(agent.graph)
    return names


def _has_a_part(graph: Graph) -> bool:
    """Whether a graph has any part of this library."""
    if _is_guarded(graph) or _is_limited(graph):
        return True
    tools = _tools(graph)
    if _has_routes(tools):
        return True
    if any(map(_is_of_library, tools)):
        return True
    return any(map(_shows_files, _hooks(graph)))


def _shows_files(middleware: object) -> bool:
    """Whether this is deepagents' middleware for the paths of `file_system(d)`."""
    return isinstance(getattr(middleware, "sources", None), ShownFiles)


def _check_middleware(agent: _Agent) -> None:
    """Raises `SettingsError` for an agent without policies, or without limits."""
    if not _is_guarded(agent.graph):
        if agent.who == _OUTERMOST:
            raise SettingsError(_NO_MIDDLEWARE)
        raise SettingsError(f"{agent.who} sees no policies; {agent.fix}.")
    if not _is_limited(agent.graph):
        raise SettingsError(f"{agent.who} has no limits; {agent.fix}, with all that it returns.")


def _check_file_system(agent: _Agent) -> None:
    """Raises `SettingsError` for an agent whose file tools are not those of all routes.

    They must have the routes' rules and approvals. An agent without file tools passes.
    """
    tools = _tools(agent.graph)
    files = _file_middleware(tools)
    if files is None:
        return
    deployment = _checked_routes(agent, files)
    fix = "build it with **file_system(d) as it is"
    if "subagent" in agent.who:
        fix = agent.fix
    rules = build_permissions(deployment)
    if not _are_as_strict(files._permissions, rules):  # noqa: SLF001  # deepagents shows them in no other way
        raise SettingsError(f"{agent.who} lacks the permissions of the deployment's routes; {fix}.")
    names = {tool.name for tool in tools}
    to_approve = names & _calls_to_approve(deployment, rules)
    unapproved = to_approve - _approved_tools(agent.graph)
    if unapproved:
        raise SettingsError(
            f"{agent.who} writes shared files by {min(unapproved)} without an approval; {fix}."
        )


def _calls_to_approve(deployment: Deployment, rules: Sequence[FilesystemPermission]) -> set[str]:
    """Names of the tools whose calls must wait for an approval."""
    names = set(interrupted_tools(deployment))
    if any(rule.mode == "interrupt" for rule in rules):
        names |= _WRITERS
    return names


def _checked_routes(agent: _Agent, files: FilesystemMiddleware) -> Deployment:
    """The deployment whose routes an agent's files are. Raises `SettingsError` for other files."""
    routes = _routes(files)
    deployment = None
    for route_files in routes.values():
        if isinstance(route_files, RouteFiles):
            deployment = route_files.deployment
            break
    if deployment is None:
        raise SettingsError(
            f"{agent.who} has files that are not those of the deployment's routes; {_FILES_FIX}."
        )
    for path in deployment.routes:
        if not isinstance(routes.get(path), RouteFiles):
            raise SettingsError(f"{agent.who} has other files at {path}; {_FILES_FIX}.")
    return deployment


def _check_approvals(agent: _Agent) -> None:
    """Raises `SettingsError` for approvals that a tool's own node asks for.

    The node of an interrupt tells who may answer it.
    """
    for middleware in _approving(agent.graph):
        if middleware.interrupt_mode != "batched":
            fix = "build its HumanInTheLoopMiddleware with interrupt_mode='batched'"
            raise SettingsError(
                f"{agent.who} asks for approvals as a tool asks a person, who could then approve; {fix}."
            )


def _are_as_strict(
    permissions: Sequence[FilesystemPermission], rules: Sequence[FilesystemPermission]
) -> bool:
    """Whether permissions are at least as strict as these rules: they have all of them.

    The first permission that matches a call counts. So before the last of the rules no other one
    may stand, unless it denies.
    """
    missing = list(rules)
    for permission in permissions:
        if not missing:
            return True
        if permission in missing:
            missing.remove(permission)
        elif permission.mode != "deny":
            return False
    return not missing


def _approved_tools(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval."""
    names = set[str]()
    for middleware in _approving(graph):
        names.update(middleware.interrupt_on)
    return names


def _approving(
    graph: Graph,
) -> Iterator[HumanInTheLoopMiddleware[AgentState[object], Context, object]]:
    """The middleware that has calls of tools wait for an approval."""
    for middleware in _hooks(graph):
        if isinstance(middleware, HumanInTheLoopMiddleware):
            yield middleware


def _hooks(graph: Graph) -> list[object]:
    """The middleware that has a node of its own: before or after the agent or the model."""
    hooks = list[object]()
    for node in graph.nodes.values():
        runnable = node.bound
        function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
        if inspect.ismethod(function):
            hooks.append(function.__self__)
    return hooks


def check_files(tools: Sequence[object]) -> None:
    """Raises `SettingsError` if the file tools among these are not of the deployment's routes.

    The tools are those of an agent with policies. One without file tools passes.
    """
    if _has_routes(tools) is False:
        raise SettingsError(_NO_FILES)


def check_subagent(tool: object, name: object) -> None:
    """Raises `SettingsError` if a tool would call a subagent without policies, or without limits.

    A subagent without a model of its own, or one that is no graph of this process, passes.
    """
    subagent = _subagents(tool).get(str(name))
    graph = _unwrapped(subagent)
    if graph is None or "model" not in graph.nodes:
        return
    _check_middleware(_subagent(graph, name))


def _unwrapped(runnable: object) -> "Graph | None":
    """The graph that a subagent is, without configuration and retries around it.

    None if it is no graph of this process.
    """
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    if not isinstance(runnable, Pregel):
        return None
    return runnable


def _is_guarded(graph: Graph) -> bool:
    """Whether a graph has policies in its prompt, by its mark."""
    return _GUARDED_MARK in graph.channels


def _is_limited(graph: Graph) -> bool:
    """Whether a graph has limits, by its mark."""
    return _LIMITED_MARK in graph.channels


def _tools(graph: Graph) -> list[BaseTool]:
    """The tools that nodes of this graph call."""
    tools = list[BaseTool]()
    for node in graph.nodes.values():
        by_name: Mapping[str, BaseTool] = getattr(node.bound, "tools_by_name", {})
        tools.extend(by_name.values())
    return tools


def _is_of_library(tool: BaseTool) -> bool:
    """Whether a tool is defined in this library."""
    coroutine = getattr(tool, "coroutine", None)
    module = getattr(coroutine, "__module__", "")
    return module.startswith(_LIBRARY)


def _has_routes(tools: Sequence[object]) -> bool | None:
    """Whether the file tools among these reach routes of this library.

    None if there are no file tools.
    """
    files = _file_middleware(tools)
    if files is None:
        return None
    routes = _routes(files).values()
    return any(isinstance(route, RouteFiles) for route in routes)


def _file_middleware(tools: Sequence[object]) -> FilesystemMiddleware | None:
    """The middleware that made the file tools among these; None if there are none."""
    for tool in tools:
        files = _enclosed(tool, "self")
        if isinstance(files, FilesystemMiddleware):
            return files
    return None


def _routes(files: FilesystemMiddleware) -> Mapping[str, object]:
    """The files of each folder that has a backend of its own, by the folder's path."""
    backend = files.backend
    if not isinstance(backend, CompositeBackend):
        return {}
    return backend.routes


def _subagents(tool: object) -> Mapping[str, object]:
    """The subagents that deepagents' `task` tool calls, by name; none for another tool."""
    subagents = _enclosed(tool, "subagent_graphs")
    if not isinstance(subagents, Mapping):
        return {}
    return subagents


def _enclosed(tool: object, name: str) -> object:
    """The variable of this name around a tool's coroutine; None if there is none.

    deepagents shows it in no other way.
    """
    coroutine = getattr(tool, "coroutine", None)
    if not inspect.isfunction(coroutine):
        return None
    variables = inspect.getclosurevars(coroutine)
    return variables.nonlocals.get(name)
