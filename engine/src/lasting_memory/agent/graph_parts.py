"""The parts of a finished graph: its agents with their tools, middleware, files and subagents.

A finished graph has no list of them: they are read from its nodes, and from the variables around its
tools' functions. A graph with policies is guarded, one with limits is limited; each has a channel of
its state as the mark by which it is known.
"""

import inspect
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, NotRequired

from deepagents import FilesystemMiddleware
from deepagents.backends import CompositeBackend
from deepagents.middleware.filesystem import supports_execution
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.pregel import Pregel

from lasting_memory.agent.route_files import RouteFiles
from lasting_memory.people.identity import Context
from lasting_memory.platform import Graph

# The channels that every graph with policies, and with limits, has. They never hold a value.
_GUARDED_MARK = "_policies_shown"
_LIMITED_MARK = "_limits_held"
# What errors call the graph itself.
OUTERMOST = "The agent"


class GuardedState(AgentState[object]):
    """The state of a graph with policies: the mark by which it is known."""

    _policies_shown: NotRequired[
        Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]
    ]


class LimitedState(AgentState[object]):
    """The state of a graph with limits: the mark by which it is known."""

    _limits_held: NotRequired[Annotated[bool, UntrackedValue(bool, guard=False), PrivateStateAttr]]


class Agent(NamedTuple):
    """An agent of a graph, what errors call it, and what they say of how it is built safely."""

    graph: Graph
    label: str
    fix: str


def agents_of(graph: Graph) -> Iterator[Agent]:
    """The agents of a graph, at all levels, with the outermost first."""
    outermost = Agent(graph, OUTERMOST, "build it with middleware(d, ...)")
    agents_to_visit = deque([outermost])
    seen_ids = set[int]()
    while agents_to_visit:
        agent = agents_to_visit.popleft()
        graph_id = id(agent.graph)
        if graph_id in seen_ids:
            continue
        seen_ids.add(graph_id)
        calls_model = "model" in agent.graph.nodes
        if calls_model or tools_of(agent.graph):
            yield agent
        agents_to_visit.extend(_subagents_of(agent.graph))
        agents_to_visit.extend(_nodes_with_graphs(agent.graph))


def _subagents_of(graph: Graph) -> Iterator[Agent]:
    """The subagents that tools of a graph call, if they are graphs of this process."""
    for tool in tools_of(graph):
        for name, subagent in subagents_of_tool(tool).items():
            subagent_graph = graph_of(subagent)
            if subagent_graph is not None:
                yield subagent_as_agent(subagent_graph, name)


def subagent_as_agent(graph: Graph, name: object) -> Agent:
    """A graph as the agent that errors call a subagent of this name."""
    return Agent(graph, f"The subagent {name!r}", "give it by subagents(d, ...)")


def _nodes_with_graphs(graph: Graph) -> Iterator[Agent]:
    """The graphs that are nodes of a graph, as agents."""
    for name, node in graph.nodes.items():
        for node_graph in node.subgraphs:
            if isinstance(node_graph, Pregel):
                yield Agent(
                    node_graph, f"The node {name!r}", "build its agent with middleware(d, ...)"
                )


def offered_tools(graph: Graph) -> list[BaseTool]:
    """The tools that the model of an agent is offered, in order, one of each name.

    deepagents gives every agent with files the tool `execute`, and takes it out of each call where
    nothing can execute it.
    """
    tools = tools_of(graph)
    tools_by_name = dict[str, BaseTool]()
    for tool in tools:
        tools_by_name.setdefault(tool.name, tool)
    files = file_middleware(tools)
    if files is not None and not supports_execution(files.backend):
        tools_by_name.pop("execute", None)
    return list(tools_by_name.values())


def has_approvals(graph: Graph) -> bool:
    """Whether calls of tools wait for an approval somewhere in a graph."""
    return bool(approved_calls(graph))


def approved_calls(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval somewhere in a graph."""
    names = set[str]()
    for agent in agents_of(graph):
        names |= approved_tools(agent.graph)
    return names


def approved_tools(graph: Graph) -> set[str]:
    """Names of the tools whose calls wait for an approval."""
    names = set[str]()
    for middleware in approval_middleware(graph):
        names.update(middleware.interrupt_on)
    return names


def approval_middleware(
    graph: Graph,
) -> Iterator[HumanInTheLoopMiddleware[AgentState[object], Context, object]]:
    """The middleware that has calls of tools wait for an approval."""
    for middleware in hooks_of(graph):
        if isinstance(middleware, HumanInTheLoopMiddleware):
            yield middleware


def hooks_of(graph: Graph) -> list[object]:
    """The middleware that has a node of its own: before or after the agent or the model."""
    hooks = list[object]()
    for node in graph.nodes.values():
        runnable = node.bound
        function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
        if inspect.ismethod(function):
            hooks.append(function.__self__)
    return hooks


def graph_of(runnable: object) -> "Graph | None":
    """The graph that a subagent is, without configuration and retries around it.

    None if it is no graph of this process.
    """
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    if not isinstance(runnable, Pregel):
        return None
    return runnable


def is_guarded(graph: Graph) -> bool:
    """Whether a graph has policies in its prompt, by its mark."""
    return _GUARDED_MARK in graph.channels


def is_limited(graph: Graph) -> bool:
    """Whether a graph has limits, by its mark."""
    return _LIMITED_MARK in graph.channels


def tools_of(graph: Graph) -> list[BaseTool]:
    """The tools that nodes of this graph call."""
    tools = list[BaseTool]()
    for node in graph.nodes.values():
        tools_by_name: Mapping[str, BaseTool] = getattr(node.bound, "tools_by_name", {})
        tools.extend(tools_by_name.values())
    return tools


def has_routes(tools: Sequence[object]) -> bool | None:
    """Whether the file tools among these reach routes of this library.

    None if there are no file tools.
    """
    files = file_middleware(tools)
    if files is None:
        return None
    routes = routes_of(files).values()
    return any(isinstance(route, RouteFiles) for route in routes)


def file_middleware(tools: Sequence[object]) -> FilesystemMiddleware | None:
    """The middleware that made the file tools among these; None if there are none."""
    for tool in tools:
        files = _enclosed(tool, "self")
        if isinstance(files, FilesystemMiddleware):
            return files
    return None


def routes_of(files: FilesystemMiddleware) -> Mapping[str, object]:
    """The files of each folder that has a backend of its own, by the folder's path."""
    backend = files.backend
    if not isinstance(backend, CompositeBackend):
        return {}
    return backend.routes


def subagents_of_tool(tool: object) -> Mapping[str, object]:
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
