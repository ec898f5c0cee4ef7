"""Review: what consolidation would change waits for the person, who decides about each file once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

from lasting_memory import journal
from lasting_memory.consolidation.proposals import DecidedError, applied, decide, files_of
from lasting_memory.controls import controls
from lasting_memory.files.changes import Changed
from lasting_memory.files.proposals import Proposal, proposals, propose
from lasting_memory.people import identity
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import AGENT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from lasting_memory.validation import RefusedWrite
from tests.memory.test_paused import control, status
from tests.memory.test_temporary import new_thread

ALICE = identity.Actor("alice", "acme")
FILES = deployed().memory.namespace(ALICE, AGENT)
AUTHOR = identity.Author("consolidation", "alice", "run", "thread")
FOOD, TEA = "/food.md", "/tea.md"


async def proposed(store: BaseStore, number: int, *changes: Changed) -> None:
    at = f"2026-01-01T00:{number:02}:00+00:00"
    await propose(store, ALICE, Proposal(f"{number:032}", at, FILES[-1], AUTHOR, list(changes), []), None)


async def answer(store: BaseStore, number: int, accept: bool, *paths: str) -> dict[str, str]:
    return await decide(
        store,
        ALICE,
        FILES,
        f"{number:032}",
        accept=accept,
        paths=paths or None,
        began=journal.began_now(ALICE),
        deployment=deployed(),
    )


async def put(store: BaseStore, content: str, key: str) -> None:
    """What the person writes in place of what is there."""
    author = identity.Author("person", "alice")
    await journal.change(store, FILES, key, lambda _: FileData(content=content, encoding="utf-8"), author)


async def text(store: BaseStore, key: str = FOOD) -> str | None:
    item = await store.aget(FILES, key)
    return str(item.value["content"]) if item else None


async def waiting(store: BaseStore) -> list[list[str]]:
    known = await proposals(store, ALICE, FILES)
    return [[change.path for change in each.changes] for each in known if each.changes]


async def test_each_file_is_decided_once_and_what_was_written_meanwhile_stays(store: BaseStore) -> None:
    await put(store, "- dill\n", FOOD)
    await proposed(store, 1, Changed(FOOD, "- dill\n", "- dill\n- leek\n"), Changed(TEA, "", "- green\n"))
    await put(store, "- kale\n- dill\n", FOOD)
    assert await waiting(store) == [["/memories/food.md", "/memories/tea.md"]]
    assert await answer(store, 1, True, "/memories/food.md") == {}
    assert await text(store) == "- kale\n- dill\n- leek\n"
    assert (await journal.history(store, FILES, FOOD))[0].author == AUTHOR
    for accept in (True, False):
        with pytest.raises(DecidedError, match="was decided already"):
            await answer(store, 1, accept, "/memories/food.md")
    await answer(store, 1, False)
    assert await text(store, TEA) is None
    assert await waiting(store) == []
    with pytest.raises(DecidedError, match="was decided already"):
        await answer(store, 1, True)


@pytest.mark.parametrize("decisions", [{1: True, 2: True}, {1: False, 2: True}, {2: True, 1: True}, {2: True, 1: False}])
async def test_a_newer_proposal_builds_on_the_older_whatever_becomes_of_that(
    store: BaseStore, decisions: dict[int, bool]
) -> None:
    await put(store, "- dill\n", FOOD)
    base = await files_of(store, FILES)
    await proposed(store, 1, Changed(FOOD, "- dill\n", "- dill\n- lives in Paris\n"))
    (first,) = await proposals(store, ALICE, FILES)
    after = applied(base, first.changes, AUTHOR, deployed())
    assert after[FOOD]["content"] == "- dill\n- lives in Paris\n"
    await proposed(store, 2, Changed(FOOD, "- dill\n- lives in Paris\n", "- dill\n- lives in Paris\n- likes leek\n"))
    for number, accept in decisions.items():
        await answer(store, number, accept)
    lines = ["- dill", *(["- lives in Paris"] if decisions[1] else []), "- likes leek"]
    assert sorted(str(await text(store)).splitlines()) == sorted(lines)


async def test_of_two_who_decide_at_once_one_is_told_and_it_is_applied_once(store: BaseStore) -> None:
    await proposed(store, 1, Changed(FOOD, "", "- leek\n"))
    told = await asyncio.gather(*(answer(store, 1, accept) for accept in (True, False) * 3), return_exceptions=True)
    assert sum(one == {} for one in told) >= 1
    assert {type(one) for one in told} <= {dict, DecidedError}
    accepted = await text(store) is not None
    assert accepted == (len(await journal.history(store, FILES, FOOD)) == 1)
    assert await waiting(store) == []


async def test_what_cannot_be_merged_any_more_is_refused_and_waits(store: BaseStore) -> None:
    await proposed(store, 1, Changed("/x", "text\n", "more text\n"))
    photo = FileData(content="QQ==", encoding="base64")
    await journal.change(store, FILES, "/x", lambda _: photo, identity.Author("person", "alice"))
    with pytest.raises(RefusedWrite, match="somebody else has changed it"):
        await answer(store, 1, True)
    assert await waiting(store) == [["/memories/x"]]


async def test_the_setting_is_the_default_of_who_has_not_decided(store: BaseStore) -> None:
    assert (await controls(store, ALICE, deployed())).review is False
    assert (await controls(store, ALICE, deployed(consolidation_review="on"))).review is True


# --- On the server ---------------------------------------------------------------------------------------------------


async def consolidate(client: LangGraphClient, model: ScriptedAnthropic, *calls: ToolCall) -> str:
    model.script("Conversations with something new", list(calls), [Text("done")])
    values = await run_turn(client, await new_thread(client, {}), "go", assistant="consolidation_agent")
    return str(values["messages"][-1]["content"])


def append(line: str, path: str = "/memories/topics/food.md") -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": line})


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
        await run_turn(who, await new_thread(who, {}), "I like leek")
    for who in (client, bob):
        await consolidate(who, model, append("- leek"), append("- x", "/memories/preferences.md"))
    food = {"path": "/memories/topics/food.md"}
    assert await status(client.http.get("/memory/file", params=food)) == 404
    assert "leek" in str(await bob.http.get("/memory/file", params=food)), "who has not asked for review has none"
    assert await listed(bob) == []
    (first,) = await listed(client)
    assert "+- leek" in first["files"]["/memories/topics/food.md"]
    assert (await client.http.get("/memory/consolidations"))["consolidations"][0]["status"] == "proposed"
    assert await consolidate(client, model, append("- never")) == "Nothing is new since the last consolidation."
    own_server.restart()
    assert await listed(client) == [first]

    model.clear()
    await run_turn(client, await new_thread(client, {}), "and dill")
    await consolidate(client, model, append("- dill"))
    assert any("- x" in system_text(body) for body in model.requests), "a newer one is made on what the older would change"
    _, second = await listed(client)
    assert second["files"] == {"/memories/topics/food.md": "@@ -1,1 +1,2 @@\n - leek\n+- dill"}

    named, path = {"user_id": "alice", "org_id": "acme"}, f"/memory/proposals/{first['id']}"
    operator = own_server.as_operator()
    assert await operator.http.get("/memory/proposals", params=named) == {"proposals": [first, second]}
    assert await status(operator.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, params=named, json={"accept": True})) == 403
    assert await status(bob.http.post(path, json={"accept": True})) == 404
    for body in ({}, {"accept": 1}, {"accept": True, "files": []}, {"accept": True, "files": [1]}, {"accept": True, "x": 1}):
        assert await status(client.http.post(path, json=body)) == 422, body
    assert await status(client.http.post(path, json={"accept": True, "files": ["/memories/other.md"]})) == 404

    await control(client, paused=True)
    await client.http.put("/memory/file", params=food, json={"content": "- kale\n"})
    accepted = {"accept": True, "files": ["/memories/topics/food.md"]}
    assert await client.http.post(path, json=accepted) == {"id": first["id"], "accepted": True, "refused": {}}
    assert await status(client.http.post(path, json=accepted)) == 409
    await client.http.post(path, json={"accept": False})
    assert await status(client.http.post(path, json={"accept": True})) == 409
    content = (await client.http.get("/memory/file", params=food))["content"]
    assert sorted(content.splitlines()) == ["- kale", "- leek"]
    assert (await client.http.get("/memory/export"))["proposals"] == [second]
    await client.http.delete("/memory")
    assert await listed(client) == []
