"""What was said before a fact was deleted for good is not consolidated again; and a run that was
planned before begins anew.
"""

from typing import Any

from langchain_core.utils.uuid import uuid7
from langgraph.store.base import BaseStore

from lasting_memory.consolidation import keep_out, saying
from lasting_memory.consolidation.due import find_due
from lasting_memory.consolidation.owners import Owner
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.consolidation.conftest import ALICE, Runs

SAFE = "My safe opens with tulip seven."


def human(number: int, text: str) -> dict[str, Any]:
    return {"type": "human", "id": str(number), "content": text}


def answer(number: int, text: str) -> dict[str, Any]:
    return {"type": "ai", "id": str(number), "content": text}


async def due(store: BaseStore, platform: Any) -> list[str]:
    found = await find_due(deployed(), platform, store, Owner(ALICE), runs=platform.runs)
    return [turn.text for item in found for turn in item.conversation.turns]


async def test_messages_up_to_the_deletion_are_kept_out_and_later_ones_are_read(
    store: BaseStore, platform: Any
) -> None:
    talk = [human(1, SAFE), answer(2, "I see"), human(3, "Do you know it?")]
    at = platform.now.isoformat()
    platform.put(ALICE, "t", at, talk)
    # A run of which nothing is in the thread's state yet.
    sent = {"messages": [{"role": "user", "content": "Say it once more"}]}
    await platform.runs.create("t", "agent", kwargs={"input": sent})
    await keep_out(store, platform, ALICE, ["t", "gone"], journal.Writer(ALICE))
    talk += [answer(4, "It is tulip seven"), human(5, "Say it once more"), answer(6, "Tulip seven")]
    platform.put(ALICE, "t", at, talk)
    assert await due(store, platform) == []
    talk += [human(7, "It rains"), answer(8, "So it does")]
    platform.put(ALICE, "t", "2126-01-01T00:00:00+00:00", talk)
    platform.put(ALICE, "copy", "2126-01-01T00:00:00+00:00", talk[:4])
    assert await due(store, platform) == ["It rains", "So it does"]


async def test_conversations_that_say_it_are_found_also_one_under_way(
    store: BaseStore, platform: Platform
) -> None:
    at = platform.now.isoformat()
    platform.put(
        ALICE, "says", at, [human(1, "By the way: seven tulips? My safe opens with tulip seven!")]
    )
    platform.put(ALICE, "other", at, [human(1, "My safe is grey, and I like a tulip")])
    platform.put(ALICE, "now", at, [human(1, SAFE)], status="busy")
    fact = Fact(frozenset({"The safe opens with tulip seven"}))
    client: Any = platform
    found = await saying(
        store, client, ALICE, fact, deployment=deployed(), writer=journal.Writer(ALICE)
    )
    assert sorted(found) == ["now", "says"]


async def test_a_run_that_was_planned_before_reads_nothing_and_plans_another(run: Runs) -> None:
    planned = str(uuid7())
    await journal.note_erased(run.store, ALICE)
    assert "Another run is planned" in await run(planned, t=["It rains"])
    assert run.model.requests == []
    assert len(run.platform.runs.all()) == 1
    assert await run.consolidated() == set()
    await run(str(uuid7()), t=["It rains"])
    assert await run.consolidated() == {"t"}
