"""The yardstick: a deep agent with the same three routes into the store, memory and skills as deepagents itself does it.

It reads the same files as the project's agent for the same person. It does less: no policies in the prompt, no fresh
loading within a thread, no checks of identity or of what is written, no tools and no subagents of its own.
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from lasting_memory.agent.models import build_model
from lasting_memory.limits import DEFAULTS
from lasting_memory.people.identity import Context
from lasting_memory.settings import ENGINE
from lasting_memory.testing.people import AGENT

ORG = "acme"
SKILL = "---\nname: summaries\ndescription: How to summarize a meeting.\n---\n\n# Summaries\n\nDecisions first.\n"
POLICY = "# Refunds\n\n- Up to 100 EUR without asking.\n- Above that, a manager decides.\n"


def stored_files(user: str) -> list[tuple[tuple[str, str], str, str]]:
    """Namespace, key and text of what the organization, the assistant and a person of some weeks have in the store."""
    memories = ("memories", f"{ORG}:{user}")
    return [
        (("policies", ORG), "/refunds.md", POLICY),
        (("policies", ORG), "/tone.md", "# Tone\n\n- Friendly, short, never sarcastic.\n"),
        (("skills", AGENT), "/summaries/SKILL.md", SKILL),
        (memories, "/preferences.md", "# Preferences\n\n" + "- Metric units, and answers in one paragraph.\n" * 20),
        (memories, "/profile.json", '{\n  "name": "Alice",\n  "timezone": "Europe/Berlin"\n}\n'),
        (memories, "/topics/index.md", "# Topics\n\n" + "- /memories/topics/cooking.md: what she cooks.\n" * 20),
    ]


def _user(runtime: Runtime[Any]) -> str:
    user: str = runtime.server_info.user.identity if runtime.server_info and runtime.server_info.user else ""
    return user or runtime.context.user_id


def build_bare_agent(model: BaseChatModel) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The bare deep agent with this model."""
    backend = CompositeBackend(
        default=StateBackend(),
        routes={
            "/memories/": StoreBackend(namespace=lambda runtime: ("memories", f"{ORG}:{_user(runtime)}")),
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
