"""A fork's contract: green whatever a fork may change, red where a promise is broken."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from agent import build_agent
from deepagents import CompiledSubAgent, FilesystemPermission, SubAgent, create_deep_agent
from deepagents.backends import CompositeBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from lasting_memory import (
    Context,
    Deployment,
    build_http,
    consolidated,
    file_system,
    group,
    memory_tools,
    middleware,
    platform,
    skills,
    subagents,
)
from lasting_memory.agent.checks import check_graph
from lasting_memory.settings import MemoryScope, Settings, SettingsError, SharedWrites
from lasting_memory.testing import contract
from lasting_memory.testing.contract import ALICE, World

SPY: SubAgent = {"name": "spy", "description": "Spies.", "system_prompt": "You spy."}


def build_small(d: Deployment, model: BaseChatModel) -> Any:
    """An agent without skills, past conversations, consolidation and subagents of its own, on
    another prompt.
    """
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
    return create_deep_agent(
        model=model, **file_system(d), tools=memory_tools(d), context_schema=Context, **own
    )


def with_a_blind_subagent(d: Deployment, model: BaseChatModel) -> Any:
    given = [*subagents(d), SPY]
    return create_deep_agent(
        model=model,
        **file_system(d),
        middleware=middleware(d),
        subagents=given,
        context_schema=Context,
    )


def without_subagents(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(
        model=model, **file_system(d), middleware=middleware(d, skills(d)), context_schema=Context
    )


def without_file_system(d: Deployment, model: BaseChatModel) -> Any:
    given: Any = {"tools": memory_tools(d), "middleware": middleware(d), "subagents": subagents(d)}
    return create_deep_agent(model=model, context_schema=Context, **given)


def with_tools_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, tools=memory_tools(d), context_schema=Context)


def with_files_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, backend=file_system(d)["backend"], context_schema=Context)


def with_a_blind_graph(d: Deployment, model: BaseChatModel) -> Any:
    blind = CompiledSubAgent(
        name="far", description="Far.", runnable=create_agent(model, name="far")
    )
    given: Any = {
        **file_system(d),
        "middleware": middleware(d),
        "subagents": [*subagents(d), blind],
    }
    return create_deep_agent(model=model, context_schema=Context, **given)


def with_graphs_that_are_safe(d: Deployment, model: BaseChatModel) -> Any:
    """A subagent that was built with policies, and one that asks no model."""
    near = create_agent(model, name="near", middleware=middleware(d))
    own = [
        CompiledSubAgent(name="near", description="Near.", runnable=near),
        CompiledSubAgent(
            name="echo", description="Echoes.", runnable=RunnableLambda(lambda state: state)
        ),
    ]
    given: Any = {**file_system(d), "middleware": middleware(d), "subagents": [*subagents(d), *own]}
    return create_deep_agent(model=model, context_schema=Context, **given)


def find_book(title: str) -> str:
    """Find a book."""
    return title


def made(d: Deployment, model: BaseChatModel, **other: Any) -> Any:
    """An agent with all parts but those that are named: another value, or None for none."""
    parts: Any = {
        **file_system(d),
        "middleware": middleware(d),
        "subagents": subagents(d),
        "tools": memory_tools(d),
        **other,
    }
    return create_deep_agent(
        model=model,
        context_schema=Context,
        **{name: part for name, part in parts.items() if part is not None},
    )


def with_safe_subagents_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(
        model=model, tools=[find_book], subagents=subagents(d), context_schema=Context
    )


def with_shown_files_alone(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model, memory=file_system(d)["memory"], context_schema=Context)


def without_limits(d: Deployment, model: BaseChatModel) -> Any:
    return made(d, model, middleware=middleware(d)[:1])


def with_limits_alone(d: Deployment, model: BaseChatModel) -> Any:
    return made(d, model, middleware=middleware(d)[1:])


def with_a_subagent_without_limits(d: Deployment, model: BaseChatModel) -> Any:
    (helper,) = subagents(d)
    return made(d, model, subagents=[{**helper, "middleware": helper["middleware"][:-1]}])


def without_permissions(d: Deployment, model: BaseChatModel) -> Any:
    return made(d, model, permissions=None)


def with_empty_permissions(d: Deployment, model: BaseChatModel) -> Any:
    return made(d, model, permissions=[])


def with_a_permission_that_comes_first(d: Deployment, model: BaseChatModel) -> Any:
    everything = FilesystemPermission(operations=["write"], paths=["/**"], mode="allow")
    return made(d, model, permissions=[everything, *file_system(d)["permissions"]])


def with_a_route_of_other_files(d: Deployment, model: BaseChatModel) -> Any:
    own = file_system(d)["backend"]
    routes = {
        **own.routes,
        "/policies/": StoreBackend(namespace=lambda _: ("policies", "contract")),
    }
    return made(d, model, backend=CompositeBackend(default=own.default, routes=routes))


def with_a_subagent_without_permissions(d: Deployment, model: BaseChatModel) -> Any:
    (helper,) = subagents(d)
    return made(d, model, subagents=[{**helper, "permissions": []}])


def with_a_raw_subagent_of_a_subagent(d: Deployment, model: BaseChatModel) -> Any:
    inner = create_deep_agent(
        model=model, middleware=middleware(d), **file_system(d), subagents=[SPY, *subagents(d)]
    )
    return made(
        d,
        model,
        subagents=[*subagents(d), CompiledSubAgent(name="far", description="Far.", runnable=inner)],
    )


def with_a_raw_subagent_that_retries(d: Deployment, model: BaseChatModel) -> Any:
    far: Any = create_agent(model, name="far").with_retry()
    return made(
        d, model, subagents=[*subagents(d), {"name": "far", "description": "Far.", "runnable": far}]
    )


def in_a_graph(*agents: Any) -> Any:
    graph: Any = StateGraph(MessagesState, context_schema=Context)
    for number, agent in enumerate(agents):
        graph.add_node(f"step-{number}", agent)
        graph.add_edge(START, f"step-{number}")
    return graph.compile()


def with_a_raw_node(d: Deployment, model: BaseChatModel) -> Any:
    return in_a_graph(made(d, model), create_agent(model, tools=[find_book]))


def with_a_node_that_has_tools_alone(d: Deployment, model: BaseChatModel) -> Any:
    return in_a_graph(create_agent(model, tools=memory_tools(d)))


def with_a_raw_node_of_a_node(d: Deployment, model: BaseChatModel) -> Any:
    return in_a_graph(in_a_graph(made(d, model, subagents=[*subagents(d), SPY])))


def with_a_function_that_calls_a_raw_agent(d: Deployment, model: BaseChatModel) -> Any:
    raw: Any = create_agent(model, tools=memory_tools(d))

    async def call(state: MessagesState) -> Any:
        return await raw.ainvoke(state)

    return in_a_graph(call)


def with_nodes_that_are_safe(d: Deployment, model: BaseChatModel) -> Any:
    return in_a_graph(made(d, model), lambda state: state)


def with_stricter_permissions_and_approvals(d: Deployment, model: BaseChatModel) -> Any:
    secret = FilesystemPermission(
        operations=["read", "write"], paths=["/memories/secret.md"], mode="deny"
    )
    own = FilesystemPermission(operations=["write"], paths=["/drafts/**"], mode="allow")
    approvals = file_system(d, interrupt_on={"find_book": True})["interrupt_on"]
    permissions = [secret, *file_system(d)["permissions"], own]
    return made(d, model, tools=[find_book], permissions=permissions, interrupt_on=approvals)


def with_middleware_of_its_own(d: Deployment, model: BaseChatModel) -> Any:
    spy: Any = {**SPY, "permissions": [], "tools": [find_book], "middleware": [skills(d)]}
    return made(
        d,
        model,
        middleware=middleware(d, skills(d), consolidated(d)),
        subagents=subagents(d, spy),
        tools=None,
    )


def of_another_library_in_a_graph(d: Deployment, model: BaseChatModel) -> Any:
    return in_a_graph(create_agent(model, tools=[find_book]))


def of_another_library(d: Deployment, model: BaseChatModel) -> Any:
    return create_deep_agent(model=model)


def with_writable_policies(d: Deployment, model: BaseChatModel) -> Any:
    files: Any = file_system(d)
    writable = StoreBackend(namespace=lambda _: ("policies", "contract"))
    backend = CompositeBackend(
        default=files["backend"].default, routes={**files["backend"].routes, "/policies/": writable}
    )
    given: Any = {**files, "backend": backend, "permissions": []}
    return create_deep_agent(
        model=model,
        **given,
        middleware=middleware(d),
        subagents=subagents(d),
        context_schema=Context,
    )


def changed(**settings: Any) -> Deployment:
    return replace(DEPLOYMENT, settings=Settings(**settings))


# It holds whatever a fork changes.
TestBackground = contract(changed(memory_scope="user", memory_writes="background"), build_agent)
TestPerAssistant = contract(changed(memory_scope="user+assistant"), build_agent)
TestSharedMemory = contract(
    changed(memory_scope="assistant", memory_writes="background"), build_agent
)
TestSharedWrites = contract(changed(memory_scope="assistant", shared_writes="allow"), build_agent)
ROUTES = {route: of for route, of in DEPLOYMENT.routes.items() if route != "/skills/"}
TestWithoutParts = contract(
    replace(DEPLOYMENT, consolidation=None, schemas={}, routes=ROUTES), build_agent
)
WITHOUT_MEMORY = {route: of for route, of in DEPLOYMENT.routes.items() if route != "/memories/"}
TestWithoutMemory = contract(
    replace(DEPLOYMENT, consolidation=None, routes=WITHOUT_MEMORY), build_agent
)
TestFewParts = contract(DEPLOYMENT, build_small)


@pytest.mark.parametrize(
    ("build", "test", "fix"),
    [
        (
            without_middleware,
            "every_prompt_shows_the_policies_the_subagents_too",
            "build it with middleware",
        ),
        (
            without_middleware,
            "a_client_s_state_puts_nothing_into_the_prompt",
            "state reaches the prompt",
        ),
        (
            with_a_blind_subagent,
            "every_prompt_shows_the_policies_the_subagents_too",
            "'spy' sees no policies",
        ),
        (
            with_writable_policies,
            "no_tool_and_no_spelling_of_a_path_writes_a_policy",
            "the agent wrote a policy",
        ),
    ],
)
async def test_the_contract_fails_for_an_unsafe_agent_and_names_the_fix(
    build: Any, test: str, fix: str
) -> None:
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
# What only a look at the whole graph finds.
LACKING_AT_THE_START = [
    (with_safe_subagents_alone, r"build it with middleware\(d, ...\)"),
    (with_shown_files_alone, r"build it with middleware\(d, ...\)"),
    (without_limits, r"The agent has no limits; build it with middleware\(d, ...\)"),
    (with_limits_alone, r"build it with middleware\(d, ...\)"),
    (
        with_a_subagent_without_limits,
        r"'general-purpose' has no limits; give it by subagents\(d, ...\)",
    ),
    (without_permissions, r"lacks the permissions .* \*\*file_system\(d\) as it is"),
    (with_empty_permissions, r"lacks the permissions .* \*\*file_system\(d\) as it is"),
    (with_a_permission_that_comes_first, r"lacks the permissions .* \*\*file_system\(d\) as it is"),
    (with_writable_policies, r"other files at /policies/; build it with \*\*file_system\(d\)"),
    (with_a_route_of_other_files, r"other files at /policies/; build it with \*\*file_system\(d\)"),
    (
        with_a_subagent_without_permissions,
        r"'general-purpose' lacks the permissions .* subagents\(d, ...\)",
    ),
    (with_a_raw_subagent_of_a_subagent, r"'spy' sees no policies; give it by subagents\(d, ...\)"),
    (with_a_raw_subagent_that_retries, r"'far' sees no policies; give it by subagents\(d, ...\)"),
    (with_a_raw_node, r"'step-1' sees no policies; build its agent with middleware\(d, ...\)"),
    (
        with_a_node_that_has_tools_alone,
        r"'step-0' sees no policies; build its agent with middleware\(d, ...\)",
    ),
    (with_a_raw_node_of_a_node, r"'spy' sees no policies; give it by subagents\(d, ...\)"),
    (
        with_a_function_that_calls_a_raw_agent,
        r"'step-0' sees no policies; build its agent with middleware\(d, ...\)",
    ),
]
SAFE = [
    with_nodes_that_are_safe,
    with_stricter_permissions_and_approvals,
    with_middleware_of_its_own,
]
COMPLETE = [
    build_agent, build_small, with_graphs_that_are_safe, *SAFE, of_another_library, of_another_library_in_a_graph
]  # fmt: skip


async def start(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server does once it has loaded this graph as `agent`."""
    monkeypatch.setattr(platform, "loaded_graph", {"agent": graph}.get)
    app = build_http(DEPLOYMENT)
    async with app.router.lifespan_context(app):
        pass


@pytest.mark.parametrize(("build", "fix"), [*LACKING, *LACKING_AT_THE_START])
async def test_no_server_starts_with_an_agent_that_lacks_a_part(
    build: Any, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=f"'agent' of langgraph.json: .*{fix}") as refused:
        await start(World(DEPLOYMENT, build).graph, monkeypatch)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("build", COMPLETE)
async def test_a_server_starts_with_an_agent_that_has_all_parts(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(World(DEPLOYMENT, build).graph, monkeypatch)


SHARED = {"memory_scope": "assistant", "shared_writes": "interrupt"}


@pytest.mark.parametrize(
    ("lacking", "tool"),
    [
        ({}, "append_memory"),
        ({"append_memory": False}, "append_memory"),
        ({"write_file": False}, "write_file"),
    ],
)
def test_an_agent_that_writes_shared_memory_without_an_approval_is_refused(
    lacking: Any, tool: str
) -> None:
    d = changed(**SHARED)
    approvals = {**file_system(d)["interrupt_on"], **lacking} if lacking else None
    with pytest.raises(
        SettingsError, match=rf"by {tool} without an approval; build it with \*\*file_system\(d\)"
    ):
        check_graph(World(d, lambda d, model: made(d, model, interrupt_on=approvals)).graph)


VALUES = [
    {"memory_scope": scope, "memory_writes": writes, "shared_writes": shared}
    for scope in get_args(MemoryScope)
    for writes in ("both", "background")
    for shared in get_args(SharedWrites)
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: "-".join(values.values()))
def test_an_agent_with_all_parts_is_let_through_whatever_the_settings_say(values: Any) -> None:
    d = changed(**values)
    teams = {
        f"/{writes}/": group(f"{writes}_id", writes=writes)
        for writes in ("deny", "interrupt", "members")
    }
    for deployment in (d, replace(d, routes={**d.routes, **teams})):
        for build in (build_agent, build_small, *SAFE):
            check_graph(World(deployment, build).graph)


@pytest.mark.parametrize(
    ("build", "fix"), [(build, fix) for build, fix in LACKING if "alone" not in build.__name__]
)
async def test_a_run_of_an_unchecked_agent_ends_where_the_part_is_missing(
    build: Any, fix: str
) -> None:
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
    with pytest.raises(
        ValueError, match="second MemoryMiddleware; policies and memory are in it already"
    ):
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
