"""Graph 1: the agent that people talk to."""

from typing import Any

from deepagents import SubAgent, create_deep_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph
from lasting_memory import (
    Context,
    Deployment,
    build_model,
    consolidated,
    conversation_tools,
    file_system,
    memory_tools,
    middleware,
    skills,
    subagents,
)

from deployment import DEPLOYMENT

WRITER: SubAgent = {
    "name": "writer",
    "description": (
        "Writes longer texts (e-mails, articles, summaries) in the user's own style, "
        "which it remembers."
    ),
    "system_prompt": DEPLOYMENT.prompt("writer.md"),
}


def build_agent(
    d: Deployment = DEPLOYMENT, model: BaseChatModel | None = None
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The agent, with `model` or the one that AGENT_MODEL names."""
    return create_deep_agent(
        name="agent",
        model=model or build_model(d),
        system_prompt=d.prompt("agent.md"),
        tools=[*memory_tools(d), *conversation_tools(d)],  # yours beside them
        **file_system(d),  # the routes, who may write there, and which files the prompt shows
        middleware=middleware(
            d, skills(d), consolidated(d)
        ),  # policies, memory and limits are always in it
        subagents=subagents(d, WRITER),  # and the helper; each sees policies
        context_schema=Context,
    )


agent = build_agent()
