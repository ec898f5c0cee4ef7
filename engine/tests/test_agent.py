"""The agent's own tools and wiring: asserted on the store and on what the model was shown."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.utils import create_file_data
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore, IndexConfig
from langgraph.store.memory import InMemoryStore

from lasting_memory import file_system, memory_tools, middleware
from lasting_memory.deployment import Deployment, Profile
from lasting_memory.people.identity import Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.embedding import SUBJECTS, embed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from tests.conftest import BuildGraph, Scripted, built_agent

MEMORIES = ("memories", "acme:alice")


async def test_what_tools_are_told_to_be_may_be_a_fork_s_own(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    said = {"append_memory": "Remember what readers like.", "save_profile": "Note who they are."}

    def build(d: Deployment, model: BaseChatModel) -> Any:
        tools = memory_tools(d, descriptions=said)
        return create_deep_agent(model, tools=tools, middleware=middleware(d), context_schema=Context, **file_system(d))

    await graph(build=build).turn("one")
    told = {each["name"]: each["description"] for each in model.requests[0]["tools"]}
    assert {name: told[name] for name in said} == said
    assert told["search_memories"].startswith("Search the files under /memories/")


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


async def test_append_adds_a_line_creates_the_file_and_changes_nothing_else(agent: Scripted) -> None:
    agent.put(MEMORIES, "/topics/a.md", "first")
    await agent.called(append("/topics/a.md", "second\n\n"), append("/topics/a.md", "third"), append("/topics/b.md", "new"))
    assert content(agent.store, "/topics/a.md") == "first\nsecond\nthird\n"
    assert content(agent.store, "/topics/b.md") == "new\n"


async def test_a_profile_is_saved_typed_and_fields_left_out_stay(agent: Scripted) -> None:
    await agent.called(save(name="Alice", units="metric"), save(role="pilot"))
    saved = Profile.model_validate_json(content(agent.store, "/profile.json"))
    assert saved == Profile(name="Alice", units="metric", role="pilot")


async def test_an_invalid_profile_is_refused_and_what_is_there_is_kept(agent: Scripted) -> None:
    agent.put(MEMORIES, "/profile.json", "not json")
    agent.put(MEMORIES, "/pixel.png", "iVBORw==", encoding="base64")
    told = await agent.called(save(name="Alice"), save(shoe_size=44), append("/pixel.png", "x"))
    wrong = ("holds no profile", "xtra", "is not text")
    assert [part in answer for part, answer in zip(wrong, told, strict=True)] == [True] * 3
    assert (content(agent.store, "/profile.json"), content(agent.store, "/pixel.png")) == ("not json", "iVBORw==")


async def test_memories_are_searched_by_text_where_there_is_no_index(agent: Scripted) -> None:
    agent.put(MEMORIES, "/topics/food.md", "Likes fennel.\n\nHates the taste of coriander.")
    agent.put(MEMORIES, "/topics/work.md", "Flies cargo planes.")
    agent.put(("memories", "acme:bob"), "/topics/food.md", "Bob tasted coriander.")
    answer = "/memories/topics/food.md\nHates the taste of coriander."
    assert await search(agent, "which tastes does she hate?") == answer
    assert "Nothing" in await search(agent, "submarines")


async def test_memories_are_searched_by_words_and_by_meaning_where_there_is_an_index(model: ScriptedAnthropic) -> None:
    store = InMemoryStore(index=IndexConfig(embed=embed, dims=len(SUBJECTS), fields=["content"]))
    said = {"/a.md": "Has a puppy.", "/b.md": "Sold the vehicle.\n\nThe pump is in the shed.", "/c.md": "Bakes bread."}
    for key, text in said.items():
        await store.aput(MEMORIES, key, {**create_file_data(text)})
    indexed = Scripted(built_agent(deployed(), model.url), store, model)
    puppy, pump = "/memories/a.md\nHas a puppy.", "/memories/b.md\nThe pump is in the shed."
    assert await search(indexed, "any pet?") == puppy
    assert await search(indexed, "which pump?") == pump
    assert await search(indexed, "a pet and a pump") == f"{pump}\n\n{puppy}"
    assert "Nothing" in await search(indexed, "submarines")


BOTH = {"append_memory", "save_profile"}
READ_ONLY, SHARED = "you read `/memories/` and do not write it", "everybody who talks to you shares it"
OFFERED: list[tuple[Deployment, set[str], str]] = [
    (deployed(), BOTH, ""),
    (deployed(memory_writes="background"), set(), READ_ONLY),
    (deployed(memory_scope="assistant"), set(), SHARED),
    (deployed(memory_scope="assistant", shared_writes="allow"), {"append_memory"}, SHARED),
    (deployed(memory_scope="assistant", shared_writes="allow", memory_writes="background"), set(), SHARED),
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


async def test_shared_memory_shows_nobody_s_profile(graph: BuildGraph) -> None:
    shared = graph(deployed(memory_scope="assistant"))
    shared.put(("memories", f"{AGENT}:acme"), "/profile.json", '{"name": "Alice"}')
    assert "Alice" not in await shared.shown()


async def test_traces_of_model_calls_carry_the_scope_a_subagent_s_too(agent: Scripted) -> None:
    class Traced(AsyncCallbackHandler):
        scopes: list[object] = []  # noqa: RUF012

        async def on_chat_model_start(self, *_: Any, metadata: dict[str, Any] | None = None, **__: Any) -> None:
            self.scopes.append((metadata or {}).get("memory_scope"))

    task = ToolCall("task", {"description": "write a letter", "subagent_type": "writer"})
    agent.model.script("delegate", [task], [Text("done")])
    config: RunnableConfig = {"configurable": {"thread_id": "1"}, "callbacks": [Traced()]}
    said = {"messages": [{"role": "user", "content": "delegate"}]}
    await agent.graph.ainvoke(said, config, context=Context(user_id="alice", org_id="acme"))
    assert Traced.scopes == ["user"] * 3
