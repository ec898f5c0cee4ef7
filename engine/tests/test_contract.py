"""A fork's contract: green whatever a fork may change, red where a promise is broken."""

from dataclasses import replace
from typing import Any

import pytest
from agent import build_agent
from deepagents import CompiledSubAgent, SubAgent, create_deep_agent
from deepagents.backends import CompositeBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda

from lasting_memory import Context, Deployment, build_http, file_system, memory_tools, middleware, platform, skills, subagents
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing import contract
from lasting_memory.testing.contract import ALICE, World

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


def without_subagents(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, **file_system(d), middleware=middleware(d, skills(d)), context_schema=Context)


def without_file_system(d: Deployment, model: BaseChatModel) -> Any:
    given: Any = {"tools": memory_tools(d), "middleware": middleware(d), "subagents": subagents(d)}
    return create_deep_agent(model=model, context_schema=Context, **given)


def with_tools_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, tools=memory_tools(d), context_schema=Context)


def with_files_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, backend=file_system(d)["backend"], context_schema=Context)


def with_a_blind_graph(d: Deployment, model: BaseChatModel) -> Any:
    blind = CompiledSubAgent(name="far", description="Far.", runnable=create_agent(model, name="far"))
    given: Any = {**file_system(d), "middleware": middleware(d), "subagents": [*subagents(d), blind]}
    return create_deep_agent(model=model, context_schema=Context, **given)


def with_graphs_that_are_safe(d: Deployment, model: BaseChatModel) -> Any:
    """A subagent that was built with policies, and one that asks no model."""
    near = create_agent(model, name="near", middleware=middleware(d))
    own = [
        CompiledSubAgent(name="near", description="Near.", runnable=near),
        CompiledSubAgent(name="echo", description="Echoes.", runnable=RunnableLambda(lambda state: state)),
    ]
    given: Any = {**file_system(d), "middleware": middleware(d), "subagents": [*subagents(d), *own]}
    return create_deep_agent(model=model, context_schema=Context, **given)


def of_another_library(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model)


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


LACKING = [
    (without_middleware, r"build it with middleware\(d, ...\)"),
    (with_tools_alone, r"build it with middleware\(d, ...\)"),
    (with_files_alone, r"build it with middleware\(d, ...\)"),
    (without_file_system, r"build it with \*\*file_system\(d\)"),
    (without_subagents, r"'general-purpose' sees no policies; give it by subagents\(d, ...\)"),
    (with_a_blind_subagent, r"'spy' sees no policies; give it by subagents\(d, ...\)"),
    (with_a_blind_graph, r"'far' sees no policies; give it by subagents\(d, ...\)"),
]
COMPLETE = [build_agent, build_small, with_graphs_that_are_safe, of_another_library]


async def start(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server does once it has loaded this graph as `agent`."""
    monkeypatch.setattr(platform, "loaded_graph", {"agent": graph}.get)
    app = build_http(DEPLOYMENT)
    async with app.router.lifespan_context(app):
        pass


@pytest.mark.parametrize(("build", "fix"), LACKING)
async def test_no_server_starts_with_an_agent_that_lacks_a_part(build: Any, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=f"'agent' of langgraph.json: .*{fix}") as refused:
        await start(World(DEPLOYMENT, build).graph, monkeypatch)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("build", COMPLETE)
async def test_a_server_starts_with_an_agent_that_has_all_parts(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(World(DEPLOYMENT, build).graph, monkeypatch)


@pytest.mark.parametrize(("build", "fix"), [(build, fix) for build, fix in LACKING if "alone" not in build.__name__])
async def test_where_nobody_looked_at_the_start_the_run_ends_where_the_part_is_missing(build: Any, fix: str) -> None:
    """In a script, on a server without `http_api.py`, of an agent that is built for each run."""
    world = World(DEPLOYMENT, build)
    subagent = fix.split("'")[1] if "subagents" in fix else "general-purpose"
    with pytest.raises(AssertionError, match=fix):
        await world.turn(ALICE, [("task", {"description": "go on", "subagent_type": subagent})])


async def test_a_run_with_all_parts_goes_well_with_each_subagent() -> None:
    world = World(DEPLOYMENT, with_graphs_that_are_safe)
    for name in ("general-purpose", "near", "echo"):
        await world.turn(ALICE, [("task", {"description": "go on", "subagent_type": name})])
        assert "Error" not in world.model.answers()


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
