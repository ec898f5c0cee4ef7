"""An export: one document, whatever is in it. An import: what it creates, adds and keeps; what is
wrong writes nothing.
"""

import asyncio
import gc
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.deployment import DEFAULTS, Deployment
from lasting_memory.http import importing
from lasting_memory.http.export import document
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.conftest import stores
from tests.http.conftest import MEMORIES, NOTES, Open, exported, kept, put
from tests.http.test_importing import Creating

ALICE = Actor("alice", "acme")
HOSTILE = 'quote " backslash \\ NUL \x00 \u6c34 ]},{'


def talks(number: int, unreadable: str = "") -> Platform:
    """The platform, where Alice has that many conversations, of which the last two are deleted
    meanwhile.
    """
    platform = Platform()
    for n in range(number):
        platform.put(
            ALICE,
            f"{n:04}",
            "2026-01-01",
            [{"type": "human", "content": [{"type": "text", "text": HOSTILE}]}],
        )
    platform.put(Actor("bob", "acme"), "bob's", "2026-01-01")

    async def change(_: str, asked: Mapping[str, Any]) -> None:
        if asked["ids"]:
            assert asked["limit"] <= 20
            for n in (1, 2):
                platform.kept.pop(f"{number - n:04}", None)
            if unreadable in asked["ids"]:
                raise httpx.HTTPStatusError(
                    "", request=httpx.Request("GET", "/"), response=httpx.Response(500)
                )

    platform.before = change
    return platform


async def whole(store: BaseStore, client: Any, settings: Deployment | None = None) -> Any:
    parts = [part async for part in document(store, client, ALICE, settings or deployed())]
    assert len(parts) > len(client.kept) / 20
    return json.loads(b"".join(parts))


async def test_an_export_is_one_document_and_its_conversations_never_in_memory_at_once(
    store: BaseStore,
) -> None:
    settings, text = deployed(memory_scope="user+assistant"), 'quote " \u6c34 ]}'
    places = [settings.memory.namespace(ALICE, assistant) for assistant in ("a", "b")]
    for place in places:
        await journal.change(
            store, place, "/notes.md", lambda _: create_file_data(text), Author("agent")
        )
    store.put(
        settings.memory.namespace(Actor("bob", "acme"), "a"),
        "/notes.md",
        {**create_file_data("bob's")},
    )
    told = await whole(store, talks(1_042), settings)
    assert [(file["path"], file["assistant_id"]) for file in told["files"]] == [
        ("/memories/notes.md", "a"), ("/memories/notes.md", "b"),
    ]  # fmt: skip
    assert told["files"][1]["revisions"][0]["content"] == text
    assert [talk["thread_id"] for talk in told["conversations"]] == [
        f"{n:04}" for n in range(1_040)
    ]
    assert told["conversations"][0]["values"]["messages"][0]["content"][0]["text"] == HOSTILE


async def test_deleted_files_are_exported_and_not_imported(
    api: httpx.AsyncClient, calling: Open, store: BaseStore
) -> None:
    for text in ("one\n", "two\n"):
        await put(api, text)
        await put(api, text, "/memories/there.md")
    assert (await api.delete("/memory/file", params=NOTES)).status_code == 200
    told = await whole(store, talks(0))
    assert [file["path"] for file in told["files"]] == ["/memories/there.md"]
    (gone,) = told["deleted_files"]
    assert [(entry["revision"], entry["deleted"], entry["content"]) for entry in gone["revisions"]] == [
        (3, True, None), (2, False, "two\n"), (1, False, "one\n"),
    ]  # fmt: skip
    async with calling("bob") as bob:
        assert (await bob.post("/memory/import", json=told)).status_code == 200
        assert [file["path"] for file in (await bob.get("/memory")).json()["files"]] == [
            "/memories/there.md"
        ]
        there = {"path": "/memories/there.md"}
        assert (await bob.get("/memory/file", params=there)).json()["content"] == told["files"][0][
            "content"
        ]
        assert (await bob.get("/memory/history", params=NOTES)).status_code == 404


async def test_an_unreadable_file_and_conversation_are_named_and_end_no_export(
    api: httpx.AsyncClient, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "get_client", Creating)
    for path in ("/memories/a.md", "/memories/b.md", "/memories/c.md"):
        await put(api, "one\n", path)
    store.put(MEMORIES, "/b.md", {"content": 7})
    store.put(namespaces.journal(MEMORIES, "/b.md"), "00000001-z", {"path": "/b.md", "revision": 7})
    told = await whole(store, talks(50, unreadable="0007"))
    assert [file["path"] for file in told["files"]] == ["/memories/a.md", "/memories/c.md"]
    assert told["unreadable"] == [{"path": "/memories/b.md", "value": {"content": 7}}]
    assert [talk["thread_id"] for talk in told["conversations"]] == [f"{n:04}" for n in range(48)]
    assert [talk["thread_id"] for talk in told["conversations"] if "error" in talk] == ["0007"]
    imported = (await api.post("/memory/import", json=told)).json()
    assert [file["path"] for file in imported["files"]] == ["/memories/a.md", "/memories/c.md"]
    assert imported["conversations"] == {"created": 47, "there": 0, "left_out": 1}


# --- Import
# ----------------------------------------------------------------------------------------------------------


async def test_importing_creates_appends_what_lacks_and_keeps_the_rest(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, "# Notes\n- one\n- mine")
    await put(api, '{"name": "Alice"}', "/memories/profile.json")
    await put(api, "same\n", "/memories/same.md")
    document = exported(
        {"path": "/memories/notes.md", "content": "# Notes\n- one\n- theirs\n\n- more"},
        {"path": "/memories/profile.json", "content": '{"name": "Alicia"}'},
        {"path": "/memories/same.md", "content": "same\n", "encoding": "utf-8", "revisions": []},
        {"path": "/memories/new.md", "content": "new\n"},
        {"path": "/memories/pixel.png", "content": "iVBORw==", "encoding": "base64"},
    )
    done = (await api.post("/memory/import", json=document)).json()
    assert [(step["path"].removeprefix("/memories/"), step["action"]) for step in done["files"]] == [
        ("notes.md", "append"), ("profile.json", "keep"), ("same.md", "same"), ("new.md", "create"), ("pixel.png", "create"),
    ]  # fmt: skip
    content = (await api.get("/memory/file", params=NOTES)).json()["content"]
    assert content == "# Notes\n- one\n- mine\n- theirs\n- more\n"
    assert (await api.get("/memory/file", params={"path": "/memories/pixel.png"})).json()[
        "encoding"
    ] == "base64"
    assert (await api.get("/memory/history", params=NOTES)).json()["revisions"][0]["author"][
        "kind"
    ] == "person"
    again = (await api.post("/memory/import", json=document)).json()
    assert {step["action"] for step in again["files"]} <= {"keep", "same"}


@pytest.mark.parametrize("document", [
    {"version": 2, "files": []},
    exported(7),
    exported({"path": "/memories/a.md"}),
    exported({"path": "/memories/a.md", "content": "x", "encoding": "latin-1"}),
    exported({"path": "/memories/a.png", "content": "no base64!", "encoding": "base64"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/a.md", "content": "y"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/b.md", "content": "ghp_" + "a" * 36}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/profile.json", "content": "no"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/b.md", "content": "\ud800"}),
    exported(*({"path": f"/memories/{n}.md", "content": "x"} for n in range(DEFAULTS.max_files + 1))),
])  # fmt: skip
async def test_an_import_with_anything_wrong_writes_nothing(
    api: httpx.AsyncClient, store: BaseStore, document: Any
) -> None:
    headers = {"content-type": "application/json"}
    answer = await api.post("/memory/import", content=json.dumps(document), headers=headers)
    assert answer.status_code == 422, answer.text
    assert len(answer.json()["detail"]) < 400
    assert not kept(store)


@pytest.mark.parametrize("store", stores(pytest.mark.proof), indirect=True)
async def test_an_import_stops_no_request_of_others(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    # In the processor time of the loop's thread, which other load on the machine does not stretch.
    document = exported(
        *(
            {"path": f"/memories/topics/{n}.md", "content": f"- line {n}\n" * 200}
            for n in range(400)
        )
    )
    stalls, running = [0.0], True

    async def others() -> None:
        last = time.thread_time()
        while running:
            await asyncio.sleep(0.001)
            stalls.append(time.thread_time() - last)
            last = time.thread_time()

    gc.collect()
    gc.freeze()  # what thousands of earlier tests left is not looked through meanwhile
    waiting, started = asyncio.create_task(others()), time.thread_time()
    await asyncio.sleep(0)
    answer = await api.post("/memory/import", json=document)
    took, running = time.thread_time() - started, False
    await waiting
    gc.unfreeze()
    assert answer.status_code == 200
    assert len(kept(store)) >= 400
    assert max(stalls) < took / 10, (
        f"nobody else was served for {max(stalls):.2f} of {took:.2f} s of the loop's own work"
    )
