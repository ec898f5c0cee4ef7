"""`review_agent`: what the agent would write during a conversation waits for its person."""

import asyncio
from typing import Any

import pytest
from deepagents.backends.protocol import FileData
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import LangGraphClient

from lasting_memory import journal
from lasting_memory.consolidation.proposals import decide
from lasting_memory.files.proposals import MAX_PROPOSALS, proposals, propose_write
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from lasting_memory.validation import RefusedWrite
from tests.memory.test_paused import control
from tests.memory.test_temporary import new_thread

FOOD, PROFILE, NOTES = "/memories/topics/food.md", "/memories/profile.json", "/memories/notes.md"
ALICE = Actor("alice", "acme")
FILES = deployed().memory.namespace(ALICE, AGENT)


async def turn(client: LangGraphClient, model: ScriptedAnthropic, said: str, *calls: ToolCall) -> list[str]:
    """A turn in which the model makes these calls one after the other. Returns their results."""
    model.script(said, *([call] for call in calls), [Text("done")])
    messages = (await run_turn(client, await new_thread(client, {}), said))["messages"]
    return [str(message["content"]) for message in messages if message["type"] == "tool"]


async def waiting(client: LangGraphClient) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await client.http.get("/memory/proposals"))["proposals"]
    return listed


async def memory(client: LangGraphClient) -> dict[str, str]:
    return {file["path"]: file["content"] for file in (await client.http.get("/memory/export"))["files"]}


def append(text: str, path: str = FOOD) -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


@pytest.mark.server
async def test_whatever_tool_writes_nothing_is_there_before_it_is_accepted(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await turn(client, model, f"first, {alice}", append("- dill"), append("- old", NOTES))
    before = await memory(client)
    assert await control(client, review_agent=True) == {"paused": False, "review": False, "review_agent": True}
    results = await turn(
        client,
        model,
        f"then, {alice}",
        append("- leek"),
        ToolCall("edit_file", {"file_path": FOOD, "old_string": "- leek", "new_string": "- fennel"}),
        ToolCall("save_profile", {"profile": {"name": "Alice"}}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "- new"}),
        ToolCall("delete", {"file_path": NOTES}),
    )
    assert len(results) == 5
    assert all("waits among their proposed changes" in result for result in results), results
    assert await memory(client) == before
    assert "sees changes of their memory first" in system_text(model.requests[-1])
    (proposal,) = await waiting(client)
    assert proposal["kind"] == "agent"
    assert set(proposal["files"]) == {FOOD, PROFILE, NOTES, "/memories/new.md"}
    assert [(each["sign"], each["text"]) for each in proposal["lines"][FOOD]] == [("+", "- fennel")]
    await client.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": False, "files": [NOTES]})
    await client.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": True})
    after = await memory(client)
    assert after[FOOD] == "- dill\n- fennel\n"
    assert '"name": "Alice"' in after[PROFILE]
    assert after[NOTES] == before[NOTES]
    assert after["/memories/new.md"] == "- new"
    assert await waiting(client) == []
    newest = (await client.http.get("/memory/history", params={"path": FOOD}))["revisions"][0]
    assert newest["author"]["kind"] == "agent"


@pytest.mark.server
async def test_a_subagent_waits_too_another_person_does_not_and_a_pause_wins(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    await control(client, review_agent=True)
    assert "review_agent" not in await bob.http.get("/memory/controls")
    model.script(f"delegated by {alice}", [append("- from below")], [Text("done")])
    task = ToolCall("task", {"description": f"delegated by {alice}", "subagent_type": "general-purpose"})
    await turn(client, model, f"delegate, {alice}", task)
    assert [list(each["files"]) for each in await waiting(client)] == [[FOOD]]
    assert FOOD not in await memory(client)
    await turn(bob, model, f"as bob, not {alice}", append("- bob's"))
    assert (await memory(bob))[FOOD] == "- bob's\n"
    assert await waiting(bob) == []
    await control(client, paused=True)
    (result,) = await turn(client, model, f"paused, {alice}", append("- later"))
    assert "Memory is paused" in result
    assert len(await waiting(client)) == 1
    assert "review_agent" not in await control(client, paused=False, review_agent=False)
    await turn(client, model, f"as always, {alice}", append("- at once"))
    assert (await memory(client))[FOOD] == "- at once\n"


def author(run: str) -> Author:
    return Author("agent", "alice", run, "thread")


async def wait_for(store: BaseStore, run: str, line: str, key: str = "/food.md") -> None:
    def appended(before: FileData | None) -> FileData:
        return FileData(content=f"{before['content'] if before else ''}{line}\n", encoding="utf-8")

    await propose_write(
        store, ALICE, FILES, key=key, change=appended, author=author(run), deployment=deployed(), began=journal.began_now(ALICE)
    )


async def accept(store: BaseStore, proposal_id: str, *, accepted: bool = True) -> None:
    began = journal.began_now(ALICE)
    await decide(store, ALICE, FILES, proposal_id, accept=accepted, paths=None, began=began, deployment=deployed())


@given(decisions=st.lists(st.booleans(), min_size=1, max_size=5), data=st.data())
async def test_each_run_s_proposal_is_decided_alone_in_any_order(decisions: list[bool], data: st.DataObject) -> None:
    store, runs = InMemoryStore(), [f"run-{number}" for number in range(len(decisions))]
    for run in runs:
        await asyncio.gather(wait_for(store, run, f"- {run} one"), wait_for(store, run, f"- {run} two"))
    for run in data.draw(st.permutations(runs)):
        await accept(store, f"{run}-agent", accepted=decisions[runs.index(run)])
    item = await store.aget(FILES, "/food.md")
    lines = item.value["content"].splitlines() if item else []
    wanted = [f"- {run} {line}" for run, yes in zip(runs, decisions, strict=True) for line in ("one", "two") if yes]
    assert sorted(lines) == sorted(wanted)


async def test_a_run_that_goes_on_after_a_decision_proposes_what_is_new(store: BaseStore) -> None:
    for line, accepted in (("- dill", True), ("- leek", False), ("- kale", True)):
        await wait_for(store, "run", line)
        await accept(store, "run-agent", accepted=accepted)
    item = await store.aget(FILES, "/food.md")
    assert item
    assert item.value["content"] == "- dill\n- kale\n"


async def test_what_waits_is_bounded(store: BaseStore) -> None:
    for number in range(MAX_PROPOSALS):
        await wait_for(store, f"run-{number}", "- x")
    with pytest.raises(RefusedWrite, match="too many undecided proposals"):
        await wait_for(store, "one-more", "- x")
    await wait_for(store, "run-0", "- in a proposal that is there")
    assert len(await proposals(store, ALICE, FILES)) == MAX_PROPOSALS
    most = deployed().limits.max_bytes
    with pytest.raises(RefusedWrite, match="would wait"):
        await wait_for(store, "run-1", "x" * (most + 1))


async def test_a_write_that_changes_nothing_any_more_waits_no_more(store: BaseStore) -> None:
    await wait_for(store, "run", "- dill")

    def gone(_: FileData | None) -> None:
        return None

    await propose_write(
        store, ALICE, FILES, key="/food.md", change=gone, author=author("run"), deployment=deployed(), began=None
    )
    assert [each.changes for each in await proposals(store, ALICE, FILES)] == [[]]
