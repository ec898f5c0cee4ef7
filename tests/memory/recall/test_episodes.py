"""Past conversations: the right one is found, one's own only, in a result small enough to read."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from memory import identity
from memory.recall.conversations import Conversation, Turn, conversation
from memory.recall.retrieval import page_text, results_text, search
from settings import MAX_SEARCH_RESULT_CHARS
from testing.platform import Platform


def talk(thread_id: str, *texts: str) -> Conversation:
    return Conversation(thread_id, "2026-01-01", tuple(Turn("user", text, str(n)) for n, text in enumerate(texts)))


async def answered(threads: Platform, query: str, limit: int = 5) -> str:
    return results_text(query, await search(InMemoryStore(), threads, ACTOR, query, limit))


def past(*talks: tuple[str, list[str]]) -> Platform:
    threads = Platform()
    for thread_id, texts in talks:
        messages = [{"type": "human", "id": str(n), "content": text} for n, text in enumerate(texts)]
        threads.put(ACTOR, thread_id, "2026-01-01T12:00:00+00:00", messages)
    return threads


ACTOR = identity.Actor("alice", "acme")
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


async def test_twenty_conversations_are_named_and_still_the_best_turns_are_quoted() -> None:
    filler = "We talked about the weather and the news for a long time. " * 4
    needle = "My zebra is called Zoe, and she sleeps in the garden behind the old mill when the summer is warm. " * 2
    talks = [(f"{n:036}", [filler, f"A zebra, number {n}", filler]) for n in range(19)]
    text = await answered(
        past(*talks, ("found", [filler, needle.strip(), filler])), "What is my zebra in the garden called?", 20
    )
    assert text.count("thread_id=") == 20
    assert f"2. user: {needle.strip()}" in text
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
    (match,) = (await search(InMemoryStore(), threads, ACTOR, "metric units", 5)).matches
    assert match.turns[0][0] == 0


async def test_that_older_conversations_are_not_indexed_yet_is_said() -> None:
    assert "older conversations are not indexed" not in await answered(past(DOG), "puppies")
    threads = past(*((f"t{number}", ["puppies"]) for number in range(102)))
    assert "[2 older conversations are not indexed yet; search again]" in await answered(threads, "puppies")


def test_a_page_has_the_turn_asked_for_in_full() -> None:
    """A page has the turn asked for in full, and its neighbours within the limit."""
    long = talk("long", *(f"turn {number}" for number in range(1, 101)))
    assert "\n100. user: turn 100" in page_text(long, None)
    assert "\n49. user: turn 49\n50. user: turn 50\n51. user: turn 51" in page_text(long, 50)
    assert "\n1. user: turn 1\n" in page_text(long, -7)
    assert "\n100. user: turn 100" in page_text(long, 10**9)
    wordy = talk("x", *[f"{number} " + "word " * 250 for number in range(40)])
    assert " ".join(wordy.turns[20].text.split()) in page_text(wordy, 21)
    assert len(page_text(talk("x", *["word " * 50_000] * 40), 3)) <= MAX_SEARCH_RESULT_CHARS
    assert "has no text" in page_text(talk("empty"), None)


def test_blocks_images_and_tool_messages_become_turns() -> None:
    """Blocks, images and tool messages become turns, and what has no text does not."""
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
