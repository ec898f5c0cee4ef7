"""Graph 2: turns finished conversations into memory, between them."""

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from memory.consolidation import Consolidation, Drafts, EndedGraph
from memory.identity import Context
from memory.prompt import PromptBlocks
from memory.routes import build_backend, build_permissions
from memory.tools import append_memory_tool
from memory.usage import Bounds
from models import LIMITS, CallLimits, build_model, whole_answers
from settings import MEMORY_FILES, PROJECT, Settings, load_settings

PROMPT = (PROJECT / "prompts" / "consolidation.md").read_text("utf-8")


def build_consolidation_agent(
    settings: Settings,
    model: BaseChatModel | None = None,
    limits: CallLimits = LIMITS,
    consolidation: Consolidation | None = None,
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name. Raises `SettingsError` as `build_agent`."""
    named = (settings.consolidation_model, "CONSOLIDATION_MODEL") if settings.consolidation_model else (settings.agent_model,)
    consolidation = consolidation or Consolidation(settings, Drafts())
    backend = build_backend(settings, consolidating=True, drafts=consolidation.drafts.store)
    graph = create_deep_agent(
        model=whole_answers(model or build_model(*named, local_dev=settings.local_dev), limits),
        name="consolidation_agent",
        system_prompt=PROMPT,
        tools=[append_memory_tool(backend)],
        backend=backend,
        permissions=build_permissions(settings, consolidating=True),
        memory=list(MEMORY_FILES),
        # `Consolidation` drops the batch if a later middleware raises. It refuses all subagents, deepagents' default one too.
        middleware=[
            consolidation,
            PromptBlocks(settings, MEMORY_FILES, consolidation.drafts.store),
            Bounds(settings, limits.run_seconds, consolidating=True),
            limits.retry(),
        ],
        context_schema=Context,
    )
    return EndedGraph(**vars(graph)).with_config({"metadata": {"memory_scope": settings.memory_scope, "consolidation": True}})


consolidation_agent = build_consolidation_agent(load_settings())
