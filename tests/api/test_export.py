"""An export: one document, whatever is in it, that an import takes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from api.export import document
from memory import journal
from memory import namespaces as namespaces_module
from memory.identity import Actor, Author
from memory.namespaces import memories
from settings import (
    Settings,
)
from tests.api.calls import MEMORIES, NOTES, Open, put

HOSTILE = 'quote " backslash \\ NUL \x00 \u6c34 ]},{'


class Threads:
    """The platform's client, of somebody with that many conversations, of which the last two are deleted meanwhile."""

    def __init__(self, number: int, unreadable: str = "", status: int = 500) -> None:
        self.threads = self.http = self
        self.client = httpx.AsyncClient(base_url="http://test", transport=httpx.MockTransport(self._page))
        self.ids, self.most = [f"{n:04}" for n in range(number)], 0
        self.unreadable, self.status = unreadable, status

    async def search(self, *, limit: int, offset: int, metadata: dict[str, str], **_: Any) -> list[dict[str, Any]]:
        assert metadata == {"user_id": "alice", "org_id": "acme", "graph_id": "agent"}
        return [{"thread_id": thread_id} for thread_id in self.ids[offset : offset + limit]]

    def _page(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        assert asked["metadata"] == {"user_id": "alice", "org_id": "acme", "graph_id": "agent"}
        self.most = max(self.most, asked["limit"])
        if self.unreadable in asked["ids"]:
            return httpx.Response(self.status)
        left = [thread_id for thread_id in asked["ids"] if thread_id in self.ids[:-2]]
        values = {"messages": [{"type": "human", "content": [{"type": "text", "text": HOSTILE}]}]}
        return httpx.Response(200, json=[{"thread_id": thread_id, "values": values} for thread_id in left])


async def test_an_export_is_one_document_and_never_in_memory_as_a_whole(store: BaseStore) -> None:
    """An export is one document, whatever is in it, and never in memory as a whole."""
    settings = Settings(memory_scope="user+assistant")
    namespaces = [memories(Actor("alice", "acme"), assistant, settings) for assistant in ("a", "b")]
    for namespace in namespaces:
        await journal.change(store, namespace, "/notes.md", lambda _: create_file_data('quote " \u6c34 ]}'), Author("agent"))
    store.put(namespaces[0], "/odd.md", {"content": 7})
    store.put(memories(Actor("bob", "acme"), "a", settings), "/notes.md", {**create_file_data("bob's")})
    client: Any = Threads(1_042)
    parts = [part async for part in document(store, client, Actor("alice", "acme"), settings)]
    whole = json.loads(b"".join(parts))
    assert len(parts) > 2
    assert client.most == 20
    assert [(file["path"], file["assistant_id"]) for file in whole["files"]] == [
        ("/memories/notes.md", "a"), ("/memories/odd.md", "a"), ("/memories/notes.md", "b"),
    ]  # fmt: skip
    assert whole["files"][1]["value"] == {"content": 7}
    assert whole["files"][2]["revisions"][0]["content"] == 'quote " \u6c34 ]}'
    assert [talk["thread_id"] for talk in whole["conversations"]] == client.ids[:-2]
    assert whole["conversations"][0]["values"]["messages"][0]["content"][0]["text"] == HOSTILE
    await client.client.aclose()


async def test_an_export_has_the_history_of_deleted_files(api: httpx.AsyncClient, calling: Open, store: BaseStore) -> None:
    """An export has the history of deleted files, and importing it does not bring them back."""
    for text in ("one\n", "two\n"):
        await put(api, text)
        await put(api, text, "/memories/there.md")
    assert (await api.delete("/memory/file", params=NOTES)).status_code == 200
    client: Any = Threads(0)
    parts = [part async for part in document(store, client, Actor("alice", "acme"), Settings())]
    whole = json.loads(b"".join(parts))
    assert [file["path"] for file in whole["files"]] == ["/memories/there.md"]
    by_path = {file["path"]: file["revisions"] for file in whole["deleted_files"]}
    assert by_path.keys() == {"/memories/notes.md"}
    for revisions in by_path.values():
        assert [(entry["revision"], entry["deleted"], entry["content"]) for entry in revisions] == [
            (3, True, None),
            (2, False, "two\n"),
            (1, False, "one\n"),
        ]
    async with calling("bob") as bob:
        assert (await bob.post("/memory/import", json=whole)).status_code == 200
        assert [file["path"] for file in (await bob.get("/memory")).json()["files"]] == ["/memories/there.md"]
        there = {"path": "/memories/there.md"}
        assert (await bob.get("/memory/file", params=there)).json()["content"] == whole["files"][0]["content"]
        assert (await bob.get("/memory/history", params=NOTES)).status_code == 404


async def test_one_unreadable_file_and_conversation_are_named_and_end_nothing(api: httpx.AsyncClient, store: BaseStore) -> None:
    for path in ("/memories/a.md", "/memories/b.md", "/memories/c.md"):
        await put(api, "one\n", path)
    store.put(MEMORIES, "/b.md", {"content": 7})
    store.put(namespaces_module.journal(MEMORIES, "/b.md"), "00000001-z", {"path": "/b.md", "revision": 7})
    client: Any = Threads(50, unreadable="0007")
    whole = json.loads(b"".join([part async for part in document(store, client, Actor("alice", "acme"), Settings())]))
    assert [file["path"] for file in whole["files"]] == ["/memories/a.md", "/memories/b.md", "/memories/c.md"]
    assert [file["path"] for file in whole["files"] if "content" not in file] == ["/memories/b.md"]
    assert [talk["thread_id"] for talk in whole["conversations"]] == client.ids[:-2]
    assert [talk["thread_id"] for talk in whole["conversations"] if "error" in talk] == ["0007"]
    imported = (await api.post("/memory/import", json=whole)).json()
    assert [file["path"] for file in imported["files"]] == ["/memories/a.md", "/memories/c.md"]
    await client.client.aclose()


async def test_an_outage_is_nobody_s_unreadable_conversation(store: BaseStore) -> None:
    client: Any = Threads(50, unreadable="0007", status=503)
    with pytest.raises(httpx.HTTPStatusError):
        assert [part async for part in document(store, client, Actor("alice", "acme"), Settings())] == []
    await client.client.aclose()
