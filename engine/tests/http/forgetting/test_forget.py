"""Being forgotten: nothing is left, and nothing of anybody else's is touched."""

import asyncio

from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.http.forget import forget
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from tests.http.forgetting.conftest import (
    ALICE,
    BOTH,
    DEFAULTS,
    MEMORIES,
    OTHER,
    client,
    furnish,
    left,
)

SHARED = deployed(memory_scope="assistant", shared_writes="allow")


async def test_items_of_a_forgotten_person_are_counted_and_nobody_else_s_are_touched(
    store: BaseStore,
) -> None:
    for name in ("alic", "alicea", "a_ice", "a%"):
        await furnish(
            store, DEFAULTS.memory.namespace(Actor(name, "acme"), ""), Actor(name, "acme")
        )
    await furnish(
        store, DEFAULTS.memory.namespace(Actor("alice", "globex"), ""), Actor("alice", "globex")
    )
    store.put(("policies", "acme"), "/rule.md", {**create_file_data("rule")})
    others = left(store)
    await furnish(store, MEMORIES)
    counts = await forget(store, client("1", "2"), ALICE, DEFAULTS)
    assert left(store) == others
    assert counts == {"threads": 2, "memories": 2, "journal": 4, "consolidation": 1}
    assert not await forget(store, client(), ALICE, DEFAULTS), "the second time there is nothing"


async def test_memory_with_every_assistant_goes_also_where_only_its_history_is_left(
    store: BaseStore,
) -> None:
    bob = BOTH.memory.namespace(Actor("bob", "acme"), OTHER)
    await furnish(store, bob, Actor("bob", "acme"))
    others = left(store)
    for assistant in (AGENT, OTHER, "22222222-2222-3333-4444-555555555555"):
        await furnish(store, BOTH.memory.namespace(ALICE, assistant))
    gone = BOTH.memory.namespace(ALICE, OTHER)
    for key in ("/preferences.md", "/topics/a.md"):
        await journal.change(store, gone, key, lambda _: None, Author("agent"))
    await furnish(store, MEMORIES)  # from before MEMORY_SCOPE was changed
    counts = await forget(store, client(), ALICE, BOTH)
    assert left(store) == others
    assert counts["memories"] == 6


async def test_shared_memory_stays(store: BaseStore) -> None:
    shared = SHARED.memory.namespace(ALICE, AGENT)
    store.put(shared, "/preferences.md", {**create_file_data("everybody's")})
    others = left(store)
    store.put(namespaces.positions(ALICE), "thread", {"message_id": "1"})
    assert await forget(store, client("1"), ALICE, SHARED) == {"threads": 1, "consolidation": 1}
    assert left(store) == others


async def test_a_file_that_lands_a_moment_later_goes_too(store: BaseStore) -> None:
    await furnish(store, MEMORIES)
    forgetting = asyncio.create_task(forget(store, client(), ALICE, DEFAULTS))
    while not store.search(("forgotten",)):  # noqa: ASYNC110  # the store tells nobody
        await asyncio.sleep(0.005)
    await store.aput(MEMORIES, "/late.md", {**create_file_data("late")})
    assert (await forgetting)["memories"] == 3
    assert not left(store)
