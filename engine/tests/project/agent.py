"""Graph 1: the agent users talk to."""

from typing import Any

from deepagents import SubAgent, create_deep_agent
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from deployment import DEPLOYMENT
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from lasting_memory.agent.models import LIMITS, CallLimits, build_model, whole_answers
from lasting_memory.agent.prompt import PromptBlocks, memory_files
from lasting_memory.agent.skills import build_skills
from lasting_memory.agent.tools import build_memory_tools
from lasting_memory.agent.usage import Bounds
from lasting_memory.agent.writer import build_writer
from lasting_memory.consolidation import agent_hooks
from lasting_memory.deployment import Deployment
from lasting_memory.files.routes import build_backend, build_permissions, interrupted_tools
from lasting_memory.people.identity import Context
from lasting_memory.recall import build_episode_tools
from lasting_memory.settings import PROMPTS

PROMPT = (PROMPTS / "agent.md").read_text("utf-8")
SHARED_MEMORY = (PROMPTS / "memory_shared.md").read_text("utf-8")
READ_ONLY_MEMORY = (PROMPTS / "memory_read_only.md").read_text("utf-8")


def system_prompt(deployment: Deployment) -> str:
    """The static part of the prompt: `agent.md`, and the text for this deployment's settings."""
    if deployment.settings.memory_scope == "assistant":
        return f"{PROMPT}\n{SHARED_MEMORY}"
    return f"{PROMPT}\n{READ_ONLY_MEMORY}" if deployment.settings.memory_writes == "background" else PROMPT


def build_agent(
    deployment: Deployment, model: BaseChatModel | None = None, limits: CallLimits = LIMITS
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The agent, with `model` or the one that the settings name. Raises `SettingsError` if that cannot be built."""
    settings, backend = deployment.settings, build_backend(deployment)
    files = memory_files(deployment)
    middleware: list[Any] = [PromptBlocks(deployment, files)]
    middleware.append(build_skills(deployment, backend))
    bounded = [Bounds(deployment), limits.retry()]
    # deepagents' default subagent would see neither policies nor memory; this one replaces it by name.
    helper: SubAgent = {**GENERAL_PURPOSE_SUBAGENT, "middleware": [*middleware, *bounded]}
    graph = create_deep_agent(
        model=whole_answers(model or build_model(settings.agent_model, local_dev=settings.local_dev), limits),
        name="agent",
        system_prompt=system_prompt(deployment),
        tools=[*build_memory_tools(deployment, backend), *build_episode_tools(deployment)],
        backend=backend,
        permissions=build_permissions(deployment),
        interrupt_on=interrupted_tools(deployment),
        memory=files,  # deepagents adds its own middleware, which `PromptBlocks` replaces by name
        middleware=[*middleware, *agent_hooks(deployment), Bounds(deployment, limits.run_seconds), limits.retry()],
        subagents=[helper, build_writer(deployment, files, bounded)],
        context_schema=Context,
    )
    return graph.with_config({"metadata": {"memory_scope": deployment.settings.memory_scope}})


agent = build_agent(DEPLOYMENT)
