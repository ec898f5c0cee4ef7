"""Review: what consolidation, or the agent in a conversation, would change waits for the person, who decides each file once."""

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
from lasting_memory.consolidation.proposals import DecidedError
from lasting_memory.controls import controls
from lasting_memory.files.proposals import MAX_PROPOSALS, Changed, Proposal, proposals, propose, propose_write
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from lasting_memory.validation import RefusedWrite
from tests.consolidation.runs import ALICE, FILES, append, consolidate, decided, saved, text
from tests.turns import called, control, note, say, status

AUTHOR = Author("consolidation", "alice", "run", "thread")
FOOD, TEA = "/topics/food.md", "/tea.md"
MY_FOOD, PROFILE, NOTES = f"/memories{FOOD}", "/memories/profile.json", "/memories/notes.md"


async def proposed(store: BaseStore, number: int, *changes: Changed) -> None:
    at = f"2026-01-01T00:{number:02}:00+00:00"
    await propose(store, ALICE, Proposal(f"{number}", at, FILES[-1], AUTHOR, list(changes), []), None)


async def waiting(store: BaseStore) -> list[list[str]]:
    known = await proposals(store, ALICE, FILES)
    return [[change.path for change in each.changes] for each in known if each.changes]


@pytest.mark.parametrize("decisions", [{1: False, 2: True}, {2: True, 1: True}, {2: True, 1: False}])
async def test_a_newer_proposal_builds_on_the_older_whatever_becomes_of_that(
    store: BaseStore, decisions: dict[int, bool]
) -> None:
    await saved(store, "- dill\n", FOOD)
    await proposed(store, 1, Changed(FOOD, "- dill\n", "- dill\n- lives in Paris\n"))
    await proposed(store, 2, Changed(FOOD, "- dill\n- lives in Paris\n", "- dill\n- lives in Paris\n- likes leek\n"))
    for number, accept in decisions.items():
        await decided(store, number, accept=accept)
    lines = ["- dill", *(["- lives in Paris"] if decisions[1] else []), "- likes leek"]
    assert sorted((await text(store)).splitlines()) == sorted(lines)


async def test_of_two_who_decide_at_once_one_is_told_and_it_is_applied_once(store: BaseStore) -> None:
    await proposed(store, 1, Changed(FOOD, "", "- leek\n"))
    told = await asyncio.gather(*(decided(store, 1, accept=accept) for accept in (True, False) * 3), return_exceptions=True)
    assert sum(one == {} for one in told) >= 1
    assert {type(one) for one in told} <= {dict, DecidedError}
    accepted = await text(store) != ""
    assert accepted == (len(await journal.history(store, FILES, FOOD)) == 1)
    assert await waiting(store) == []


@pytest.mark.parametrize(("meanwhile", "left"), [("- dill\n", ""), ("- dill\n- mine\n", "- mine\n")])
async def test_a_deleted_file_goes_once_that_is_accepted_but_for_what_was_written_meanwhile(
    store: BaseStore, meanwhile: str, left: str
) -> None:
    await saved(store, "- dill\n")
    await proposed(store, 1, Changed(FOOD, "- dill\n", "", deleted=True))
    await saved(store, meanwhile)
    assert await decided(store, 1, accept=True) == {}
    assert await text(store) == left
    assert (await journal.history(store, FILES, FOOD))[0].author == AUTHOR


async def test_what_cannot_be_merged_any_more_is_refused_and_waits(store: BaseStore) -> None:
    await proposed(store, 1, Changed("/x", "text\n", "more text\n"))
    await saved(store, "QQ==", "/x", encoding="base64")
    with pytest.raises(RefusedWrite, match="somebody else has changed it"):
        await decided(store, 1, accept=True)
    assert await waiting(store) == [["/memories/x"]]


@pytest.mark.parametrize("setting", ["off", "on"])
async def test_the_setting_is_the_default_of_who_has_not_decided(setting: str) -> None:
    assert (await controls(InMemoryStore(), ALICE, deployed(consolidation_review=setting))).review == (setting == "on")


# --- Of the agent's writes


async def wait_for(store: BaseStore, run: str, line: str | None) -> None:
    """A run of the agent's appends a line, or deletes the file."""

    def changed(before: FileData | None) -> FileData | None:
        return FileData(content=f"{before['content'] if before else ''}{line}\n", encoding="utf-8") if line else None

    author, began = Author("agent", "alice", run, "thread"), journal.began_now(ALICE)
    await propose_write(store, ALICE, FILES, key=FOOD, change=changed, author=author, deployment=deployed(), began=began)


@given(decisions=st.lists(st.booleans(), min_size=1, max_size=5), data=st.data())
async def test_each_run_s_proposal_is_decided_alone_in_any_order(decisions: list[bool], data: st.DataObject) -> None:
    store, runs = InMemoryStore(), [f"run-{number}" for number in range(len(decisions))]
    for run in runs:
        await asyncio.gather(wait_for(store, run, f"- {run} one"), wait_for(store, run, f"- {run} two"))
    for run in data.draw(st.permutations(runs)):
        await decided(store, f"{run}-agent", accept=decisions[runs.index(run)])
    wanted = [f"- {run} {line}" for run, yes in zip(runs, decisions, strict=True) for line in ("one", "two") if yes]
    assert sorted((await text(store)).splitlines()) == sorted(wanted)


async def test_a_run_that_goes_on_after_a_decision_proposes_what_is_new(store: BaseStore) -> None:
    for line, accepted in (("- dill", True), ("- leek", False), ("- kale", True)):
        await wait_for(store, "run", line)
        await decided(store, "run-agent", accept=accepted)
    assert await text(store) == "- dill\n- kale\n"


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
    await wait_for(store, "run", None)
    assert await waiting(store) == []


# --- On the server ---------------------------------------------------------------------------------------------------


async def listed(client: LangGraphClient) -> list[dict[str, Any]]:
    waiting: list[dict[str, Any]] = (await client.http.get("/memory/proposals"))["proposals"]
    return waiting


@pytest.mark.server
async def test_with_review_nothing_changes_before_the_person_accepts_it(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    client, bob = own_server.as_user("alice"), own_server.as_user("bob")
    await control(client, review=True)
    for who in (client, bob):
        await say(who, "I like leek")
        await consolidate(who, model, append("- leek"), note("x"))
    food = {"path": MY_FOOD}
    assert await status(client.http.get("/memory/file", params=food)) == 404
    assert "leek" in str(await bob.http.get("/memory/file", params=food)), "who has not asked for review has none"
    assert await listed(bob) == []
    (first,) = await listed(client)
    assert "+- leek" in first["files"][MY_FOOD]
    assert (await client.http.get("/memory/consolidations"))["consolidations"][0]["status"] == "proposed"
    assert await consolidate(client, model, append("- never")) == "Nothing is new since the last consolidation."
    own_server.restart()
    assert await listed(client) == [first]

    model.clear()
    await say(client, "and dill")
    await consolidate(client, model, append("- dill"))
    assert any("- x" in system_text(body) for body in model.requests), "a newer one is made on what the older would change"
    _, second = await listed(client)
    assert second["files"] == {MY_FOOD: "@@ -1,1 +1,2 @@\n - leek\n+- dill"}

    named, path = {"user_id": "alice", "org_id": "acme"}, f"/memory/proposals/{first['id']}"
    operator = own_server.as_operator()
    assert await operator.http.get("/memory/proposals", params=named) == {"proposals": [first, second]}
    assert await status(operator.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, json={"accept": True})) == 404
    assert await status(client.http.post(path, json={"accept": True, "files": ["/memories/other.md"]})) == 404

    await control(client, paused=True)
    await client.http.put("/memory/file", params=food, json={"content": "- kale\n"})
    accepted = {"accept": True, "files": [MY_FOOD]}
    assert await client.http.post(path, json=accepted) == {"id": first["id"], "accepted": True, "refused": {}}
    assert await status(client.http.post(path, json=accepted)) == 409
    await client.http.post(path, json={"accept": False})
    assert await status(client.http.post(path, json={"accept": True})) == 409
    content = (await client.http.get("/memory/file", params=food))["content"]
    assert sorted(content.splitlines()) == ["- kale", "- leek"], "what was written meanwhile stays"
    assert (await client.http.get("/memory/export"))["proposals"] == [second]
    await client.http.delete("/memory")
    assert await listed(client) == []


async def memory(client: LangGraphClient) -> dict[str, str]:
    return {file["path"]: file["content"] for file in (await client.http.get("/memory/export"))["files"]}


@pytest.mark.server
async def test_whatever_tool_writes_nothing_is_there_before_it_is_accepted(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await called(client, model, append("- dill"), append("- old", NOTES))
    before = await memory(client)
    assert await control(client, review_agent=True) == {"paused": False, "review": False, "review_agent": True}
    results = await called(
        client,
        model,
        append("- leek"),
        ToolCall("edit_file", {"file_path": MY_FOOD, "old_string": "- leek", "new_string": "- fennel"}),
        ToolCall("save_profile", {"profile": {"name": "Alice"}}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "- new"}),
        ToolCall("delete", {"file_path": NOTES}),
    )
    assert len(results) == 5
    assert all("waits among their proposed changes" in result for result in results), results
    assert await memory(client) == before
    assert "sees changes of their memory first" in system_text(model.requests[-1])
    (proposal,) = await listed(client)
    assert proposal["kind"] == "agent"
    assert set(proposal["files"]) == {MY_FOOD, PROFILE, NOTES, "/memories/new.md"}
    assert [(each["sign"], each["text"]) for each in proposal["lines"][MY_FOOD]] == [("+", "- fennel")]
    await client.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": False, "files": [NOTES]})
    await client.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": True})
    after = await memory(client)
    assert after[MY_FOOD] == "- dill\n- fennel\n"
    assert '"name": "Alice"' in after[PROFILE]
    assert after[NOTES] == before[NOTES]
    assert after["/memories/new.md"] == "- new"
    assert await listed(client) == []
    newest = (await client.http.get("/memory/history", params={"path": MY_FOOD}))["revisions"][0]
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
    await called(client, model, task)
    assert [list(each["files"]) for each in await listed(client)] == [[MY_FOOD]]
    assert MY_FOOD not in await memory(client)
    await called(bob, model, append("- bob's"))
    assert (await memory(bob))[MY_FOOD] == "- bob's\n"
    assert await listed(bob) == []
    await control(client, paused=True)
    (result,) = await called(client, model, append("- later"))
    assert "Memory is paused" in result
    assert len(await listed(client)) == 1
    assert "review_agent" not in await control(client, paused=False, review_agent=False)
    await called(client, model, append("- at once"))
    assert (await memory(client))[MY_FOOD] == "- at once\n"
