"""What consolidation reads, whose, how often, and what it does without a model call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from memory import identity, namespaces
from memory.consolidation.due import Due, batch, new_part
from memory.consolidation.positions import Position, turn_hash
from memory.recall.conversations import Conversation, Turn
from seeds.__main__ import seed
from settings import Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import Answer, Failure, ScriptedAnthropic, Slow, Text, ToolCall, tool_results

READ = ToolCall("search_recent_conversations", {})
TASK = "Conversations with something new"


def talk(thread_id: str, texts: Sequence[str], updated_at: str = "1") -> Conversation:
    turns = tuple(Turn("user", text, f"{thread_id}-{n}") for n, text in enumerate(texts))
    return Conversation(thread_id, "2026-01-01", turns, updated_at=updated_at)


def position(*turns: Turn) -> Position:
    return Position("0", "", tuple(map(turn_hash, turns)))


def test_what_was_not_consolidated_is_new() -> None:
    said = talk("t", "abc")
    assert new_part(said, position(*said.turns[:2])).turns == said.turns[2:]
    assert new_part(said, Position()) == said


def test_forks_edits_and_deletions_show_only_what_is_new() -> None:
    first, second, third = talk("t", "abc").turns
    known = position(first, second, third)
    edited = replace(second, text="B")
    assert new_part(Conversation("t", "2026-01-01", (first, edited)), known).turns == (edited,)
    assert new_part(Conversation("t", "2026-01-01", (first, third)), known).turns == ()


def test_a_batch_takes_the_oldest_and_no_more_than_fits() -> None:
    due = [Due(talk("new", ["y" * 400], "2")), Due(talk("old", ["x" * 400]))]
    assert [item.conversation.thread_id for item in batch(due, 150)] == ["old"]
    assert [item.conversation.thread_id for item in batch(due, 300)] == ["old", "new"]


def test_a_conversation_over_the_budget_is_read_in_parts_and_stays_due() -> None:
    (item,) = batch([Due(talk("t", ["a" * 400, "b" * 400, "c" * 400]))], 250)
    assert (item.position().updated_at, item.position().message_id, len(item.position().seen)) == ("", "t-1", 2)
    (item,) = batch([Due(talk("t", ["a" * 4000, "b"]))], 250)
    assert item.position().message_id == "t-0"


async def chat(client: LangGraphClient, *texts: str) -> str:
    thread = str((await client.threads.create())["thread_id"])
    for text in texts:
        await run_turn(client, thread, text)
    return thread


async def consolidate(client: LangGraphClient, model: ScriptedAnthropic, **kwargs: Any) -> list[dict[str, Any]]:
    """Runs consolidation with a model that reads and says it is done; what the model was shown."""
    model.clear()
    model.script(TASK, [READ], [Text("done")])
    thread = str((await client.threads.create())["thread_id"])
    await run_turn(client, thread, "store X as a policy", assistant="consolidation_agent", **kwargs)
    return list(model.requests)


@pytest.mark.server
async def test_only_what_is_new_is_read_and_the_client_s_message_is_not(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await chat(client, "I like fennel", "and dill")
    first = await consolidate(client, model)
    assert "user: I like fennel\nassistant: ok\nuser: and dill" in tool_results(first[-1])[0]
    assert thread in tool_results(first[-1])[0]
    assert "store X as a policy" not in str(first)

    assert await consolidate(client, model) == [], "nothing is new: the model must not be called"

    await run_turn(client, thread, "no more dill")
    second = tool_results((await consolidate(client, model))[-1])[0]
    assert "no more dill" in second
    assert "fennel" not in second


@pytest.mark.server
async def test_it_reads_the_caller_s_conversations_with_the_agent_and_nobody_else_s(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(f"other-{alice}"), "a secret of somebody else")
    await chat(server.as_user(alice, org="globex"), "a secret of the other organization")
    client = server.as_user(alice)
    await chat(client, "my own words")
    context: Any = {"user_id": f"other-{alice}", "org_id": "acme"}
    shown = await consolidate(client, model, context=context)
    assert "my own words" in str(shown)
    assert "secret" not in str(shown)
    assert await consolidate(client, model) == [], "its own thread must not be due"


@pytest.mark.server
async def test_an_operator_consolidates_for_the_user_it_names(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    await chat(server.as_user(alice), "my own words")
    context: Any = {"user_id": alice, "org_id": "acme"}
    assert "my own words" in str(await consolidate(server.as_operator(), model, context=context))
    assert await consolidate(server.as_user(alice), model) == []


@pytest.mark.server
async def test_a_run_that_fails_leaves_everything_due(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    await chat(client, "my own words")
    model.script(TASK, [READ], Failure(400, "invalid_request_error", "no"))
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(Exception, match="InvalidRequest"):
        await run_turn(client, thread, "go", assistant="consolidation_agent")
    assert "my own words" in str(await consolidate(client, model))


@pytest.mark.server
async def test_the_position_is_a_message_id_per_thread_in_the_store(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await chat(client, "my own words")
    await consolidate(client, model)
    namespace = namespaces.positions(identity.Actor(alice, "acme"))
    item = await server.as_operator().store.get_item(list(namespace), key=thread)
    state: Any = await client.threads.get_state(thread)
    assert item["value"]["message_id"] == state["values"]["messages"][-1]["id"]


async def said_and_seen(
    server: DevServer,
    model: ScriptedAnthropic,
    alice: str,
    start: Callable[[LangGraphClient], Awaitable[Any]],
    seconds: float,
) -> None:
    """Two people say something, one says nothing new; after `start`, each of the two is consolidated by a run of their own."""
    people, idle = [alice, f"other-{alice}"], f"idle-{alice}"
    for person in (*people, idle):
        await chat(server.as_user(person), f"words of {person}.")
    await consolidate(server.as_user(idle), model)
    model.clear()
    model.script(TASK, *[lambda body: [Text("done")] if tool_results(body) else [READ]] * 100)
    await start(server.as_operator())
    async with asyncio.timeout(seconds):
        while not all(model.requests_for(f"words of {person}.") for person in people):  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.2)
    assert not model.requests_for(f"words of {idle}."), "nothing of theirs is new"
    for person in people:
        shown = str(model.requests_for(f"words of {person}.")[0])
        assert [other for other in people if f"words of {other}." in shown] == [person]


@pytest.mark.server
async def test_an_operator_s_run_that_names_nobody_starts_one_for_each(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """An operator's run that names nobody starts one for everybody with something new."""

    async def start(operator: LangGraphClient) -> None:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": []})

    await said_and_seen(own_server, model, alice, start, 20)


@pytest.mark.server
@pytest.mark.proof
async def test_the_cron_of_the_seeds_comes_in_as_an_operator_and_does_the_same(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator = own_server.as_operator()
    settings = Settings(consolidation_schedule="* * * * *")

    async def start(_: LangGraphClient) -> None:
        await seed(operator, ["cron"], settings, prune=False)

    try:
        await said_and_seen(own_server, model, alice, start, 90)
    finally:
        await seed(operator, ["cron"], Settings(), prune=False)


@pytest.mark.server
async def test_a_person_s_run_that_names_nobody_is_their_own_and_starts_no_sweep(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(f"other-{alice}"), "words of somebody else")
    assert await consolidate(server.as_user(alice), model, context={"user_id": "", "org_id": "acme"}) == []


@pytest.mark.server
async def test_a_person_sees_what_it_would_change_and_has_it_done(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A person sees what it would change, has it done now, and reads what was done."""
    client, headers = server.as_user(alice), {"authorization": f"Bearer {dev_token('acme', alice)}"}
    await chat(client, "I like dill")
    add = ToolCall("append_memory", {"path": "/memories/topics/food.md", "text": "- likes dill"})
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        model.script(TASK, [add], [Text("done")])
        rehearsed = await http.post("/memory/consolidate", params={"dry_run": "true"})
        assert "+- likes dill" in rehearsed.json()["files"]["/memories/topics/food.md"]
        assert (await http.get("/memory/file", params={"path": "/memories/topics/food.md"})).status_code == 404
        assert (await http.get("/memory/consolidations")).json() == {"consolidations": []}
        model.clear()
        model.script(TASK, [add], [Text("done")])
        assert (await http.post("/memory/consolidate")).json() == {"queued": True}
        async with asyncio.timeout(60):
            while not (done := (await http.get("/memory/consolidations")).json()["consolidations"]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (done[0]["status"], done[0]["conversations"], done[0]["model_calls"]) == ("done", 1, 2)
        assert (await http.get("/memory/file", params={"path": "/memories/topics/food.md"})).json()[
            "content"
        ] == "- likes dill\n"
        assert "Nothing is new" in (await http.post("/memory/consolidate", params={"dry_run": "true"})).json()["reason"]
        assert (await http.post("/memory/consolidate", params={"dry_run": "yes"})).status_code == 400


@pytest.mark.server
async def test_a_dry_run_that_fails_says_so_and_a_long_one_gives_signs_of_life(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(alice), "I like dill")
    headers = {"authorization": f"Bearer {dev_token('acme', alice)}"}
    failure = Failure(400, "invalid_request_error", "no")
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=10) as http:

        async def rehearsed(*replies: Answer) -> tuple[int, bytes]:
            model.clear()
            model.script(TASK, *replies)
            async with http.stream("POST", "/memory/consolidate", params={"dry_run": "true"}) as answer:
                return answer.status_code, b"".join([part async for part in answer.aiter_raw()])

        status, body = await rehearsed(failure)
        assert (status, "dry run failed" in json.loads(body)["detail"]) == (502, True)
        status, body = await rehearsed(Slow(11, [Text("done")]))
        assert (status, body[:2], json.loads(body)["status"]) == (200, b"\n\n", "done")
        status, body = await rehearsed(Slow(6, failure))
        report = json.loads(body)
        assert (status, body[:1], report["status"], "dry run failed" in report["reason"]) == (200, b"\n", "failed", True)
