"""A shared memory starts with the files of `seeds/memories/`."""

from langgraph.store.base import BaseStore

from lasting_memory.memory import journal
from lasting_memory.memory.new_memory import starting_memory
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.conftest import BuildGraph
from tests.http.conftest import texts

SHARED = deployed(memory_scope="assistant", shared_writes="allow")
OURS = ("memories", f"{AGENT}:acme")
PREFERENCES = starting_memory(deployed().folder)["/preferences.md"]
DELETED = ToolCall("delete", {"file_path": "/memories/preferences.md"})


async def test_a_shared_memory_starts_with_the_seeds_once_with_whoever_comes_first(
    graph: BuildGraph, store: BaseStore
) -> None:
    agent = graph(SHARED)
    assert "## /memories/preferences.md" in await agent.shown(user="alice")
    assert await texts(store, OURS) == {"/preferences.md": PREFERENCES}
    (seeded,) = await journal.history(store, OURS, "/preferences.md")
    assert (seeded.author.kind, seeded.author.user_id) == ("seed", ""), "it is not the first one's"
    await agent.turn("hello", user="bob", thread="2")
    assert len(await journal.history(store, OURS, "/preferences.md")) == 1
    await agent.called(DELETED, user="bob", thread="3")
    await agent.turn("hello", user="alice", thread="4")
    assert await texts(store, OURS) == {}, "who deletes it does not get it back"
    await agent.turn("hello", user="eve", org="other", thread="5")
    assert await texts(store, ("memories", f"{AGENT}:other")) == {"/preferences.md": PREFERENCES}


async def test_the_seeds_never_come_over_what_a_shared_memory_has(
    graph: BuildGraph, store: BaseStore
) -> None:
    agent = graph(SHARED)
    agent.put(OURS, "/topics/team.md", "- Meets on Mondays.\n")
    await agent.turn("hello")
    assert await texts(store, OURS) == {"/topics/team.md": "- Meets on Mondays.\n"}


async def test_a_shared_memory_that_agents_only_read_starts_with_them_too(
    graph: BuildGraph, store: BaseStore
) -> None:
    await graph(deployed(memory_scope="assistant")).turn("hello")
    assert await texts(store, OURS) == {"/preferences.md": PREFERENCES}
