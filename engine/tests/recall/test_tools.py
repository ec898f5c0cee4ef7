"""The tools of past conversations, through the server: one's own only, never this one, nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory.settings import ENGINE
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results


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
    results_text, here = await ask(client, model, ToolCall("search_past_conversations", {"query": "zebra"}))
    assert f"thread_id={own}" in results_text
    assert "my zebra is called Zoe" in results_text
    assert not [thread for thread in (other, elsewhere, here) if thread in results_text]
    given = {"query": "animals", "alternatives": ["zebra", "x" * 10_000]}
    assert own in (await ask(client, model, ToolCall("search_past_conversations", given)))[0]

    told = {tool["name"]: tool["description"] for tool in model.requests[-1]["tools"]}["search_past_conversations"]
    assert told == (ENGINE / "prompts" / "search_past_conversations.md").read_text("utf-8").strip()
    bad = {"query": "zebra", "since": "last May"}
    error = "Error: since is 'last May'; use a day such as 2023-05-01, or leave it out."
    assert (await ask(client, model, ToolCall("search_past_conversations", bad)))[0] == error
    topic: Any = {"params": {"path": "/memories/topics/zebra.md"}, "json": {"content": "- Her zebra was born in Kenya\n"}}
    await client.http.put("/memory/file", **topic)
    results_text, _ = await ask(client, model, ToolCall("search_past_conversations", {"query": "zebra born in Kenya"}))
    assert results_text.endswith("[/memories/topics/zebra.md may say more; read it]")
    results_text, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": own}))
    assert "1. user: my zebra is called Zoe" in results_text
    for thread in (other, elsewhere):
        results_text, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": thread}))
        assert "There is no conversation" in results_text
    results_text, _ = await ask(client, model, ToolCall("read_conversation", {"thread_id": "../x"}))
    assert "Error" in results_text


@pytest.mark.server
async def test_an_operator_s_run_finds_the_conversations_of_its_person_only(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """An operator's run finds the conversations of the person it acts for only."""
    own = await chat(server.as_user(alice), "my zebra is called Zoe")
    other = await chat(server.as_user(f"other-{alice}"), "the zebra of somebody else")
    context = {"user_id": alice, "org_id": "acme"}
    call = ToolCall("search_past_conversations", {"query": "zebra"})
    results_text, _ = await ask(server.as_operator(), model, call, context=context)
    assert own in results_text
    assert other not in results_text
    call = ToolCall("read_conversation", {"thread_id": other})
    assert "There is no conversation" in (await ask(server.as_operator(), model, call, context=context))[0]
