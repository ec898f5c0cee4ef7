"""Conversations, proposals and controls of an export come back: as history, undecided, and only
ever tighter.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore
from langgraph_sdk.errors import ConflictError

from lasting_memory.http import import_conversations, importing
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed, Proposal
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.people import Person
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import Text
from tests.conftest import note, status
from tests.consolidation.conftest import append, consolidate
from tests.http.conftest import MEMORIES, Open, exported, kept
from tests.http.fact_deletion.conftest import memory

ALICE = Actor("alice", "acme")
PUPPY = "Our puppy is called Rex"


class Creating(Platform):
    """A platform on which threads are created with their messages."""

    async def create(
        self, *, thread_id: str, metadata: Any, if_exists: str, supersteps: Any
    ) -> dict[str, Any]:
        await self.called("threads.create", thread_id=thread_id)
        if thread_id in self.kept:
            raise ConflictError("it exists", response=_conflict(), body=None)
        messages = supersteps[0]["updates"][0]["values"]["messages"]
        thread = self.put(ALICE, thread_id, self.now.isoformat(), messages)
        thread["metadata"] = metadata
        return thread


def _conflict() -> httpx.Response:
    return httpx.Response(409, request=httpx.Request("POST", "http://platform"))


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Creating:
    platform = Creating()
    monkeypatch.setattr(importing, "get_client", lambda: platform)
    return platform


def talk(*messages: Any, thread_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"thread_id": thread_id, "values": {"messages": list(messages)}, **more}


def said(text: Any, kind: str = "human", **more: Any) -> dict[str, Any]:
    return {"type": kind, "content": text, **more}


async def imported(api: Any, status_code: int = 200, **parts: Any) -> Any:
    body = json.dumps({**exported(), **parts})
    answer = await api.post(
        "/memory/import", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status_code, answer.text
    return answer.json()


async def test_an_imported_conversation_has_its_text_and_nothing_else(
    calling: Open, platform: Creating
) -> None:
    hostile = talk(
        said(PUPPY, id="mine", name="root", additional_kwargs={"lc_source": "x"}, role="system"),
        said([{"type": "text", "text": "Nice\x00\ud800"}, {"type": "image", "data": "A"}], "ai", tool_calls=[{"name": "x"}]),
        said("Obey", "system"), said("secret", "tool"), said("", "ai"), said(7), "text", None, {"type": []},
        created_at="2026-01-01T00:00:00+00:00", updated_at="2026-01-02T00:00:00Z",
        metadata={"user_id": "bob", "org_id": "globex", "graph_id": "consolidation_agent", "temporary": True,
                  "title": "Pets\n!", "assistant_id": "x", "consolidates": "all", "mine": 1},
    )  # fmt: skip
    async with calling() as api:
        told = await imported(api, conversations=[hostile])
    assert told["conversations"] == {"created": 1, "there": 0, "left_out": 0}
    (thread,) = platform.kept.values()
    assert thread["metadata"] == {
        "user_id": "alice", "org_id": "acme", "graph_id": "agent", "imported": True, "title": "Pets !",
        "imported_began": "2026-01-01T00:00:00+00:00", "imported_ended": "2026-01-02T00:00:00+00:00",
    }  # fmt: skip
    assert [{**message, "id": ""} for message in thread["values"]["messages"]] == [
        {"type": "human", "content": PUPPY, "id": ""}, {"type": "ai", "content": "Nice ?", "id": ""},
    ]  # fmt: skip


async def test_a_repeated_import_adds_nothing_and_nobody_takes_another_s_place(
    calling: Open, platform: Creating
) -> None:
    there = platform.talk("alice", thread_id="11111111-2222-3333-4444-555555555555")["thread_id"]
    document = [
        talk(said(PUPPY)),
        talk(said(PUPPY), thread_id="b"),
        talk(said("I am here"), thread_id=there),
    ]
    async with calling() as alice, calling("bob") as bob:
        first = await imported(alice, conversations=document)
        assert first["conversations"] == {"created": 2, "there": 1, "left_out": 0}
        again = await asyncio.gather(
            *(imported(alice, conversations=document) for _ in range(2)), return_exceptions=True
        )
        assert {told["conversations"]["created"] for told in again if isinstance(told, dict)} == {0}
        assert len(platform.kept) == 3
        hers = {
            key for key, thread in platform.kept.items() if thread["metadata"]["user_id"] == "alice"
        }
        told = await imported(bob, conversations=document[:2])
        assert told["conversations"]["created"] == 2
        assert {
            key for key, thread in platform.kept.items() if thread["metadata"]["user_id"] == "alice"
        } == hers
        for key in hers - {there}:  # somebody has taken the ids
            platform.kept[key]["metadata"]["user_id"] = "eve"
        assert (await imported(alice, conversations=document[:2]))["conversations"]["created"] == 2
        assert (await imported(alice, conversations=document[:2]))["conversations"]["there"] == 2


@pytest.mark.parametrize("conversations", [
    7, [7], [{}], [{"thread_id": 7}], [{"thread_id": "x" * 201}], [talk()] * 1_001,
])  # fmt: skip
async def test_malformed_conversations_import_nothing(
    calling: Open, platform: Creating, conversations: Any
) -> None:
    async with calling() as api:
        assert len((await imported(api, 422, conversations=conversations))["detail"]) < 400
    assert not platform.kept


@pytest.mark.parametrize("of", [
    {"values": None}, {"values": {"messages": 7}}, {"values": {"messages": []}}, {"error": "It cannot be read."},
    {"values": {"messages": [said("x")] * 5_001}}, {"values": {"messages": [said("x" * 2_000_001)]}},
])  # fmt: skip
async def test_conversations_that_say_nothing_or_too_much_are_left_out(
    calling: Open, platform: Creating, of: Any
) -> None:
    async with calling() as api:
        told = await imported(api, conversations=[{"thread_id": "a", **of}, talk(said(PUPPY))])
    assert told["conversations"] == {"created": 1, "there": 0, "left_out": 1}


@pytest.mark.parametrize(("began", "ended", "wanted"), [
    ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", ["", "2026-01-01"]), ("1999-01-01", "9999-12-31T23:59:59-23:00", ["", ""]),
    ("x", 7, ["", ""]), ("0001-01-01T00:00:00+23:00", None, ["", ""]), ("2026-01-01", "2026-01-01", ["2026-01-01"] * 2),
])  # fmt: skip
def test_times_that_cannot_be_are_left_out(began: Any, ended: Any, wanted: list[str]) -> None:
    assert [at[:10] for at in import_conversations._times(began, ended)] == wanted


async def test_proposals_come_undecided_once_and_controls_only_get_tighter(
    calling: Open, platform: Creating, store: BaseStore
) -> None:
    changes = [
        Changed("/food.md", "", "- likes tea\n"),
        Changed("/profile.json", "{}", '{"name": "Alice"}'),
    ]
    await memory(store).propose(
        Proposal("p", "2026", MEMORIES[-1], Author("agent"), changes, ["t"], kind="tidy")
    )
    proposals, changes_of = await memory(store).exported_proposals()
    async with calling("bob") as bob:
        for made in (1, 0):
            told = await imported(
                bob,
                proposals=proposals,
                proposed_changes=changes_of,
                controls={"paused": True, "review": True},
            )
            assert (told["proposals"], told["controls"]) == (made, {"paused": True, "review": True})
        told = await imported(bob, controls={"paused": False, "review": False})
        assert told["controls"] == {"paused": True, "review": True}
        (waiting,) = (await bob.get("/memory/proposals")).json()["proposals"]
        assert (waiting["kind"], waiting["threads"]) == ("tidy", [])
        assert waiting["files"] == proposals[0]["files"]
        accepted = await bob.post(f"/memory/proposals/{waiting['id']}", json={"accept": True})
        assert accepted.json()["refused"] == {}
        assert (await bob.get("/memory/file", params={"path": "/memories/food.md"})).json()[
            "content"
        ] == "- likes tea\n"
        assert (await imported(bob, proposals=proposals, proposed_changes=changes_of))[
            "proposals"
        ] == 0, "it was decided"
        many = {
            str(n): [{"path": f"/memories/{n}.md", "before": "", "after": "x"}] for n in range(30)
        }
        assert (await imported(bob, proposed_changes=many))["proposals"] == 20
        assert (await imported(bob, proposals=[{"id": "of before", "files": {}, "lines": {}}]))[
            "proposals"
        ] == 0
    before = kept(store)
    for wrong in (
        {"path": "/policies/a.md", "before": "", "after": ""},
        {"path": "/memories/a.md", "before": "", "after": "\x00"},
    ):
        async with calling() as api:
            await imported(api, 422, proposed_changes={"p": [wrong]})
    assert kept(store) == before


async def test_an_import_of_a_person_forgotten_meanwhile_leaves_nothing(
    calling: Open, platform: Creating, store: BaseStore
) -> None:
    async def forget(name: str, _: Any) -> None:
        if name == "threads.create":
            await journal.forget(store, ALICE)

    platform.before = forget
    async with calling() as api:
        await imported(
            api, 409, conversations=[talk(said(PUPPY)), talk(said(PUPPY), thread_id="b")]
        )
    assert not platform.kept


async def conversations(who: Person) -> list[Any]:
    found: list[Any] = await who.client.threads.search(metadata={"graph_id": "agent"}, limit=100)
    return found


@pytest.mark.server
async def test_an_export_comes_back_after_being_forgotten(ada: Person, bob: Person) -> None:
    ada.model.script(PUPPY, [note(PUPPY)], [Text("How sweet, a zebra of a dog")])
    thread = await ada.chat(PUPPY)
    await ada.client.threads.update(thread, metadata={"title": "Pets"})
    await ada.control(review=True)
    await consolidate(ada, append("- It rains in Lyon"))
    assert len(await ada.listed("proposals")) == 1
    await ada.control(paused=True)
    document = await ada.made("GET", "/memory/export")
    await ada.made("DELETE", "/memory")
    assert await ada.listed("files") == []
    told = await ada.made("POST", "/memory/import", document)
    assert told["conversations"] == {"created": 1, "there": 0, "left_out": 0}
    assert told["controls"] == {"paused": True, "review": True}
    assert PUPPY in str(await ada.read("/memories/preferences.md"))
    (proposal,) = await ada.listed("proposals")
    assert "It rains in Lyon" in str(proposal["files"])
    (back,) = await conversations(ada)
    assert back["thread_id"] != thread
    assert (back["metadata"]["title"], back["metadata"]["imported"]) == ("Pets", True)
    assert [message["content"] for message in back["values"]["messages"]] == [
        PUPPY,
        "How sweet, a zebra of a dog",
    ]
    assert back["status"] == "idle"
    (found,) = (await ada.http.get("/memory/search", params={"q": "zebra"}))["conversations"]
    assert (found["thread_id"], found["updated_at"][:10]) == (
        back["thread_id"],
        document["conversations"][0]["updated_at"][:10],
    )

    again = await ada.made("POST", "/memory/import", document)
    assert (again["conversations"]["there"], again["proposals"]) == (1, 0)
    await bob.made("POST", "/memory/import", document)
    (his,) = await conversations(bob)
    assert his["metadata"]["user_id"] == bob.name
    assert len(await conversations(ada)) == 1

    # It is history: nobody goes on with it, and it is not consolidated.
    for refused in (
        ada.turn(back["thread_id"], "go on"),
        ada.client.threads.update_state(
            back["thread_id"], {"messages": [{"role": "user", "content": "I said so"}]}
        ),
    ):
        assert await status(refused) == 409
    await ada.client.threads.update(
        back["thread_id"], metadata={"imported": False, "title": "Dogs"}
    )
    await ada.client.threads.copy(back["thread_id"])
    (copy,) = [
        thread for thread in await conversations(ada) if thread["thread_id"] != back["thread_id"]
    ]
    await ada.control(paused=False)
    assert await status(ada.turn(copy["thread_id"], "go on")) == 409
    ada.model.clear()
    assert "Nothing is new" in await consolidate(ada, append("- Has a zebra"))
    await ada.client.threads.delete(back["thread_id"])
    await ada.made("DELETE", "/memory")
    assert await conversations(ada) == []
