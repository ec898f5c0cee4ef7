"""More than one agent graph: each is an agent to memory, skills, recall, consolidation, export and seeds, whatever its name."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lasting_memory import seeding
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, assistant_of
from lasting_memory.settings import MemoryScope, SettingsError, agent_graphs
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.hostile import skill
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import model_env
from tests.turns import note, people

GRAPHS = ("agent", "support")
ORG = "acme"
# And its MEMORY_SCOPE.
Server = tuple[DevServer, MemoryScope]


@pytest.fixture
def two_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as one of a server with two agent graphs."""
    registered = {"agent": "./agent.py:agent", "consolidation_agent": "c.py:c", "support": {"path": "./agent.py:agent"}}
    monkeypatch.setenv("LANGSERVE_GRAPHS", json.dumps(registered))


def test_the_agents_are_what_is_registered_but_consolidation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSERVE_GRAPHS", json.dumps({"consolidation_agent": "c.py:c"}))
    with pytest.raises(SettingsError, match=r"langgraph\.json"):
        agent_graphs(tmp_path)
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"consolidation_agent": "c", "helpdesk": "h"}}))
    monkeypatch.delenv("LANGSERVE_GRAPHS")
    assert agent_graphs(tmp_path) == ("helpdesk",)


SCOPES = ["user+assistant", *(pytest.param(scope, marks=pytest.mark.proof) for scope in ("user", "assistant"))]


@pytest.fixture(scope="module", params=SCOPES)
def shared_two(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_model: ScriptedAnthropic
) -> Iterator[Server]:
    env = {**model_env(shared_model), "MEMORY_SCOPE": request.param, "SHARED_WRITES": "allow"}
    config = {"graphs": {"support": "./agent.py:agent"}}
    with DevServer(tmp_path_factory.mktemp("two"), env=env, config=config) as server:
        yield server, request.param


@pytest.fixture
async def two(shared_two: Server) -> AsyncIterator[Server]:
    """A server with two agent graphs, and its MEMORY_SCOPE."""
    yield shared_two
    await shared_two[0].close_clients()


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
        (found,) = await person.called(ToolCall("search_past_conversations", {"query": other}), assistant=graph)
        assert f"keep {other}" in found
    response = await person.http.client.get("/memory/export", timeout=60)
    exported = json.dumps(response.json()["conversations"])
    assert all(f"Remember that I keep {animal}." in exported for animal in ("zebras", "okapis"))

    # Skills are each assistant's own.
    (tmp_path / "seeds/skills/letters").mkdir(parents=True)
    (tmp_path / "seeds/skills/letters/SKILL.md").write_text(skill("", name="letters"))
    await seeding.seed(operator, ["skills"], replace(settings, folder=tmp_path), prune=False)
    for graph in GRAPHS:
        skills = await operator.store.search_items(list(namespaces.skills(assistant_of(graph))), limit=100)
        assert skills["items"]

    # The sweep plans a consolidation of each memory in which something is new.
    await operator.runs.wait(None, "consolidation_agent", input={"messages": []})
    planned = await operator.threads.search(metadata={"user_id": actor.user_id, "graph_id": "consolidation_agent"}, limit=10)
    keys = {(thread["metadata"] or {})["consolidates"] for thread in planned}
    assert keys == {"user": {"all"}, "user+assistant": {assistant_of(graph) for graph in GRAPHS}, "assistant": set()}[scope]


@pytest.mark.server
async def test_what_an_operator_put_into_a_memory_is_forgotten_with_its_person(two: Server, alice: str) -> None:
    """As the seeds do, over the store API: with whichever assistant, before the person has written anything."""
    (server, scope), operator = two, two[0].as_operator()
    namespace = list(deployed(memory_scope=scope).memory.namespace(Actor(alice, ORG), assistant_of("support")))
    await operator.store.put_item(namespace, "/seeded.md", {"content": "- seeded", "encoding": "utf-8"})
    exported = await server.as_user(alice).http.client.get("/memory/export", timeout=60)
    assert ("- seeded" in exported.text) is (scope != "assistant")
    await server.as_user(alice).http.client.delete("/memory", timeout=60)
    left = (await operator.store.search_items(namespace))["items"]
    assert bool(left) is (scope == "assistant"), "shared memory stays"
