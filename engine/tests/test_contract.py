"""A fork's contract: green whatever a fork may change, red where a promise is broken."""

from dataclasses import replace
from pathlib import Path
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


ROUTES = {route: of for route, of in DEPLOYMENT.routes.items() if route != "/skills/"}
SETTINGS = [
    Settings(memory_scope="user", memory_writes="background"),
    Settings(memory_scope="user+assistant"),
    Settings(memory_scope="assistant", memory_writes="background"),
    Settings(memory_scope="assistant", shared_writes="allow"),
]
CHANGED = [replace(DEPLOYMENT, settings=settings) for settings in SETTINGS]
CHANGED.append(replace(DEPLOYMENT, consolidation=None, schemas={}, routes=ROUTES))


async def hold(d: Deployment, build: Any, tmp_path: Path) -> None:
    """Run every test of the contract."""
    tests = contract(d, build)()
    await tests.test_what_one_person_has_another_never_sees(World(d, build))
    await tests.test_no_tool_and_no_spelling_of_a_path_writes_a_policy(World(d, build))
    await tests.test_a_forged_path_reaches_nobody_else_s_memory(World(d, build))
    await tests.test_every_prompt_shows_the_policies_the_subagents_too(World(d, build))
    await tests.test_a_client_s_state_puts_nothing_into_the_prompt(World(d, build))
    await tests.test_checks_run_on_tools_http_and_seeds_alike(tmp_path)
    tests.test_what_this_folder_seeds_is_valid()
    tests.test_what_langgraph_json_names_is_there()


@pytest.mark.parametrize("changed", CHANGED)
async def test_it_holds_whatever_a_fork_changes(changed: Deployment, tmp_path: Path) -> None:
    await hold(changed, build_agent, tmp_path)


async def test_it_holds_for_an_agent_with_few_parts(tmp_path: Path) -> None:
    await hold(DEPLOYMENT, build_small, tmp_path)


async def test_it_fails_for_an_agent_without_the_middleware() -> None:
    world = World(DEPLOYMENT, without_middleware)
    with pytest.raises(AssertionError, match="build it with middleware"):
        await contract(DEPLOYMENT, without_middleware)().test_every_prompt_shows_the_policies_the_subagents_too(world)
    with pytest.raises(AssertionError, match="state reaches the prompt"):
        await contract(DEPLOYMENT, without_middleware)().test_a_client_s_state_puts_nothing_into_the_prompt(world)


async def test_it_fails_for_a_subagent_without_policies() -> None:
    world = World(DEPLOYMENT, with_a_blind_subagent)
    with pytest.raises(AssertionError, match="'spy' sees no policies"):
        await contract(DEPLOYMENT, with_a_blind_subagent)().test_every_prompt_shows_the_policies_the_subagents_too(world)


async def test_it_fails_for_policies_that_can_be_written() -> None:
    world = World(DEPLOYMENT, with_writable_policies)
    with pytest.raises(AssertionError, match="the agent wrote a policy"):
        await contract(DEPLOYMENT, with_writable_policies)().test_no_tool_and_no_spelling_of_a_path_writes_a_policy(world)


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
