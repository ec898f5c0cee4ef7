"""Batches that the guard or a limit refuses: undone, tried once more, and no hindrance to others."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.store.base import BaseStore, Op, Result

from consolidation_agent import build_consolidation_agent
from memory import namespaces
from memory.consolidation.run_records import records
from memory.usage import TokenBudgetError, count
from settings import MAX_CONSOLIDATION_STEPS, MAX_UNDONE_BATCHES, Settings
from testing.scripted_anthropic import Failure, ScriptedAnthropic, ToolCall, last_user_text, tool_results
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import (
    A_BATCH,
    AGAIN,
    ALICE,
    EMPTIED,
    READY,
    TASK,
    Runs,
    append,
    consolidated,
    remembered,
    talk,
    text,
)


async def test_what_the_guard_refuses_is_undone_and_tried_once_more_with_the_reason(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "likes fennel\nhates dill\n")
    emptied = ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": "nothing\n"})
    given = ToolCall("forget_lines", {"path": "/memories/topics/food.md", "lines": ["hates dill"], "reason": "contradicted"})
    kept = ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": "likes fennel\nlikes dill since May\n"})
    model.script(AGAIN, [given], [kept], READY)
    model.script(TASK, [emptied], READY)
    await run("r1", [talk("t", "I like dill now")])
    again = model.requests[2]
    assert "likes fennel; hates dill" in last_user_text(again)
    assert "I like dill now" in tool_results(again)[0]
    assert await text(store) == "likes fennel\nlikes dill since May\n"
    assert await consolidated(store) == {"t"}


async def test_lines_may_move_to_another_file_but_not_away(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    await remembered(store, "likes fennel\nhates dill\n")
    model.script(TASK, [*EMPTIED, append("likes fennel\nhates dill", "/memories/topics/herbs.md")], READY)
    await run("r1", [talk("t", "dill")])
    assert await text(store, "/topics/herbs.md") == "likes fennel\nhates dill\n"
    assert await text(store) == ""
    model.clear()
    empty_too = ToolCall("write_file", {"file_path": "/memories/topics/herbs.md", "content": "likes fennel\n"})
    model.script(TASK, [empty_too], READY, [empty_too], READY)
    await run("r2", [talk("u", "dill")])
    assert await text(store, "/topics/herbs.md") == "likes fennel\nhates dill\n"


@pytest.mark.parametrize("after", ["<!--\n{0}-->\n", "```\n{0}```\n", "- xxxxx xxxx {0}"], ids=["comment", "code", "junk"])
async def test_facts_that_are_hidden_or_replaced_by_as_much_junk_are_put_back(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, after: str
) -> None:
    facts = "".join(f"- likes {name} in soup\n" for name in ("fennel", "dill", "sage", "thyme", "mint"))
    junk = "\n".join("- " + "x" * len(line) for line in facts.splitlines()) + "\n"
    await remembered(store, facts)
    content = junk if "xxx" in after else after.format(facts)
    hidden = ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": content})
    model.script(AGAIN, READY)
    model.script(TASK, [hidden], READY)
    await run("r1", [talk("t", "dill")])
    assert "would lose 5 lines" in last_user_text(model.requests[2])
    assert await text(store) == facts


async def test_what_is_refused_twice_stays_due_and_others_go_on(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    await remembered(store, "likes fennel\nhates dill\n")
    emptied = ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": ""})

    def say(body: dict[str, Any]) -> Any:
        if len(body["messages"]) > 3:
            return READY
        return [emptied] if "bad" in tool_results(body)[0] else [append("- good", "/memories/topics/other.md")]

    model.script(TASK, *[say] * 10)
    await run("r1", [talk("a", "bad " * 10_000), talk("b", "good " * 8_000)])
    assert await text(store) == "likes fennel\nhates dill\n"
    assert await text(store, "/topics/other.md") == "- good\n"
    assert await consolidated(store) == {"b"}
    (record,) = await records(store, ALICE)
    assert record["status"] == "undone"
    assert "would lose 2 lines" in record["reason"]
    assert record["files"].keys() == {"/memories/topics/other.md"}


async def test_a_refused_conversation_takes_others_with_it_for_one_run(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    """A conversation that is refused takes others with it no longer than one run."""
    await remembered(store, "likes fennel\nhates dill\n")
    due = [talk("a", "bad"), talk("b", "good"), talk("c", "good")]

    def say(body: dict[str, Any]) -> Any:
        return READY if len(body["messages"]) > 3 else EMPTIED if "user: bad" in tool_results(body)[0] else READY

    model.script(TASK, *[say] * 30)
    await run("r1", due)
    assert await consolidated(store) == set()
    await run("r2", due)
    assert await consolidated(store) == {"b", "c"}, "each alone from now on"
    assert await text(store) == "likes fennel\nhates dill\n"


async def test_a_run_in_which_nothing_may_stand_gives_up(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    await remembered(store, "likes fennel\nhates dill\n")
    model.script(TASK, *[reply for _ in range(40) for reply in (EMPTIED, READY)])
    await run("r1", [talk(f"t{number}", A_BATCH) for number in range(10)])
    assert len(model.requests) == MAX_UNDONE_BATCHES * 2 * 2


async def test_a_batch_that_takes_too_many_steps_is_undone(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, *[[append(f"- {number}")] for number in range(MAX_CONSOLIDATION_STEPS + 6)])
    await run("r1", [talk("t", "dill")])
    assert len(model.requests) == MAX_CONSOLIDATION_STEPS
    assert await text(store) == ""
    assert await consolidated(store) == set()
    assert f"{MAX_CONSOLIDATION_STEPS} steps" in (await records(store, ALICE))[0]["reason"]


async def test_a_model_that_repeats_a_refused_call_ends_the_run_and_its_batch_is_undone(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    refused = [ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"})]
    model.script(TASK, [append("- dill")], *[refused] * (MAX_CONSOLIDATION_STEPS + 6))
    await run("r1", [talk("t", A_BATCH), talk("u", A_BATCH)])
    assert len(model.requests) == 4
    assert await text(store) == ""
    assert await consolidated(store) == set(), "it stays due"
    (record,) = await records(store, ALICE)
    assert (record["status"], record["undone"]) == ("undone", 1)
    assert "write_file was refused three times in a row" in record["reason"]


async def test_a_failing_model_leaves_memory_as_it_was(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    """A failing model leaves memory as it was, and the next run begins at once."""
    model.script(TASK, [append("- dill")], Failure(400, "invalid_request_error", "no"))
    with pytest.raises(Exception, match="no"):
        await run("r1", [talk("t", "dill")])
    assert await text(store) == ""
    assert await consolidated(store) == set()
    model.clear()
    model.script(TASK, [append("- dill")], READY)
    await run("r2", [talk("t", "dill")])
    assert await text(store) == "- dill\n"
    assert [record["status"] for record in await records(store, ALICE)] == ["done", "failed"]


async def test_a_run_that_its_own_limit_ends_leaves_a_record_with_what_stands(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    model.script(TASK, *[[append(f"- {number}")] for number in range(20)], READY, *[[append("- never")]] * 40)
    with pytest.raises(GraphRecursionError):
        await run("r1", [talk("a", A_BATCH), talk("b", A_BATCH)], steps=MAX_CONSOLIDATION_STEPS * 2 + 20)
    (record,) = await records(store, ALICE)
    assert (record["status"], record["reason"], record["conversations"]) == ("failed", "GraphRecursionError", 1)


async def test_a_run_that_the_store_fails_at_once_leaves_a_record_when_it_is_back(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
    built.store = Away(store, operations=3)
    with pytest.raises(OSError, match="away"):
        await run("r1", [talk("t", "dill")])
    (record,) = await records(store, ALICE)
    assert (record["status"], record["reason"]) == ("failed", "OSError")


class Away(BaseStore):
    """A store that fails so many operations in a row, and is back then."""

    def __init__(self, store: BaseStore, operations: int) -> None:
        self._store, self._left = store, operations

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        if self._left:
            self._left -= 1
            raise OSError("away")
        return await self._store.abatch(ops)


async def test_a_consolidation_beyond_the_budget_fails_so_that_it_stays_due(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    today = datetime.now(UTC).date().isoformat()
    await count(store, namespaces.usage(ALICE), today, {"tokens": 9}, keep=today)
    with pytest.raises(TokenBudgetError, match="Today's 5 tokens are used up"):
        await graph(Settings(daily_tokens=5), build=build_consolidation_agent).turn("consolidate")
    assert model.requests == []
