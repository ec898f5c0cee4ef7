"""A consolidation run on the real graph and stores, without a server: what it is shown, commits,
refuses and records.
"""

import json
from contextvars import Context as Variables
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Op
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.budget import TokenBudgetError
from lasting_memory.consolidation import Owner, find_backlog, records, start
from lasting_memory.consolidation.drafts import draft_store
from lasting_memory.consolidation.record import EndFields, Record, StoredRecord
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, DEFAULTS
from lasting_memory.memory.proposals import MAX_PROPOSALS, Changed
from lasting_memory.memory.stored_files import usage_of
from lasting_memory.memory.validation import MAX_FILE_BYTES
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import (
    Failure,
    ScriptedAnthropic,
    ToolCall,
    last_user_text,
    tool_results,
)
from lasting_memory.testing.stores import WrappedStore
from tests.conftest import BuildGraph
from tests.consolidation.conftest import (
    AGAIN,
    ALICE,
    FILES,
    MY_FOOD,
    READY,
    TASK,
    Hers,
    Runs,
    append,
    while_it_works,
    write,
)


async def test_the_model_is_shown_the_batch_and_the_files_about_it_and_a_record_says_what_was_done(
    run: Runs,
) -> None:
    await run.saved("She likes fennel.\n")
    await run.saved("He drives a tractor.\n", "/topics/machines.md")
    run.model.script(TASK, [append("- dill (2026-01-01, t)")], READY)
    await run("r1", t=["I like fennel", "and dill"])
    (shown,) = tool_results(run.model.requests[0])
    assert "thread_id=t\nuser: I like fennel\nuser: and dill" in shown
    assert "She likes fennel." in shown
    assert "tractor" not in shown
    assert "store X" not in str(run.model.requests)
    assert await run.text() == "She likes fennel.\n- dill (2026-01-01, t)\n"
    assert await run.consolidated() == {"t"}
    (record,) = await records(run.store, ALICE)
    numbers = record["conversations"], record["messages"], record["model_calls"]
    assert (record["run_id"], record["status"], numbers) == ("r1", "done", (1, 2, 2))
    assert min(record["input_tokens"], record["output_tokens"]) > 0
    assert "+- dill" in record["files"][MY_FOOD]
    assert record["started_at"] < record["ended_at"]


async def test_reads_of_a_run_at_one_moment_are_one_batch_of_the_store(run: Runs) -> None:
    batches = list[list[Op]]()
    counted = WrappedStore(run.store, before=batches.append)
    await run.saved("She likes fennel.\n")
    await run.saved("He drives a tractor.\n", "/topics/machines.md")
    run.model.script(TASK, [append("- dill")], READY)
    await run("r1", counted, t=["I like fennel"], u=["and dill"])
    assert "- dill" in await run.text()
    assert 10 < len(batches) <= 25
    batches.clear()
    run.model.script(TASK, READY)
    await run("r2", counted, s=["nothing to note"])
    assert await run.consolidated() == {"s", "t", "u"}
    assert 10 < len(batches) <= 20


async def test_a_consolidation_delegates_no_task_and_makes_one_revision_of_a_file(
    run: Runs,
) -> None:
    delegated = ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"})
    adding = [
        [append(f"- {number}") for number in range(first, first + 5)] for first in range(0, 30, 5)
    ]
    run.model.script("delegated", [append("- by another")])
    run.model.script(TASK, [delegated], *adding, READY)
    await run("r1", t=["dill"])
    assert not any(tool["name"] == "task" for tool in run.model.requests[0]["tools"])
    assert "not delegated" in tool_results(run.model.requests[1])[-1]
    assert len((await run.text()).splitlines()) == 30
    assert len(await run.history()) == 1


async def test_a_draft_that_the_guard_refuses_is_undone_and_tried_once_more(
    run: Runs,
) -> None:
    await run.saved("likes fennel\nhates dill\n")
    emptied = write(MY_FOOD, "nothing\n")
    given = ToolCall(
        "forget_lines", {"path": MY_FOOD, "lines": ["hates dill"], "reason": "contradicted"}
    )
    kept = write(MY_FOOD, "likes fennel\nlikes dill since May\n")
    run.model.script(AGAIN, [given], [kept], READY)
    run.model.script(TASK, [emptied], READY)
    await run("r1", t=["I like dill now"])
    again = run.model.requests[2]
    assert "likes fennel; hates dill" in last_user_text(again)
    assert "I like dill now" in tool_results(again)[0]
    assert await run.text() == "likes fennel\nlikes dill since May\n"
    assert await run.consolidated() == {"t"}


async def test_a_batch_that_takes_too_many_steps_is_undone(run: Runs) -> None:
    run.model.script(
        TASK, *[[append(f"- {number}")] for number in range(DEFAULT_CONSOLIDATION.max_steps + 6)]
    )
    await run("r1", t=["dill"])
    assert len(run.model.requests) == DEFAULT_CONSOLIDATION.max_steps
    assert await run.text() == ""
    assert await run.consolidated() == set()
    assert (
        f"{DEFAULT_CONSOLIDATION.max_steps} steps" in (await records(run.store, ALICE))[0]["reason"]
    )


async def test_a_failing_model_leaves_memory_as_it_was(run: Runs) -> None:
    run.model.script(TASK, [append("- dill")], Failure(400, "invalid_request_error", "no"))
    with pytest.raises(Exception, match="no"):
        await run("r1", t=["dill"])
    assert await run.text() == ""
    assert await run.consolidated() == set()
    run.model.clear()
    run.model.script(TASK, [append("- dill")], READY)
    await run("r2", t=["dill"])
    assert await run.text() == "- dill\n"
    assert [record["status"] for record in await records(run.store, ALICE)] == ["done", "failed"]


async def test_a_consolidation_beyond_the_budget_fails(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    today = datetime.now(UTC).date().isoformat()
    await store.aput(namespaces.usage(ALICE), f"{today}/run", {"tokens": 9})
    with pytest.raises(TokenBudgetError, match="Today's 5 tokens are used up"):
        await graph(deployed(daily_tokens=5), build=build_consolidation_agent).turn("consolidate")
    assert model.requests == []


async def test_writes_of_others_during_a_run_stay_beside_its_own(run: Runs) -> None:
    await run.saved("one\ntwo\nthree\n")
    await run.saved('{"name": "Ann", "role": "cook"}\n', "/profile.json")
    profile = {
        "file_path": "/memories/profile.json",
        "old_string": "cook",
        "new_string": 'cook", "units": "metric',
    }
    given = ToolCall("forget_lines", {"path": MY_FOOD, "lines": ["two"], "reason": "outdated"})

    async def others() -> None:
        await run.saved("zero\none\ntwo\nthree\nmine\n")
        await run.saved('{"name": "Ann", "role": "baker"}\n', "/profile.json")
        await run.saved("new\n", "/new.md")

    edit = ToolCall("edit_file", {"file_path": MY_FOOD, "old_string": "two\n", "new_string": ""})
    run.model.script(
        TASK,
        [given],
        [edit, ToolCall("edit_file", profile), append("- dill", "/memories/new.md")],
        while_it_works(others),
    )
    await run("r1", t=["dill"])
    assert await run.text() == "zero\none\nthree\nmine\n"
    assert json.loads(await run.text("/profile.json")) == {
        "name": "Ann",
        "role": "baker",
        "units": "metric",
    }
    assert sorted((await run.text("/new.md")).splitlines()) == ["- dill", "new"]


async def test_a_batch_for_which_others_left_no_room_is_refused_as_a_whole(run: Runs) -> None:
    async def leave_little_room() -> None:
        for number in range(DEFAULTS.max_bytes // MAX_FILE_BYTES - 1):
            await run.saved("x" * MAX_FILE_BYTES, f"/big-{number}.md")
        used = usage_of(await run.store.asearch(FILES, limit=100), DEFAULTS)["bytes"]
        await run.saved("x" * (DEFAULTS.max_bytes - used - 50), "/big.md")

    run.model.script(AGAIN, [append("- short")], READY)
    run.model.script(
        TASK,
        [append("- a"), append("y" * 80, "/memories/topics/other.md")],
        while_it_works(leave_little_room),
    )
    await run("r1", t=["dill"])
    assert f"{DEFAULTS.max_bytes:,}" in last_user_text(run.model.requests[-1])
    assert (await run.text(), await run.text("/topics/other.md")) == ("- short\n", "")


LONG = "x" * 40_000  # a batch has no room for two such


@pytest.mark.parametrize(
    "due", [{f"t{number}": [LONG] for number in range(3)}, {"one in parts": [LONG] * 3}]
)
async def test_a_backlog_is_a_run_for_each_batch(run: Runs, due: dict[str, list[str]]) -> None:
    run.model.script(
        TASK, *[reply for number in range(3) for reply in ([append(f"- fact {number}")], READY)]
    )
    for number in range(3):
        await run(f"r{number}", **due if number == 0 else {})
        planned = [
            made
            for made in run.platform.runs.all("pending")
            if made["context"]["user_id"] == "alice"
        ]
        assert len(planned) == (number < 2), "the next run is queued while more is due"
        for made in planned:
            made["status"] = "success"
    assert await run.text() == "- fact 0\n- fact 1\n- fact 2\n"
    oldest = [f"thread_id={thread}" for thread, texts in due.items() for _ in texts]
    assert all(
        name in tool_results(body)[0]
        for name, body in zip(oldest, run.model.requests[::2], strict=True)
    )
    assert [record["conversations"] for record in await records(run.store, ALICE)] == [1, 1, 1]


async def test_a_conversation_refused_twice_stays_due_alone_and_others_go_on(run: Runs) -> None:
    await run.saved("likes fennel\nhates dill\n")
    emptied = write(MY_FOOD, "")

    def say(body: dict[str, Any]) -> Any:
        if len(body["messages"]) > 3:
            return READY
        return (
            [emptied]
            if "user: bad" in tool_results(body)[0]
            else [append("- good", "/memories/topics/other.md")]
        )

    run.model.script(TASK, *[say] * 30)
    await run("r1", a=["bad"], b=["good"], c=["good"])
    assert await run.consolidated() == set()
    for number in range(2, 5):
        await run(f"r{number}")
    assert await run.consolidated() == {"b", "c"}
    assert await run.text() == "likes fennel\nhates dill\n"
    refused = [record for record in await records(run.store, ALICE) if record["status"] == "undone"]
    assert all("would lose 2 lines" in record["reason"] for record in refused)
    assert {note["kind"] for record in refused for note in record["notes"]} == {"would_lose"}
    assert run.platform.runs.all("pending") == [], (
        "who is refused alone waits for the next turn, or the sweep"
    )


async def test_a_run_killed_at_any_operation_of_the_store_loses_nothing(run: Runs) -> None:
    """Memory is readable, others' lines are there, and each fact is there once, or at worst twice."""
    if not isinstance(run.store, InMemoryStore):
        pytest.skip("what matters is the order of operations, which is the same")
    calls = [append("- dill"), append("- food.md: dill", "/memories/topics/index.md")]
    run.model.script(TASK, *[lambda body: READY if len(body["messages"]) > 3 else calls] * 1_000)

    deaths, died = 0, True
    while died:
        for item in await run.store.asearch((), limit=1_000):
            await run.store.adelete(item.namespace, item.key)
        await run.saved("one\n")
        mortal = WrappedStore(run.store)
        mortal.fail(deaths, ConnectionError(), times=None)
        try:
            await run(f"{deaths}", mortal, t=["dill"])
            died = False
        except ConnectionError:
            deaths += 1
        lines = (await run.text()).splitlines()
        assert set(lines) <= {"one", "- dill"}
        assert "one" in lines
        await run.saved(f"{await run.text()}mine\n")
        await run(f"{deaths} then")
        await run(f"{deaths} at last")
        lines = (await run.text()).splitlines()
        assert set(lines) == {"one", "- dill", "mine"}, deaths
        assert (lines.count("one"), lines.count("mine"), lines.count("- dill") <= 2) == (1, 1, True)
        assert (await run.text("/topics/index.md")).count("- food.md: dill") in {1, 2}
        assert await run.consolidated() == {"t"}
    assert deaths > 10


async def test_a_script_brings_its_own_messages_and_changes_memory_without_a_draft(
    graph: BuildGraph, model: ScriptedAnthropic, hers: Hers
) -> None:
    model.script("She likes dill", [append("- dill")], READY)
    assert await graph(build=build_consolidation_agent).turn("She likes dill") == [
        "She likes dill",
        "done",
    ]
    assert await hers.text() == "- dill\n"


def test_a_draft_is_there_within_a_run_alone() -> None:
    with pytest.raises(LookupError):
        Variables().run(draft_store)


async def test_two_runs_at_once_commit_once(run: Runs) -> None:
    meanwhile = while_it_works(lambda: run("r2"))
    run.model.script(TASK, [append("- dill")], meanwhile, [append("- dill")], READY)
    await run("r1", t=["dill"])
    assert await run.text() == "- dill\n"
    assert sorted(record["status"] for record in await records(run.store, ALICE)) == [
        "done",
        "undone",
    ]


async def test_a_run_reads_nothing_while_too_many_proposals_wait(run: Runs) -> None:
    for number in range(MAX_PROPOSALS):
        await run.proposed(number, Changed(f"/{number}.md", "", "x"))
    assert "undecided proposals" in await run("r1", t=["dill"])
    assert run.model.requests == []
    await run.decided(3, accept=False)
    run.model.script(TASK, READY)
    assert "consolidated" in await run("r2")


async def test_a_sweep_says_who_is_due_and_for_whom_a_run_is_planned_already(
    run: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    for user in ("ann", "bob", "cid"):
        run.platform.talk(user)
    for user in ("ann", "bob"):
        await start(Owner(Actor(user, "acme")), run.platform, "idle", 300)  # type: ignore[arg-type]  # as after a turn
    root = SignedIn(identity="root", org_id="acme", permissions=["memory:operate"])
    run.built.store = run.store
    caplog.set_level("INFO", "lasting_memory")

    async def swept(run_id: str) -> str:
        ids = {"thread_id": run_id, "run_id": run_id, "graph_id": CONSOLIDATION_GRAPH}
        config: Any = {"configurable": {**ids, "langgraph_auth_user": root}}
        return str(
            (await run.built.ainvoke({"messages": []}, config, context=Context()))["messages"][
                -1
            ].text
        )

    told = await swept("one")
    assert (
        told
        == "Consolidation was started for 1 people. 3 were due, for 2 of whom a run was planned already."
    )
    assert '"people": 1, "due": 3, "planned": 2' in caplog.text
    due = await find_backlog(deployed(), run.platform, run.store)  # type: ignore[arg-type]
    assert due["people"] == 3
    assert "started for 0 people. 3 were due, for 3" in await swept("two")


def test_what_is_stored_of_a_record_has_the_fields_of_a_record() -> None:
    names = {each.name for each in fields(Record)}
    assert StoredRecord.__required_keys__ == names
    assert EndFields.__optional_keys__ < names
