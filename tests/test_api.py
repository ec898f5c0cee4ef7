"""A person's own view of their memory over HTTP: what may be asked, what becomes of it, and that it is theirs alone."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from starlette.types import Receive, Scope, Send

from api import build_api
from memory import epochs, platform, scopes, stored
from memory.consensus import LoggedFile
from memory.export import document
from memory.files import acarry_out
from memory.journal import Journal
from settings import (
    MAX_ASSISTANTS,
    MAX_BODY_BYTES,
    MAX_DIFF_CHARS,
    MAX_FILE_BYTES,
    MAX_IMPORT_BYTES,
    MAX_MEMORY_FILES,
    REVISIONS_KEPT,
    Settings,
)
from tests.dev_server import DevServer, dev_token, run_turn
from tests.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, tool_results

MEMORIES = ("memories", "acme:alice")
NOTES = {"path": "/memories/notes.md"}


class Caller(dict[str, Any]):
    """A signed-in user as the platform hands it to a custom route."""

    is_authenticated = True

    @property
    def identity(self) -> str:
        return str(self["identity"])


Open = Callable[..., Any]


@pytest.fixture
def calling(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the API, without a platform around it, as somebody."""

    async def the_store() -> BaseStore:
        return store

    monkeypatch.setattr(platform, "store", the_store)

    @asynccontextmanager
    async def opened(
        identity: str | None = "alice",
        settings: Settings = Settings(),  # noqa: B008  # frozen
        **claims: Any,
    ) -> AsyncIterator[httpx.AsyncClient]:
        app = build_api(settings)

        async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
            user = None if identity is None else Caller({"identity": identity, "org_id": "acme", "permissions": [], **claims})
            await app({**scope, "user": user}, receive, send)

        transport = httpx.ASGITransport(signed_in)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client

    return opened


@pytest.fixture
async def api(calling: Open) -> AsyncIterator[httpx.AsyncClient]:
    async with calling() as client:
        yield client


async def put(client: httpx.AsyncClient, content: str, path: str = "/memories/notes.md", **more: Any) -> httpx.Response:
    return await client.put("/memory/file", **{"params": {"path": path}, "json": {"content": content}, **more})


def kept(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


async def test_a_file_is_written_listed_read_changed_undone_deleted_and_brought_back(api: httpx.AsyncClient) -> None:
    assert (await put(api, "one\n")).json() == {"path": "/memories/notes.md", "revision": 1}
    assert (await put(api, "two\n")).json()["revision"] == 2
    (listed,) = (await api.get("/memory")).json()["files"]
    assert (listed["path"], listed["bytes"], listed["revision"]) == ("/memories/notes.md", 4, 2)
    read = await api.get("/memory/file", params=NOTES)
    assert (read.json()["content"], read.headers["etag"], read.headers["cache-control"]) == ("two\n", '"2"', "no-store")
    assert (await api.get("/memory/file", params={**NOTES, "revision": 1})).json()["content"] == "one\n"
    undone = await api.post("/memory/undo", json={**NOTES, "revision": 1})
    assert undone.json()["revision"] == 3
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "one\n"
    assert (await api.delete("/memory/file", params=NOTES)).json()["revision"] == 4
    assert (await api.get("/memory/file", params=NOTES)).status_code == 404
    assert (await api.get("/memory")).json()["files"] == []
    assert (await api.get("/memory/file", params={**NOTES, "revision": 4})).json()["content"] is None
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 2})).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "two\n"
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 4})).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).status_code == 404


async def test_the_history_says_who_did_what_and_when(api: httpx.AsyncClient, calling: Open, store: BaseStore) -> None:
    journal = Journal(LoggedFile(MEMORIES, "/notes.md"))
    agent = scopes.Author("agent", "alice", "run-1", "thread-1")
    await acarry_out(store, journal.change(lambda _: create_file_data("one\n"), agent))
    await put(api, "one\ntwo\n")
    async with calling("root", Settings(operators=frozenset({"root"}))) as root:
        await put(root, "two\n", params={**NOTES, "user_id": "alice", "org_id": "acme"})
    found = (await api.get("/memory/history", params=NOTES)).json()["revisions"]
    assert [(entry["revision"], entry["author"]["kind"], entry["author"]["user_id"]) for entry in found] == [
        (3, "operator", "root"),
        (2, "person", "alice"),
        (1, "agent", "alice"),
    ]
    assert found[2]["author"]["run_id"] == "run-1"
    assert found[2]["author"]["thread_id"] == "thread-1"
    assert ["+two" in entry["diff"] for entry in found] == [False, True, False]
    assert "-one" in found[0]["diff"]
    assert found[2]["diff"].endswith("+one\n")
    assert all(entry["at"] and not entry["deleted"] for entry in found)


async def test_a_long_history_is_its_last_revisions_and_a_long_diff_its_beginning(api: httpx.AsyncClient) -> None:
    # As many repeated lines as a file may have: the comparison that takes minutes for them is not the one that is used.
    await put(api, "x\n" * (MAX_FILE_BYTES // 2))
    long = (await api.get("/memory/history", params=NOTES)).json()["revisions"][0]["diff"]
    assert long.startswith(f"@@ -1,0 +1,{MAX_FILE_BYTES // 2} @@\n+x\n+x\n")
    assert long[MAX_DIFF_CHARS:].endswith(" more]")
    for number in range(REVISIONS_KEPT + 5):
        await put(api, f"{number}\n")
    found = (await api.get("/memory/history", params=NOTES)).json()["revisions"]
    assert len(found) == REVISIONS_KEPT
    assert found[-1]["diff"] is None, "of the oldest it is not known what it changed"
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 1})).status_code == 404


async def test_the_history_says_how_many_revisions_were_removed_to_make_room(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "BUDGET", 100_000)

    async def dropped(path: str) -> tuple[int, int]:
        told = (await api.get("/memory/history", params={"path": path})).json()
        return len(told["revisions"]), told["revisions_dropped"]

    for number in range(40):
        assert (await put(api, f"{number}{'x' * 5_000}")).status_code == 200
        assert (await put(api, f"{number}", "/memories/other.md")).status_code == 200
    kept, gone = await dropped("/memories/notes.md")
    assert (kept + gone, gone > 0) == (40, True)
    for number in range(REVISIONS_KEPT + 1):
        await put(api, f"{number}")
    assert await dropped("/memories/notes.md") == (REVISIONS_KEPT, 0), "that there are no older ones is usual"


async def test_a_value_put_around_the_journal_is_seen_changed_and_deleted(api: httpx.AsyncClient, store: BaseStore) -> None:
    store.put(MEMORIES, "/notes.md", {**create_file_data("outside")})
    store.put(MEMORIES, "/odd.md", {"content": 7})
    listed = {entry["path"]: entry for entry in (await api.get("/memory")).json()["files"]}
    assert listed["/memories/notes.md"]["revision"] is None
    assert "not a file" in listed["/memories/odd.md"]["error"]
    assert (await api.get("/memory/history", params=NOTES)).json()["revisions"] == []
    assert (await put(api, "mine")).json()["revision"] == 2
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 1})).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "outside"
    odd = {"path": "/memories/odd.md"}
    assert (await api.get("/memory/file", params=odd)).status_code == 409
    assert (await put(api, "x", "/memories/odd.md")).status_code == 422
    assert (await api.delete("/memory/file", params=odd)).status_code == 200
    assert store.get(MEMORIES, "/odd.md") is None


async def test_deleting_a_file_leaves_the_files_below_its_name(api: httpx.AsyncClient) -> None:
    await put(api, "1", "/memories/a")
    await put(api, "2", "/memories/a/b")
    assert (await api.delete("/memory/file", params={"path": "/memories/a"})).status_code == 200
    assert [entry["path"] for entry in (await api.get("/memory")).json()["files"]] == ["/memories/a/b"]
    assert (await api.delete("/memory/file", params={"path": "/memories/a"})).status_code == 404


async def test_a_write_that_expects_another_revision_is_refused(api: httpx.AsyncClient) -> None:
    await put(api, "one")
    assert (await put(api, "two", headers={"If-Match": '"1"'})).status_code == 200
    refused = await put(api, "three", headers={"If-Match": "1"})
    assert refused.status_code == 412
    assert "revision 2" in refused.json()["detail"]
    assert (await api.delete("/memory/file", params=NOTES, headers={"If-Match": '"1"'})).status_code == 412
    assert (await put(api, "x", "/memories/new.md", headers={"If-Match": '"1"'})).status_code == 412
    assert (await put(api, "x", "/memories/new.md", headers={"If-Match": "0"})).status_code == 200
    answers = await asyncio.gather(*(put(api, f"{n}", headers={"If-Match": '"2"'}) for n in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    assert (await api.get("/memory/file", params=NOTES)).json()["revision"] == 3


BAD_PATHS = [
    "", "/", "/memories", "/memories/", "memories/a.md", "/memories//a.md", "/memories/../policies/a.md", "/memories/./a.md",
    "/policies/a.md", "/skills/a.md", "/memories/a\x00b.md", "/memories/a\nb.md", "/memories/" + "x" * 600, "/memories/a/",
]  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS)
async def test_a_bad_path_is_refused_by_every_route_and_changes_nothing(
    api: httpx.AsyncClient, store: BaseStore, path: str
) -> None:
    params = {"path": path}
    answers = [
        await api.get("/memory/file", params=params),
        await api.put("/memory/file", params=params, json={"content": "x"}),
        await api.delete("/memory/file", params=params),
        await api.get("/memory/history", params=params),
        await api.post("/memory/undo", json={**params, "revision": 1}),
    ]
    assert [answer.status_code for answer in answers] == [400] * 5
    assert all("\n" not in answer.json()["detail"] for answer in answers)
    imported = await api.post("/memory/import?dry_run=false", json=exported({"path": path, "content": "x"}))
    assert imported.status_code == 422
    assert not kept(store)


async def test_half_a_character_in_a_path_is_refused_with_an_answer_that_can_be_sent(api: httpx.AsyncClient) -> None:
    for path in ("/memories/\ud800.md", "/memories//\ud800"):
        body, headers = json.dumps({"path": path, "revision": 1}), {"content-type": "application/json"}
        assert (await api.post("/memory/undo", content=body, headers=headers)).status_code == 400


async def test_an_identity_that_no_store_could_keep_is_refused(calling: Open, store: BaseStore) -> None:
    async with calling("root", permissions=[scopes.OPERATE]) as operator:
        for named in ({"user_id": "ali\x00ce"}, {"org_id": "ac\x00me"}):
            for answer in (await operator.get("/memory", params=named), await put(operator, "x", params={**NOTES, **named})):
                assert answer.status_code == 400
                assert "NUL" in answer.json()["detail"]
    assert not kept(store)


@pytest.mark.parametrize("query", [
    "", "path=%2Fmemories%2F%ff.md", "path=/memories/a.md&path=/memories/b.md", "path=/memories/a.md&recursive=1",
    "path=/memories/a.md&assistant_id=7", "path=/memories/a.md&assistant_id=", "Path=/memories/a.md",
])  # fmt: skip
async def test_a_bad_query_is_refused(api: httpx.AsyncClient, store: BaseStore, query: str) -> None:
    assert (await api.put(f"/memory/file?{query}", json={"content": "x"})).status_code == 400
    assert not kept(store)


@pytest.mark.parametrize(("body", "kind", "status"), [
    (b"", "application/json", 400),
    (b"{", "application/json", 400),
    (b"\xff\xfe", "application/json", 400),
    (b"[" * 100_000, "application/json", 400),
    (b'["content"]', "application/json", 400),
    (b'{"content": "x"}', "text/plain", 415),
    (b'{"content": "x"}', "", 415),
    (b'{"content": 7}', "application/json", 422),
    (b'{"content": null}', "application/json", 422),
    (b"{}", "application/json", 422),
    (b'{"content": "x", "encoding": "base64"}', "application/json", 422),
    (b'{"content": "a\\u0000b"}', "application/json", 422),
    (b'{"content": "\\ud800"}', "application/json", 422),
    (b'{"content": "' + b"x" * (MAX_FILE_BYTES + 1) + b'"}', "application/json", 422),
    (b'{"content": "key AKIAABCDEFGHIJKLMNOP"}', "application/json", 422),
    (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
])  # fmt: skip
async def test_a_bad_body_is_refused(api: httpx.AsyncClient, store: BaseStore, body: bytes, kind: str, status: int) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = await api.put("/memory/file", params=NOTES, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"detail"}
    assert "AKIA" not in answer.text
    assert not kept(store)


async def test_a_body_without_end_is_not_read_to_its_end(api: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536

    answer = await api.put(
        "/memory/file", params=NOTES, content=endless(), headers={"content-type": "application/json; charset=utf-8"}
    )
    assert answer.status_code == 413
    assert sent < 2 * MAX_BODY_BYTES


@pytest.mark.parametrize(("body", "status"), [
    ({"path": "/memories/notes.md"}, 422),
    ({"revision": 1}, 422),
    ({"path": 7, "revision": 1}, 400),
    ({"path": "/memories/notes.md", "revision": 0}, 404),
    ({"path": "/memories/notes.md", "revision": 99}, 404),
    ({"path": "/memories/notes.md", "revision": -1}, 422),
    ({"path": "/memories/notes.md", "revision": True}, 422),
    ({"path": "/memories/notes.md", "revision": 1.5}, 422),
    ({"path": "/memories/notes.md", "revision": "x"}, 422),
    ({"path": "/memories/notes.md", "revision": [1]}, 422),
    ({"path": "/memories/notes.md", "revision": 10**30}, 404),
    ({"path": "/memories/other.md", "revision": 1}, 404),
])  # fmt: skip
async def test_undo_needs_a_revision_that_there_is(api: httpx.AsyncClient, body: dict[str, Any], status: int) -> None:
    await put(api, "one")
    assert (await api.post("/memory/undo", json=body)).status_code == status
    assert (await api.get("/memory/file", params=NOTES)).json()["revision"] == 1


async def test_what_must_not_be_remembered_is_not_remembered_by_undoing_either(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    secret = create_file_data("key AKIAABCDEFGHIJKLMNOP")
    await acarry_out(store, Journal(LoggedFile(MEMORIES, "/notes.md")).change(lambda _: secret, scopes.Author("agent")))
    await put(api, "clean")
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 1})).status_code == 422
    assert (await put(api, "{}", "/memories/profile.json")).status_code == 200
    assert (await put(api, '{"shoe": 1}', "/memories/profile.json")).status_code == 422


ROUTES = [
    ("GET", "/memory", {}),
    ("GET", "/memory/file", NOTES),
    ("PUT", "/memory/file", NOTES),
    ("DELETE", "/memory/file", NOTES),
    ("GET", "/memory/history", NOTES),
    ("POST", "/memory/undo", {}),
    ("GET", "/memory/export", {}),
    ("POST", "/memory/import", {}),
    ("DELETE", "/memory", {}),
]


def body_for(method: str, path: str) -> dict[str, Any] | None:
    bodies: dict[str, Any] = {"/memory/file": {"content": "mallory's"}, "/memory/undo": {**NOTES, "revision": 1}}
    return {**bodies, "/memory/import": exported()}.get(path) if method in {"PUT", "POST"} else None


@pytest.mark.parametrize("route", ROUTES)
async def test_nobody_but_an_operator_names_somebody_and_nobody_unknown_gets_in(
    calling: Open, api: httpx.AsyncClient, store: BaseStore, route: tuple[str, str, dict[str, str]]
) -> None:
    method, path, params = route
    await put(api, "alice's")
    before = kept(store)
    for identity in ("mallory", "alice"):
        async with calling(identity) as client:
            for named in ({"user_id": "alice"}, {"org_id": "acme"}, {"user_id": "alice", "org_id": "acme"}):
                answer = await client.request(method, path, params={**params, **named}, json=body_for(method, path))
                assert answer.status_code == 403
                assert "alice's" not in answer.text
    for nobody in (None, ""):
        async with calling(nobody) as client:
            answer = await client.request(method, path, params=params, json=body_for(method, path))
            assert answer.status_code == 401
    assert kept(store) == before


async def test_people_see_and_change_their_own_alone(calling: Open, api: httpx.AsyncClient) -> None:
    await put(api, "alice's")
    async with calling("bob") as bob, calling("alice", org_id="globex") as elsewhere:
        for client in (bob, elsewhere):
            assert (await client.get("/memory")).json()["files"] == []
            assert (await client.get("/memory/file", params=NOTES)).status_code == 404
            assert (await client.get("/memory/history", params=NOTES)).status_code == 404
            assert (await client.delete("/memory/file", params=NOTES)).status_code == 404
            assert (await client.post("/memory/undo", json={**NOTES, "revision": 1})).status_code == 404
        await asyncio.gather(put(bob, "bob's"), put(elsewhere, "elsewhere's"), put(api, "alice's again"))
        contents = [(await who.get("/memory/file", params=NOTES)).json()["content"] for who in (api, bob, elsewhere)]
        assert contents == ["alice's again", "bob's", "elsewhere's"]


async def test_an_operator_names_a_person_and_otherwise_is_themselves(
    calling: Open, api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, "alice's")
    async with calling("root", permissions=[scopes.OPERATE]) as root:
        named = {**NOTES, "user_id": "alice", "org_id": "acme"}
        assert (await root.get("/memory/file", params=named)).json()["content"] == "alice's"
        assert (await root.get("/memory/file", params=NOTES)).status_code == 404
        assert (await root.get("/memory", params={"user_id": ""})).status_code == 400, "not the operator's own"
        assert (await root.get("/memory", params={"user": "alice"})).status_code == 400
        assert (await root.get("/memory", params={"user_id": "x" * 2000})).status_code == 400
        await put(root, "root's")
    assert store.get(("memories", "default:root"), "/notes.md")


@pytest.mark.parametrize(("method", "path", "params"), [route for route in ROUTES if route[1] != "/memory/export"][:-1])
async def test_where_memory_is_shared_nobody_has_files_of_their_own(
    calling: Open, store: BaseStore, method: str, path: str, params: dict[str, str]
) -> None:
    async with calling(settings=Settings(memory_scope="assistant", shared_writes="allow")) as client:
        answer = await client.request(method, path, params=params, json=body_for(method, path))
        assert answer.status_code == 409
        assert "MEMORY_SCOPE=assistant" in answer.json()["detail"]
    assert not kept(store)


async def test_memory_with_each_assistant_is_named_by_the_assistant(calling: Open, store: BaseStore) -> None:
    other = "11111111-2222-3333-4444-555555555555"
    async with calling(settings=Settings(memory_scope="user+assistant")) as client:
        await put(client, "default's")
        await put(client, "other's", params={**NOTES, "assistant_id": other.upper()})
        assert (await client.get("/memory/file", params=NOTES)).json()["content"] == "default's"
        assert (await client.get("/memory/file", params={**NOTES, "assistant_id": other})).json()["content"] == "other's"
        assert (await client.get("/memory", params={"assistant_id": "a:b"})).status_code == 400
    assert store.get(("memories", f"{other}:acme:alice"), "/notes.md")


async def test_no_request_begins_memory_with_more_assistants_than_the_limit(calling: Open) -> None:
    ids = [f"11111111-2222-3333-4444-{number:012}" for number in range(MAX_ASSISTANTS + 1)]
    async with calling(settings=Settings(memory_scope="user+assistant")) as client:
        answers = [await put(client, "x", params={**NOTES, "assistant_id": assistant}) for assistant in ids]
        assert [answer.status_code for answer in answers] == [200] * MAX_ASSISTANTS + [422]
        assert f"{MAX_ASSISTANTS} is the limit" in answers[-1].json()["detail"]
        last = {"assistant_id": ids[-1], "dry_run": "false"}
        body = exported({"path": "/memories/a.md", "content": "x"})
        assert (await client.post("/memory/import", params=last, json=body)).status_code == 422
        assert (await put(client, "y", params={**NOTES, "assistant_id": ids[0]})).status_code == 200
        assert (await put(client, "y")).status_code == 200, "nobody has to name the default one"


async def test_the_person_edits_also_where_agents_may_not(calling: Open) -> None:
    async with calling(settings=Settings(memory_writes="background")) as client:
        assert (await put(client, "mine")).status_code == 200


async def test_a_request_that_was_on_its_way_when_the_person_was_forgotten_writes_nothing(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b'{"content": '
        await epochs.count_up(store, scopes.Actor("alice", "acme"))
        yield b'"late"}'

    answer = await api.put("/memory/file", params=NOTES, content=slow(), headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "deleted since" in answer.json()["detail"]
    assert [place for place in kept(store) if place[0][0] != "epoch"] == []


HOSTILE = 'quote " backslash \\ NUL \x00 \u6c34 ]},{'


class Threads:
    """The platform's client, of somebody with that many conversations, of which the last two are deleted meanwhile."""

    def __init__(self, number: int) -> None:
        self.threads = self.http = self
        self.client = httpx.AsyncClient(base_url="http://test", transport=httpx.MockTransport(self._page))
        self.ids, self.most = [f"{n:04}" for n in range(number)], 0

    async def search(self, *, limit: int, offset: int, metadata: dict[str, str], **_: Any) -> list[dict[str, Any]]:
        assert metadata == {"user_id": "alice", "org_id": "acme", "graph_id": "agent"}
        return [{"thread_id": thread_id} for thread_id in self.ids[offset : offset + limit]]

    def _page(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        assert asked["metadata"] == {"user_id": "alice", "org_id": "acme", "graph_id": "agent"}
        self.most = max(self.most, asked["limit"])
        left = [thread_id for thread_id in asked["ids"] if thread_id in self.ids[:-2]]
        values = {"messages": [{"type": "human", "content": [{"type": "text", "text": HOSTILE}]}]}
        return httpx.Response(200, json=[{"thread_id": thread_id, "values": values} for thread_id in left])


async def test_an_export_is_one_document_whatever_is_in_it_and_never_in_memory_as_a_whole(store: BaseStore) -> None:
    settings = Settings(memory_scope="user+assistant")
    namespaces = [scopes.memories(scopes.Actor("alice", "acme"), assistant, settings) for assistant in ("a", "b")]
    for namespace in namespaces:
        journal = Journal(LoggedFile(namespace, "/notes.md"))
        await acarry_out(store, journal.change(lambda _: create_file_data('quote " \u6c34 ]}'), scopes.Author("agent")))
    store.put(namespaces[0], "/odd.md", {"content": 7})
    store.put(scopes.memories(scopes.Actor("bob", "acme"), "a", settings), "/notes.md", {**create_file_data("bob's")})
    client: Any = Threads(1_042)
    parts = [part async for part in document(store, client, scopes.Actor("alice", "acme"), settings)]
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


async def test_an_export_has_the_history_of_deleted_files_and_importing_it_does_not_bring_them_back(
    api: httpx.AsyncClient, calling: Open, store: BaseStore
) -> None:
    for text in ("one\n", "two\n"):
        await put(api, text)
        await put(api, text, "/memories/there.md")
        await put(api, text, "/memories/old.md")
    for path in ("/memories/notes.md", "/memories/old.md"):
        assert (await api.delete("/memory/file", params={"path": path})).status_code == 200
    for item in store.search(scopes.journal(MEMORIES, "/old.md")):  # as version 0.1 wrote it
        store.put(item.namespace, item.key, {key: item.value[key] for key in item.value if key not in {"path", "deleted"}})
    client: Any = Threads(0)
    parts = [part async for part in document(store, client, scopes.Actor("alice", "acme"), Settings())]
    whole = json.loads(b"".join(parts))
    assert [file["path"] for file in whole["files"]] == ["/memories/there.md"]
    found = {file["path"]: file["revisions"] for file in whole["deleted_files"]}
    assert found.keys() == {"/memories/notes.md", None}
    for revisions in found.values():
        assert [(entry["revision"], entry["deleted"], entry["content"]) for entry in revisions] == [
            (3, True, None),
            (2, False, "two\n"),
            (1, False, "one\n"),
        ]
    async with calling("bob") as bob:
        assert (await bob.post("/memory/import?dry_run=false", json=whole)).status_code == 200
        assert [file["path"] for file in (await bob.get("/memory")).json()["files"]] == ["/memories/there.md"]
        there = {"path": "/memories/there.md"}
        assert (await bob.get("/memory/file", params=there)).json()["content"] == whole["files"][0]["content"]
        assert (await bob.get("/memory/history", params=NOTES)).status_code == 404


def exported(*files: Any) -> dict[str, Any]:
    return {"version": 1, "files": list(files)}


async def test_importing_creates_appends_what_lacks_and_keeps_the_rest(api: httpx.AsyncClient, store: BaseStore) -> None:
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
    before = kept(store)
    for query in ("", "?dry_run=true"):
        tried = (await api.post(f"/memory/import{query}", json=document)).json()
        assert tried["dry_run"] is True
        assert kept(store) == before
    assert [(step["path"].removeprefix("/memories/"), step["action"]) for step in tried["files"]] == [
        ("notes.md", "append"), ("profile.json", "keep"), ("same.md", "same"), ("new.md", "create"), ("pixel.png", "create"),
    ]  # fmt: skip
    assert "+- theirs" in tried["files"][0]["diff"]
    assert tried["files"][1]["diff"] == tried["files"][2]["diff"] == ""
    done = (await api.post("/memory/import?dry_run=false", json=document)).json()
    assert done == {**tried, "dry_run": False}
    content = (await api.get("/memory/file", params=NOTES)).json()["content"]
    assert content == "# Notes\n- one\n- mine\n- theirs\n- more\n"
    assert (await api.get("/memory/file", params={"path": "/memories/pixel.png"})).json()["encoding"] == "base64"
    assert (await api.get("/memory/history", params=NOTES)).json()["revisions"][0]["author"]["kind"] == "person"
    again = (await api.post("/memory/import?dry_run=false", json=document)).json()
    assert {step["action"] for step in again["files"]} <= {"keep", "same"}


@pytest.mark.parametrize("document", [
    {},
    {"version": 2, "files": []},
    {"version": 1, "files": {}},
    exported(7),
    exported({"path": "/memories/a.md"}),
    exported({"path": "/memories/a.md", "content": ["x"]}),
    exported({"path": "/memories/a.md", "content": "x", "encoding": "latin-1"}),
    exported({"path": "/memories/a.md", "content": "x", "encoding": ["utf-8"]}),
    exported({"path": "/memories/a.png", "content": "no base64!", "encoding": "base64"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/a.md", "content": "y"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/b.md", "content": "ghp_" + "a" * 36}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/profile.json", "content": "no"}),
    exported({"path": "/memories/a.md", "content": "x"}, {"path": "/memories/b.md", "content": "\ud800"}),
    exported(*({"path": f"/memories/{n}.md", "content": "x"} for n in range(MAX_MEMORY_FILES + 1))),
    exported(*({"path": f"/memories/{n}.md", "content": "x" * MAX_FILE_BYTES} for n in range(17))),
])  # fmt: skip
async def test_an_import_with_anything_wrong_writes_nothing(api: httpx.AsyncClient, store: BaseStore, document: Any) -> None:
    for dry_run in ("true", "false"):
        body = json.dumps(document)
        headers = {"content-type": "application/json"}
        answer = await api.post("/memory/import", params={"dry_run": dry_run}, content=body, headers=headers)
        assert answer.status_code == 422, answer.text
        assert len(answer.json()["detail"]) < 400
    assert not kept(store)


async def test_an_import_too_large_or_with_another_dry_run_is_refused(api: httpx.AsyncClient) -> None:
    body, headers = b" " * (MAX_IMPORT_BYTES + 1), {"content-type": "application/json"}
    assert (await api.post("/memory/import", content=body, headers=headers)).status_code == 413
    assert (await api.post("/memory/import?dry_run=no", json=exported())).status_code == 400


async def test_others_are_served_while_somebody_imports(api: httpx.AsyncClient, store: BaseStore) -> None:
    # In the processor time of the loop's thread, which other load on the machine does not stretch.
    document = exported(*({"path": f"/memories/topics/{n}.md", "content": f"- line {n}\n" * 200} for n in range(400)))
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
    answer = await api.post("/memory/import?dry_run=false", json=document)
    took, running = time.thread_time() - started, False
    await waiting
    gc.unfreeze()
    assert answer.status_code == 200
    assert len(kept(store)) >= 400
    assert max(stalls) < took / 10, f"nobody else was served for {max(stalls):.2f} of {took:.2f} s of the loop's own work"


# --- On the real server ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def http(server: DevServer, identity: str, org: str = "acme", **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = headers or {"Authorization": f"Bearer {dev_token(org, identity)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


def note(text: str) -> ToolCall:
    return ToolCall("append_memory", {"path": "/memories/notes.md", "text": text})


@pytest.mark.server
async def test_what_the_agent_wrote_is_seen_corrected_undone_and_taken_along(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    sdk, other = server.as_user(alice), f"other-{alice}"
    thread = await new_thread(sdk)
    model.script("I fly gliders", [note("- flies gliders")], [Text("noted")])
    await run_turn(sdk, thread, "I fly gliders")
    await run_turn(server.as_user(other), await new_thread(server.as_user(other)), "not to be exported")
    async with http(server, alice) as mine, http(server, other) as theirs:
        (revision,) = (await mine.get("/memory/history", params=NOTES)).json()["revisions"]
        assert revision["author"]["kind"] == "agent"
        assert revision["author"]["thread_id"] == thread
        await put(mine, "- flies balloons\n")
        model.script("what do I fly?", [ToolCall("read_file", {"file_path": "/memories/notes.md"})], [Text("ok")])
        await run_turn(sdk, await new_thread(sdk), "what do I fly?")
        assert "flies balloons" in tool_results(model.requests[-1])[0]
        assert (await mine.post("/memory/undo", json={**NOTES, "revision": 1})).json()["revision"] == 3
        assert (await mine.get("/memory/file", params=NOTES)).json()["content"] == "- flies gliders\n"

        answer = await mine.get("/memory/export")
        told = answer.json()
        assert "memory.json" in answer.headers["content-disposition"]
        assert (told["version"], told["user_id"], told["org_id"]) == (1, alice, "acme")
        files = {file["path"]: file for file in told["files"]}
        assert files["/memories/notes.md"]["content"] == "- flies gliders\n"
        assert [entry["revision"] for entry in files["/memories/notes.md"]["revisions"]] == [3, 2, 1]
        assert files["/memories/notes.md"]["revisions"][1]["content"] == "- flies balloons\n"
        assert len(told["conversations"]) == 2
        (talk,) = (talk for talk in told["conversations"] if talk["thread_id"] == thread)
        assert talk["created_at"] <= talk["updated_at"] <= told["exported_at"]
        assert [message["type"] for message in talk["values"]["messages"]] == ["human", "ai", "tool", "ai"]
        assert "not to be exported" not in answer.text

        planned = (await theirs.post("/memory/import", json=told)).json()
        assert {step["path"]: step["action"] for step in planned["files"]}["/memories/notes.md"] == "create"
        assert (await theirs.get("/memory/file", params=NOTES)).status_code == 404
        assert (await theirs.post("/memory/import?dry_run=false", json=told)).status_code == 200
        assert (await theirs.get("/memory/file", params=NOTES)).json()["content"] == "- flies gliders\n"


@pytest.mark.server
async def test_somebody_forgotten_leaves_nothing_and_a_run_that_was_going_writes_nothing(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    sdk, bob, operator = server.as_user(alice), server.as_user(f"bob-{alice}"), server.as_operator()
    mine = {"user_id": alice, "org_id": "acme"}
    model.script("remember", [note("- before")], [Text("noted")])
    finished = await new_thread(sdk)
    await run_turn(sdk, finished, "remember")
    model.script("Conversations with something new", [ToolCall("search_recent_conversations", {})], [Text("done")])
    await run_turn(sdk, await new_thread(sdk), "", assistant="consolidation_agent")
    slow, waiting = await new_thread(sdk), await new_thread(sdk)
    model.script("take your time", Slow(3, [note("- after")]))
    question: Any = {"messages": [{"role": "user", "content": "take your time"}]}
    await sdk.runs.create(slow, "agent", input=question)
    await sdk.runs.create(slow, "agent", input=question, multitask_strategy="enqueue")
    await sdk.runs.create(waiting, "agent", input=question, after_seconds=3600)
    await run_turn(bob, await new_thread(bob), "hello from bob")
    while not model.requests_for("take your time"):  # noqa: ASYNC110  # the model's server is in another thread
        await asyncio.sleep(0.05)
    async with http(server, alice) as client, http(server, f"bob-{alice}") as bobs:
        answer, changed = await asyncio.gather(client.delete("/memory"), put(bobs, "bob's"))
        assert changed.status_code == 200
        deleted = answer.json()["deleted"]
        assert deleted["threads"] == 4
        assert deleted["runs"] == 3
        assert deleted["memories"] == 2, "what was seeded, and the notes"
        assert deleted["consolidation"] == 1
        assert any("Traces" in reason for reason in answer.json()["kept"])
        await asyncio.sleep(3)  # by now the model has answered
        assert (await client.get("/memory")).json()["files"] == []
        assert (await client.get("/memory/history", params=NOTES)).status_code == 404
        assert (await client.get("/memory/export")).json()["conversations"] == []
        assert (await client.delete("/memory")).json()["deleted"] == {"runs": 0, "threads": 0, "memories": 0}
        assert (await bobs.get("/memory/file", params=NOTES)).json()["content"] == "bob's"
    assert await operator.threads.search(metadata=mine) == []
    assert len(await operator.threads.search(metadata={**mine, "user_id": f"bob-{alice}"})) == 1
    for thread in (finished, slow):
        await operator.threads.create(thread_id=thread, graph_id="agent")
        assert not (await operator.threads.get_state(thread))["values"], "checkpoints outlasted their thread"
        await operator.threads.delete(thread)
    found = (await operator.store.search_items([], limit=1000))["items"]
    whose = scopes.label(alice)
    assert {item["namespace"][0] for item in found if f"acme:{whose}" in item["namespace"]} == {"epoch"}
    assert f"AUDIT memory.forget org='acme' user='{alice}' by='{alice}'" in server.log
    model.script("start again", [note("- anew")], [Text("noted")])
    await run_turn(sdk, await new_thread(sdk), "start again")
    async with http(server, alice) as client:
        assert (await client.get("/memory/file", params=NOTES)).json()["content"] == "- anew\n"


@pytest.mark.server
async def test_an_operator_forgets_a_person_and_it_is_noted_who_did(server: DevServer, alice: str) -> None:
    async with http(server, "root", "default") as root, http(server, "", **{"x-auth-scheme": "langsmith"}) as studio:
        named = {"user_id": alice, "org_id": "acme"}
        for operator in (root, studio):
            assert (await put(operator, "x", params={**NOTES, **named})).status_code == 200
            assert (await operator.delete("/memory", params=named)).json()["deleted"]["memories"] == 1
        assert f"user='{alice}' by='root'" in server.log


@pytest.mark.server
async def test_the_server_describes_the_routes_and_lets_nobody_in_unsigned(server: DevServer) -> None:
    async with http(server, "", **{"x-none": "1"}) as nobody:
        paths = (await nobody.get("/openapi.json")).json()["paths"]
        for method, path, params in ROUTES:
            assert paths[path][method.lower()]["summary"]
            assert (await nobody.request(method, path, params=params)).status_code == 401
