"""A fork's contract: green whatever a fork may change, red where a promise is broken."""

from dataclasses import replace
from typing import Any

import pytest
from agent import build_agent
from deepagents import SubAgent, create_deep_agent
from deepagents.backends import CompositeBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain_core.language_models import BaseChatModel

from lasting_memory import Context, Deployment, file_system, memory_tools, middleware, skills, subagents
from lasting_memory.settings import Settings
from lasting_memory.testing import contract
from lasting_memory.testing.contract import World

SPY: SubAgent = {"name": "spy", "description": "Spies.", "system_prompt": "You spy."}


def build_small(d: Deployment, model: BaseChatModel) -> Any:
    """An agent without skills, past conversations, consolidation and subagents of its own, on another prompt."""
    return create_deep_agent(
        model=model,
        system_prompt="Be brief.",
        tools=memory_tools(d),
        **file_system(d),
        middleware=middleware(d),
        subagents=subagents(d),
        context_schema=Context,
    )


def without_middleware(d: Deployment, model: BaseChatModel) -> Any:
    own: Any = {"skills": ["/skills/"], "subagents": subagents(d)}
    return create_deep_agent(model=model, **file_system(d), tools=memory_tools(d), context_schema=Context, **own)


def with_a_blind_subagent(d: Deployment, model: BaseChatModel) -> Any:
    given = [*subagents(d), SPY]
    return create_deep_agent(model=model, **file_system(d), middleware=middleware(d), subagents=given, context_schema=Context)


def with_writable_policies(d: Deployment, model: BaseChatModel) -> Any:
    files: Any = file_system(d)
    writable = StoreBackend(namespace=lambda _: ("policies", "contract"))
    backend = CompositeBackend(default=files["backend"].default, routes={**files["backend"].routes, "/policies/": writable})
    given: Any = {**files, "backend": backend, "permissions": []}
    return create_deep_agent(model=model, **given, middleware=middleware(d), subagents=subagents(d), context_schema=Context)


def changed(**settings: Any) -> Deployment:
    return replace(DEPLOYMENT, settings=Settings(**settings))


# It holds whatever a fork changes.
TestBackground = contract(changed(memory_scope="user", memory_writes="background"), build_agent)
TestPerAssistant = contract(changed(memory_scope="user+assistant"), build_agent)
TestSharedMemory = contract(changed(memory_scope="assistant", memory_writes="background"), build_agent)
TestSharedWrites = contract(changed(memory_scope="assistant", shared_writes="allow"), build_agent)
ROUTES = {route: of for route, of in DEPLOYMENT.routes.items() if route != "/skills/"}
TestWithoutParts = contract(replace(DEPLOYMENT, consolidation=None, schemas={}, routes=ROUTES), build_agent)
TestFewParts = contract(DEPLOYMENT, build_small)


@pytest.mark.parametrize(
    ("build", "test", "fix"),
    [
        (without_middleware, "every_prompt_shows_the_policies_the_subagents_too", "build it with middleware"),
        (without_middleware, "a_client_s_state_puts_nothing_into_the_prompt", "state reaches the prompt"),
        (with_a_blind_subagent, "every_prompt_shows_the_policies_the_subagents_too", "'spy' sees no policies"),
        (with_writable_policies, "no_tool_and_no_spelling_of_a_path_writes_a_policy", "the agent wrote a policy"),
    ],
)
async def test_it_fails_for_an_unsafe_agent_and_names_the_fix(build: Any, test: str, fix: str) -> None:
    with pytest.raises(AssertionError, match=fix):
        await getattr(contract(DEPLOYMENT, build)(), f"test_{test}")(World(DEPLOYMENT, build))


def test_a_stack_that_would_be_unsafe_is_refused_with_the_fix() -> None:
    d, other = DEPLOYMENT, middleware(DEPLOYMENT)[0]
    with pytest.raises(ValueError, match="second MemoryMiddleware; policies and memory are in it already"):
        middleware(d, other)
    with pytest.raises(TypeError, match="use instances of AgentMiddleware"):
        middleware(d, "skills")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"use middleware=\[skills\(d\)\]"):
        subagents(d, {**SPY, "skills": ["/skills/"]})
    with pytest.raises(ValueError, match="no policies can be put into 'far'"):
        subagents(d, {"name": "far", "description": "Remote.", "graph_id": "far"})  # type: ignore[typeddict-unknown-key]
    own: list[Any] = [skills(d)]
    (_, spy) = subagents(d, {**SPY, "middleware": own, "permissions": []})
    assert spy["middleware"][0].name == "MemoryMiddleware"
    assert spy["permissions"] == file_system(d)["permissions"]
