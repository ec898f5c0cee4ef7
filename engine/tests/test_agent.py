"""The agents' own tools and wiring, and more than one agent graph: each is an agent to everything,
whatever its name.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.utils import create_file_data
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory import (
    build_consolidation_agent,
    file_system,
    memory_tools,
    middleware,
    seeding,
    skills,
    subagents,
)
from lasting_memory.agent.bounds import CalledByBounds
from lasting_memory.deployment import Deployment, Profile
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Context, assistant_of
from lasting_memory.settings import MemoryScope, SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.hostile import skill
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    system_text,
    tool_results,
)
from lasting_memory.testing.stores import INDEX
from tests.conftest import BuildGraph, Scripted, ServerWith, built_agent, chat_on, note, people

MEMORIES = ("memories", "acme:alice")


async def test_descriptions_of_the_tools_may_be_a_fork_s_own(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    said = {"append_memory": "Remember what readers like.", "save_profile": "Note who they are."}

    def build(d: Deployment, model: BaseChatModel) -> Any:
        tools = memory_tools(d, descriptions=said)
        return create_deep_agent(
            model, tools=tools, middleware=middleware(d), context_schema=Context, **file_system(d)
        )

    await graph(build=build).turn("one")
    told = {each["name"]: each["description"] for each in model.requests[0]["tools"]}
    assert {name: told[name] for name in said} == said
    assert told["search_memories"].startswith("Search the files under /memories/")
    with pytest.raises(ValueError, match="names 'append'; use append_memory"):
        memory_tools(deployed(), descriptions={"append": ""})


async def test_middleware_called_by_bounds_wraps_model_calls_but_no_subagent_s(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    """In its own order, around what the model is asked; in the stack it is not."""
    seen = list[str]()

    class Noted(CalledByBounds):
        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(f"{self._name} before")
            answer = await handler(request)
            seen.append(f"{self._name} after")
            return answer

    outer, inner = Noted("outer"), Noted("inner")
    stack = middleware(deployed(), outer, skills(deployed()), inner)
    assert not {outer, inner} & {*stack}

    def build(d: Deployment, model: BaseChatModel) -> Any:
        return create_deep_agent(
            model,
            middleware=stack,
            subagents=subagents(d),
            context_schema=Context,
            **file_system(d),
        )

    helped = ToolCall("task", {"description": "help", "subagent_type": "general-purpose"})
    model.script("one", [helped], [Text("done")])
    model.script("help", [Text("helped")])
    await graph(build=build).turn("one")
    once = ["outer before", "inner before", "inner after", "outer after"]
    assert seen == once * 2, "the agent's two calls, and none of the helper's"


def test_the_graphs_say_what_they_take() -> None:
    """To MCP, and to Studio for its form, on every Python: the state has types that make a JSON
    schema.
    """
    agent, consolidation = (
        built_agent(deployed(), "http://model"),
        build_consolidation_agent(deployed(), chat_on("http://model")),
    )
    assert {*agent.get_input_jsonschema()["properties"]} == {"messages", "files", "pinned_skills"}
    assert {*consolidation.get_input_jsonschema()["properties"]} == {"messages", "files"}


def content(store: BaseStore, key: str) -> str:
    item = store.get(MEMORIES, key)
    assert item, f"{key} is not in the store"
    return str(item.value["content"])


def append(path: str, text: str) -> ToolCall:
    return ToolCall("append_memory", {"path": f"/memories{path}", "text": text})


def save(**profile: Any) -> ToolCall:
    return ToolCall("save_profile", {"profile": profile})


async def search(agent: Scripted, query: str) -> str:
    (answer,) = await agent.called(ToolCall("search_memories", {"query": query}))
    return answer


async def test_append_adds_a_line_creates_the_file_and_changes_nothing_else(
    agent: Scripted,
) -> None:
    agent.put(MEMORIES, "/topics/a.md", "first")
    await agent.called(
        append("/topics/a.md", "second\n\n"),
        append("/topics/a.md", "third"),
        append("/topics/b.md", "new"),
    )
    assert content(agent.store, "/topics/a.md") == "first\nsecond\nthird\n"
    assert content(agent.store, "/topics/b.md") == "new\n"


async def test_a_profile_is_saved_typed_and_fields_left_out_stay(agent: Scripted) -> None:
    await agent.called(save(name="Alice", units="metric"), save(role="pilot"))
    saved = Profile.model_validate_json(content(agent.store, "/profile.json"))
    assert saved == Profile(name="Alice", units="metric", role="pilot")


async def test_the_fields_of_a_profile_are_taken_without_their_name_too(agent: Scripted) -> None:
    await agent.called(ToolCall("save_profile", {"name": "Alice", "units": "metric"}))
    saved = Profile.model_validate_json(content(agent.store, "/profile.json"))
    assert saved == Profile(name="Alice", units="metric")


async def test_a_refused_profile_names_the_fields(agent: Scripted) -> None:
    flat = ToolCall("save_profile", {"shoe_size": 44})
    for told in await agent.called(save(shoe_size=44), flat, ToolCall("save_profile", {})):
        assert "The fields are name, role, language, timezone, units." in told
        assert told.startswith("Error: nothing was saved.")
    assert agent.store.get(MEMORIES, "/profile.json") is None


async def test_empty_text_adds_nothing_and_what_is_refused_has_the_status_of_an_error(
    agent: Scripted,
) -> None:
    await agent.called(append("/topics/a.md", " \n"), ToolCall("append_memory", {"path": "/x"}))
    await agent.called(ToolCall("append_memory", {"path": "/x.md", "text": "x"}), save(shoe=1))
    results = [
        block
        for body in agent.model.requests
        for block in body["messages"][-1]["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    assert [block.get("is_error") for block in results] == [True, True]
    await agent.called(append("/topics/a.md", " \n"))
    (result,) = agent.model.requests[-1]["messages"][-1]["content"]
    assert (result["is_error"], "the text is empty" in str(result["content"])) == (True, True)
    assert agent.store.get(MEMORIES, "/topics/a.md") is None


async def test_append_memory_says_that_the_index_does_not_name_a_topic(agent: Scripted) -> None:
    told = await agent.called(
        append("/topics/a.md", "- one"),
        append("/topics/index.md", "- a.md: one"),
        append("/topics/a.md", "- two"),
    )
    assert ["does not name it: add a line there" in text for text in told] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "line", "is_named"),
    [
        ("a.md", "- data.md: figures", False),
        ("rome.md", "- trips/rome.md: a journey", False),
        ("trips/rome.md", "- [Rome](/memories/topics/trips/rome.md)", True),
        ("rome.md", "Rome is in rome.md.", True),
        ("rome.md", "- rome.md.old", False),
        ("my trip.md", "- [my trip](my%20trip.md)", True),
        ("東京.md", "旅行は東京.mdにある", True),
        ("caf\u00e9.md", "- cafe\u0301.md", True),
    ],
)
async def test_an_index_names_a_topic_by_its_whole_name(
    agent: Scripted, name: str, line: str, is_named: bool
) -> None:
    _, result = await agent.called(
        append("/topics/index.md", line), append(f"/topics/{name}", "- one")
    )
    assert ("does not name it" not in result) == is_named


async def test_append_memory_s_own_description_says_when_to_write(
    agent: Scripted, model: ScriptedAnthropic
) -> None:
    await agent.turn("hello")
    told = {each["name"]: each["description"] for each in model.requests[0]["tools"]}
    assert "how they want to be answered" in told["append_memory"]
    assert "translate, summarize or rewrite" in told["append_memory"]


async def test_an_invalid_profile_is_refused_and_what_is_there_is_kept(agent: Scripted) -> None:
    agent.put(MEMORIES, "/profile.json", "not json")
    agent.put(MEMORIES, "/pixel.png", "iVBORw==", encoding="base64")
    told = await agent.called(save(name="Alice"), save(shoe_size=44), append("/pixel.png", "x"))
    wrong = ("holds no profile", "xtra", "is not text")
    assert [part in answer for part, answer in zip(wrong, told, strict=True)] == [True] * 3
    assert (content(agent.store, "/profile.json"), content(agent.store, "/pixel.png")) == (
        "not json",
        "iVBORw==",
    )


async def test_memories_are_searched_by_text_where_there_is_no_index(agent: Scripted) -> None:
    agent.put(MEMORIES, "/topics/food.md", "Likes fennel.\n\nHates the taste of coriander.")
    agent.put(MEMORIES, "/topics/work.md", "Flies cargo planes.")
    agent.put(("memories", "acme:bob"), "/topics/food.md", "Bob tasted coriander.")
    answer = "/memories/topics/food.md\nHates the taste of coriander."
    assert await search(agent, "which tastes does she hate?") == answer
    assert "Nothing" in await search(agent, "submarines")


async def test_memories_are_searched_by_words_and_by_meaning_where_there_is_an_index(
    model: ScriptedAnthropic,
) -> None:
    store = InMemoryStore(index=INDEX)
    said = {
        "/a.md": "Has a puppy.",
        "/b.md": "Sold the vehicle.\n\nThe pump is in the shed.",
        "/c.md": "Bakes bread.",
    }
    for key, text in said.items():
        await store.aput(MEMORIES, key, {**create_file_data(text)})
    indexed = Scripted(built_agent(deployed(), model.url), store, model)
    puppy, pump = "/memories/a.md\nHas a puppy.", "/memories/b.md\nThe pump is in the shed."
    assert await search(indexed, "any pet?") == puppy
    assert await search(indexed, "which pump?") == pump
    assert await search(indexed, "a pet and a pump") == f"{pump}\n\n{puppy}"
    assert "Nothing" in await search(indexed, "submarines")


BOTH = {"append_memory", "save_profile"}
READ_ONLY, SHARED = (
    "you read `/memories/` and do not write it",
    "everybody who talks to you shares it",
)
OFFERED: list[tuple[Deployment, set[str], str]] = [
    (deployed(), BOTH, ""),
    (deployed(memory_writes="background"), set(), READ_ONLY),
    (deployed(memory_scope="assistant"), set(), SHARED),
    (deployed(memory_scope="assistant", shared_writes="allow"), {"append_memory"}, SHARED),
    (
        deployed(memory_scope="assistant", shared_writes="allow", memory_writes="background"),
        set(),
        SHARED,
    ),
]


@pytest.mark.parametrize(("settings", "tools", "said"), OFFERED)
async def test_tools_that_write_are_offered_where_they_may_and_the_prompt_says_so(
    graph: BuildGraph, model: ScriptedAnthropic, settings: Deployment, tools: set[str], said: str
) -> None:
    await graph(settings).turn("hello")
    (body,) = model.requests
    assert BOTH & {tool["name"] for tool in body["tools"]} == tools
    text = system_text(body).lower()
    assert [part for part in (READ_ONLY, SHARED) if part in text] == [said] * bool(said)
    assert ("## remembering" in text) == bool(tools), "what is not allowed is not explained"
    assert "## what you remember" in text


@pytest.mark.parametrize("why", ["paused", "temporary", ""])
async def test_the_prompt_says_nothing_of_writing_while_memory_is_paused_or_temporary(
    agent: Scripted, why: str
) -> None:
    metadata = {"temporary": True} if why == "temporary" else {}
    if why == "paused":
        agent.store.put(namespaces.controls(Actor("alice", "acme")), "paused", {"on": True})
    config: RunnableConfig = {"configurable": {"thread_id": "1"}, "metadata": metadata}
    said = {"messages": [{"role": "user", "content": "hello"}]}
    await agent.graph.ainvoke(said, config, context=Context(user_id="alice", org_id="acme"))
    (body,) = agent.model.requests
    text = system_text(body)
    assert ("## Remembering" in text) == (not why)
    # A paused person who asks to remember something sees that it is refused.
    assert ({tool["name"] for tool in body["tools"]} >= BOTH) == (why != "temporary")
    assert ("has paused their memory" in text, "<temporary>" in text) == (
        why == "paused",
        why == "temporary",
    )
    assert "## Answering\n\nBe brief and direct." in text, "what stands behind it is there"


async def test_shared_memory_shows_nobody_s_profile(graph: BuildGraph) -> None:
    shared = graph(deployed(memory_scope="assistant"))
    shared.put(("memories", f"{AGENT}:acme"), "/profile.json", '{"name": "Alice"}')
    assert "Alice" not in await shared.shown()


async def test_traces_of_model_calls_carry_the_scope_a_subagent_s_too(agent: Scripted) -> None:
    class Traced(AsyncCallbackHandler):
        scopes: list[object] = []  # noqa: RUF012

        async def on_chat_model_start(
            self, *_: Any, metadata: dict[str, Any] | None = None, **__: Any
        ) -> None:
            self.scopes.append((metadata or {}).get("memory_scope"))

    task = ToolCall("task", {"description": "write a letter", "subagent_type": "writer"})
    agent.model.script("delegate", [task], [Text("done")])
    config: RunnableConfig = {"configurable": {"thread_id": "1"}, "callbacks": [Traced()]}
    said = {"messages": [{"role": "user", "content": "delegate"}]}
    await agent.graph.ainvoke(said, config, context=Context(user_id="alice", org_id="acme"))
    assert Traced.scopes == ["user"] * 3


GRAPHS = ("agent", "support")
ORG = "acme"
Server = tuple[DevServer, MemoryScope]


@pytest.fixture
def two_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as one of a server with two agent graphs."""
    registered = {
        "agent": "./agent.py:agent",
        "consolidation_agent": "c.py:c",
        "support": {"path": "./agent.py:agent"},
    }
    monkeypatch.setenv("LANGSERVE_GRAPHS", json.dumps(registered))


def test_the_agents_are_what_is_registered_but_consolidation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSERVE_GRAPHS", json.dumps({"consolidation_agent": "c.py:c"}))
    with pytest.raises(SettingsError, match=r"langgraph\.json names no agent"):
        _ = Deployment(tmp_path).agents
    (tmp_path / "langgraph.json").write_text(
        json.dumps({"graphs": {"consolidation_agent": "c", "helpdesk": "h"}})
    )
    monkeypatch.delenv("LANGSERVE_GRAPHS")
    assert Deployment(tmp_path).agents == ("helpdesk",)


SCOPES = [
    "user+assistant",
    *(pytest.param(scope, marks=pytest.mark.proof) for scope in ("user", "assistant")),
]


@pytest.fixture(params=SCOPES)
async def two(
    server_with: ServerWith, model: ScriptedAnthropic, request: pytest.FixtureRequest
) -> AsyncIterator[Server]:
    """A server with two agent graphs, and its MEMORY_SCOPE."""
    config = {"graphs": {"support": "./agent.py:agent"}}
    server = server_with(config, MEMORY_SCOPE=request.param, SHARED_WRITES="allow")
    yield server, request.param
    await server.close_clients()


@pytest.mark.server
@pytest.mark.usefixtures("two_graphs")
async def test_two_agents_remember_recall_consolidate_and_export_as_the_scope_says(
    two: Server, model: ScriptedAnthropic, alice: str, tmp_path: Path
) -> None:
    (server, scope), actor = two, Actor(alice, ORG)
    person, operator = people(server, model, alice)[0], server.as_operator()
    settings = deployed(memory_scope=scope)
    for graph, animal in (("agent", "zebras"), ("support", "okapis")):
        model.script(f"I keep {animal}", [note(f"keeps {animal}")], [Text("noted")])
        await person.say(f"Remember that I keep {animal}.", graph)

    apart = {"agent": ("zebras", "okapis"), "support": ("okapis", "zebras")}
    for graph in GRAPHS:
        namespace = list(settings.memory.namespace(actor, assistant_of(graph)))
        item = await operator.store.get_item(namespace, key="/preferences.md")
        text, (own, other) = str(item["value"]["content"]), apart[graph]
        assert own in text
        assert (other in text) is (scope == "user"), (scope, graph)

    # Past conversations are the person's, whichever agent they were with.
    for graph, other in (("agent", "okapis"), ("support", "zebras")):
        (found,) = await person.called(
            ToolCall("search_past_conversations", {"query": other}), assistant=graph
        )
        assert f"keep {other}" in found
    response = await person.http.client.get("/memory/export")
    exported = json.dumps(response.json()["conversations"])
    assert all(f"Remember that I keep {animal}." in exported for animal in ("zebras", "okapis"))

    # Skills are each assistant's own.
    (tmp_path / "seeds/skills/letters").mkdir(parents=True)
    (tmp_path / "seeds/skills/letters/SKILL.md").write_text(skill("", name="letters"))
    await seeding.seed(operator, ["skills"], replace(settings, folder=tmp_path), prune=False)
    for graph in GRAPHS:
        skills = await operator.store.search_items(
            list(namespaces.skills(assistant_of(graph))), limit=100
        )
        assert skills["items"]

    # The sweep plans a consolidation of each memory in which something is new.
    await operator.runs.wait(None, "consolidation_agent", input={"messages": []})
    planned = await operator.threads.search(
        metadata={"user_id": actor.user_id, "graph_id": "consolidation_agent"}, limit=10
    )
    keys = {(thread["metadata"] or {})["consolidates"] for thread in planned}
    assert (
        keys
        == {
            "user": {"all"},
            "user+assistant": {assistant_of(graph) for graph in GRAPHS},
            "assistant": set(),
        }[scope]
    )


@pytest.mark.server
async def test_a_file_that_an_operator_put_into_a_memory_is_forgotten_with_its_person(
    two: Server, alice: str
) -> None:
    """As the seeds do, over the store API: with whichever assistant, before the person has written
    anything.
    """
    (server, scope), operator = two, two[0].as_operator()
    namespace = list(
        deployed(memory_scope=scope).memory.namespace(Actor(alice, ORG), assistant_of("support"))
    )
    await operator.store.put_item(
        namespace, "/seeded.md", {"content": "- seeded", "encoding": "utf-8"}
    )
    exported = await server.as_user(alice).http.client.get("/memory/export")
    assert ("- seeded" in exported.text) is (scope != "assistant")
    await server.as_user(alice).http.client.delete("/memory")
    left = (await operator.store.search_items(namespace))["items"]
    assert bool(left) is (scope == "assistant"), "shared memory stays"


async def test_a_model_is_shown_file_tools_in_words_that_are_true_here(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    await graph().turn("one")
    shown = {tool["name"]: tool for tool in model.requests[0]["tools"]}
    assert "cannot be undone" not in str(shown)
    assert "must read" not in str(shown)
    assert "almost ALWAYS" not in str(shown)
    assert "runtime" not in str(shown)
    assert "- writer: " in shown["task"]["description"]
    for tool in shown.values():
        for name, shape in tool["input_schema"]["properties"].items():
            assert shape.get("description") or "$ref" in str(shape), (tool["name"], name)
    tokens = len(json.dumps([*shown.values()])) // 4
    assert tokens <= 2_400, tokens


@pytest.mark.parametrize("name", ["path", "file_path"])
async def test_a_call_names_a_path_by_either_name(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore, name: str
) -> None:
    path = "/memories/notes.md"
    model.script(
        "go",
        [ToolCall("write_file", {name: path, "content": "- dill\n"})],
        [ToolCall("append_memory", {name: path, "text": "- leek"})],
        [ToolCall("edit_file", {name: path, "old_string": "dill", "new_string": "mint"})],
        [ToolCall("read_file", {name: path})],
        [Text("done")],
    )
    await graph().turn("go")
    assert content(store, "/notes.md") == "- mint\n- leek\n"
    assert "- mint" in tool_results(model.requests[-1])[-1]
    model.script("clear", [ToolCall("delete", {name: path})], [Text("done")])
    await graph().turn("clear")
    assert store.get(MEMORIES, "/notes.md") is None
