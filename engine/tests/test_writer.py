"""The writer subagent's own memory."""

from __future__ import annotations

from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, ToolCall, system_text
from tests.conftest import BuildGraph


async def test_the_writer_subagent_is_shown_its_own_memory_and_the_main_agent_is_not(
    graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic
) -> None:
    store.put(("memories", "acme:alice"), "/agents/writer/MEMORY.md", {**create_file_data("ends letters with Yours")})
    model.script("delegate", [ToolCall("task", {"description": "write a letter", "subagent_type": "writer"})])
    await graph().turn("delegate")
    main, writer, *_ = (system_text(body) for body in model.requests)
    assert "ends letters with Yours" in writer
    assert "ends letters with Yours" not in main
