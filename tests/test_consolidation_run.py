"""A consolidation run on the real graph and stores, without a server: batches, the guard, undoing, the lease, dry runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Protocol

import pytest
from deepagents.backends.utils import create_file_data
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

import memory.consolidation
import memory.due
import memory.progress
import memory.work
from consolidation_agent import build_consolidation_agent
from memory import epochs, guard, scopes
from memory.consensus import LoggedFile
from memory.due import Due, find_due, still_due
from memory.episodes import Conversation, Turn
from memory.files import acarry_out
from memory.guard import Changed, objection
from memory.journal import Journal
from memory.lines import diff, edits, without
from memory.progress import LeaseHeldError, Position, Record, commit, positions, record, records, take_lease
from settings import (
    LEASE_SECONDS,
    MAX_CHANGES_OF_A_FILE,
    MAX_CONSOLIDATIONS_BYTES,
    MAX_DIFF_CHARS,
    MAX_UNDONE_BATCHES,
    Settings,
)
from tests.conftest import BuildGraph
from tests.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, ToolCall, last_user_text, tool_results

ALICE = scopes.Actor("alice", "acme")
FILES = scopes.memories(ALICE, scopes.DEFAULT_AGENT_ASSISTANT, Settings())
TASK = "Conversations with something new"
AGAIN = "was taken back"
READY = [Text("done")]
EMPTIED = [ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": ""})]


def talk(thread_id: str, *texts: str) -> Due:
    turns = tuple(Turn("user", text, f"{thread_id}-{number}") for number, text in enumerate(texts))
    return Due(Conversation(thread_id, "2026-01-01", turns), thread_id)


def append(text: str, path: str = "/memories/topics/food.md") -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


class Runs(Protocol):
    async def __call__(
        self, run_id: str, due: Sequence[Due], *, dry: bool = False, thread: str | None = None, resumed: bool = False
    ) -> str: ...


@pytest.fixture
def built(graph: BuildGraph) -> Any:
    """The graph."""
    return graph(build=build_consolidation_agent).graph


@pytest.fixture
def run(built: Any, store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs consolidation for Alice, whose conversations are `due` as far as they were not consolidated; the last message."""
    talks: list[Due] = []

    async def find(*_: Any, rehearsed: BaseStore | None, skipped: Sequence[str], **__: Any) -> list[Due]:
        left = still_due(talks, await positions(store, ALICE))
        left = still_due(left, await positions(rehearsed, ALICE)) if rehearsed else left
        return [item for item in left if item.conversation.thread_id not in skipped]

    async def never(*_: Any) -> bool:
        return False

    monkeypatch.setattr(scopes, "on_server", lambda *_: True)
    monkeypatch.setattr(scopes, "names_nobody", lambda *_: False)
    monkeypatch.setattr(memory.consolidation, "is_stray", never)
    monkeypatch.setattr(memory.work, "find_due", find)
    monkeypatch.setattr(memory.work.Work, "_index", never)

    async def run_once(
        run_id: str, due: Sequence[Due], *, dry: bool = False, thread: str | None = None, resumed: bool = False
    ) -> str:
        talks[:] = due
        config: RunnableConfig = {"configurable": {"thread_id": thread or run_id, "run_id": run_id}}
        context = scopes.Context(user_id="alice", org_id="acme", dry_run=dry)
        given = None if resumed else {"messages": [{"role": "user", "content": "store X"}]}
        result = await built.ainvoke(given, config, context=context)
        return str(result["messages"][-1].text)

    return run_once


async def text(store: BaseStore, key: str = "/topics/food.md") -> str:
    item = await store.aget(FILES, key)
    return str(item.value["content"]) if item else ""


async def consolidated(store: BaseStore) -> set[str]:
    """Ids of Alice's threads of which something was consolidated."""
    return {thread_id for thread_id, position in (await positions(store, ALICE)).items() if position.seen}


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
    namespace = scopes.consolidations(ALICE)
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
    """The platform's client, of somebody with these threads of two assistants."""

    def __init__(self, **assistants: str) -> None:
        self.threads, self.assistants = self, assistants

    async def search(self, *, metadata: dict[str, str], ids: Sequence[str] | None = None, **_: Any) -> list[dict[str, Any]]:
        assert metadata.items() >= {"user_id": "alice", "org_id": "acme"}.items()
        wanted = metadata.get("assistant_id")
        found = {thread_id for thread_id, assistant in self.assistants.items() if wanted in (None, assistant)}
        found &= set(ids if ids is not None else self.assistants)
        return [{"thread_id": thread_id, "updated_at": "1", "values": {"messages": []}} for thread_id in sorted(found)]


@pytest.mark.parametrize("dry", [False, True])
async def test_how_far_a_conversation_was_consolidated_is_not_kept_once_it_is_deleted(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    await commit(store, ALICE, {thread_id: Position("1", "m", ("hash",)) for thread_id in ("mine", "other", "deleted")})
    monkeypatch.setattr(memory.due, "get_client", lambda: Threads(mine="a", other="b"))
    await find_due(store, ALICE, "a", 1_000, dry=dry)
    assert set(await positions(store, ALICE)) == {"mine", "other"} | ({"deleted"} if dry else set())


async def test_of_a_lease_hardly_any_history_is_kept(store: BaseStore) -> None:
    key = f"/{FILES[-1]}"
    for _ in range(60):
        await take_lease(store, ALICE, key, "run")
    assert len(await store.asearch(scopes.journal(scopes.lease(ALICE), key), limit=1_000)) <= 10
    assert {item.namespace[0] for item in await store.asearch((), limit=1_000)} == {"lease", "journal"}


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
    assert await consolidated(store) == {"b"}
    (record,) = await records(store, ALICE)
    assert record["status"] == "undone"
    assert "would lose 2 lines" in record["reason"]
    assert record["files"].keys() == {"/memories/topics/other.md"}


async def test_a_conversation_that_is_refused_takes_others_with_it_no_longer_than_one_run(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
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


async def test_a_run_in_which_nothing_may_stand_gives_up(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 150)
    await remembered(store, "likes fennel\nhates dill\n")
    model.script(TASK, *[reply for _ in range(40) for reply in (EMPTIED, READY)])
    await run("r1", [talk(f"t{number}", "x" * 400) for number in range(10)])
    assert len(model.requests) == MAX_UNDONE_BATCHES * 2 * 2


async def test_lines_given_up_in_one_run_are_not_in_the_next_on_its_thread(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await remembered(store, "likes fennel\n")
    given = ToolCall("forget_lines", {"path": "/memories/topics/food.md", "lines": ["likes fennel"], "reason": "outdated"})
    model.script(TASK, [given], READY, EMPTIED, READY, READY)
    await run("r1", [talk("t", "dill")])
    await run("r2", [talk("u", "dill")], thread="r1")
    assert await text(store) == "likes fennel\n"
    assert (await built.aget_state({"configurable": {"thread_id": "r1"}})).values["given_up"] == []


async def test_a_summary_of_an_earlier_batch_does_not_hide_this_one_and_stays_nowhere(
    run: Runs, built: Any, store: BaseStore, model: ScriptedAnthropic
) -> None:
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


async def test_nothing_is_delegated_and_no_file_changed_more_often_than_can_be_undone(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    delegated = ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"})
    adding = [[append(f"- {number}") for number in range(first, first + 5)] for first in range(0, 30, 5)]
    model.script("delegated", [append("- by another")])
    model.script(TASK, [delegated], *adding, READY)
    await run("r1", [talk("t", "dill")])
    assert not any(tool["name"] == "task" for tool in model.requests[0]["tools"])
    assert "not delegated" in tool_results(model.requests[1])[-1]
    assert len((await text(store)).splitlines()) == MAX_CHANGES_OF_A_FILE
    assert "changed no more" in tool_results(model.requests[-1])[-1]


async def test_what_stood_before_a_run_died_is_in_its_record(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.progress, "LEASE_SECONDS", 0)
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 150)
    model.script(TASK, [append("- one")], READY, [append("- two")], Slow(30, READY))
    due = [talk(f"t{number}", "x" * 400) for number in range(2)]
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


async def test_a_batch_that_takes_too_many_steps_is_undone(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.consolidation, "MAX_CONSOLIDATION_STEPS", 3)
    model.script(TASK, *[[append(f"- {number}")] for number in range(9)])
    await run("r1", [talk("t", "dill")])
    assert len(model.requests) == 3
    assert await text(store) == ""
    assert await consolidated(store) == set()
    assert "3 steps" in (await records(store, ALICE))[0]["reason"]


async def test_a_failing_model_leaves_memory_as_it_was_and_the_next_run_begins_at_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
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


async def test_a_run_that_was_slow_changes_nothing_after_another_has_taken_over(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.progress, "LEASE_SECONDS", 0)
    model.script(TASK, [append("- dill")], Slow(2, [append("- late")]))
    slow = asyncio.create_task(run("slow", [talk("t", "dill")]))
    while len(model.requests) < 2:  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.02)
    model.script(TASK, [append("- dill again")], READY)
    await run("quick", [talk("t", "dill")])
    with pytest.raises(LeaseHeldError, match="taken over"):
        await slow
    assert await text(store) == "- dill again\n"
    history = await acarry_out(store, Journal(LoggedFile(FILES, "/topics/food.md")).history())
    assert not any("late" in str(revision.content) for revision in history), "not even for a moment"
    assert [(record["run_id"], record["status"]) for record in await records(store, ALICE)] == [
        ("quick", "done"),
        ("slow", "failed"),
    ]


async def test_a_run_whose_model_takes_long_gives_signs_of_life(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[str] = []

    async def renew(work: Any) -> None:
        renewed.append(work.run_id)

    monkeypatch.setattr(memory.work, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(memory.work.Work, "renew", renew)
    model.script(TASK, Slow(1, READY))
    await run("r1", [talk("t", "dill")])
    assert len(renewed) > 2


async def test_who_dies_while_taking_over_leaves_the_first_one_s_work_to_be_undone(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.progress, "LEASE_SECONDS", 0)
    await killed(run, model, [talk("t", "dill")])

    async def dies(*_: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(guard, "changes", dies)
        with pytest.raises(ConnectionError):
            await run("second", [talk("t", "dill")])
    model.script(TASK, [append("- dill")], READY)
    await run("third", [talk("t", "dill")])
    assert await text(store) == "- dill\n"


def stopped_once_after(monkeypatch: pytest.MonkeyPatch, step: str, *, of: int) -> None:
    """The process is gone when `Work` has done this for the nth time."""
    done, original = [], getattr(memory.work.Work, step)

    async def do(*args: Any) -> Any:
        result = await original(*args)
        done.append(result)
        if len(done) == of:
            raise ConnectionError
        return result

    monkeypatch.setattr(memory.work.Work, step, do)


async def test_what_was_rejected_and_undone_is_not_accepted_by_going_on(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remembered(store, "likes fennel\n")
    model.script(AGAIN, [append("- dill")], READY)
    model.script(TASK, EMPTIED, READY)
    stopped_once_after(monkeypatch, "begin", of=2)
    with pytest.raises(ConnectionError):
        await run("r1", [talk("t", "dill")])
    await run("r1", [talk("t", "dill")], resumed=True)
    assert await text(store) == "likes fennel\n- dill\n"
    assert await consolidated(store) == {"t"}


@pytest.mark.parametrize(("replies", "after"), [([EMPTIED, READY] * 2, set[str]()), ([[append("- dill")], READY], {"t"})])
async def test_what_was_decided_when_a_run_ended_is_decided_the_same_by_going_on(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch, *, replies: Any, after: set[str]
) -> None:
    await remembered(store, "likes fennel\n")
    model.script(TASK, *replies)
    stopped_once_after(monkeypatch, "finish", of=1)
    with pytest.raises(ConnectionError):
        await run("r1", [talk("t", "dill")])
    before = await text(store)
    await run("r1", [talk("t", "dill")], resumed=True)
    assert await text(store) == before
    assert await consolidated(store) == after


async def test_another_run_that_goes_on_with_a_failed_one_decides_nothing(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    model.script(TASK, [append("- dill")], Failure(400, "invalid_request_error", "no"))
    with pytest.raises(Exception, match="no"):
        await run("r1", [talk("t", "dill")])
    model.clear()
    model.script(TASK, READY)
    with pytest.raises(LeaseHeldError, match="taken over"):
        await run("r2", [talk("t", "dill")], thread="r1", resumed=True)
    assert await consolidated(store) == set()


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
    assert await consolidated(store) == set()
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


async def test_a_dry_run_of_a_backlog_comes_to_an_end_and_says_all(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    await saved(store, "fennel\n")
    await saved(store, "fennel\nmint\n")
    before = await everything(store)
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 150)
    model.script(TASK, *[reply for number in range(3) for reply in ([append(f"- fact {number}")], READY)])
    said = json.loads(await run("r1", [talk(f"t{number}", "x" * 400) for number in range(3)], dry=True))
    assert (said["conversations"], said["model_calls"]) == (3, 6)
    assert " mint\n+- fact 0" in said["files"]["/memories/topics/food.md"], "what is in the journal is in the copy, too"
    assert " - fact 1\n+- fact 2" in said["files"]["/memories/topics/food.md"]
    assert await everything(store) == before


async def test_a_dry_run_writes_no_first_memory(run: Runs, store: BaseStore, model: ScriptedAnthropic) -> None:
    model.script(TASK, READY)
    await run("r1", [talk("t", "dill")], dry=True)
    assert await everything(store) == set()


async def test_a_dry_run_for_nobody_starts_nothing(
    run: Runs, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "names_nobody", lambda *_: True)
    assert "for one person" in await run("r1", [talk("t", "dill")], dry=True)
    assert model.requests == []


async def test_a_conversation_of_very_many_messages_is_consolidated_once(
    run: Runs, store: BaseStore, model: ScriptedAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.work, "BATCH_TOKENS", 25_000)
    model.script(TASK, *[READY] * 20)
    await run("r1", [talk("t", *map(str, range(12_000)))])
    calls = len(model.requests)
    assert "Nothing is new" in await run("r2", [talk("t", *map(str, range(12_000)))])
    assert 1 < calls == len(model.requests) < 8


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


async def saved(store: BaseStore, content: str, key: str = "/topics/food.md", encoding: str = "utf-8") -> None:
    """A file saved by the person, by way of the journal."""
    file = {**create_file_data(content), "encoding": encoding}
    change = Journal(LoggedFile(FILES, key)).change(lambda _: file, scopes.Author("person", "alice"))  # type: ignore[arg-type,return-value]
    await acarry_out(store, change)


async def test_what_the_person_wrote_between_two_writes_of_a_run_is_not_the_run_s(
    run: Runs, store: BaseStore, model: ScriptedAnthropic
) -> None:
    await saved(store, "one\ntwo\nthree\nfour\n")
    loop = asyncio.get_running_loop()

    def empty(_: object) -> list[ToolCall]:
        asyncio.run_coroutine_threadsafe(saved(store, "one\ntwo\nthree\nfour\n- dill\nmine\n"), loop).result()
        return [ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": "one\n"})]

    model.script(AGAIN, READY)
    model.script(TASK, [append("- dill")], empty, READY)
    await run("r1", [talk("t", "dill")])
    assert await text(store) == "one\ntwo\nthree\nfour\nmine\n"
    (record,) = await records(store, ALICE)
    assert record["files"] == {}


async def test_a_run_that_was_undone_once_has_nothing_left_to_undo(store: BaseStore) -> None:
    author = scopes.Author("consolidation", "alice", "r1")
    await saved(store, "one\n")
    base = await guard.base(store, FILES)
    add = Journal(LoggedFile(FILES, "/topics/food.md")).change(lambda _: create_file_data("one\ntwo\n"), author)
    await acarry_out(store, add)
    await saved(store, "one\ntwo\nmine\n")
    for _ in range(2):
        for changed in await guard.changes(store, FILES, base, "r1"):
            await guard.undo(store, FILES, changed, author)
        assert await text(store) == "one\nmine\n"
    assert len(await acarry_out(store, Journal(LoggedFile(FILES, "/topics/food.md")).history())) == 4


async def test_a_topic_that_one_batch_deleted_is_new_to_the_next(store: BaseStore) -> None:
    author = scopes.Author("consolidation", "alice", "r1")
    await saved(store, "one\ntwo\n")
    journal = Journal(LoggedFile(FILES, "/topics/food.md"))
    await acarry_out(store, journal.change(lambda _: None, author))
    base = await guard.base(store, FILES)
    await acarry_out(store, journal.change(lambda _: create_file_data("three\n"), author))
    (changed,) = await guard.changes(store, FILES, base, "r1")
    assert (changed.before, changed.after) == ("", "three\n")


async def test_what_is_not_text_is_put_back_as_it_was(store: BaseStore) -> None:
    author = scopes.Author("consolidation", "alice", "r1")
    await saved(store, "AP8=", "/photo.png", "base64")
    base = await guard.base(store, FILES)
    await acarry_out(store, Journal(LoggedFile(FILES, "/photo.png")).change(lambda _: None, author))
    (changed,) = await guard.changes(store, FILES, base, "r1")
    assert objection(changed, [])
    await guard.undo(store, FILES, changed, author)
    item = await store.aget(FILES, "/photo.png")
    assert item
    assert (item.value["content"], item.value["encoding"]) == ("AP8=", "base64")


async def test_a_profile_stays_a_profile_when_a_change_is_taken_back_from_under_another(store: BaseStore) -> None:
    author, journal = scopes.Author("consolidation", "alice", "r1"), Journal(LoggedFile(FILES, "/profile.json"))
    await saved(store, '{"name": "Ann", "role": "cook"}\n', "/profile.json")
    base = await guard.base(store, FILES)
    await acarry_out(store, journal.change(lambda _: create_file_data('{"name": "Eve", "role": "cook"}\n'), author))
    await saved(store, '{"name": "Eve", "role": "baker", "units": "metric"}\n', "/profile.json")
    (changed,) = await guard.changes(store, FILES, base, "r1")
    await guard.undo(store, FILES, changed, author)
    assert json.loads(await text(store, "/profile.json")) == {"name": "Ann", "role": "baker", "units": "metric"}


async def test_where_the_journal_does_not_go_back_far_enough_nothing_may_stand_and_nothing_is_deleted(store: BaseStore) -> None:
    author, journal = scopes.Author("consolidation", "alice", "r1"), Journal(LoggedFile(FILES, "/topics/food.md"))
    await saved(store, "one\ntwo\n")
    base = await guard.base(store, FILES)
    for number in range(80):
        await acarry_out(store, journal.change(lambda _, n=number: create_file_data(f"{n}\n"), author))  # type: ignore[misc]
    (changed,) = await guard.changes(store, FILES, base, "r1")
    assert "so often" in (objection(changed, ["one", "two"]) or "")
    await guard.undo(store, FILES, changed, author)
    assert await text(store)


def test_lines_given_as_one_text_count_line_by_line() -> None:
    assert objection(Changed("/a.md", "one\ntwo\n", ""), ["one\ntwo\n"]) is None


def test_undoing_leaves_what_others_wrote() -> None:
    assert without("one\nthree\n", "one\ntwo\n", "one\nthree\n") == "one\ntwo\n"
    assert without("zero\none\nthree\n", "one\ntwo\n", "one\nthree\n") == "zero\none\ntwo\n"
    assert without("a\r\nb\r\nc", "a\r\n", "a\r\nb\r\n") == "a\r\nc", "line endings, and no line feed at the end"
    assert without("1\n3\nmine\n", "1\n2\n3\n", "1\n3\n") == "1\n2\n3\nmine\n", "in their place"


@pytest.mark.parametrize("seed", range(200))
def test_edits_make_one_text_of_the_other_and_are_undone(seed: int) -> None:
    random = Random(seed)
    before, after = (random.choices("abcd", k=random.randrange(9)) for _ in range(2))
    made, at = list[str](), 0
    for _, i, i_end, j, j_end in edits(before, after):
        made += [*before[at:i], *after[j:j_end]]
        at = i_end
    assert made + before[at:] == after
    old, new = "\n".join(before), "\n".join(after)
    assert sorted(without(f"Z\n{new}", old, new).split("\n")) == sorted(f"Z\n{old}".split("\n"))


def test_a_diff_is_unified() -> None:
    assert diff("1\n2\n3\n4\n", "1\n2\nthree\n4\n5\n").split("\n") == [
        "@@ -2,3 +2,3 @@", " 2", "-3", "+three", " 4", "@@ -4,1 +4,2 @@", " 4", "+5",
    ]  # fmt: skip


def test_a_file_of_very_many_equal_lines_is_compared_like_any_other() -> None:
    # With a quadratic comparison this test does not end.
    lines = ["abc"[number % 3] for number in range(120_000)]
    before, after = "\n".join(lines), "\n".join([*lines[:60_000], "new", *lines[60_000:]])
    assert objection(Changed("/a.md", before, after), []) is None
    assert Changed("/a.md", before, after).diff() == "@@ -60000,2 +60000,3 @@\n c\n+new\n a"


def test_headings_and_comments_are_nothing_to_lose() -> None:
    seeded = "# Preferences\n\n<!-- How this person wants to be answered. -->\n"
    assert objection(Changed("/preferences.md", seeded, "- metric\n"), []) is None


def test_a_person_s_own_skills_are_not_consolidation_s() -> None:
    assert "skill" in (objection(Changed("/skills/x/SKILL.md", "one\n", ""), ["one"]) or "")
