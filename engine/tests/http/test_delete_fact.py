"""A fact that is deleted for good: it is in no item of the store and in no export, nobody brings it
back, all else stays.
"""

import asyncio
import json
import threading
import unicodedata
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import httpx
import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, IndexConfig, Op, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.consolidation import record as record_module
from lasting_memory.deployment import Source
from lasting_memory.http import delete_for_good
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import fact_of
from lasting_memory.memory.proposals import Changed, Declined, Memory, Proposal
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import vouch_new_by
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.recall import catch_up
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import Person, SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import Text, after
from lasting_memory.testing.stores import WrappedStore, embed
from tests.conftest import note
from tests.consolidation.conftest import TASK, append, consolidate, records
from tests.http.conftest import MEMORIES, NOTES, Open, kept, put
from tests.recall.talks import say

ALICE = Actor("alice", "acme")
AGENT = Author("agent", "alice", "run-1", "")
FACT, OLD = "The safe opens with tulip seven", "The safe opens with crocus six"
# Of the fact, and of its earlier wording.
SECRETS = ("tulip", "crocus")
BOBS, NAMED = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def talks(monkeypatch: pytest.MonkeyPatch) -> Platform:
    """The conversations of a platform without a server, where everybody may delete their own."""
    talks = Platform()
    monkeypatch.setattr(delete_for_good, "get_client", lambda: talks)
    monkeypatch.setattr(delete_for_good, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(platform, "acting_as_caller", lambda _: nullcontext())
    return talks


async def delete(
    api: httpx.AsyncClient, text: str = FACT, path: str = NOTES["path"], **more: Any
) -> httpx.Response:
    body = {"text": text, **more.pop("body", {})}
    params = {"path": path, **more.pop("params", {})}
    return await api.request("DELETE", "/memory/fact", params=params, json=body, **more)


async def deleted(api: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await delete(api, **more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def opened_on(store: BaseStore) -> httpx.AsyncClient:
    """The API on this store, as Alice."""
    return http_client(deployed(), store, SignedIn(identity="alice", org_id="acme", permissions=[]))


def stored(store: BaseStore) -> str:
    return json.dumps([[*place, value] for place, value in kept(store).items()], default=str)


def memory(store: BaseStore, began: journal.Began | None = None) -> Memory:
    return Memory(store, ALICE, MEMORIES, deployed(), began)


async def keep_record(store: BaseStore, files: dict[str, str], reason: str) -> None:
    notes = [record_module.note("taken_back", f"- {FACT}", "- three")]
    record = asdict(
        record_module.Record(
            "run", "2026-01-01", "2026-01-01", "done", reason, files=files, notes=notes
        )
    )
    await store.aput(namespaces.run_records(ALICE), "2026-01-01-run", record, index=False)


async def test_a_deleted_fact_is_nowhere_and_all_else_is_as_it_was(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    for lines in (
        [OLD],
        [OLD, "Likes tea"],
        [FACT, "Likes tea"],
        [FACT, "Likes tea", "Plays the cello"],
    ):
        assert (
            await put(api, "# Notes\n" + "".join(f"- {line}\n" for line in lines))
        ).status_code == 200
    await put(api, f"* {FACT}\n- Has a dog\n", "/memories/topics/home.md")
    await put(
        api,
        json.dumps({"name": "Alice", "hints": [FACT, "none"], "key": f"{FACT}"}),
        "/memories/things.json",
    )
    await put(api, f"- {FACT}\n", "/memories/gone.md")
    await api.delete("/memory/file", params={"path": "/memories/gone.md"})
    changes = [
        Changed("/a.md", "- one\n", f"- one\n- {FACT}\n- two\n"),
        Changed("/b.md", "", f"{FACT}\n"),
    ]
    declined = [
        Declined(Changed("/c.md", "", f"- {FACT}\n- three\n"), "2026-01-01"),
        Declined(changes[1], "2026-01-01"),
    ]
    reasons = {"/memories/a.md": {f"- {FACT}": "outdated", "- one": f"{FACT} says so"}}
    author = Author("consolidation", "alice", "run", "")
    proposal = Proposal(
        "p", "2026-01-01", MEMORIES[-1], author, changes, [], declined=declined, reasons=reasons
    )
    await memory(store).propose(proposal)
    diffs = {
        "/memories/a.md": f"@@ -1,1 +1,2 @@\n - one\n+- {FACT}",
        "/memories/c.md": "@@ -0,0 +1,1 @@\n+- three",
    }
    await keep_record(
        store, diffs, f"Left out: The person took this back: /memories/a.md: - {FACT}."
    )
    store.put(
        ("memories", "acme:bob"), "/notes.md", {"content": f"- {FACT}\n", "encoding": "utf-8"}
    )

    told = await deleted(api, params={"dry_run": "true"})
    assert told["deleted"] == {
        "files": 3, "revisions": 7, "proposals": 1, "consolidations": 1, "conversations": 0,
    }  # fmt: skip
    assert "tulip" in stored(store)
    await deleted(api, headers={"if-match": '"4"'})
    store.delete(("memories", "acme:bob"), "/notes.md")
    assert [word for word in SECRETS if word in stored(store)] == []

    content = (await api.get("/memory/file", params=NOTES)).json()["content"]
    assert content == "# Notes\n- Likes tea\n- Plays the cello\n"
    revisions = (await api.get("/memory/history", params=NOTES)).json()["revisions"]
    assert [each["revision"] for each in revisions] == [5, 4, 3, 2, 1]
    cello = revisions[1]["id"]
    assert (await api.post("/memory/undo", json={**NOTES, "changes": [cello]})).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).json()[
        "content"
    ] == "# Notes\n- Likes tea\n"
    profile = (await api.get("/memory/file", params={"path": "/memories/things.json"})).json()[
        "content"
    ]
    assert json.loads(profile) == {"name": "Alice", "hints": ["none"]}
    (left,) = await memory(store).proposals()
    assert [(each.before, each.after) for each in left.changes] == [("- one\n", "- one\n- two\n")]
    assert [each.change.after for each in left.declined] == ["- three\n"]
    (record,) = [
        value for place, value in kept(store).items() if place[0] == namespaces.run_records(ALICE)
    ]
    assert (record["files"], record["reason"]) == ({"/memories/c.md": diffs["/memories/c.md"]}, "")
    assert record["notes"] == [{"kind": "taken_back", "texts": ["- three"]}]
    assert (await delete(api)).status_code == 404, "it is nowhere"


SAFE = "Der Tresor öffnet mit Löwenzahn sieben"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_fact_is_deleted_in_whichever_normal_form_it_is_spelled(
    api: httpx.AsyncClient, store: BaseStore, form: Any
) -> None:
    other = unicodedata.normalize("NFD" if form == "NFC" else "NFC", SAFE)
    await put(api, f"- {unicodedata.normalize(form, SAFE)}\r\n- mag Öl\r\n")
    await put(api, f"1. {other}\n- tea\n", "/memories/topics/home.md")
    await put(api, json.dumps({"key": other, "oil": "Öl"}), "/memories/things.json")
    await deleted(api, text=SAFE)
    left = unicodedata.normalize("NFC", json.loads(json.dumps(stored(store))))
    assert "wenzahn sieben" not in left
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "- mag Öl\n"
    things = (await api.get("/memory/file", params={"path": "/memories/things.json"})).json()[
        "content"
    ]
    assert '"oil": "Öl"' in things, "and the others stay readable"


async def test_a_line_of_the_trash_goes_and_its_later_wording_stays(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    for line in (OLD, FACT):
        await put(api, f"- {line}\n- Likes tea\n")
    await deleted(api, text=OLD)
    assert "crocus" not in stored(store)
    assert FACT in (await api.get("/memory/file", params=NOTES)).json()["content"]
    assert (await api.get("/memory/trash")).json()["lines"] == []


@pytest.mark.parametrize(("body", "params", "headers", "status"), [
    ({"text": "  "}, {}, {}, 422), ({"text": "x" * 10_001}, {}, {}, 422),
    ({"text": FACT, "more": 1}, {}, {}, 422), ({"text": FACT}, {"path": "/policies/a.md"}, {}, 422),
    ({"text": FACT}, {"user_id": "bob"}, {}, 403), ({"text": "Never said"}, {}, {}, 404),
    ({"text": FACT}, {}, {"if-match": "7"}, 412),
    ({"text": FACT, "conversations": [BOBS]}, {}, {}, 404), ({"text": FACT, "conversations": [BOBS] * 101}, {}, {}, 422),
    ({"text": FACT, "conversations": ["bob's"]}, {}, {}, 422),
])  # fmt: skip
async def test_a_deletion_that_is_refused_changes_nothing(
    api: httpx.AsyncClient,
    store: BaseStore,
    talks: Platform,
    *,
    body: Any,
    params: Any,
    headers: Any,
    status: int,
) -> None:
    await put(api, f"- {FACT}\n")
    talks.talk("bob", thread_id=BOBS)
    before = kept(store)
    answer = await api.request(
        "DELETE", "/memory/fact", params={**NOTES, **params}, json=body, headers=headers
    )
    assert (answer.status_code, len(answer.text) < 400) == (status, True), answer.text
    assert kept(store) == before
    assert BOBS in talks.kept


async def test_shared_memory_has_no_facts_of_one_s_own(calling: Open) -> None:
    async with calling("alice", deployed(memory_scope="assistant")) as api:
        assert (await delete(api)).status_code == 409


async def test_a_fact_is_deleted_from_the_memory_of_every_assistant(
    calling: Open, store: BaseStore
) -> None:
    both = deployed(memory_scope="user+assistant")
    other = "11111111-2222-3333-4444-555555555555"
    async with calling("alice", both) as api:
        await put(api, f"- {FACT}\n- Likes tea\n")
        await put(api, f"- {FACT}\n", params={**NOTES, "assistant_id": other})
        await deleted(api)
    assert "tulip" not in stored(store)
    assert "Likes tea" in stored(store)


# --- Others who write meanwhile
# --------------------------------------------------------------------------------------


def acting_before(inner: BaseStore, wanted: str, do: Any) -> WrappedStore:
    """A store before whose first put of something with this word something happens."""
    done = False

    async def first(ops: list[Op]) -> None:
        nonlocal done
        puts = [str(op) for op in ops if isinstance(op, PutOp) and op.value is not None]
        if not done and any(wanted in each for each in puts):
            done = True
            await do()

    return WrappedStore(inner, before=first)


async def deleted_elsewhere(store: InMemoryStore) -> None:
    """Another process, which has its own locks, deletes it."""

    async def there() -> None:
        async with opened_on(store) as api:
            await deleted(api)

    await asyncio.to_thread(asyncio.run, there())


async def test_a_writer_in_another_process_who_had_read_it_does_not_bring_it_back() -> None:
    store = InMemoryStore()
    async with opened_on(store) as api:
        await put(api, f"- {FACT}\n- Likes tea\n")
    slow = acting_before(store, "Has a dog", lambda: deleted_elsewhere(store))
    began = journal.Began(ALICE)

    def adds(file: FileData | None) -> FileData:
        return FileData(
            content=(file["content"] if file else "") + "- Has a dog\n", encoding="utf-8"
        )

    with pytest.raises(RefusedWrite, match="deleted for good"):
        await journal.change(slow, MEMORIES, "/notes.md", adds, AGENT, began=began)
    assert "tulip" not in stored(store)
    async with opened_on(store) as api:
        assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "- Likes tea\n"
        await journal.change(store, MEMORIES, "/notes.md", adds, AGENT, began=journal.Began(ALICE))
        assert (await api.get("/memory/file", params=NOTES)).json()[
            "content"
        ] == "- Likes tea\n- Has a dog\n"


async def test_a_fact_that_another_process_puts_meanwhile_is_deleted_too(
    calling: Open, store: BaseStore
) -> None:
    async def other() -> None:
        began = journal.Began(ALICE)
        file = FileData(content=f"- {FACT}\n- Has a dog\n", encoding="utf-8")
        await journal.change(store, MEMORIES, "/late.md", lambda _: file, AGENT, began=began)
        await memory(store).propose(
            Proposal("p", "2026", MEMORIES[-1], AGENT, [Changed("/a.md", "", f"{FACT}\n")], [])
        )

    async with calling() as api:
        await put(api, f"- {FACT}\n- Likes tea\n")
    async with opened_on(acting_before(store, "'facts'", other)) as api:
        await deleted(api)
        assert (await api.get("/memory/file", params={"path": "/memories/late.md"})).json()[
            "content"
        ] == "- Has a dog\n"
    assert "tulip" not in stored(store)


async def test_a_proposal_and_a_record_of_a_run_from_before_are_not_kept(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, f"- {FACT}\n- Likes tea\n")
    began = journal.Began(ALICE)
    proposal = Proposal("p", "2026", MEMORIES[-1], AGENT, [Changed("/a.md", "", f"{FACT}\n")], [])
    slow = acting_before(store, "/a.md", lambda: deleted(api))
    with pytest.raises(RefusedWrite, match="deleted for good"):
        await memory(slow, began).propose(proposal)
    with pytest.raises(RefusedWrite, match="deleted for good"):
        await memory(store, began).propose(proposal)
    assert "tulip" not in stored(store)
    await memory(store, journal.Began(ALICE)).propose(proposal)


async def test_two_deletions_at_once_both_count(api: httpx.AsyncClient, store: BaseStore) -> None:
    others = [f"Fact number {n} about ships" for n in range(5)]
    await put(api, "".join(f"- {line}\n" for line in (FACT, *others, "Likes tea")))
    answers = await asyncio.gather(*(delete(api, text=line) for line in (FACT, *others)))
    assert [answer.status_code for answer in answers] == [200] * 6, [
        answer.text for answer in answers
    ]
    assert not [word for word in ("tulip", "ships") if word in stored(store)]
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "- Likes tea\n"


async def test_passages_of_deleted_conversations_leave_the_index(
    calling: Open, talks: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    index: IndexConfig = {"embed": embed, "dims": 3, "fields": ["text"]}
    store = InMemoryStore(index=index)
    for thread_id in ("stays", "gone", NAMED):
        say(talks, thread_id, FACT, "I see")
    await catch_up(store, talks, ALICE, agents=["agent"], began=journal.Began(ALICE))
    assert stored(store).count("tulip") == 3
    talks.remove("gone")
    async with opened_on(store) as api:
        await put(api, f"- {FACT}\n")
        told = await deleted(api, body={"conversations": [NAMED]})
    assert told["deleted"]["conversations"] == 1
    assert NAMED not in talks.kept
    assert stored(store).count("tulip") == 1, "of the conversation that stays"
    assert [key for place, key in kept(store) if place == namespaces.kept_out(ALICE)] == ["stays"]


def test_an_earlier_wording_has_half_of_the_words_and_is_no_fact_of_today() -> None:
    def revision(number: int, *lines: str) -> journal.Revision:
        parents = (str(number - 1),) if number > 1 else ()
        content = "".join(f"- {line}\n" for line in lines)
        return journal.Revision(
            number, str(number), parents, content, "utf-8", "", f"2026-01-0{number}", AGENT
        )

    past = [revision(1, OLD, "Likes tea"), revision(2, FACT, "Has a dog"), revision(3, FACT)]
    assert fact_of(f"* {FACT}", past[::-1], {FACT}).wordings == {FACT, OLD}
    assert fact_of(FACT, past[::-1], {FACT, OLD}).wordings == {FACT}


# --- Conversations, on a server
# --------------------------------------------------------------------------------------


async def everything(who: Person) -> str:
    """All that is kept of a person, but for their conversations."""
    told = (await who.ask("GET", "/memory/export")).json()
    proposals = await who.listed("proposals")
    return json.dumps(
        [{**told, "conversations": None}, proposals, await who.listed("consolidations")]
    )


async def forget_fact(
    who: Person, path: str = "/memories/preferences.md", **body: Any
) -> dict[str, Any]:
    return dict(await who.made("DELETE", "/memory/fact", {"text": FACT, **body}, path=path))


@pytest.mark.server
async def test_a_deleted_fact_is_not_consolidated_again_from_its_conversation(ada: Person) -> None:
    thread = await ada.thread()
    ada.model.script(FACT, [note(FACT)], [Text("noted")])
    await ada.turn(thread, FACT)
    told = await ada.made(
        "DELETE", "/memory/fact", {"text": FACT}, path="/memories/preferences.md", dry_run="true"
    )
    assert told["conversations"] == [thread]
    told = await forget_fact(ada)
    assert told["conversations"] == [thread]
    ada.model.clear()
    await ada.turn(thread, "And it rains in Lyon")
    await consolidate(ada, append("- It rains in Lyon"))
    read = [json.dumps(body) for body in ada.model.requests if TASK in json.dumps(body)]
    assert read, "what is said later is consolidated"
    assert not [body for body in read if "tulip" in body]
    assert "It rains in Lyon" in await everything(ada)
    await ada.made("POST", "/memory/consolidate", tidy="true")
    assert (await records(ada))[0]["status"] in {"done", "proposed", "undone"}
    assert "tulip" not in await everything(ada)


@pytest.mark.server
async def test_a_deleted_fact_is_not_consolidated_from_a_turn_that_is_under_way(
    ada: Person,
) -> None:
    await ada.write("/memories/preferences.md", f"- {FACT}\n- Likes tea\n")
    thread, answered = await ada.thread(), threading.Event()
    ada.model.script("You know my safe", after(answered, [note("late")]), [Text(f"Yes: {FACT}.")])
    turn = asyncio.create_task(ada.turn(thread, f"You know my safe. {FACT}"))
    await ada.model.asked("You know my safe")
    await forget_fact(ada)
    answered.set()
    messages = (await turn)["messages"]
    assert any("deleted for good" in str(message["content"]) for message in messages), (
        "what began before writes nothing"
    )
    ada.model.clear()
    await consolidate(ada, append(f"- {FACT}"))
    assert "tulip" not in await everything(ada)


@pytest.mark.server
async def test_a_consolidation_under_way_commits_nothing_of_it(ada: Person) -> None:
    thread, answered = await ada.thread(), threading.Event()
    await ada.write("/memories/preferences.md", f"- {FACT}\n")
    await ada.turn(thread, FACT)
    ada.model.script(TASK, after(answered, [append(f"- {FACT}")]), [Text("done")])
    going = asyncio.create_task(consolidate_scripted(ada))
    await ada.model.asked(TASK)
    await forget_fact(ada, conversations=[thread])
    answered.set()
    await going
    assert "tulip" not in json.dumps((await ada.ask("GET", "/memory/export")).json())
    assert "tulip" not in await everything(ada)


async def consolidate_scripted(who: Person) -> None:
    await who.say("go on", "consolidation_agent")


async def test_the_sources_of_the_other_lines_stay_known(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    known = {FACT: Source.UNCONFIRMED, "b": Source.CONFIRMED}
    file = FileData(content=f"- a\n- {FACT}\n- b\n", encoding="utf-8")
    vouch = vouch_new_by(known)
    await journal.change(store, MEMORIES, "/notes.md", lambda _: file, AGENT, vouch=vouch)
    await deleted(api)
    (first,) = [
        revision
        for revision in await journal.history(store, MEMORIES, "/notes.md")
        if revision.number == 1
    ]
    item = await store.aget(MEMORIES, "/notes.md")
    assert item is not None
    assert (first.sources, item.value["sources"]) == (".+", ".+")
