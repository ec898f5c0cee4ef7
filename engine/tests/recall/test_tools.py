"""The tools of past conversations, through the server: one's own only, never this one, nobody else's."""

from typing import Any

import pytest

from lasting_memory.settings import ENGINE
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ToolCall
from tests.turns import Somebody

pytestmark = pytest.mark.server


def search(query: str, **args: Any) -> ToolCall:
    return ToolCall("search_past_conversations", {"query": query, **args})


def read(thread: str) -> ToolCall:
    return ToolCall("read_conversation", {"thread_id": thread})


async def test_own_conversations_are_found_and_nobody_else_s_nor_this_one(
    server: DevServer, ada: Somebody, bob: Somebody
) -> None:
    own = await ada.chat("my zebra is called Zoe")
    other = await bob.chat("the zebra of somebody else")
    elsewhere = await Somebody(server.as_user(ada.name, org="globex"), ada.model).chat("the zebra of the other organization")
    here = await ada.thread()
    found, otherwise, bad = await ada.called(
        search("zebra"),
        search("animals", alternatives=["zebra", "x" * 10_000]),
        search("zebra", since="last May"),
        thread=here,
    )
    assert f"thread_id={own}" in found
    assert "my zebra is called Zoe" in found
    assert not [thread for thread in (other, elsewhere, here) if thread in found]
    assert own in otherwise
    assert "2023-05-01" in bad, "a day that is none is answered with one"
    told = {tool["name"]: tool["description"] for tool in ada.model.requests[-1]["tools"]}["search_past_conversations"]
    assert told == (ENGINE / "prompts" / "search_past_conversations.md").read_text("utf-8").strip()
    topic: Any = {"params": {"path": "/memories/topics/zebra.md"}, "json": {"content": "- Her zebra was born in Kenya\n"}}
    await ada.http.put("/memory/file", **topic)
    reads = [read(thread) for thread in (own, other, elsewhere, "../x")]
    found, mine, *refused = await ada.called(search("zebra born in Kenya"), *reads)
    assert found.endswith("[/memories/topics/zebra.md may say more; read it]")
    assert "1. user: my zebra is called Zoe" in mine
    assert ["There is no conversation" in each for each in refused] == [True, True, False]
    assert "Error" in refused[-1]


async def test_an_operator_s_run_finds_the_conversations_of_its_person_only(
    server: DevServer, ada: Somebody, bob: Somebody
) -> None:
    own = await ada.chat("my zebra is called Zoe")
    other = await bob.chat("the zebra of somebody else")
    context = {"user_id": ada.name, "org_id": "acme"}
    found, refused = await Somebody(server.as_operator(), ada.model).called(search("zebra"), read(other), context=context)
    assert own in found
    assert other not in found
    assert "There is no conversation" in refused
