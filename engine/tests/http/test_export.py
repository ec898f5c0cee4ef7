"""The document of an export: all of a person's, and what cannot be read is named in it."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.deployment import Deployment
from lasting_memory.http import importing
from lasting_memory.http.export import document
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.http.conftest import MEMORIES, NOTES, Open, put
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
