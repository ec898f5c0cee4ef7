"""Graph 2: turns finished conversations into memory, between them."""

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from lasting_memory.agent.models import build_model, whole_answers
from lasting_memory.agent.prompt import PromptBlocks, memory_files
from lasting_memory.agent.tools import append_memory_tool
from lasting_memory.agent.usage import Bounds
from lasting_memory.consolidation.drafts import EndedGraph, draft_store
from lasting_memory.consolidation.run import ConsolidationRun
from lasting_memory.deployment import Deployment
from lasting_memory.files.routes import build_backend, build_permissions
from lasting_memory.people.identity import Context


def build_consolidation_agent(d: Deployment, model: BaseChatModel | None = None) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name. Raises `SettingsError` as `build_model`."""
    backend = build_backend(d, consolidating=True, drafts=draft_store)
    graph = create_deep_agent(
        model=whole_answers(model or build_model(d, consolidating=True), d.limits),
        name="consolidation_agent",
        system_prompt=d.prompt("consolidation.md"),
        tools=[append_memory_tool(backend)],
        backend=backend,
        permissions=build_permissions(d, consolidating=True),
        memory=memory_files(d),
        # `ConsolidationRun` drops the batch if a later middleware raises. It refuses all subagents, deepagents' default too.
        middleware=[
            ConsolidationRun(d),
            PromptBlocks(d, memory_files(d), draft_store),
            Bounds(d, d.limits.max_run_seconds, consolidating=True),
        ],
        context_schema=Context,
    )
    return EndedGraph(**vars(graph)).with_config({"metadata": {"memory_scope": d.settings.memory_scope, "consolidation": True}})
