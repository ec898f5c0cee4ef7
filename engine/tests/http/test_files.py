"""A person's files over HTTP: written, listed, read with their history, undone, deleted; and what
is refused to whom.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory import journal
from lasting_memory.memory.journal.texts import MAX_DIFF_CHARS
from lasting_memory.memory.validation import MAX_FILE_BYTES, MAX_INPUT_BYTES
from lasting_memory.people.identity import OPERATE, Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from tests.http.conftest import MEMORIES, NOTES, Open, exported, kept, put


async def test_a_file_is_written_listed_read_changed_undone_deleted_and_brought_back(
    api: httpx.AsyncClient,
) -> None:
    assert (await put(api, "one\n")).json() == {"path": "/memories/notes.md", "revision": 1}
    assert (await put(api, "two\n")).json()["revision"] == 2
    (listed,) = (await api.get("/memory")).json()["files"]
    assert (listed["path"], listed["bytes"], listed["revision"]) == ("/memories/notes.md", 4, 2)
    read = await api.get("/memory/file", params=NOTES)
    assert (read.json()["content"], read.headers["etag"], read.headers["cache-control"]) == (
        "two\n",
        '"2"',
        "no-store",
    )
    undone = await api.post("/memory/undo", json={**NOTES, "revision": 1})
    assert undone.json()["revision"] == 3
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "one\n"
    assert (await api.delete("/memory/file", params=NOTES)).json()["revision"] == 4
    assert (await api.get("/memory/file", params=NOTES)).status_code == 404
    assert (await api.get("/memory")).json()["files"] == []
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 2})).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "two\n"
    deleted = (await api.get("/memory/history", params=NOTES)).json()["revisions"][1]
    assert deleted["deleted"]
    assert (
        await api.post("/memory/undo", json={**NOTES, "revision": deleted["id"]})
    ).status_code == 200
    assert (await api.get("/memory/file", params=NOTES)).status_code == 404


async def test_the_history_says_who_did_what_and_when(
    api: httpx.AsyncClient, calling: Open, store: BaseStore
) -> None:
    agent = Author("agent", "alice", "run-1", "thread-1")
    await journal.change(store, MEMORIES, "/notes.md", lambda _: create_file_data("one\n"), agent)
    await put(api, "one\ntwo\n")
    async with calling("root", deployed(operators=frozenset({"root"}))) as root:
        await put(root, "two\n", params={**NOTES, "user_id": "alice", "org_id": "acme"})
    revisions = (await api.get("/memory/history", params=NOTES)).json()["revisions"]
    assert [
        (entry["revision"], entry["author"]["kind"], entry["author"]["user_id"])
        for entry in revisions
    ] == [
        (3, "operator", "root"),
        (2, "person", "alice"),
        (1, "agent", "alice"),
    ]
    assert revisions[2]["author"]["run_id"] == "run-1"
    assert revisions[2]["author"]["thread_id"] == "thread-1"
    assert ["+two" in entry["diff"] for entry in revisions] == [False, True, False]
    assert "-one" in revisions[0]["diff"]
    assert revisions[2]["diff"].endswith("+one\n")
    assert all(entry["at"] and not entry["deleted"] for entry in revisions)


async def test_a_long_history_is_its_last_revisions_and_a_long_diff_its_beginning(
    api: httpx.AsyncClient,
) -> None:
    # As many repeated lines as a file may have: the comparison that takes minutes for them is not
    # the one that is used.
    await put(api, "x\n" * (MAX_FILE_BYTES // 2))
    long = (await api.get("/memory/history", params=NOTES)).json()["revisions"][0]["diff"]
    assert long.startswith(f"@@ -1,0 +1,{MAX_FILE_BYTES // 2} @@\n+x\n+x\n")
    assert long[MAX_DIFF_CHARS:].endswith(" more]")
    for number in range(DEFAULTS.revisions_kept + 5):
        await put(api, f"{number}\n")
    revisions = (await api.get("/memory/history", params=NOTES)).json()["revisions"]
    assert len(revisions) == DEFAULTS.revisions_kept
    assert revisions[-1]["diff"] is None, "of the oldest it is not known what it changed"
    assert (await api.post("/memory/undo", json={**NOTES, "revision": 1})).status_code == 404


async def test_a_write_that_expects_another_revision_is_refused(api: httpx.AsyncClient) -> None:
    await put(api, "one")
    assert (await put(api, "two", headers={"If-Match": '"1"'})).status_code == 200
    refused = await put(api, "three", headers={"If-Match": "1"})
    assert refused.status_code == 412
    assert "revision 2" in refused.json()["detail"]
    assert (
        await api.delete("/memory/file", params=NOTES, headers={"If-Match": '"1"'})
    ).status_code == 412
    assert (await put(api, "x", "/memories/new.md", headers={"If-Match": '"1"'})).status_code == 412
    assert (await put(api, "x", "/memories/new.md", headers={"If-Match": "0"})).status_code == 200
    answers = await asyncio.gather(
        *(put(api, f"{n}", headers={"If-Match": '"2"'}) for n in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    assert (await api.get("/memory/file", params=NOTES)).json()["revision"] == 3


@pytest.mark.parametrize(("body", "match", "status"), [
    ({}, "1", 422), ({"revision": True}, "1", 422), ({"revision": 10**30}, "1", 404), ({"revision": 1}, "0", 412),
    ({"revision": 1}, "abc", 412), ({"revision": 1}, '"1"', 200), ({"revision": 1, "path": "/memories/other.md"}, "1", 404),
    ({"changes": []}, "1", 200), ({"changes": ["x"]}, "1", 404), ({"changes": ["x"] * 1_001}, "1", 422),
    ({"changes": "x"}, "1", 422), ({"changes": [], "revision": 1}, "1", 422),
])  # fmt: skip
async def test_an_undo_names_a_change_of_the_history_or_changes_nothing(
    api: httpx.AsyncClient, body: dict[str, Any], match: str, status: int
) -> None:
    await put(api, "one")
    assert (
        await api.post("/memory/undo", json={**NOTES, **body}, headers={"if-match": match})
    ).status_code == status
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "one"


async def test_a_request_of_a_person_forgotten_meanwhile_writes_nothing(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b'{"content": '
        await journal.forget(store, Actor("alice", "acme"))
        yield b'"late"}'

    answer = await api.put(
        "/memory/file", params=NOTES, content=slow(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert "deleted since" in answer.json()["detail"]
    assert [place for place in kept(store) if place[0][0] != "forgotten"] == []


@pytest.mark.parametrize(
    "path", ["", "/memories/", "memories/a.md", "/memories/../policies/a.md", "/policies/a.md"]
)
async def test_a_bad_path_is_refused_by_every_route(
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
    assert [answer.status_code for answer in answers] == [422] * 5
    assert all("\n" not in answer.json()["detail"] for answer in answers)
    imported = await api.post("/memory/import", json=exported({"path": path, "content": "x"}))
    assert imported.status_code == 422
    assert not kept(store)


GOOD = "path=/memories/a.md"


@pytest.mark.parametrize(("query", "body"), [
    *((query, b'{"content": "x"}') for query in ("", f"{GOOD}&x=1", f"{GOOD}&assistant_id=7", f"{GOOD}&assistant_id={AGENT}")),
    *((GOOD, body) for body in (
        b"", b"\xff\xfe", b"[" * 100_000, b'{"content": 7}', b'{"content": "\\ud800"}',
        b'{"content": "key AKIAABCDEFGHIJKLMNOP"}', b" " * (MAX_INPUT_BYTES + 1),
    )),
])  # fmt: skip
async def test_a_bad_query_or_body_is_refused(
    api: httpx.AsyncClient, store: BaseStore, query: str, body: bytes
) -> None:
    answer = await api.put(
        f"/memory/file?{query}", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == (413 if len(body) > MAX_INPUT_BYTES else 422), answer.text
    assert set(answer.json()) == {"detail"}
    assert "AKIA" not in answer.text
    assert not kept(store)


@pytest.mark.parametrize("named", [{"user_id": ""}, {"user": "alice"}, {"user_id": "x" * 2000}])
async def test_an_operator_who_names_nobody_is_not_asked_about_themselves(
    calling: Open, named: dict[str, str]
) -> None:
    async with calling("root", permissions=[OPERATE]) as root:
        assert (await root.get("/memory", params=named)).status_code == 422


@pytest.mark.parametrize(("method", "path", "body"), [
    ("GET", "/memory", None), ("GET", "/memory/file", None), ("PUT", "/memory/file", {"content": "mine"}),
    ("DELETE", "/memory/file", None), ("GET", "/memory/history", None), ("POST", "/memory/undo", {**NOTES, "revision": 1}),
    ("POST", "/memory/import", exported()), ("POST", "/memory/bring", {"text": "x"}), ("POST", "/memory/consolidate", None),
])  # fmt: skip
async def test_shared_memory_is_nobody_s_own(
    calling: Open, store: BaseStore, method: str, path: str, body: Any
) -> None:
    async with calling(
        settings=deployed(memory_scope="assistant", shared_writes="allow")
    ) as client:
        of_a_file = path in {"/memory/file", "/memory/history"}
        answer = await client.request(method, path, params=NOTES if of_a_file else None, json=body)
        assert answer.status_code == 409
        assert "MEMORY_SCOPE=assistant" in answer.json()["detail"]
    assert not kept(store)


async def test_each_assistant_has_its_own_files(calling: Open, store: BaseStore) -> None:
    other = "11111111-2222-3333-4444-000000000000"
    async with calling(settings=deployed(memory_scope="user+assistant")) as client:
        assert (await put(client, "y", params={**NOTES, "assistant_id": other})).status_code == 200
        assert (await put(client, "default's")).status_code == 200, (
            "nobody has to name the default one"
        )
        assert (await client.get("/memory/file", params={**NOTES, "assistant_id": other})).json()[
            "content"
        ] == "y"
        assert (await client.get("/memory/file", params=NOTES)).json()["content"] == "default's"
    assert store.get(("memories", f"{other}:acme:alice"), "/notes.md")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/memory"), ("DELETE", "/memory/file"), ("POST", "/memory/consolidate")],
)
async def test_a_body_that_would_be_passed_over_is_refused(
    api: httpx.AsyncClient, method: str, path: str
) -> None:
    await put(api, "x")
    params = NOTES if "file" in path else {}
    for body in ({"dry_run": True}, NOTES, {"x": "x" * 2_000}):
        assert (await api.request(method, path, params=params, json=body)).status_code in {
            413,
            422,
        }, body
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "x"


@pytest.mark.parametrize(("contents", "undone", "wanted"), [
    ([{"name": "Anna"}, {"name": "Bea"}], 0, {"name": "Bea"}),
    ([{"name": "Anna"}, {"name": "Bea"}, {"name": "Cleo"}], 1, {"name": "Cleo"}),
    ([{"name": "Anna"}, {"name": "Bea", "city": "Ulm"}, {"name": "Bea", "city": "Bonn"}], 1, {"name": "Anna", "city": "Bonn"}),
    ([{"name": "Anna"}, {}, {"city": "Ulm"}], 1, {"city": "Ulm", "name": "Anna"}),
    ([{"likes": ["tea"]}, {"likes": ["tea", "rum"]}, {"likes": ["tea", "rum", "milk"]}], 1, {"likes": ["tea", "milk"]}),
    ([{"home": {"city": "Ulm"}}, {"home": {"city": "Bonn"}}, {"home": {"city": "Bonn", "zip": 5}}], 1,
     {"home": {"city": "Ulm", "zip": 5}}),
])  # fmt: skip
async def test_an_undone_change_of_a_profile_takes_back_its_own_fields_alone(
    api: httpx.AsyncClient, contents: list[dict[str, Any]], undone: int, wanted: dict[str, Any]
) -> None:
    path = "/memories/things.json"
    for content in contents:
        assert (await put(api, json.dumps(content), path)).status_code == 200
    revisions = (await api.get("/memory/history", params={"path": path})).json()["revisions"]
    changes = [revisions[::-1][undone]["id"]]
    assert (
        await api.post("/memory/undo", json={"path": path, "changes": changes})
    ).status_code == 200
    assert (
        json.loads((await api.get("/memory/file", params={"path": path})).json()["content"])
        == wanted
    )
