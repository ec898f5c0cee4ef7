"""Conversations in which a fact was said that is deleted for good."""

import asyncio
import json
import threading
from typing import Any

import pytest
from langgraph.store.base import IndexConfig
from langgraph.store.memory import InMemoryStore

from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.recall import catch_up
from lasting_memory.testing.people import Person
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import Text, after
from lasting_memory.testing.stores import embed
from tests.conftest import note
from tests.consolidation.conftest import TASK, append, consolidate, records
from tests.http.conftest import Open, kept, put
from tests.http.fact_deletion.conftest import ALICE, FACT, deleted, opened_on, stored
from tests.recall.talks import say

NAMED = "22222222-2222-3333-4444-555555555555"


async def test_passages_of_deleted_conversations_leave_the_index(
    calling: Open, talks: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    index: IndexConfig = {"embed": embed, "dims": 3, "fields": ["text"]}
    store = InMemoryStore(index=index)
    for thread_id in ("stays", "gone", NAMED):
        say(talks, thread_id, FACT, "I see")
    await catch_up(store, talks, ALICE, agents=["agent"], writer=journal.Writer(ALICE))
    assert stored(store).count("tulip") == 3
    talks.remove("gone")
    async with opened_on(store) as api:
        await put(api, f"- {FACT}\n")
        told = await deleted(api, body={"conversations": [NAMED]})
    assert told["deleted"]["conversations"] == 1
    assert NAMED not in talks.kept
    assert stored(store).count("tulip") == 1, "of the conversation that stays"
    assert [key for place, key in kept(store) if place == namespaces.kept_out(ALICE)] == ["stays"]


async def everything(who: Person) -> str:
    """All that is kept of a person, but for their conversations."""
    told = (await who.ask("GET", "/memory/export")).json()
    proposals = await who.listed("proposals")
    return json.dumps(
        [{**told, "conversations": None}, proposals, await who.listed("consolidations")]
    )


async def forget_fact(
    who: Person, path: str = "/memories/preferences.md", **body: Any
) -> dict[str, Any]:
    return dict(await who.made("DELETE", "/memory/fact", {"text": FACT, **body}, path=path))


@pytest.mark.server
async def test_a_deleted_fact_is_not_consolidated_again_from_its_conversation(ada: Person) -> None:
    thread = await ada.thread()
    ada.model.script(FACT, [note(FACT)], [Text("noted")])
    await ada.turn(thread, FACT)
    told = await ada.made(
        "DELETE", "/memory/fact", {"text": FACT}, path="/memories/preferences.md", dry_run="true"
    )
    assert told["conversations"] == [thread]
    told = await forget_fact(ada)
    assert told["conversations"] == [thread]
    ada.model.clear()
    await ada.turn(thread, "And it rains in Lyon")
    await consolidate(ada, append("- It rains in Lyon"))
    read = [json.dumps(body) for body in ada.model.requests if TASK in json.dumps(body)]
    assert read, "what is said later is consolidated"
    assert not [body for body in read if "tulip" in body]
    assert "It rains in Lyon" in await everything(ada)
    await ada.made("POST", "/memory/consolidate", tidy="true")
    assert (await records(ada))[0]["status"] in {"done", "proposed", "undone"}
    assert "tulip" not in await everything(ada)


@pytest.mark.server
async def test_a_deleted_fact_is_not_consolidated_from_a_turn_that_is_under_way(
    ada: Person,
) -> None:
    await ada.write("/memories/preferences.md", f"- {FACT}\n- Likes tea\n")
    thread, answered = await ada.thread(), threading.Event()
    ada.model.script("You know my safe", after(answered, [note("late")]), [Text(f"Yes: {FACT}.")])
    turn = asyncio.create_task(ada.turn(thread, f"You know my safe. {FACT}"))
    await ada.model.asked("You know my safe")
    await forget_fact(ada)
    answered.set()
    messages = (await turn)["messages"]
    assert any("deleted for good" in str(message["content"]) for message in messages), (
        "what began before writes nothing"
    )
    ada.model.clear()
    await consolidate(ada, append(f"- {FACT}"))
    assert "tulip" not in await everything(ada)


@pytest.mark.server
async def test_a_consolidation_under_way_commits_nothing_of_it(ada: Person) -> None:
    thread, answered = await ada.thread(), threading.Event()
    await ada.write("/memories/preferences.md", f"- {FACT}\n")
    await ada.turn(thread, FACT)
    ada.model.script(TASK, after(answered, [append(f"- {FACT}")]), [Text("done")])
    going = asyncio.create_task(consolidate_scripted(ada))
    await ada.model.asked(TASK)
    await forget_fact(ada, conversations=[thread])
    answered.set()
    await going
    assert "tulip" not in json.dumps((await ada.ask("GET", "/memory/export")).json())
    assert "tulip" not in await everything(ada)


async def consolidate_scripted(who: Person) -> None:
    await who.say("go on", "consolidation_agent")
