"""A consolidation run on the real graph and stores, without a server: batches, the guard, undoing, the lease, dry runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

import memory.consolidation
import memory.progress
import memory.work
from consolidation_agent import build_consolidation_agent
from memory import epochs, guard, scopes
from memory.consensus import LoggedFile
from memory.due import Due, still_due
from memory.episodes import Conversation, Turn
from memory.files import acarry_out
from memory.guard import Changed, objection, without
from memory.journal import Journal
from memory.progress import LeaseHeldError, positions, records, take_lease
from settings import LEASE_SECONDS, Settings
from tests.conftest import BuildGraph
from tests.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, ToolCall, last_user_text, tool_results

ALICE = scopes.Actor("alice", "acme")
FILES = scopes.memories(ALICE, scopes.DEFAULT_AGENT_ASSISTANT, Settings())
TASK = "Conversations with something new"
AGAIN = "was taken back"
READY = [Text("done")]


def talk(thread_id: str, *texts: str) -> Due:
    turns = tuple(Turn("user", text, f"{thread_id}-{number}") for number, text in enumerate(texts))
    return Due(Conversation(thread_id, "2026-01-01", turns), thread_id)


def append(text: str, path: str = "/memories/topics/food.md") -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


class Runs(Protocol):
    async def __call__(self, run_id: str, due: Sequence[Due], *, dry: bool = False) -> str: ...


@pytest.fixture
def run(graph: BuildGraph, store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs consolidation for Alice, whose conversations are `due` as far as they were not consolidated; the last message."""
    talks: list[Due] = []

    async def find(*_: Any) -> list[Due]:
        return still_due(talks, await positions(store, ALICE))

    async def never(*_: Any) -> bool:
        return False

    monkeypatch.setattr(scopes, "on_server", lambda *_: True)
    monkeypatch.setattr(scopes, "names_nobody", lambda *_: False)
    monkeypatch.setattr(memory.consolidation, "is_stray", never)
    monkeypatch.setattr(memory.work, "find_due", find)
    monkeypatch.setattr(memory.work.Work, "_index", never)
    built = graph(build=build_consolidation_agent).graph

    async def run_once(run_id: str, due: Sequence[Due], *, dry: bool = False) -> str:
        talks[:] = due
        config: RunnableConfig = {"configurable": {"thread_id": run_id, "run_id": run_id}}
        context = scopes.Context(user_id="alice", org_id="acme", dry_run=dry)
        result = await built.ainvoke({"messages": [{"role": "user", "content": "store X"}]}, config, context=context)
        return str(result["messages"][-1].text)

    return run_once


async def text(store: BaseStore, key: str = "/topics/food.md") -> str:
    item = await store.aget(FILES, key)
    return str(item.value["content"]) if item else ""


async def everything(store: BaseStore) -> set[str]:
    return {repr((item.namespace, item.key, item.value)) for item in await store.asearch((), limit=1000)}


async def remembered(store: BaseStore, content: str, key: str = "/topics/food.md") -> None:
    await store.aput(FILES, key, {**create_file_data(content)})


async def test_the_model_is_shown_the_batch_and_the_files_about_the_same_without_asking(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
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
    assert set(await positions(store, ALICE)) == {"t"}


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


async def test_nothing_new_calls_no_model_and_leaves_nothing(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    before = await everything(store)
    assert "Nothing is new" in await run("r1", [])
    assert model.requests == []
    assert await everything(store) == before


async def test_a_backlog_takes_several_batches_each_committed(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 150)
    model.script(TASK, *[reply for number in range(3) for reply in ([append(f"- fact {number}")], READY)])
    await run("r1", [talk(f"t{number}", "x" * 400) for number in range(3)])
    assert await text(store) == "- fact 0\n- fact 1\n- fact 2\n"
    assert [len(body["messages"]) for body in model.requests] == [3, 5] * 3, "each batch begins with a prompt of its own"
    (record,) = await records(store, ALICE)
    assert record["conversations"] == 3


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
    assert set(await positions(store, ALICE)) == {"t"}


async def test_what_is_refused_twice_stays_due_and_others_go_on(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 150)
    await remembered(store, "likes fennel\nhates dill\n")
    emptied = ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": ""})

    def say(body: dict[str, Any]) -> Any:
        if len(body["messages"]) > 3:
            return READY
        return [emptied] if "bad" in tool_results(body)[0] else [append("- good", "/memories/topics/other.md")]

    model.script(TASK, *[say] * 10)
    await run("r1", [talk("a", "bad " * 100), talk("b", "good " * 80)])
    assert await text(store) == "likes fennel\nhates dill\n"
    assert await text(store, "/topics/other.md") == "- good\n"
    assert set(await positions(store, ALICE)) == {"b"}
    (record,) = await records(store, ALICE)
    assert record["status"] == "undone"
    assert "would lose 2 lines" in record["reason"]
    assert record["files"].keys() == {"/memories/topics/other.md"}


async def test_a_batch_that_takes_too_many_steps_is_undone(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.consolidation, "MAX_CONSOLIDATION_STEPS", 3)
    model.script(TASK, *[[append(f"- {number}")] for number in range(9)])
    await run("r1", [talk("t", "dill")])
    assert len(model.requests) == 3
    assert await text(store) == ""
    assert await positions(store, ALICE) == {}
    assert "3 steps" in (await records(store, ALICE))[0]["reason"]


async def test_a_failing_model_leaves_memory_as_it_was_and_the_next_run_begins_at_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    model.script(TASK, [append("- dill")], Failure(400, "invalid_request_error", "no"))
    with pytest.raises(Exception, match="no"):
        await run("r1", [talk("t", "dill")])
    assert await text(store) == ""
    assert await positions(store, ALICE) == {}
    model.clear()
    model.script(TASK, [append("- dill")], READY)
    await run("r2", [talk("t", "dill")])
    assert await text(store) == "- dill\n"
    assert [record["status"] for record in await records(store, ALICE)] == ["done", "failed"]


async def killed(run: Runs, model: ScriptedAnthropic, due: Sequence[Due]) -> None:
    """A run that is gone after its first write, as with its process."""
    model.script(TASK, [append("- dill")], Slow(30, READY))
    task = asyncio.create_task(run("dead", due))
    while len(model.requests) < 2:  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    model.clear()


async def test_what_a_dead_run_left_half_done_is_undone_and_done_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.progress, "LEASE_SECONDS", 0)
    await killed(run, model, [talk("t", "dill")])
    assert await text(store) == "- dill\n"
    author, file = scopes.Author("person", "alice"), LoggedFile(FILES, "/topics/food.md")
    mine = acarry_out(store, Journal(file).change(lambda f: create_file_data(f"{f['content'] if f else ''}mine\n"), author))
    await mine
    model.script(TASK, [append("- dill")], READY)
    await run("r2", [talk("t", "dill")])
    assert await text(store) == "mine\n- dill\n"


async def test_what_a_dead_run_had_decided_is_committed_and_not_shown_again(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.progress, "LEASE_SECONDS", 0)

    async def dies(*_: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr(memory.work, "commit", dies)
    model.script(TASK, [append("- dill")], READY)
    with pytest.raises(ConnectionError):
        await run("dead", [talk("t", "dill")])
    monkeypatch.setattr(memory.work, "commit", memory.progress.commit)
    model.clear()
    assert "Nothing is new" in await run("r2", [talk("t", "dill")])
    assert model.requests == []
    assert await text(store) == "- dill\n"


async def test_of_two_runs_at_once_the_second_leaves_it_to_the_first_and_looks_again_later(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    async def plan(owner: Any, seconds: int, *_: Any) -> None:
        planned.append((owner.actor, seconds))

    monkeypatch.setattr(memory.consolidation, "plan", plan)
    await take_lease(store, ALICE, f"/{FILES[-1]}", "first")
    assert "first is at work" in await run("second", [talk("t", "dill")])
    assert planned == [(ALICE, LEASE_SECONDS)]
    assert model.requests == []
    assert await positions(store, ALICE) == {}
    with pytest.raises(LeaseHeldError):
        await take_lease(store, ALICE, f"/{FILES[-1]}", "third")


async def test_a_dry_run_says_what_it_would_change_and_changes_nothing(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "fennel\n")
    before = await everything(store)
    model.script(TASK, [append("- dill")], READY)
    said = json.loads(await run("r1", [talk("t", "dill")], dry=True))
    assert "+- dill" in said["files"]["/memories/topics/food.md"]
    assert said["dry_run"] is True
    assert await everything(store) == before


async def test_a_dry_run_that_lost_its_copy_writes_nothing(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await everything(store)
    monkeypatch.setattr("memory.rehearsal._KEPT", 0)
    with pytest.raises(ValueError, match="interrupted"):
        await run("r1", [talk("t", "dill")], dry=True)
    assert await everything(store) == before


async def test_somebody_forgotten_meanwhile_is_left_nothing(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    async def forgotten() -> None:
        await epochs.count_up(store, ALICE)
        for item in await store.asearch((), limit=1000):
            if item.namespace[0] != "epoch":
                await store.adelete(item.namespace, item.key)

    def forget_then_write(body: dict[str, Any]) -> Any:
        asyncio.run_coroutine_threadsafe(forgotten(), loop).result()
        return [append("- dill")]

    loop = asyncio.get_running_loop()
    model.script(TASK, forget_then_write, READY)
    with suppress(Exception):  # the next sign of life fails: nothing is left to work for
        await run("r1", [talk("t", "dill")])
    assert {item.namespace[0] for item in await store.asearch((), limit=1000)} == {"epoch"}


async def test_credentials_never_reach_memory(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    key = "ghp_" + "a1" * 18
    model.script(TASK, [append(f"- token {key}")], READY)
    await run("r1", [talk("t", "dill")])
    assert "a GitHub token" in tool_results(model.requests[-1])[-1]
    assert not any(key in value for value in await everything(store))


# --- The guard, as functions -----------------------------------------------------------------------------------------


def test_lines_given_up_may_go_and_others_not() -> None:
    changed = Changed("/a.md", "one\ntwo\nthree\n", "three\n")
    assert "two" in (objection(changed, ["one"]) or "")
    assert objection(changed, ["one", "  two "]) is None


@pytest.mark.parametrize("after", ["one\ntwo\nthree\nfour\n", "one\ntwo\n333\n", "one\ntwo\nthree, and more of it\n"])
def test_what_hardly_shrinks_may_stand(after: str) -> None:
    assert objection(Changed("/a.md", "one\ntwo\nthree\n", after), []) is None


def test_a_deleted_file_is_a_loss_like_an_emptied_one() -> None:
    assert objection(Changed("/a.md", "one\n", ""), [])
    assert objection(Changed("/a.md", "one\n", ""), ["one"]) is None


@pytest.mark.parametrize(("kind", "after"), [("insert", "one\ntwo\n"), ("replace", "uno\n"), ("delete", "")])
def test_what_is_switched_off_is_refused(monkeypatch: pytest.MonkeyPatch, kind: str, after: str) -> None:
    changed = Changed("/a.md", "one\n", after)
    monkeypatch.setitem(guard._SWITCHES, kind, False)
    assert "switched off" in (objection(changed, ["one"]) or "")


def test_undoing_leaves_what_others_wrote() -> None:
    changed = Changed("/a.md", "one\ntwo\n", "one\nthree\n")
    assert without("one\nthree\n", changed) == "one\ntwo\n"
    assert without("zero\none\nthree\n", changed) == "zero\none\ntwo\n"


def test_a_person_s_own_skills_are_not_consolidation_s() -> None:
    assert "skill" in (objection(Changed("/skills/x/SKILL.md", "one\n", ""), ["one"]) or "")
