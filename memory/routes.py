"""Which path belongs to whom, and who may write it.

Every rule is a gate at the backend (`memory/files.py`). The `permissions` given to deepagents say the same once more, earlier
and with a nicer message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import BackendProtocol
from langchain.agents.middleware import InterruptOnConfig
from langgraph.runtime import Runtime, get_runtime

from memory import epochs, scopes
from memory.consensus import Steps
from memory.files import AgentFiles, Gate, ThreadFiles
from memory.patterns import BoundedPatterns
from memory.rehearsal import Rehearsals
from settings import Settings, SharedWrites


def memory_writes(settings: Settings, *, consolidating: bool) -> SharedWrites:
    """How a graph may write `/memories/`: `allow`, `deny`, or `interrupt` where it is shared and an operator approves."""
    if settings.memory_scope == "assistant":
        # Private conversations must not flow into shared memory.
        return "deny" if consolidating or settings.memory_writes == "background" else settings.shared_writes
    return "deny" if settings.memory_writes == "background" and not consolidating else "allow"


def skill_writes(settings: Settings, *, consolidating: bool) -> SharedWrites:
    """How a graph may write `/skills/`. Consolidation reads what people said, so it never may."""
    return "deny" if consolidating else settings.shared_writes


def build_gate(writes: SharedWrites, settings: Settings) -> Gate:
    """The check a route's backend makes before each write."""

    def approved() -> str | None:
        # A write that waits for approval goes on in the run the operator resumed it with. Nothing that a client does to
        # its own run (a forged tool call, a jump to the tools node, a resume value of its own) makes it an operator's.
        user = scopes.run_user(get_runtime())
        if user is not None and scopes.is_operator(user, settings):
            return None
        return "an operator has to approve writing here."

    gates: dict[SharedWrites, Gate] = {
        "allow": lambda: None,
        "deny": lambda: "it is read-only here.",
        "interrupt": approved,
    }
    return gates[writes]


def build_routes(
    settings: Settings, *, consolidating: bool = False, rehearsals: Rehearsals | None = None
) -> dict[str, BackendProtocol]:
    """The three routes into the store, for `agent` or for `consolidation_agent`, which has dry runs."""

    def memories(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.memories(scopes.current_actor(settings, runtime), scopes.current_assistant(runtime), settings)

    def skills(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.skills(scopes.current_assistant(runtime))

    def policies(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.policies(scopes.current_actor(settings, runtime).org_id)

    def author() -> scopes.Author:
        return scopes.current_author(settings, consolidating=consolidating)

    def epoch() -> Steps[epochs.Epoch | None]:
        return epochs.of_run(scopes.current_actor(settings))

    routes: dict[str, tuple[Callable[[Runtime[Any]], scopes.Namespace], SharedWrites]] = {
        "/memories": (memories, memory_writes(settings, consolidating=consolidating)),
        "/skills": (skills, skill_writes(settings, consolidating=consolidating)),
        "/policies": (policies, "deny"),
    }
    return {
        f"{route}/": AgentFiles(
            namespace=namespace,
            gate=build_gate(writes, settings),
            route=route,
            author=author,
            epoch=epoch,
            rehearsals=rehearsals if route == "/memories" else None,
        )
        for route, (namespace, writes) in routes.items()
    }


def build_backend(settings: Settings, *, consolidating: bool = False, rehearsals: Rehearsals | None = None) -> CompositeBackend:
    """The filesystem of `agent`, or of `consolidation_agent`."""
    routes = build_routes(settings, consolidating=consolidating, rehearsals=rehearsals)
    return BoundedPatterns(default=ThreadFiles(list(routes)), routes=routes)


def build_permissions(settings: Settings, *, consolidating: bool = False) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools: denied early, or paused for an operator."""
    routes: Sequence[tuple[str, SharedWrites]] = (
        ("/policies", "deny"),
        ("/skills", skill_writes(settings, consolidating=consolidating)),
        ("/memories", memory_writes(settings, consolidating=consolidating)),
    )
    return [
        FilesystemPermission(operations=["write"], paths=[route, f"{route}/**"], mode=mode)
        for route, mode in routes
        if mode != "allow"
    ]


def interrupted_tools(settings: Settings) -> dict[str, bool | InterruptOnConfig]:
    """Memory tools of ours that pause for an operator, because what they write is shared."""
    if memory_writes(settings, consolidating=False) != "interrupt":
        return {}
    return {name: InterruptOnConfig(allowed_decisions=["approve", "reject"]) for name in ("append_memory", "save_profile")}
