"""Review: what consolidation, or the agent in a conversation, would change waits for the person, who decides each file once."""

import asyncio

import pytest
from deepagents.backends.protocol import FileData
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory import journal
from lasting_memory.controls import controls
from lasting_memory.files.proposals import MAX_PROPOSALS, Changed, DecidedError, Proposal
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from lasting_memory.validation import RefusedWrite
from tests.conftest import note, people, status
from tests.consolidation.runs import ALICE, FILES, append, consolidate, decided, memory_of, saved, text

AUTHOR = Author("consolidation", "alice", "run", "thread")
FOOD, MY_FOOD = "/topics/food.md", "/memories/topics/food.md"
PROFILE, NOTES = "/memories/profile.json", "/memories/notes.md"


async def proposed(store: BaseStore, number: int, *changes: Changed) -> None:
    at = f"2026-01-01T00:{number:02}:00+00:00"
    await memory_of(store).propose(Proposal(f"{number}", at, FILES[-1], AUTHOR, list(changes), []))


async def waiting(store: BaseStore) -> list[list[str]]:
    known = await memory_of(store).proposals()
    return [[change.path for change in each.changes] for each in known if each.changes]


@pytest.mark.parametrize("decisions", [{1: False, 2: True}, {2: True, 1: True}, {2: True, 1: False}])
async def test_a_newer_proposal_builds_on_the_older_or_stands_alone(store: BaseStore, decisions: dict[int, bool]) -> None:
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
async def test_a_deleted_file_goes_but_for_what_was_written_meanwhile(store: BaseStore, meanwhile: str, left: str) -> None:
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


async def wait_for(store: BaseStore, run: str, line: str | None) -> None:
    """A run of the agent's appends a line, or deletes the file."""

    def changed(before: FileData | None) -> FileData | None:
        return FileData(content=f"{before['content'] if before else ''}{line}\n", encoding="utf-8") if line else None

    await memory_of(store).propose_write(FOOD, changed, Author("agent", "alice", run, "thread"))


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
    assert len(await memory_of(store).proposals()) == MAX_PROPOSALS
    most = deployed().limits.max_bytes
    with pytest.raises(RefusedWrite, match="would wait"):
        await wait_for(store, "run-1", "x" * (most + 1))


async def test_a_write_that_changes_nothing_any_more_waits_no_more(store: BaseStore) -> None:
    await wait_for(store, "run", "- dill")
    await wait_for(store, "run", None)
    assert await waiting(store) == []


@pytest.mark.server
async def test_with_review_nothing_changes_before_it_is_accepted(own_server: DevServer, model: ScriptedAnthropic) -> None:
    alice, bob = people(own_server, model, "alice", "bob")
    await alice.control(review=True)
    for who in (alice, bob):
        await who.say("I like leek")
        await consolidate(who, append("- leek"), note("x"))
    assert await alice.read(MY_FOOD) is None
    assert "leek" in await bob.read(MY_FOOD), "who has not asked for review has none"
    assert await bob.listed("proposals") == []
    (first,) = await alice.listed("proposals")
    assert "+- leek" in first["files"][MY_FOOD]
    assert (await alice.listed("consolidations"))[0]["status"] == "proposed"
    assert await consolidate(alice, append("- never")) == "Nothing is new since the last consolidation."
    own_server.restart()
    assert await alice.listed("proposals") == [first]

    model.clear()
    await alice.say("and dill")
    await consolidate(alice, append("- dill"))
    assert any("- x" in system_text(body) for body in model.requests), "a newer one is made on what the older would change"
    _, second = await alice.listed("proposals")
    assert second["files"] == {MY_FOOD: "@@ -1,1 +1,2 @@\n - leek\n+- dill"}

    named, path = {"user_id": "alice", "org_id": "acme"}, f"/memory/proposals/{first['id']}"
    operator = own_server.as_operator()
    assert await operator.http.get("/memory/proposals", params=named) == {"proposals": [first, second]}
    assert await status(operator.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, json={"accept": True})) == 404
    assert await status(alice.http.post(path, json={"accept": True, "files": ["/memories/other.md"]})) == 404

    await alice.control(paused=True)
    await alice.write(MY_FOOD, "- kale\n")
    accepted = {"accept": True, "files": [MY_FOOD]}
    assert await alice.http.post(path, json=accepted) == {"id": first["id"], "accepted": True, "refused": {}}
    assert await status(alice.http.post(path, json=accepted)) == 409
    await alice.http.post(path, json={"accept": False})
    assert await status(alice.http.post(path, json={"accept": True})) == 409
    assert sorted((await alice.read(MY_FOOD)).splitlines()) == ["- kale", "- leek"], "what was written meanwhile stays"
    assert (await alice.http.get("/memory/export"))["proposals"] == [second]
    await alice.http.delete("/memory")
    assert await alice.listed("proposals") == []


async def memory(who: Person) -> dict[str, str]:
    return {file["path"]: file["content"] for file in (await who.http.get("/memory/export"))["files"]}


@pytest.mark.server
async def test_whatever_tool_writes_nothing_is_there_before_it_is_accepted(ada: Person) -> None:
    await ada.called(append("- dill"), append("- old", NOTES))
    before = await memory(ada)
    assert await ada.control(review_agent=True) == {"paused": False, "review": False, "review_agent": True}
    results = await ada.called(
        append("- leek"),
        ToolCall("edit_file", {"file_path": MY_FOOD, "old_string": "- leek", "new_string": "- fennel"}),
        ToolCall("save_profile", {"profile": {"name": "Alice"}}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "- new"}),
        ToolCall("delete", {"file_path": NOTES}),
    )
    assert len(results) == 5
    assert all("waits among their proposed changes" in result for result in results), results
    assert await memory(ada) == before
    assert "sees changes of their memory first" in system_text(ada.model.requests[-1])
    (proposal,) = await ada.listed("proposals")
    assert proposal["kind"] == "agent"
    assert set(proposal["files"]) == {MY_FOOD, PROFILE, NOTES, "/memories/new.md"}
    assert [(each["sign"], each["text"]) for each in proposal["lines"][MY_FOOD]] == [("+", "- fennel")]
    await ada.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": False, "files": [NOTES]})
    await ada.http.post(f"/memory/proposals/{proposal['id']}", json={"accept": True})
    after = await memory(ada)
    assert after[MY_FOOD] == "- dill\n- fennel\n"
    assert '"name": "Alice"' in after[PROFILE]
    assert after[NOTES] == before[NOTES]
    assert after["/memories/new.md"] == "- new"
    assert await ada.listed("proposals") == []
    newest = (await ada.http.get("/memory/history", params={"path": MY_FOOD}))["revisions"][0]
    assert newest["author"]["kind"] == "agent"


@pytest.mark.server
async def test_a_subagent_waits_too_another_person_does_not_and_a_pause_wins(ada: Person, bob: Person) -> None:
    await ada.control(review_agent=True)
    assert "review_agent" not in await bob.http.get("/memory/controls")
    ada.model.script("delegated", [append("- from below")], [Text("done")])
    await ada.called(ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"}))
    assert [list(each["files"]) for each in await ada.listed("proposals")] == [[MY_FOOD]]
    assert MY_FOOD not in await memory(ada)
    await bob.called(append("- bob's"))
    assert (await memory(bob))[MY_FOOD] == "- bob's\n"
    assert await bob.listed("proposals") == []
    await ada.control(paused=True)
    (result,) = await ada.called(append("- later"))
    assert "Memory is paused" in result
    assert len(await ada.listed("proposals")) == 1
    assert "review_agent" not in await ada.control(paused=False, review_agent=False)
    await ada.called(append("- at once"))
    assert (await memory(ada))[MY_FOOD] == "- at once\n"
