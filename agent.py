"""Graph 1: the agent users talk to."""

from typing import Any

from deepagents import SubAgent, create_deep_agent
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from memory.consolidation import agent_hooks
from memory.identity import Context
from memory.prompt import PromptBlocks, memory_files
from memory.recall import build_episode_tools
from memory.routes import build_backend, build_permissions, interrupted_tools
from memory.skills import build_skills
from memory.tools import build_memory_tools
from memory.usage import Bounds
from models import LIMITS, CallLimits, build_model, whole_answers
from settings import PROJECT, Settings, load_settings
from writer import build_writer

PROMPTS = PROJECT / "prompts"
PROMPT = (PROMPTS / "agent.md").read_text("utf-8")
SHARED_MEMORY = (PROMPTS / "memory_shared.md").read_text("utf-8")
READ_ONLY_MEMORY = (PROMPTS / "memory_read_only.md").read_text("utf-8")


def system_prompt(settings: Settings) -> str:
    """The static part of the prompt: `agent.md`, and the text for this deployment's settings."""
    if settings.memory_scope == "assistant":
        return f"{PROMPT}\n{SHARED_MEMORY}"
    return f"{PROMPT}\n{READ_ONLY_MEMORY}" if settings.memory_writes == "background" else PROMPT


def build_agent(
    settings: Settings, model: BaseChatModel | None = None, limits: CallLimits = LIMITS
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The agent, with `model` or the one that the settings name. Raises `SettingsError` if that cannot be built."""
    backend = build_backend(settings)
    files = memory_files(settings)
    middleware: list[Any] = [PromptBlocks(settings, files)]
    middleware.append(build_skills(settings, backend))
    bounded = [Bounds(settings), limits.retry()]
    # deepagents' default subagent would see neither policies nor memory; this one replaces it by name.
    helper: SubAgent = {**GENERAL_PURPOSE_SUBAGENT, "middleware": [*middleware, *bounded]}
    graph = create_deep_agent(
        model=whole_answers(model or build_model(settings.agent_model, local_dev=settings.local_dev), limits),
        name="agent",
        system_prompt=system_prompt(settings),
        tools=[*build_memory_tools(settings, backend), *build_episode_tools(settings)],
        backend=backend,
        permissions=build_permissions(settings),
        interrupt_on=interrupted_tools(settings),
        memory=files,  # deepagents adds its own middleware, which `PromptBlocks` replaces by name
        middleware=[*middleware, *agent_hooks(settings), Bounds(settings, limits.run_seconds), limits.retry()],
        subagents=[helper, build_writer(settings, files, bounded)],
        context_schema=Context,
    )
    return graph.with_config({"metadata": {"memory_scope": settings.memory_scope}})


agent = build_agent(load_settings())
