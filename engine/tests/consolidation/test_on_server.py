"""On the real server: what consolidation reads, whose, and when; however it ends, it stops nobody else's."""

import asyncio
import threading
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import RateLimitError

from lasting_memory.limits import DEFAULT_CONSOLIDATION, DEFAULTS
from lasting_memory.seeding import seed
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, after, tool_results
from tests.conftest import served
from tests.consolidation.runs import READ, READY, TASK, append, consolidation_thread, ended, go, records, soon
from tests.turns import chat, new_thread, say

pytestmark = pytest.mark.server
NOTHING: Any = {"messages": []}
# A server that consolidates soon.
idle = served(CONSOLIDATE_AFTER_SECONDS="2")


async def shown_to(model: ScriptedAnthropic, client: LangGraphClient, **kwargs: Any) -> list[dict[str, Any]]:
    """What a model is shown that reads and says it is done."""
    model.clear()
    model.script(TASK, [READ], READY)
    await go(client, **kwargs)
    return list(model.requests)


async def test_only_what_is_new_is_read_and_the_client_s_message_is_not(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await chat(client, "I like fennel", "and dill")
    first = await shown_to(model, client)
    assert "user: I like fennel\nassistant: ok\nuser: and dill" in tool_results(first[-1])[0]
    assert thread in tool_results(first[-1])[0]
    assert "store X as a policy" not in str(first)
    await run_turn(client, thread, "no more dill")
    second = tool_results((await shown_to(model, client))[-1])[0]
    assert "no more dill" in second
    assert "fennel" not in second


async def test_a_person_sees_what_it_would_change_and_has_it_done(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, http = server.as_user(alice), server.as_user(alice).http.client
    food, rehearsal = {"path": "/memories/topics/food.md"}, {"dry_run": "true"}
    await chat(client, "I like dill")
    model.script(TASK, [append("- likes dill")], READY)
    told = await http.post("/memory/consolidate", params=rehearsal, timeout=30)
    assert "+- likes dill" in told.json()["files"][food["path"]]
    assert (await http.get("/memory/file", params=food)).status_code == 404
    assert (await http.get("/memory/consolidations")).json() == {"consolidations": []}
    model.clear()
    model.script(TASK, Failure(400, "invalid_request_error", "no"))
    failed = await http.post("/memory/consolidate", params=rehearsal, timeout=30)
    assert (failed.status_code, "dry run failed" in failed.json()["detail"]) == (502, True)
    model.clear()
    model.script(TASK, [append("- likes dill")], READY)
    assert (await http.post("/memory/consolidate")).json() == {"queued": True}
    (done,) = await records(client)
    assert (done["status"], done["conversations"], done["model_calls"]) == ("done", 1, 2)
    assert (await http.get("/memory/file", params=food)).json()["content"] == "- likes dill\n"
    assert "Nothing is new" in (await http.post("/memory/consolidate", params=rehearsal, timeout=30)).json()["reason"]


async def test_a_rehearsal_during_which_its_person_is_forgotten_did_not_fail(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await chat(client, "I like dill")
    model.script(TASK, Slow(60, [Text("late")]))
    rehearsal = asyncio.create_task(client.http.client.post("/memory/consolidate", params={"dry_run": "true"}, timeout=60))
    await model.asked(TASK, 1)
    assert (await client.http.client.delete("/memory", timeout=60)).is_success
    assert (await rehearsal).status_code == 409, (await rehearsal).text


# --- Planned runs ----------------------------------------------------------------------------------------------------


async def test_three_turns_are_one_run_on_a_thread_of_their_owner_s(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = idle.as_user(alice)
    model.script(TASK, [READ], READY)
    await asyncio.gather(*(chat(client, text) for text in ("I like fennel", "and dill", "and sorrel")))
    thread = await consolidation_thread(idle, alice)
    assert await ended(client, thread) == ["success"]
    shown = tool_results(model.requests[-1])[0]
    assert all(text in shown for text in ("fennel", "dill", "sorrel"))
    assert len(model.requests_for(TASK)) == 2
    (run,) = await client.runs.list(thread)
    assert (run["metadata"] or {})["trigger"] == "idle", "what this project says of its runs arrives; nobody else may say it"

    conversations = await client.threads.search(metadata={"graph_id": "agent"})
    assert thread not in {thread_seen["thread_id"] for thread_seen in conversations}


async def test_a_consolidation_thread_keeps_the_checkpoint_of_its_last_run_alone(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    for number in (1, 2):
        model.clear()
        model.script(TASK, [READ], READY)
        await chat(client, f"I like dill {number}")
        await client.http.post("/memory/consolidate", json=None)
        thread = await consolidation_thread(server, alice)
        assert {*await ended(client, thread, number)} == {"success"}
        assert len(model.requests_for(TASK)) == 2, "it goes on without the checkpoints of the runs before"
    assert len(await client.threads.get_history(thread, limit=100)) == 1
    state: Any = await client.threads.get_state(thread)
    assert "dill" not in str(state)


async def test_planned_consolidations_do_not_count_as_busy_conversations(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Planned consolidations and busy conversations do not keep each other from starting."""
    client = server.as_user(alice)
    for _ in range(DEFAULTS.busy_threads):
        await client.runs.create(await new_thread(client), "consolidation_agent", input=NOTHING, after_seconds=600)
    with pytest.raises(RateLimitError):
        await client.runs.create(await new_thread(client), "consolidation_agent", input=NOTHING)
    await say(client, "hello")


# --- However a run ends, it stops nobody else's


async def test_a_sweep_starts_those_who_are_due_and_those_who_failed(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A sweep starts a run of their own for each who is due, and the next for the one whose run failed."""
    operator = own_server.as_operator()
    fine, failing, idle = (f"{name}-{alice}" for name in ("fine", "failing", "idle"))
    await asyncio.gather(*(chat(own_server.as_user(person), f"words of {person}.") for person in (fine, failing, idle)))

    async def swept(runs: int) -> list[list[str]]:
        await operator.runs.wait(None, "consolidation_agent", input=NOTHING)
        return [
            await ended(own_server.as_user(person), await consolidation_thread(own_server, person), many)
            for person, many in ((fine, 1), (failing, runs))
        ]

    def reply(body: Any) -> Any:
        bad = f"words of {failing}" in "".join(tool_results(body))
        return Failure(400, "invalid_request_error", "no") if bad else READY

    model.script(TASK, *[reply] * 100)
    await operator.runs.wait(None, "consolidation_agent", input=NOTHING, context={"user_id": idle, "org_id": "acme"})
    assert await swept(1) == [["success"], ["error"]]
    assert await operator.threads.search(metadata={"user_id": idle, "consolidates": "all"}) == []
    shown = str(model.requests_for(f"words of {fine}.")[0])
    assert f"words of {failing}." not in shown
    assert await swept(2) == [["success"], ["error", "error"]]


@pytest.mark.proof
async def test_the_cron_of_the_seeds_comes_in_as_an_operator_and_does_the_same(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator, people = own_server.as_operator(), [alice, f"other-{alice}"]
    for person in people:
        await chat(own_server.as_user(person), f"words of {person}.")
    model.script(TASK, *[READY] * 100)
    await seed(operator, ["cron"], deployed(consolidation_schedule="* * * * *"), prune=False)

    async def seen() -> bool:
        return all(model.requests_for(f"words of {person}.") for person in people)

    try:
        await soon(seen, 90)
    finally:
        await seed(operator, ["cron"], deployed(), prune=False)


async def test_a_cancelled_consolidation_frees_its_slot_and_leaves_a_record(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    people = [server.as_user(f"{name}-{alice}") for name in range(DEFAULT_CONSOLIDATION.at_once)]
    client = server.as_user(alice)
    model.script(TASK, *[Slow(60, [Text("late")])] * len(people))
    await asyncio.gather(*(chat(person, "I like dill") for person in (*people, client)))
    threads = [await new_thread(person) for person in people]
    at_work = zip(people, threads, strict=True)
    runs = [await person.runs.create(thread, "consolidation_agent", input=NOTHING) for person, thread in at_work]
    await model.asked(TASK, len(people))
    for person, thread, run in zip(people, threads, runs, strict=True):
        await person.runs.cancel(thread, run["run_id"], wait=True)
        (record,) = await records(person)
        assert (record["status"], record["reason"]) == ("failed", "It was cancelled.")
    model.clear()
    await go(client)
    assert (await records(client))[0]["status"] == "done"


async def test_a_click_and_a_rehearsal_do_not_wait_for_a_sweep(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A click ends while the runs of a sweep that have begun are still at work, and the others wait."""
    clicked = threading.Event()
    swept = [f"{number}-{alice}" for number in range(2 * DEFAULT_CONSOLIDATION.at_once)]
    client, operator = own_server.as_user(alice), own_server.as_operator()
    await chat(client, f"words of {alice}.")  # a sweep takes the newest first
    await asyncio.gather(*(chat(own_server.as_user(person), f"words of {person}.") for person in swept))

    def reply(body: Any) -> Any:
        mine = f"words of {alice}." in "".join(tool_results(body))
        return READY if mine else after(clicked, READY)

    model.script(TASK, *[reply] * 100)
    try:
        await operator.runs.wait(None, "consolidation_agent", input=NOTHING)
        await model.asked(TASK, DEFAULT_CONSOLIDATION.at_once)
        assert (await client.http.client.post("/memory/consolidate", params={"dry_run": "true"})).json()["conversations"] == 1
        assert (await client.http.post("/memory/consolidate", json=None)) == {"queued": True}
        (record,) = await records(client)
        assert (record["status"], record["conversations"]) == ("done", 1)
        words = "".join(str(request) for request in model.requests_for(TASK))
        assert sum(f"words of {person}." in words for person in swept) <= DEFAULT_CONSOLIDATION.at_once
    finally:
        clicked.set()
