"""Runs that die, meet each other or meet other writers: the next goes on, and what was accepted is applied once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from langgraph.errors import EmptyInputError
from langgraph.store.base import BaseStore, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

from memory import journal, namespaces
from memory.consolidation.due import Due
from memory.consolidation.run_records import records
from memory.controls import usage_of
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES
from testing.scripted_anthropic import Failure, ScriptedAnthropic, Slow, ToolCall, after, last_user_text
from tests.memory.consolidation.runs import (
    A_BATCH,
    AGAIN,
    ALICE,
    EMPTIED,
    FILES,
    READY,
    TASK,
    Mortal,
    Runs,
    append,
    consolidated,
    remembered,
    saved,
    talk,
    text,
    write,
)


async def killed(run: Runs, model: ScriptedAnthropic, due: Sequence[Due]) -> None:
    """A run that is gone after its first write, as with its process."""
    model.script(TASK, [append("- dill")], Slow(30, READY))
    task = asyncio.create_task(run("dead", due))
    while len(model.requests) < 2:  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    model.clear()


async def test_a_dead_run_has_changed_nothing_and_the_next_one_does_it_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await killed(run, model, [talk("t", "dill")])
    assert await text(store) == ""
    await saved(store, "mine\n")
    model.script(TASK, [append("- dill")], READY)
    await run("r2", [talk("t", "dill")])
    assert await text(store) == "mine\n- dill\n"


class DiesAtPositions(BaseStore):
    """A store whose user is gone before it writes a position."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if any(isinstance(op, PutOp) and op.namespace == namespaces.positions(ALICE) for op in ops):
            raise ConnectionError
        return await self._store.abatch(ops)


async def test_what_a_dead_run_had_decided_is_committed_and_not_shown_again(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
    built.store = DiesAtPositions(store)
    model.script(TASK, [append("- dill")], READY)
    with pytest.raises(ConnectionError):
        await run("dead", [talk("t", "dill")])
    built.store = store
    model.clear()
    assert "Nothing is new" in await run("r2", [talk("t", "dill")])
    assert model.requests == []
    assert await text(store) == "- dill\n"
    assert [(record["status"], record["conversations"]) for record in await records(store, ALICE)] == [("interrupted", 1)]


async def test_of_two_runs_at_once_both_ask_the_model_and_one_is_applied(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    applied = threading.Event()
    model.script(TASK, [append("- dill")], after(applied, [append("- late")]))
    slow = asyncio.create_task(run("slow", [talk("t", "dill")]))
    while len(model.requests) < 2:  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.02)
    model.script(TASK, [append("- dill again")], READY)
    await run("quick", [talk("t", "dill")])
    applied.set()
    await slow
    assert await text(store) == "- dill again\n"
    history = await journal.history(store, FILES, "/topics/food.md")
    assert len(history) == 1, "not even for a moment"
    assert {(record["run_id"], record["status"], record["conversations"]) for record in await records(store, ALICE)} == {
        ("quick", "done", 1),
        ("slow", "done", 0),
    }


async def test_a_run_that_was_overtaken_goes_on_with_what_is_left(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    due = [talk(f"t{number}", A_BATCH) for number in range(2)]
    loop = asyncio.get_running_loop()

    def overtaken(_: object) -> Any:
        """While the model of the first run works, another run consolidates the first conversation, and fails."""
        model.script(TASK, [append("- zero")], READY, Failure(400, "invalid_request_error", "no"))
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(run("other", due), loop).result()
        return [append("- never")]

    model.script(TASK, overtaken, READY, [append("- one")], READY)
    await run("first", due)
    assert await text(store) == "- zero\n- one\n"
    assert await consolidated(store) == {"t0", "t1"}


async def test_what_others_write_meanwhile_stays_beside_what_is_consolidated(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    """What the agent and the person write meanwhile stays beside what consolidation writes."""
    await saved(store, "one\ntwo\nthree\n")
    await saved(store, '{"name": "Ann", "role": "cook"}\n', "/profile.json")
    loop = asyncio.get_running_loop()
    profile = {"file_path": "/memories/profile.json", "old_string": "cook", "new_string": 'cook", "units": "metric'}
    given = ToolCall("forget_lines", {"path": "/memories/topics/food.md", "lines": ["two"], "reason": "outdated"})

    async def others() -> None:
        await saved(store, "zero\none\ntwo\nthree\nmine\n")
        await saved(store, '{"name": "Ann", "role": "baker"}\n', "/profile.json")
        await saved(store, "new\n", "/new.md")

    def meanwhile(_: object) -> Any:
        asyncio.run_coroutine_threadsafe(others(), loop).result()
        return READY

    edit = ToolCall("edit_file", {"file_path": "/memories/topics/food.md", "old_string": "two\n", "new_string": ""})
    model.script(TASK, [given], [edit, ToolCall("edit_file", profile), append("- dill", "/memories/new.md")], meanwhile)
    await run("r1", [talk("t", "dill")])
    assert await text(store) == "zero\none\nthree\nmine\n"
    assert json.loads(await text(store, "/profile.json")) == {"name": "Ann", "role": "baker", "units": "metric"}
    assert sorted((await text(store, "/new.md")).splitlines()) == ["- dill", "new"]


async def test_a_batch_for_which_others_left_no_room_is_refused_as_a_whole(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    loop = asyncio.get_running_loop()

    async def leave(room: int) -> None:
        for number in range(MAX_MEMORY_BYTES // MAX_FILE_BYTES - 1):
            await saved(store, "x" * MAX_FILE_BYTES, f"/big-{number}.md")
        used = usage_of(await store.asearch(FILES, limit=100)).bytes
        await saved(store, "x" * (MAX_MEMORY_BYTES - used - room), "/big.md")

    def fill(_: object) -> Any:
        asyncio.run_coroutine_threadsafe(leave(50), loop).result()
        return READY

    model.script(AGAIN, [append("- short")], READY)
    model.script(TASK, [append("- a"), append("y" * 80, "/memories/topics/other.md")], fill)
    await run("r1", [talk("t", "dill")])
    assert f"{MAX_MEMORY_BYTES:,}" in last_user_text(model.requests[-1])
    assert (await text(store), await text(store, "/topics/other.md")) == ("- short\n", "")


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_run_that_dies_at_any_operation_of_the_store_is_made_up_for_once(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic, *, resumed: bool
) -> None:
    """Resumed: the same run goes on in another process. Otherwise another run begins."""
    if not isinstance(store, InMemoryStore):
        pytest.skip("what matters is the order of operations, which is the same")
    calls = [append("- dill"), append("- food.md: dill", "/memories/topics/index.md")]
    model.script(TASK, *[lambda body: READY if len(body["messages"]) > 3 else calls] * 1_000)
    deaths, died = 0, True
    while died:
        for item in await store.asearch((), limit=1_000):
            await store.adelete(item.namespace, item.key)
        await saved(store, "one\n")
        built.store = Mortal(store, deaths)
        try:
            await run(f"{deaths}", [talk("t", "dill")])
            died = False
        except ConnectionError:
            deaths += 3
        await write(store, "/topics/food.md", "mine")
        built.store = store
        if resumed:
            run.restart()
        with suppress(EmptyInputError):  # it died before its first checkpoint
            await run(f"{deaths - 3}" if resumed and died else f"{deaths} then", [talk("t", "dill")], resumed=resumed and died)
        await run(f"{deaths} at last", [talk("t", "dill")])
        assert sorted((await text(store)).splitlines()) == ["- dill", "mine", "one"], deaths
        assert await text(store, "/topics/index.md") == "- food.md: dill\n"
        assert await consolidated(store) == {"t"}
        assert sum(record["conversations"] for record in await records(store, ALICE)) == 1
    assert deaths > 20


async def test_what_was_rejected_and_undone_is_not_accepted_by_going_on(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "likes fennel\n")
    model.script(TASK, EMPTIED, READY, [append("- dill")], READY)
    run.dies_after = ("begin", 2)
    with pytest.raises(ConnectionError):
        await run("r1", [talk("t", "dill")])
    await run("r1", [talk("t", "dill")], resumed=True)
    assert await text(store) == "likes fennel\n- dill\n"
    assert await consolidated(store) == {"t"}


@pytest.mark.parametrize(("replies", "after"), [([EMPTIED, READY] * 2, set[str]()), ([[append("- dill")], READY], {"t"})])
async def test_what_was_decided_when_a_run_ended_is_decided_the_same_by_going_on(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, *, replies: Any, after: set[str]
) -> None:
    await remembered(store, "likes fennel\n")
    model.script(TASK, *replies)
    run.dies_after = ("finish", 1)
    with pytest.raises(ConnectionError):
        await run("r1", [talk("t", "dill")])
    before = await text(store)
    await run("r1", [talk("t", "dill")], resumed=True)
    assert await text(store) == before
    assert await consolidated(store) == after


async def test_another_run_that_goes_on_with_a_failed_one_begins_again(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    model.script(TASK, [append("- dill")], Failure(400, "invalid_request_error", "no"))
    with pytest.raises(Exception, match="no"):
        await run("r1", [talk("t", "dill")])
    model.clear()
    model.script(TASK, [append("- sage")], READY)
    await run("r2", [talk("t", "dill")], thread="r1", resumed=True)
    assert await text(store) == "- sage\n", "of the failed one nothing is left"
    assert await consolidated(store) == {"t"}
    assert [(record["run_id"], record["status"]) for record in await records(store, ALICE)] == [
        ("r2", "done"),
        ("r1", "failed"),
    ]
