"""The yardstick: a deep agent with the same three routes into the store, memory and skills as
deepagents itself does it.

It reads the same files as the project's agent for the same person. It does less: no policies in the
prompt, no fresh loading within a thread, no checks of identity or of what is written, no tools and
no subagents of its own.
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from benchmarks.stored import ORG
from lasting_memory.agent.models import build_model
from lasting_memory.deployment import DEFAULTS
from lasting_memory.people.identity import Context
from lasting_memory.settings import ENGINE
from lasting_memory.testing.people import AGENT


def _user(runtime: Runtime[Any]) -> str:
    user: str = (
        runtime.server_info.user.identity
        if runtime.server_info and runtime.server_info.user
        else ""
    )
    return user or runtime.context.user_id


def build_bare_agent(model: BaseChatModel) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The bare deep agent with this model."""
    backend = CompositeBackend(
        default=StateBackend(),
        routes={
            "/memories/": StoreBackend(
                namespace=lambda runtime: ("memories", f"{ORG}:{_user(runtime)}")
            ),
            "/skills/": StoreBackend(namespace=lambda _: ("skills", AGENT)),
            "/policies/": StoreBackend(namespace=lambda _: ("policies", ORG)),
        },
    )
    return create_deep_agent(
        model=model,
        name="bare_agent",
        system_prompt=(ENGINE / "prompts" / "agent.md").read_text("utf-8"),
        backend=backend,
        memory=list(DEFAULTS.memory_files),
        skills=["/skills/", "/memories/skills/"],
        context_schema=Context,
    )


bare_agent = build_bare_agent(build_model(DEPLOYMENT))
