"""Whether an agent has all the parts that keep it safe.

deepagents builds the agent, and each part of this library sees itself alone. So these checks look
at the finished graph (`graph_parts.py`): when the server starts (`check_graph`), and where a run
first needs a part that is missing. The parts are policies and memory in the prompt, limits, and
files in the folders of the deployment's routes.
"""

from collections.abc import Iterator, Sequence

from deepagents import FilesystemMiddleware, FilesystemPermission
from langchain_core.tools import BaseTool

from lasting_memory.agent.backends import build_permissions, interrupted_tools
from lasting_memory.agent.graph_parts import (
    OUTERMOST,
    Agent,
    agents_of,
    approval_middleware,
    approved_tools,
    file_middleware,
    graph_of,
    has_routes,
    hooks_of,
    is_guarded,
    is_limited,
    routes_of,
    subagent_as_agent,
    subagents_of_tool,
    tools_of,
)
from lasting_memory.agent.route_files import RouteFiles
from lasting_memory.deployment import Deployment
from lasting_memory.platform import Graph
from lasting_memory.settings import SettingsError

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


class ShownFiles(list[str]):
    """Paths for `create_deep_agent(memory=...)`.

    deepagents' own memory middleware reads them in a run, unless `middleware(d, ...)` takes its
    place.
    """

    def __iter__(self) -> Iterator[str]:
        """Raises `SettingsError`: the agent was built without `middleware(d, ...)`."""
        raise SettingsError(_NO_MIDDLEWARE)


def check_graph(graph: Graph) -> None:
    """Raises `SettingsError` for a graph of which an agent lacks a part that keeps it safe.

    The parts are those of `middleware(d, ...)`, `file_system(d)` and `subagents(d, ...)`. The
    agents are the graph itself, its nodes that are agents, and their subagents, at all levels. A
    graph in which no agent has any part of this library passes.
    """
    agents = list(agents_of(graph))
    if not any(_has_a_part(agent.graph) for agent in agents):
        return
    for agent in agents:
        _check_middleware(agent)
        _check_file_system(agent)
        _check_approvals(agent)


def check_files(tools: Sequence[object]) -> None:
    """Raises `SettingsError` if the file tools among these are not of the deployment's routes.

    The tools are those of an agent with policies. One without file tools passes.
    """
    if has_routes(tools) is False:
        raise SettingsError(_NO_FILES)


def check_subagent(tool: object, name: object) -> None:
    """Raises `SettingsError` if a tool would call a subagent without policies, or without limits.

    A subagent without a model of its own, or one that is no graph of this process, passes.
    """
    subagent = subagents_of_tool(tool).get(str(name))
    graph = graph_of(subagent)
    if graph is None or "model" not in graph.nodes:
        return
    _check_middleware(subagent_as_agent(graph, name))


def _has_a_part(graph: Graph) -> bool:
    """Whether a graph has any part of this library."""
    if is_guarded(graph) or is_limited(graph):
        return True
    tools = tools_of(graph)
    if has_routes(tools):
        return True
    if any(map(_is_of_library, tools)):
        return True
    return any(map(_shows_files, hooks_of(graph)))


def _shows_files(middleware: object) -> bool:
    """Whether this is deepagents' middleware for the paths of `file_system(d)`."""
    return isinstance(getattr(middleware, "sources", None), ShownFiles)


def _check_middleware(agent: Agent) -> None:
    """Raises `SettingsError` for an agent without policies, or without limits."""
    if not is_guarded(agent.graph):
        if agent.label == OUTERMOST:
            raise SettingsError(_NO_MIDDLEWARE)
        raise SettingsError(f"{agent.label} sees no policies; {agent.fix}.")
    if not is_limited(agent.graph):
        raise SettingsError(f"{agent.label} has no limits; {agent.fix}, with all that it returns.")


def _check_file_system(agent: Agent) -> None:
    """Raises `SettingsError` for an agent whose file tools are not those of all routes.

    They must have the routes' rules and approvals. An agent without file tools passes.
    """
    tools = tools_of(agent.graph)
    files = file_middleware(tools)
    if files is None:
        return
    deployment = _checked_routes(agent, files)
    fix = "build it with **file_system(d) as it is"
    if "subagent" in agent.label:
        fix = agent.fix
    rules = build_permissions(deployment)
    if not _are_as_strict(files._permissions, rules):  # noqa: SLF001  # deepagents shows them in no other way
        raise SettingsError(
            f"{agent.label} lacks the permissions of the deployment's routes; {fix}."
        )
    names = {tool.name for tool in tools}
    tools_to_approve = names & _calls_to_approve(deployment, rules)
    unapproved_tools = tools_to_approve - approved_tools(agent.graph)
    if unapproved_tools:
        raise SettingsError(
            f"{agent.label} writes shared files by {min(unapproved_tools)} without an approval; {fix}."
        )


def _calls_to_approve(deployment: Deployment, rules: Sequence[FilesystemPermission]) -> set[str]:
    """Names of the tools whose calls must wait for an approval."""
    names = set(interrupted_tools(deployment))
    if any(rule.mode == "interrupt" for rule in rules):
        names |= _WRITERS
    return names


def _checked_routes(agent: Agent, files: FilesystemMiddleware) -> Deployment:
    """The deployment whose routes an agent's files are. Raises `SettingsError` for other files."""
    routes = routes_of(files)
    deployment = None
    for route_files in routes.values():
        if isinstance(route_files, RouteFiles):
            deployment = route_files.deployment
            break
    if deployment is None:
        raise SettingsError(
            f"{agent.label} has files that are not those of the deployment's routes; {_FILES_FIX}."
        )
    for path in deployment.routes:
        if not isinstance(routes.get(path), RouteFiles):
            raise SettingsError(f"{agent.label} has other files at {path}; {_FILES_FIX}.")
    return deployment


def _check_approvals(agent: Agent) -> None:
    """Raises `SettingsError` for approvals that a tool's own node asks for.

    The node of an interrupt tells who may answer it.
    """
    for middleware in approval_middleware(agent.graph):
        if middleware.interrupt_mode != "batched":
            fix = "build its HumanInTheLoopMiddleware with interrupt_mode='batched'"
            raise SettingsError(
                f"{agent.label} asks for approvals as a tool asks a person, who could then approve; {fix}."
            )


def _are_as_strict(
    permissions: Sequence[FilesystemPermission], rules: Sequence[FilesystemPermission]
) -> bool:
    """Whether permissions are at least as strict as these rules: they have all of them.

    The first permission that matches a call counts. So before the last of the rules no other one
    may stand, unless it denies.
    """
    missing_rules = list(rules)
    for permission in permissions:
        if not missing_rules:
            return True
        if permission in missing_rules:
            missing_rules.remove(permission)
        elif permission.mode != "deny":
            return False
    return not missing_rules


def _is_of_library(tool: BaseTool) -> bool:
    """Whether a tool is defined in this library."""
    coroutine = getattr(tool, "coroutine", None)
    module = getattr(coroutine, "__module__", "")
    return module.startswith(_LIBRARY)
