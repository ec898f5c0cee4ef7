"""A consolidation run on the real graph and stores, without a server: what it is shown, commits and records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.messages import HumanMessage
from langchain_core.utils.uuid import uuid7
from langgraph.store.base import BaseStore

from consolidation_agent import build_consolidation_agent
from memory import journal, namespaces
from memory.consolidation import guard
from memory.consolidation.drafts import rehearsal
from memory.consolidation.due import find_due
from memory.consolidation.positions import Position, commit, positions
from memory.consolidation.run_records import MAX_CONSOLIDATIONS_BYTES, Record, record, records
from settings import MAX_DIFF_CHARS
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, tool_results
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import (
    A_BATCH,
    AGAIN,
    ALICE,
    EMPTIED,
    FILES,
    READY,
    TASK,
    Runs,
    append,
    consolidated,
    everything,
    remembered,
    saved,
    talk,
    text,
)


async def test_the_model_is_shown_the_batch_and_the_files_about_it(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    """The model is shown the batch, and the files about the same, without asking."""
    await remembered(store, "She likes fennel.\n")
    await remembered(store, "He drives a tractor.\n", "/topics/machines.md")
    model.script(TASK, [append("- dill (2026-01-01, t)")], READY)
    await run("r1", [talk("t", "I like fennel", "and dill")])
    (shown,) = tool_results(model.requests[0])
    assert "thread_id=t\nuser: I like fennel\nuser: and dill" in shown
    assert "She likes fennel." in shown
    assert "tractor" not in shown
    assert "store X" not in str(model.requests)
    assert await text(store) == "She likes fennel.\n- dill (2026-01-01, t)\n"
    assert await consolidated(store) == {"t"}


async def test_a_record_says_what_was_read_changed_and_used(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, [append("- dill")], READY)
    await run("r1", [talk("t", "dill", "yes")])
    (record,) = await records(store, ALICE)
    assert (record["run_id"], record["status"], record["conversations"], record["messages"]) == ("r1", "done", 1, 2)
    assert record["model_calls"] == 2
    assert record["input_tokens"] > 0
    assert record["output_tokens"] > 0
    assert "+- dill" in record["files"]["/memories/topics/food.md"]
    assert record["started_at"] < record["ended_at"]


async def test_the_records_of_runs_that_changed_everything_are_bounded(store: BaseStore) -> None:
    namespace = namespaces.run_records(ALICE)
    for number in range(20):
        many = {f"/memories/{file}.md": "é" * MAX_DIFF_CHARS for file in range(50)}
        await record(store, ALICE, Record(f"run-{number}", f"2026-01-01T00:00:{number:02}", files=many))
        items = await store.asearch(namespace, limit=1_000)
        assert sum(len(json.dumps(item.value, ensure_ascii=False).encode()) for item in items) <= MAX_CONSOLIDATIONS_BYTES
    newest = (await records(store, ALICE))[0]
    assert newest["run_id"] == "run-19"
    assert newest["files"].keys() == many.keys()
    assert newest["files"]["/memories/0.md"] == "é" * MAX_DIFF_CHARS
    assert "left out" in newest["files"]["/memories/49.md"]


class Threads:
    """The platform's threads: of somebody with these, of two assistants."""

    def __init__(self, **assistants: str) -> None:
        self.assistants = assistants

    async def search(self, *, metadata: dict[str, str], ids: Sequence[str] | None = None, **_: Any) -> list[dict[str, Any]]:
        assert metadata.items() >= {"user_id": "alice", "org_id": "acme"}.items()
        wanted = metadata.get("assistant_id")
        matching = {thread_id for thread_id, assistant in self.assistants.items() if wanted in (None, assistant)}
        matching &= set(ids if ids is not None else self.assistants)
        return [{"thread_id": thread_id, "updated_at": "1", "values": {"messages": []}} for thread_id in sorted(matching)]


@pytest.mark.parametrize("dry", [False, True])
async def test_no_position_of_a_deleted_conversation_is_kept(store: BaseStore, dry: bool) -> None:
    """How far a conversation was consolidated is not kept once it is deleted."""
    await commit(store, ALICE, {thread_id: Position("1", "m", ("hash",)) for thread_id in ("mine", "other", "deleted")})
    read = await rehearsal(store, ALICE, FILES) if dry else store
    await find_due(read, ALICE, "a", platform=Threads(mine="a", other="b"))  # type: ignore[arg-type]
    assert set(await positions(store, ALICE)) == {"mine", "other"} | ({"deleted"} if dry else set())


async def test_nothing_new_calls_no_model_and_leaves_nothing(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    before = await everything(store)
    assert "Nothing is new" in await run("r1", [])
    assert model.requests == []
    assert await everything(store) == before


async def test_a_backlog_takes_several_batches_each_committed(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, *[reply for number in range(3) for reply in ([append(f"- fact {number}")], READY)])
    await run("r1", [talk(f"t{number}", A_BATCH) for number in range(3)])
    assert await text(store) == "- fact 0\n- fact 1\n- fact 2\n"
    assert [len(body["messages"]) for body in model.requests] == [3, 5] * 3, "each batch begins with a prompt of its own"
    (record,) = await records(store, ALICE)
    assert record["conversations"] == 3


async def test_lines_given_up_in_one_run_are_not_in_the_next_on_its_thread(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "likes fennel\n")
    given = ToolCall("forget_lines", {"path": "/memories/topics/food.md", "lines": ["likes fennel"], "reason": "outdated"})
    model.script(TASK, [given], READY, EMPTIED, READY, READY)
    await run("r1", [talk("t", "dill")])
    await run("r2", [talk("u", "dill")], thread="r1")
    assert await text(store) == "likes fennel\n"
    assert "likes fennel" not in str((await built.aget_state({"configurable": {"thread_id": "r1"}})).values)


async def test_a_summary_of_an_earlier_batch_does_not_hide_this_one(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
    """A summary of an earlier batch does not hide this one, and stays nowhere."""
    config = {"configurable": {"thread_id": "r1"}}
    event = {"cutoff_index": 30, "summary_message": HumanMessage("a summary"), "file_path": "/conversation_history/x.md"}
    said = {"/conversation_history/x.md": create_file_data("what was said")}
    await built.aupdate_state(config, {"_summarization_event": event, "files": said}, as_node="__start__")
    model.script(TASK, READY)
    await run("r1", [talk("t", "I like dill")])
    assert "I like dill" in tool_results(model.requests[0])[0]
    state = (await built.aget_state(config)).values
    assert "summary" not in str(state)
    assert "what was said" not in str(state)
    assert "I like dill" not in str(state)


async def test_nothing_is_delegated_and_a_file_may_be_changed_often_for_one_revision(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    delegated = ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"})
    adding = [[append(f"- {number}") for number in range(first, first + 5)] for first in range(0, 30, 5)]
    model.script("delegated", [append("- by another")])
    model.script(TASK, [delegated], *adding, READY)
    await run("r1", [talk("t", "dill")])
    assert not any(tool["name"] == "task" for tool in model.requests[0]["tools"])
    assert "not delegated" in tool_results(model.requests[1])[-1]
    assert len((await text(store)).splitlines()) == 30
    assert len(await journal.history(store, FILES, "/topics/food.md")) == 1


async def test_what_stood_before_a_run_died_is_in_its_record(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, [append("- one")], READY, [append("- two")], Slow(30, READY))
    due = [talk(f"t{number}", A_BATCH) for number in range(2)]
    task = asyncio.create_task(run("dead", due))
    while len(model.requests) < 4:  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.02)
    (record,) = await records(store, ALICE)
    assert (record["status"], record["conversations"]) == ("running", 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    model.clear()
    model.script(TASK, [append("- two")], READY)
    await run("r2", due)
    second, first = await records(store, ALICE)
    assert (first["status"], first["conversations"], second["status"], second["conversations"]) == ("interrupted", 1, "done", 1)
    assert "+- one" in first["files"]["/memories/topics/food.md"]


def test_the_diffs_of_many_batches_are_no_longer_than_one_may_be() -> None:
    once = {"/memories/a.md": "x" * MAX_DIFF_CHARS}
    assert len(guard.merged(once, once)["/memories/a.md"]) < MAX_DIFF_CHARS + 30


async def test_a_value_that_is_no_file_stops_nobody_s_consolidation(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await store.aput(FILES, "/topics/dill.md", {"content": 7})
    model.script(TASK, READY)
    await run("r1", [talk("t", "dill")])
    assert await consolidated(store) == {"t"}


async def test_a_conversation_of_very_many_messages_is_consolidated_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    model.script(TASK, *[READY] * 20)
    await run("r1", [talk("t", *map(str, range(12_000)))])
    calls = len(model.requests)
    assert "Nothing is new" in await run("r2", [talk("t", *map(str, range(12_000)))])
    assert 1 < calls == len(model.requests) < 8


async def test_somebody_forgotten_meanwhile_is_left_nothing(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    async def forgotten() -> None:
        await journal.forget(store, ALICE)
        for item in await store.asearch((), limit=1000):
            if item.namespace[0] != "forgotten":
                await store.adelete(item.namespace, item.key)

    def forget_then_write(body: dict[str, Any]) -> Any:
        asyncio.run_coroutine_threadsafe(forgotten(), loop).result()
        return [append("- dill")]

    loop = asyncio.get_running_loop()
    model.script(TASK, forget_then_write, READY)
    with suppress(Exception):  # the next sign of life fails: nothing is left to work for
        await run("r1", [talk("t", "dill")])
    assert {item.namespace[0] for item in await store.asearch((), limit=1000)} == {"forgotten"}


@pytest.mark.parametrize("dry", [False, True])
async def test_somebody_who_was_forgotten_once_is_consolidated_like_anybody(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, *, dry: bool
) -> None:
    await journal.forget(store, ALICE)
    await asyncio.sleep(0.002)  # a run's id says its millisecond
    model.script(TASK, [append("- dill")], READY)
    said = await run(str(uuid7()), [talk("t", "dill")], dry=dry)
    assert "+- dill" in said if dry else await text(store) == "- dill\n"


async def test_credentials_never_reach_memory(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    key = "ghp_" + "a1" * 18
    model.script(TASK, [append(f"- token {key}")], READY)
    await run("r1", [talk("t", "dill")])
    assert "a GitHub token" in tool_results(model.requests[-1])[-1]
    assert not any(key in value for value in await everything(store))


async def test_what_the_person_wrote_between_two_writes_of_a_run_is_not_the_run_s(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await saved(store, "one\ntwo\nthree\nfour\n")
    loop = asyncio.get_running_loop()

    def empty(_: object) -> list[ToolCall]:
        asyncio.run_coroutine_threadsafe(saved(store, "one\ntwo\nthree\nfour\nmine\n"), loop).result()
        return [ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": "one\n"})]

    model.script(AGAIN, READY)
    model.script(TASK, [append("- dill")], empty, READY)
    await run("r1", [talk("t", "dill")])
    assert await text(store) == "one\ntwo\nthree\nfour\nmine\n"
    (record,) = await records(store, ALICE)
    assert record["files"] == {}


async def test_history_says_that_consolidation_wrote(graph: BuildGraph, store: BaseStore, model: ScriptedAnthropic) -> None:
    write = ToolCall("write_file", {"file_path": "/memories/a.md", "content": "3"})
    model.script("consolidate", [write], [Text("done")])
    await graph(build=build_consolidation_agent).turn("consolidate", thread="t3")
    (revision,) = await journal.history(store, FILES, "/a.md")
    assert (revision.content, revision.author.kind, revision.author.user_id) == ("3", "consolidation", "alice")
