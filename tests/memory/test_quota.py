"""Memory that fills: it is said when it is nearly full."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from langchain_core.messages import ToolMessage
from langgraph.store.base import Item

from memory.controls import NEARLY_FULL, usage_of
from memory.tools import QuotaWarning
from settings import MAX_MEMORY_BYTES, MAX_MEMORY_FILES
from testing.dev_server import DevServer, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, tool_results
from tests.memory.test_temporary import new_thread

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.server
async def test_that_memory_is_nearly_full_is_said_before_a_write_is_refused(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    write = [ToolCall("append_memory", {"path": "/memories/food.md", "text": "- dill"})]
    model.script("first words", write, [Text("done")])
    await run_turn(client, await new_thread(client, {}), "first words")
    assert tool_results(model.requests[-1]) == ["Added to /memories/food.md."]
    assert (await client.http.get("/memory"))["usage"]["nearly_full"] is False
    size = 250_000
    files = [
        {"path": f"/memories/{n}.md", "content": "x" * size} for n in range(int(NEARLY_FULL * MAX_MEMORY_BYTES / size) + 1)
    ]
    await client.http.post("/memory/import", json={"version": 1, "files": files})
    model.script("more words", write, [Text("done")])
    await run_turn(client, await new_thread(client, {}), "more words")
    assert "Memory is nearly full" in tool_results(model.requests[-1])[0]
    path = "/memories/food.md"
    others = [
        ToolCall("edit_file", {"file_path": path, "old_string": "- dill", "new_string": "- leek", "replace_all": True}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "- kale"}),
        ToolCall("save_profile", {"profile": {"name": "A"}}),
        ToolCall("write_file", {"file_path": "/scratch.md", "content": "only here"}),
        ToolCall("read_file", {"file_path": path}),
    ]
    model.script("other words", others, [Text("done")])
    await run_turn(client, await new_thread(client, {}), "other words")
    said = ["Memory is nearly full" in result for result in tool_results(model.requests[-1])]
    assert said == [True, True, True, False, False]
    usage = (await client.http.get("/memory"))["usage"]
    assert usage == {**usage, "nearly_full": True, "max_files": MAX_MEMORY_FILES, "max_bytes": MAX_MEMORY_BYTES}


def topic(key: str, size: int, at: str) -> Item:
    value = {"content": "x" * size, "modified_at": at}
    return Item(value=value, key=key, namespace=("memories",), created_at=NOW, updated_at=NOW)


async def test_the_answer_of_a_tool_that_wrote_nothing_stays_as_it_is() -> None:
    seen = ToolMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}], tool_call_id="1")

    async def given(_: Any) -> ToolMessage:
        return seen

    assert await QuotaWarning().awrap_tool_call(cast("Any", None), given) is seen


def test_memory_is_nearly_full_by_its_bytes_or_by_its_files() -> None:
    assert not usage_of([topic("/a.md", int(NEARLY_FULL * MAX_MEMORY_BYTES) - 1, "")]).nearly_full
    assert usage_of([topic("/a.md", int(NEARLY_FULL * MAX_MEMORY_BYTES) + 1, "")]).nearly_full
    assert usage_of([topic(f"/{n}.md", 0, "") for n in range(int(NEARLY_FULL * MAX_MEMORY_FILES))]).nearly_full
