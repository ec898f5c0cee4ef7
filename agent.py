"""Graph 1: the agent users talk to."""

from __future__ import annotations

from typing import Any

from deepagents import SubAgent, create_deep_agent
from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from memory.episodes import build_episode_tools
from memory.profile import PROFILE_PATH
from memory.prompt import PromptBlocks
from memory.routes import build_backend, build_permissions, interrupted_tools
from memory.scopes import Context
from memory.skills import FreshSkills
from memory.tools import build_memory_tools
from memory.triggers import IdleTrigger
from models import build_model
from settings import MEMORY_FILES, PROJECT, Settings, load_settings

PROMPTS = PROJECT / "prompts"
PROMPT = (PROMPTS / "agent.md").read_text("utf-8")
SHARED_MEMORY = (PROMPTS / "memory_shared.md").read_text("utf-8")
READ_ONLY_MEMORY = (PROMPTS / "memory_read_only.md").read_text("utf-8")
WRITER_PROMPT = (PROMPTS / "writer.md").read_text("utf-8")
# Later folders win: a user's own skill replaces the assistant's of the same name.
SKILL_SOURCES = ["/skills/", "/memories/skills/"]
# An example of memory per named agent: what this user wants of this subagent, kept and shown beside the rest.
WRITER_MEMORY = "/memories/agents/writer/MEMORY.md"


def system_prompt(settings: Settings) -> str:
    """The static part of the prompt: the agent's own, and what this deployment does otherwise."""
    if settings.memory_scope == "assistant":
        return f"{PROMPT}\n{SHARED_MEMORY}"
    return f"{PROMPT}\n{READ_ONLY_MEMORY}" if settings.memory_writes == "background" else PROMPT


def build_agent(settings: Settings, model: BaseChatModel | None = None) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The agent, with the model the settings name unless one is given.

    Raises:
        SettingsError: the model cannot be built.
    """
    backend = build_backend(settings)
    skill_sources = SKILL_SOURCES if settings.memory_scope != "assistant" else SKILL_SOURCES[:1]
    # A profile is a person's; shared memory has none.
    memory_files = [path for path in MEMORY_FILES if settings.memory_scope != "assistant" or path != PROFILE_PATH]
    blocks = PromptBlocks(settings, memory_files)
    skills = FreshSkills(backend=backend, sources=skill_sources)
    middleware: list[Any] = [blocks, skills]
    # Private conversations must not flow into shared memory.
    consolidates = settings.consolidate_after_seconds and settings.memory_scope != "assistant"
    triggers = [IdleTrigger(settings)] if consolidates else []
    # deepagents' default subagent would see neither policies nor memory; this one replaces it by name.
    helper: SubAgent = {**GENERAL_PURPOSE_SUBAGENT, "skills": skill_sources, "middleware": middleware}
    writer: SubAgent = {
        "name": "writer",
        "description": "Writes longer texts (e-mails, articles, summaries) in the user's own style, which it remembers.",
        "system_prompt": WRITER_PROMPT,
        "middleware": [PromptBlocks(settings, [*memory_files, WRITER_MEMORY])],
    }
    graph = create_deep_agent(
        model=model or build_model(settings.agent_model),
        name="agent",
        system_prompt=system_prompt(settings),
        tools=[*build_memory_tools(settings, backend), *build_episode_tools(settings)],
        backend=backend,
        permissions=build_permissions(settings),
        interrupt_on=interrupted_tools(settings),
        # `memory` and `skills` make the places that the two middleware then take by name.
        memory=memory_files,
        skills=skill_sources,
        middleware=[*middleware, *triggers],
        subagents=[helper, writer],
        context_schema=Context,
    )
    return graph.with_config({"metadata": {"memory_scope": settings.memory_scope}})


agent = build_agent(load_settings())
