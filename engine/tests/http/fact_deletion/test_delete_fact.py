"""A fact that is deleted for good is nowhere, and all else is as it was."""

import json
import unicodedata
from dataclasses import asdict
from typing import Any

import httpx
import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from lasting_memory.consolidation import record as record_module
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import fact_of
from lasting_memory.memory.proposals import Changed, Declined, Proposal
from lasting_memory.memory.vouches import vouch_new_by
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.http.conftest import MEMORIES, NOTES, Open, kept, put
from tests.http.fact_deletion.conftest import (
    AGENT,
    ALICE,
    FACT,
    OLD,
    delete,
    deleted,
    memory,
    stored,
)

# Of the fact, and of its earlier wording.
SECRETS = ("tulip", "crocus")
BOBS, NAMED = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"


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


@pytest.mark.parametrize(("reason", "count"), [("nothing new", 0), (f"- {FACT} was there", 1)])
async def test_a_record_from_before_notes_counts_only_if_it_quotes_the_fact(
    store: BaseStore, reason: str, count: int
) -> None:
    stored_record = {"id": "run", "reason": reason, "files": {}}
    await store.aput(namespaces.run_records(ALICE), "run", stored_record)
    fact = fact_of(f"- {FACT}", [], [])
    writer = journal.Writer(ALICE)
    assert await record_module.erase_from_records(store, ALICE, fact, writer, dry_run=True) == count
