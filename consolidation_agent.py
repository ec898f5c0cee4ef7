"""Graph 2: turns finished conversations into memory, between them."""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from memory.consolidation import Consolidation
from memory.prompt import PromptBlocks
from memory.rehearsal import Rehearsals
from memory.routes import build_backend, build_permissions
from memory.scopes import Context
from memory.tools import append_memory_tool
from models import build_model
from settings import MEMORY_FILES, PROJECT, Settings, load_settings

PROMPT = (PROJECT / "prompts" / "consolidation.md").read_text("utf-8")


def build_consolidation_agent(
    settings: Settings, model: BaseChatModel | None = None
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with the model the settings name unless one is given.

    Raises:
        SettingsError: the model cannot be built.
    """
    named = (settings.consolidation_model, "CONSOLIDATION_MODEL") if settings.consolidation_model else (settings.agent_model,)
    rehearsals = Rehearsals()
    backend = build_backend(settings, consolidating=True, rehearsals=rehearsals)
    graph = create_deep_agent(
        model=model or build_model(*named),
        name="consolidation_agent",
        system_prompt=PROMPT,
        tools=[append_memory_tool(backend)],
        backend=backend,
        permissions=build_permissions(settings, consolidating=True),
        memory=list(MEMORY_FILES),
        # No subagents: `Consolidation` refuses to delegate, to deepagents' default one as well.
        middleware=[Consolidation(settings, rehearsals), PromptBlocks(settings, MEMORY_FILES)],
        context_schema=Context,
    )
    return graph.with_config({"metadata": {"memory_scope": settings.memory_scope, "consolidation": True}})


consolidation_agent = build_consolidation_agent(load_settings())
