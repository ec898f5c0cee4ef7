"""On the real server: what consolidation reads, whose, and when; however it ends, it stops nobody
else's.
"""

import asyncio
import threading
from typing import Any

import pytest
from langgraph_sdk.errors import RateLimitError

from lasting_memory.deployment import DEFAULT_CONSOLIDATION, DEFAULTS
from lasting_memory.seeding import seed
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import (
    Body,
    Ended,
    Failure,
    ScriptedAnthropic,
    Slow,
    Text,
    after,
    tool_results,
)
from tests.conftest import people, served
from tests.consolidation.conftest import (
    READ,
    READY,
    TASK,
    append,
    consolidation_thread,
    ended,
    go,
    records,
    soon,
)

pytestmark = pytest.mark.server
NOTHING: Any = {"messages": []}
# A server that consolidates soon: later than turns that begin at once end, on a busy machine as
# well.
idle = served(CONSOLIDATE_AFTER_SECONDS="6")


async def words_of(*people: Person) -> None:
    """Each says something of their own."""
    await asyncio.gather(*(person.chat(f"words of {person.name}.") for person in people))


async def test_a_rehearsal_says_what_would_change_or_that_it_failed_and_writes_nothing(
    ada: Person,
) -> None:
    http, rehearsal = ada.http.client, {"dry_run": "true"}
    await ada.chat("I like dill")
    ada.model.script(
        TASK, [append("- likes dill")], READY, Failure(400, "invalid_request_error", "no")
    )
    told = await http.post("/memory/consolidate", params=rehearsal)
    assert "+- likes dill" in told.json()["files"]["/memories/topics/food.md"]
    failed = await http.post("/memory/consolidate", params=rehearsal)
    assert (failed.status_code, "dry run failed" in failed.json()["detail"]) == (502, True)
    assert await ada.read("/memories/topics/food.md") is None
    assert await ada.listed("consolidations") == []


async def test_a_turn_without_an_answer_is_remembered(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """It may have been the person's last turn for a long time."""
    (person,) = people(idle, model, alice)
    model.script("I like dill", Ended([], "refusal"))
    model.script(TASK, [append("- likes dill")], READY)
    await person.say("I like dill", raise_error=False)
    assert await ended(person) == ["success"]
    assert await person.read("/memories/topics/food.md") == "- likes dill\n"


async def ended_of_kind(who: Person, kind: str) -> list[dict[str, Any]]:
    return [
        record
        for record in await who.listed("consolidations")
        if record["kind"] == kind and record["ended_at"]
    ]


async def test_runs_of_every_kind_without_an_answer_say_why_and_a_later_one_remembers(
    ada: Person,
) -> None:
    await ada.chat("I like dill")
    await ada.write("/memories/topics/food.md", "- likes fennel\n")
    http, filtered = ada.http.client, Ended([], "refusal")
    ada.model.script(TASK, filtered, filtered)
    told = (await http.post("/memory/consolidate", params={"dry_run": "true"}, timeout=300)).json()
    assert (told["status"], told["files"]) == ("failed", {})
    assert "refused to answer (refusal)" in told["reason"]
    assert await ada.listed("consolidations") == []
    for kind in ("Tidy this person's memory", "brought a text along"):
        ada.model.script(kind, filtered)
    brought = (await http.post("/memory/bring", json={"text": "I like leek"}, timeout=300)).json()
    assert brought["proposal"] is None
    assert "refused to answer (refusal)" in brought["reason"]
    await http.post("/memory/consolidate", params={"tidy": "true"})
    await soon(lambda: ended_of_kind(ada, "tidy"))
    assert "Nothing was consolidated: The model refused" in await go(ada)
    kept = [(record["kind"], record["status"]) for record in await records(ada)]
    assert kept == [("conversations", "failed"), ("tidy", "failed"), ("bring", "failed")]
    ada.model.script(TASK, [append("- likes dill")], READY)
    await go(ada)
    assert await ada.read("/memories/topics/food.md") == "- likes fennel\n- likes dill\n"


async def test_a_rehearsal_during_which_its_person_is_forgotten_did_not_fail(ada: Person) -> None:
    await ada.chat("I like dill")
    ada.model.script(TASK, Slow(60, [Text("late")]))
    rehearsal = asyncio.create_task(
        ada.http.client.post("/memory/consolidate", params={"dry_run": "true"})
    )
    await ada.model.asked(TASK, 1)
    assert (await ada.http.client.delete("/memory")).is_success
    assert (await rehearsal).status_code == 409, (await rehearsal).text


async def test_three_turns_are_one_run_on_a_thread_of_its_own(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    (person,) = people(idle, model, alice)
    model.script(TASK, [READ], READY)
    await asyncio.gather(
        *(person.chat(text) for text in ("I like fennel", "and dill", "and sorrel"))
    )
    assert await ended(person) == ["success"]
    thread, shown = await consolidation_thread(person), tool_results(model.requests[-1])[0]
    assert all(text in shown for text in ("fennel", "dill", "sorrel"))
    assert len(model.requests_for(TASK)) == 2
    (run,) = await person.client.runs.list(thread)
    assert (run["metadata"] or {})["trigger"] == "idle", (
        "what this project says of its runs arrives; nobody else may say it"
    )
    conversations = await person.client.threads.search(metadata={"graph_id": "agent"})
    assert thread not in {thread_seen["thread_id"] for thread_seen in conversations}


async def test_a_consolidation_s_thread_keeps_a_checkpoint_of_each_run_and_in_none_what_was_said(
    ada: Person,
) -> None:
    def hers(body: Body) -> bool:  # other servers consolidate at the same time
        return TASK in str(body) and "I like dill" in str(body)

    for number in (1, 2):
        ada.model.clear()
        ada.model.script(hers, [READ], READY)
        await ada.chat(f"I like dill {number}")
        await ada.http.post("/memory/consolidate", json=None)
        assert {*await ended(ada, number)} == {"success"}
        assert sum(map(hers, ada.model.requests)) == 2, (
            "it goes on without what is in the checkpoints of the runs before"
        )
    thread = await consolidation_thread(ada)
    await ada.chat("I like dill 3")
    own = await ada.thread()
    rehearsal: Any = {"input": NOTHING, "durability": "sync", "context": {"dry_run": True}}
    await ada.client.runs.wait(own, "consolidation_agent", **rehearsal)
    ada.model.script(hers, [append("- likes dill")], Failure(400, "invalid_request_error", "no"))
    streamed = ada.client.runs.stream(
        own, "consolidation_agent", stream_mode="values", stream_subgraphs=True, **rehearsal
    )
    shown = [part async for part in streamed]
    assert ("I like dill" in str(shown), shown[-1].event) == (True, "error")
    planned, rehearsed = [
        await ada.client.threads.get_history(each, limit=100) for each in (thread, own)
    ]
    assert len(planned) == 2
    kept = [planned, rehearsed, await ada.client.threads.get(own)]
    assert "I like" not in str(kept)
    assert "likes dill" not in str(kept)


async def test_planned_consolidations_do_not_count_as_busy_conversations(ada: Person) -> None:
    for _ in range(DEFAULTS.busy_threads):
        await ada.client.runs.create(
            await ada.thread(), "consolidation_agent", input=NOTHING, after_seconds=600
        )
    with pytest.raises(RateLimitError):
        await ada.client.runs.create(await ada.thread(), "consolidation_agent", input=NOTHING)
    await ada.say("hello")


async def test_a_sweep_starts_those_who_are_due_and_those_who_failed(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    operator, (fine, failing, idle) = (
        own_server.as_operator(),
        people(own_server, model, "fine", "failing", "idle"),
    )
    await words_of(fine, failing, idle)

    async def swept(runs: int) -> list[list[str]]:
        await operator.runs.wait(None, "consolidation_agent", input=NOTHING)
        return [await ended(fine), await ended(failing, runs)]

    def reply(body: Any) -> Any:
        bad = "words of failing" in "".join(tool_results(body))
        return Failure(400, "invalid_request_error", "no") if bad else READY

    model.script(TASK, *[reply] * 100)
    await operator.runs.wait(
        None, "consolidation_agent", input=NOTHING, context={"user_id": "idle", "org_id": "acme"}
    )
    assert await swept(1) == [["success"], ["error"]]
    assert await operator.threads.search(metadata={"user_id": "idle", "consolidates": "all"}) == []
    assert "words of failing." not in str(model.requests_for("words of fine.")[0])
    assert await swept(2) == [["success"], ["error", "error"]]


@pytest.mark.proof
async def test_the_cron_of_the_seeds_comes_in_as_an_operator(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    operator = own_server.as_operator()
    await words_of(*people(own_server, model, "one", "another"))
    model.script(TASK, *[READY] * 100)
    await seed(operator, ["cron"], deployed(consolidation_schedule="* * * * *"), prune=False)

    async def seen() -> bool:
        return all(model.requests_for(f"words of {person}.") for person in ("one", "another"))

    try:
        await soon(seen, 90)
    finally:
        await seed(operator, ["cron"], deployed(), prune=False)


async def test_a_cancelled_consolidation_frees_its_slot_and_leaves_a_record(
    server: DevServer, ada: Person
) -> None:
    others = people(
        server,
        ada.model,
        *(f"{number}-{ada.name}" for number in range(DEFAULT_CONSOLIDATION.at_once)),
    )
    ada.model.script(TASK, *[Slow(60, [Text("late")])] * len(others))
    await words_of(*others, ada)
    threads = [await other.thread() for other in others]
    at_work = zip(others, threads, strict=True)
    runs = [
        await other.client.runs.create(thread, "consolidation_agent", input=NOTHING)
        for other, thread in at_work
    ]
    await ada.model.asked(TASK, len(others))
    for other, thread, run in zip(others, threads, runs, strict=True):
        await other.client.runs.cancel(thread, run["run_id"], wait=True)
        (record,) = await records(other)
        assert (record["status"], record["reason"]) == ("failed", "It was cancelled.")
    ada.model.clear()
    await go(ada)
    assert (await records(ada))[0]["status"] == "done"


async def test_a_click_and_a_rehearsal_do_not_wait_for_a_sweep(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    clicked = threading.Event()
    me, *swept = people(
        own_server, model, "me", *map(str, range(2 * DEFAULT_CONSOLIDATION.at_once))
    )
    await words_of(me)  # a sweep takes the newest first
    await words_of(*swept)

    def reply(body: Any) -> Any:
        return READY if "words of me." in "".join(tool_results(body)) else after(clicked, READY)

    model.script(TASK, *[reply] * 100)
    try:
        await own_server.as_operator().runs.wait(None, "consolidation_agent", input=NOTHING)
        await model.asked(TASK, DEFAULT_CONSOLIDATION.at_once)
        assert (
            await me.http.client.post("/memory/consolidate", params={"dry_run": "true"})
        ).json()["conversations"] == 1
        assert (await me.http.post("/memory/consolidate", json=None)) == {"queued": True}
        (record,) = await records(me)
        assert (record["status"], record["conversations"]) == ("done", 1)
        words = "".join(str(request) for request in model.requests_for(TASK))
        assert (
            sum(f"words of {person.name}." in words for person in swept)
            <= DEFAULT_CONSOLIDATION.at_once
        )
    finally:
        clicked.set()
