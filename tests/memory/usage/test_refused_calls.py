"""A model that repeats a call that is refused each time: the run ends, and says which call, and why it was refused."""

from __future__ import annotations

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, last_user_text, tool_results
from tests.conftest import BuildGraph

REFUSED: dict[str, ToolCall] = {
    "by a file tool": ToolCall("edit_file", {"file_path": "/memories/none.md", "old_string": "a", "new_string": "b"}),
    "by permissions": ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"}),
    "by a memory tool": ToolCall("append_memory", {"path": "/elsewhere.md", "text": "x"}),
    "for its arguments": ToolCall("append_memory", {"file": "/memories/a.md"}),
    "for its name": ToolCall("append_to_memory", {"path": "/memories/a.md", "text": "x"}),
}


@pytest.fixture
def store() -> BaseStore:
    return InMemoryStore()


@pytest.mark.parametrize("call", REFUSED.values(), ids=list(REFUSED))
async def test_the_same_call_refused_three_times_in_a_row_ends_the_run_and_says_so(
    graph: BuildGraph, model: ScriptedAnthropic, call: ToolCall
) -> None:
    model.script("do it", *[[call]] * 50)
    agent = graph()
    said = await agent.turn("do it")
    assert len(model.requests) == 3
    assert said[-1].startswith(f"I stopped, because {call.name} was refused three times in a row: ")
    assert said[-2] in said[-1], "the reason"
    assert (await agent.turn("and now"))[-1] == "ok", "the conversation goes on"


async def test_a_subagent_that_repeats_a_refused_call_is_ended_and_so_is_who_sends_it_again(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    model.script("write this down", *[[REFUSED["by permissions"]]] * 50)
    model.script("delegate", *[[ToolCall("task", {"description": "write this down", "subagent_type": "general-purpose"})]] * 50)
    said = await graph().turn("delegate")
    asked = [last_user_text(body) for body in model.requests]
    assert asked.count("write this down") == 3 * 3
    assert len(asked) == 3 * 3 + 3
    assert said[-1].startswith("I stopped, because task was refused three times in a row: I stopped, because write_file was")


async def test_calls_that_differ_or_succeed_or_are_refused_for_another_reason_go_on(
    graph: BuildGraph, model: ScriptedAnthropic
) -> None:
    refused = REFUSED["by a file tool"]
    others = [ToolCall("edit_file", {**refused.args, "old_string": f"try {number}"}) for number in range(5)]
    fine = ToolCall("ls", {"path": "/"})
    there = ToolCall("write_file", {"file_path": refused.args["file_path"], "content": "c"})
    often = [*[[fine]] * 5, *[[refused], [fine]] * 4, [refused], [refused], [there], [refused], [refused]]
    model.script("carry on", *([each] for each in others), *often, [Text("done")])
    assert (await graph().turn("carry on"))[-1] == "done"
    assert len(tool_results(model.requests[-1])) == 1


async def test_what_was_refused_in_an_earlier_turn_does_not_count(graph: BuildGraph, model: ScriptedAnthropic) -> None:
    agent = graph()
    for _ in range(4):
        model.script("once more", [REFUSED["by permissions"]], [Text("it was refused")])
        assert (await agent.turn("once more"))[-1] == "it was refused"
