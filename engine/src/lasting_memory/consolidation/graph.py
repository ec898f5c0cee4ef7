"""Graph 2: turns finished conversations into memory, between them."""

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from lasting_memory.agent.models import LIMITS, CallLimits, build_model, whole_answers
from lasting_memory.agent.prompt import PromptBlocks
from lasting_memory.agent.tools import append_memory_tool
from lasting_memory.agent.usage import Bounds
from lasting_memory.consolidation import ConsolidationRun, Drafts, EndedGraph
from lasting_memory.deployment import Deployment
from lasting_memory.files.routes import build_backend, build_permissions
from lasting_memory.people.identity import Context
from lasting_memory.settings import MEMORY_FILES


def build_consolidation_agent(
    deployment: Deployment,
    model: BaseChatModel | None = None,
    limits: CallLimits = LIMITS,
    consolidation: ConsolidationRun | None = None,
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name. Raises `SettingsError` as `build_agent`."""
    named = (
        (deployment.settings.consolidation_model, "CONSOLIDATION_MODEL")
        if deployment.settings.consolidation_model
        else (deployment.settings.agent_model,)
    )
    consolidation = consolidation or ConsolidationRun(deployment, Drafts())
    backend = build_backend(deployment, consolidating=True, drafts=consolidation.drafts.store)
    graph = create_deep_agent(
        model=whole_answers(model or build_model(*named, local_dev=deployment.settings.local_dev), limits),
        name="consolidation_agent",
        system_prompt=deployment.prompt("consolidation.md"),
        tools=[append_memory_tool(backend)],
        backend=backend,
        permissions=build_permissions(deployment, consolidating=True),
        memory=list(MEMORY_FILES),
        # `ConsolidationRun` drops the batch if a later middleware raises. It refuses all subagents, deepagents' default too.
        middleware=[
            consolidation,
            PromptBlocks(deployment, MEMORY_FILES, consolidation.drafts.store),
            Bounds(deployment, limits.run_seconds, consolidating=True),
            limits.retry(),
        ],
        context_schema=Context,
    )
    return EndedGraph(**vars(graph)).with_config(
        {"metadata": {"memory_scope": deployment.settings.memory_scope, "consolidation": True}}
    )
