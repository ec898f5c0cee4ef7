"""Past conversations: the right one is found, one's own only, in a result small enough to read."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import PermissionDeniedError

from memory import scopes
from memory.episodes import Conversation, Turn, answer, conversation, page
from memory.search import search
from settings import MAX_SEARCH_RESULT_CHARS
from tests.dev_server import PROJECT, DevServer, run_turn
from tests.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from tests.threads import Threads


def talk(thread_id: str, *texts: str) -> Conversation:
    return Conversation(thread_id, "2026-01-01", tuple(Turn("user", text, str(n)) for n, text in enumerate(texts)))


async def answered(threads: Threads, query: str, limit: int = 5) -> str:
    return answer(query, await search(InMemoryStore(), threads, ACTOR, query, limit))


def past(*talks: tuple[str, list[str]]) -> Threads:
    threads = Threads()
    for thread_id, texts in talks:
        messages = [{"type": "human", "id": str(n), "content": text} for n, text in enumerate(texts)]
        threads.put(ACTOR, thread_id, "2026-01-01T12:00:00+00:00", messages)
    return threads


ACTOR = scopes.Actor("alice", "acme")
DOG = ("dog", ["Our dog Rex had puppies", "How many?", "Seven, all brown"])
CAR = ("car", ["The engine makes a noise", "Change the belt"])


async def test_the_turns_quoted_are_those_that_match_with_a_little_context() -> None:
    text = await answered(past(DOG, CAR), "puppies")
    assert text.startswith("2026-01-01 thread_id=dog")
    assert "1. user: Our dog Rex had puppies" in text
    assert "2. user: How many?" in text
    assert "engine" not in text


@pytest.mark.parametrize("limit", [1, 5, 20])
async def test_a_result_is_bounded_whatever_was_said(limit: int) -> None:
    threads = past(*((f"{number:036}", ["brown puppies " * 500] * 10) for number in range(30)))
    text = await answered(threads, "puppies " * 10_000, limit)
    assert text.count("thread_id=") == limit
    assert text.count("puppies") > limit
    assert len(text) <= MAX_SEARCH_RESULT_CHARS


async def test_the_turn_that_matches_is_quoted_whatever_is_around_it() -> None:
    long, short = "We talked about the weather for a long time. " * 30, "ok"
    chat = ("zoo", [long, long, "My zebra is called Zoe", short, "thanks", "bye", short, short])
    assert "3. user: My zebra is called Zoe" in await answered(past(chat, DOG), "zebra")


async def test_what_is_said_at_the_end_of_a_long_turn_is_quoted() -> None:
    chat = ("paste", ["filler " * 5_000 + "the password of the zebra is stripes", "ok"])
    assert "zebra is stripes" in await answered(past(chat, DOG), "zebra")


async def test_what_a_person_said_comes_before_a_tool_s_echo_of_it() -> None:
    threads = past(("t", ["I prefer metric units", "", "Done"]))
    threads.kept["t"]["values"]["messages"][1] = {"type": "tool", "id": "b", "content": "metric units metric units"}
    (found,) = (await search(InMemoryStore(), threads, ACTOR, "metric units", 5)).found
    assert found.turns[0][0] == 0


async def test_that_older_conversations_are_not_indexed_yet_is_said() -> None:
    assert "older conversations are not indexed" not in await answered(past(DOG), "puppies")
    threads = past(*((f"t{number}", ["puppies"]) for number in range(102)))
    assert "[2 older conversations are not indexed yet; search again]" in await answered(threads, "puppies")


def test_a_page_has_the_turn_asked_for_in_full_and_its_neighbours_within_the_limit() -> None:
    long = talk("long", *(f"turn {number}" for number in range(1, 101)))
    assert "\n100. user: turn 100" in page(long, None)
    assert "\n49. user: turn 49\n50. user: turn 50\n51. user: turn 51" in page(long, 50)
    assert "\n1. user: turn 1\n" in page(long, -7)
    assert "\n100. user: turn 100" in page(long, 10**9)
    wordy = talk("x", *[f"{number} " + "word " * 250 for number in range(40)])
    assert " ".join(wordy.turns[20].text.split()) in page(wordy, 21)
    assert len(page(talk("x", *["word " * 50_000] * 40), 3)) <= MAX_SEARCH_RESULT_CHARS
    assert "has no text" in page(talk("empty"), None)


def test_blocks_images_and_tool_messages_become_turns_and_what_has_no_text_does_not() -> None:
    messages: list[dict[str, Any]] = [
        {
            "type": "human",
            "id": "a",
            "content": [{"type": "text", "text": "look"}, {"type": "image", "base64": "AAAA"}],
        },
        {"type": "ai", "id": "b", "content": [{"type": "tool_use", "name": "ls", "input": {}}]},
        {"type": "tool", "id": "c", "content": "three files"},
        {"type": "system", "id": "d", "content": "hidden"},
        {"type": "ai", "id": None, "content": "done"},
    ]
    thread = {"thread_id": "t", "updated_at": "2026-02-03T04:05:06", "values": {"messages": messages}}
    turns = (Turn("user", "look", "a"), Turn("tool", "three files", "c"), Turn("assistant", "done", ""))
    stamp = "2026-02-03T04:05:06"
    assert conversation(thread) == Conversation("t", "2026-02-03", turns, stamp, stamp)
    assert conversation({"thread_id": "t", "values": None}).turns == ()


async def chat(client: LangGraphClient, *texts: str) -> str:
    thread = str((await client.threads.create())["thread_id"])
    for text in texts:
        await run_turn(client, thread, text)
    return thread


async def ask(client: LangGraphClient, model: ScriptedAnthropic, call: ToolCall, **kwargs: Any) -> tuple[str, str]:
    """What a tool call of the model is answered, and the thread it was made in."""
    text = f"call {call.name} {call.args}"
    model.script(text, [call], [Text("done")])
    thread = str((await client.threads.create())["thread_id"])
    await run_turn(client, thread, text, **kwargs)
    return tool_results(model.requests[-1])[0], thread


@pytest.mark.server
async def test_own_conversations_are_found_and_nobody_else_s_nor_this_one(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    own = await chat(client, "my zebra is called Zoe")
    other = await chat(server.as_user(f"other-{alice}"), "the zebra of somebody else")
    elsewhere = await chat(server.as_user(alice, org="globex"), "the zebra of the other organization")
    await chat(client, "an unrelated talk")
    answer, here = await ask(client, model, ToolCall("search_past_conversations", {"query": "zebra"}))
    assert f"thread_id={own}" in answer
    assert "my zebra is called Zoe" in answer
    assert not [thread for thread in (other, elsewhere, here) if thread in answer]

    answer, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": own}))
    assert "1. user: my zebra is called Zoe" in answer
    for thread in (other, elsewhere):
        answer, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": thread}))
        assert "There is no conversation" in answer
    answer, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": "../x"}))
    assert "Error" in answer


@pytest.mark.server
async def test_an_operator_s_run_finds_the_conversations_of_the_person_it_acts_for_only(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    own = await chat(server.as_user(alice), "my zebra is called Zoe")
    other = await chat(server.as_user(f"other-{alice}"), "the zebra of somebody else")
    context = {"user_id": alice, "org_id": "acme"}
    call = ToolCall("search_past_conversations", {"query": "zebra"})
    answer, _ = await ask(server.as_operator(), model, call, context=context)
    assert own in answer
    assert other not in answer
    call = ToolCall("read_conversation", {"thread_id": other})
    assert "There is no conversation" in (await ask(server.as_operator(), model, call, context=context))[0]


@pytest.mark.server
async def test_nothing_found_is_said_so(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    answer, _ = await ask(server.as_user(alice), model, ToolCall("search_past_conversations", {"query": "submarines"}))
    assert answer == "Nothing found in 0 earlier conversations."


@pytest.mark.server
async def test_an_operator_makes_an_index_anew_by_one_command(
    server: DevServer, model: ScriptedAnthropic, alice: str, capfd: pytest.CaptureFixture[str]
) -> None:
    own = await chat(server.as_user(alice), "my zebra is called Zoe")
    command = [sys.executable, "-m", "memory.reindex", "--user", alice, "--org", "acme", "--url", server.url]
    process = await asyncio.create_subprocess_exec(*command, cwd=PROJECT)
    assert await process.wait() == 0
    assert capfd.readouterr().out == f"1 conversations of {alice} are indexed.\n"
    operator = server.as_operator()
    namespace = scopes.recall(scopes.Actor(alice, "acme"), "documents")
    found = await operator.store.search_items(namespace)
    assert own in [item["value"].get("thread_id") for item in found["items"]]
    with pytest.raises(PermissionDeniedError):
        await server.as_user(alice).store.search_items(namespace)
