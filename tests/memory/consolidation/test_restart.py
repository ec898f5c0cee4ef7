"""A server that is stopped in the middle of a consolidation, and started again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from testing.dev_server import DevServer, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall
from tests.conftest import model_env

ADD = ToolCall("append_memory", {"path": "/memories/topics/food.md", "text": "- likes dill (2026-01-01)"})


@pytest.mark.server
@pytest.mark.proof
async def test_a_run_that_is_stopped_in_the_middle_consolidates_everything_once(
    tmp_path: Path, model: ScriptedAnthropic, alice: str
) -> None:
    with DevServer(tmp_path, env=model_env(model)) as server:
        client = server.as_user(alice)
        talk = str((await client.threads.create())["thread_id"])
        await run_turn(client, talk, "I like dill")
        model.script("Conversations with something new", [ADD], Slow(60, [Text("never said")]))
        thread = str((await client.threads.create())["thread_id"])
        await client.runs.create(thread, "consolidation_agent", input={"messages": []})
        async with asyncio.timeout(30):
            while len(model.requests_for("append_memory")) < 3:  # noqa: ASYNC110  # another thread's
                await asyncio.sleep(0.1)
        model.clear()
        model.script(lambda body: "likes dill" not in str(body["messages"][3:]), [ADD])
        await asyncio.to_thread(server.restart)
        async with asyncio.timeout(60):
            while not (runs := await client.runs.list(thread)) or runs[0]["status"] in {"pending", "running"}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        namespace: list[str] = ["memories", f"acme:{alice.replace('.', '~2E')}"]
        item: Any = await client.store.get_item(namespace, key="/topics/food.md")
        assert runs[0]["status"] == "success"
        assert item["value"]["content"] == "- likes dill (2026-01-01)\n"
        model.clear()
        await run_turn(client, thread, "again", "consolidation_agent")
        assert model.requests == [], "nothing is left to consolidate"
        await server.close_clients()
