"""What `create_deep_agent` takes from this library: files, middleware and subagents.

A stack is the middleware of one agent, in order. Policies, memory and limits are in every stack made
here, whatever a fork puts beside them, and in an order that is safe. What would take them away is
refused where the graph is built.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from deepagents import (
    FilesystemMiddleware,
    FilesystemPermission,
    MemoryMiddleware,
    SubAgent,
    SubAgentMiddleware,
)
from deepagents.backends import CompositeBackend
from deepagents.middleware.skills import SkillsMiddleware
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ModelRetryMiddleware,
)
from langchain.agents.middleware.types import AgentMiddleware

from lasting_memory.agent.backends import build_backend, build_permissions, interrupted_tools
from lasting_memory.agent.bounds import Bounds, CalledByBounds
from lasting_memory.agent.checks import ShownFiles
from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.prompt import PromptBlocks
from lasting_memory.agent.skills import FreshSkills, skills
from lasting_memory.deployment import Deployment
from lasting_memory.memory.new_memory import load_starting_memory

# Of an agent with any state, context and answer: a fork's may have its own.
Middleware = AgentMiddleware[Any, Any, Any]

# deepagents replaces its own middleware by these names: another one would take policies, gates or
# approval away, or (`SkillsMiddleware`) show texts that a client put into the thread.
_INSTEAD: dict[type[Middleware], str] = {
    MemoryMiddleware: "policies and memory are in it already: leave it out",
    SkillsMiddleware: "use skills(d)",
    FilesystemMiddleware: "use create_deep_agent(**file_system(d))",
    SubAgentMiddleware: "use create_deep_agent(subagents=subagents(d, ...))",
    HumanInTheLoopMiddleware: "use file_system(d, interrupt_on={...})",
    Bounds: "limits are in it already: leave it out",
    ModelRetryMiddleware: "a retry is in it already: leave it out",
}


class FileSystem(TypedDict):
    """Arguments of `create_deep_agent`: routes, who may write there, and files in prompts."""

    backend: CompositeBackend
    permissions: list[FilesystemPermission]
    interrupt_on: dict[str, bool | InterruptOnConfig]
    memory: list[str]


def file_system(
    d: Deployment, interrupt_on: Mapping[str, bool | InterruptOnConfig] | None = None
) -> FileSystem:
    """The agent's files, to be given as `create_deep_agent(**file_system(d), ...)`.

    `interrupt_on` names tools of your own that wait for an operator's approval, beside those that
    write shared memory. A tool that asks the person calls `interrupt()` itself.
    """
    return {
        "backend": build_backend(d),
        "permissions": build_permissions(d),
        "interrupt_on": {**(interrupt_on or {}), **interrupted_tools(d)},
        # deepagents adds its own middleware for them, which `PromptBlocks` replaces by name.
        "memory": ShownFiles(memory_files(d)),
    }


def middleware(d: Deployment, *extra: Middleware | None) -> list[Middleware]:
    """The agent's middleware: policies and memory, then `extra`, then limits and retries.

    `extra` keeps its order; None in it is left out. A model of your own is held to whole answers
    and to limits here, too. Raises `TypeError` for what is no middleware, and `ValueError` for one
    that would take the place of another here.
    """
    files = memory_files(d)
    seconds = d.limits.max_run_seconds
    return _stack(d, "middleware(d, ...)", extra, files, seconds, titles=True)


def subagents(d: Deployment, *own: SubAgent) -> list[SubAgent]:
    """`own` subagents and the helper, each with policies, memory and limits.

    The helper is deepagents' `general-purpose`, with the skills; one of `own` with its name
    replaces it. Each is also shown a memory of its own, `/memories/agents/<name>/MEMORY.md`, once
    it exists. Its own middleware and permissions come beside the agent's. Approvals are the
    agent's, or its own beside those of shared memory. Raises `ValueError` for a subagent into which
    no policies could be put.
    """
    specs = list(own)
    names = {spec["name"] for spec in own}
    if GENERAL_PURPOSE_SUBAGENT["name"] not in names:
        helper_middleware = list[Middleware]()
        skills_in_prompt = skills(d)
        if skills_in_prompt is not None:
            helper_middleware.append(skills_in_prompt)
        helper: SubAgent = {**GENERAL_PURPOSE_SUBAGENT, "middleware": helper_middleware}
        specs.insert(0, helper)
    return [_with_policies(d, spec) for spec in specs]


def _with_policies(d: Deployment, spec: SubAgent) -> SubAgent:
    """A subagent with the stack, the permissions and the approvals that an agent has.

    Raises `ValueError` for one that is no specification, or that names skills.
    """
    name = spec["name"]
    if "system_prompt" not in spec:  # a compiled or remote graph
        fix = "build its graph with middleware(d) and add it beside: [*subagents(d), it]"
        raise ValueError(
            f"subagents(d, ...): no policies can be put into {name!r}, which has no system_prompt; {fix}."
        )
    if "skills" in spec:
        raise ValueError(
            f"subagents(d, ...): {name!r} names skills, which a client could replace; use middleware=[skills(d)]."
        )
    files = memory_files(d)
    if d.has_memory:
        files.append(f"/memories/agents/{name}/MEMORY.md")
    extra = spec.get("middleware", ())
    # The first permission that matches counts.
    permissions = build_permissions(d)
    permissions.extend(spec.get("permissions", ()))
    safe_spec: SubAgent = {
        **spec,
        "middleware": _stack(d, f"the subagent {name!r}", extra, files),
        "permissions": permissions,
    }
    # deepagents gives the agent's approvals to a subagent that names none.
    if "interrupt_on" in spec:
        safe_spec["interrupt_on"] = {**spec["interrupt_on"], **interrupted_tools(d)}
    return safe_spec


def _stack(
    d: Deployment,
    agent_label: str,
    extra: Iterable[Middleware | None],
    files: Sequence[str],
    seconds: float | None = None,
    *,
    titles: bool = False,
) -> list[Middleware]:
    """The middleware of an agent: policies and memory in its prompt, the extra ones, its limits.

    `agent_label` names the agent in errors, `files` are the files of memory in its prompt,
    `seconds` are those that a run may take (None: without a limit), and with `titles` it names its
    conversations. Raises as `_check_extra`.
    """
    outer_middleware = list[CalledByBounds]()
    other_middleware = list[Middleware]()
    for part in extra:
        if part is None:
            continue
        _check_extra(part, agent_label)
        if isinstance(part, CalledByBounds):
            outer_middleware.append(part)
        else:
            other_middleware.append(part)
    # Now, so that a file that cannot be read stops the start and no run.
    load_starting_memory(d)
    d.load_prompts()
    prompt_blocks = PromptBlocks(d, files, titles=titles)
    bounds = Bounds(d, seconds, outer_middleware=outer_middleware)
    return [prompt_blocks, *other_middleware, bounds]


def _check_extra(part: object, agent_label: str) -> None:
    """Raises `TypeError` for what is no middleware, `ValueError` for one that replaces another."""
    if not isinstance(part, AgentMiddleware):
        raise TypeError(
            f"{agent_label} was given {part!r:.80}; use instances of AgentMiddleware, or None."
        )
    if isinstance(part, FreshSkills):
        return
    for middleware_class, advice in _INSTEAD.items():
        has_name = part.name == middleware_class.__name__
        if has_name or isinstance(part, middleware_class):
            raise ValueError(f"{agent_label} was given a second {part.name}; {advice}.")
