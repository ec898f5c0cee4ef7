"""What may be asked over HTTP, and by whom for whom; anything else is refused and changes nothing."""

from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.people.identity import OPERATE
from lasting_memory.testing.deployed import deployed
from lasting_memory.validation import MAX_INPUT_BYTES
from tests.http.calls import NOTES, ROUTES, Open, exported, kept, put

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
    assert [answer.status_code for answer in answers] == [422] * 5
    assert all("\n" not in answer.json()["detail"] for answer in answers)
    imported = await api.post("/memory/import", json=exported({"path": path, "content": "x"}))
    assert imported.status_code == 422
    assert not kept(store)


@pytest.mark.parametrize("query", [
    "", "path=/memories/a.md&recursive=1", "path=/memories/a.md&assistant_id=7", "path=/memories/a.md&assistant_id=",
    "Path=/memories/a.md",
])  # fmt: skip
async def test_a_bad_query_is_refused(api: httpx.AsyncClient, store: BaseStore, query: str) -> None:
    assert (await api.put(f"/memory/file?{query}", json={"content": "x"})).status_code == 422
    assert not kept(store)


@pytest.mark.parametrize("body", [
    b"", b"\xff\xfe", b"[" * 100_000, b'{"content": 7}', b'{"content": "\\ud800"}',
    b'{"content": "key AKIAABCDEFGHIJKLMNOP"}', b" " * (MAX_INPUT_BYTES + 1),
])  # fmt: skip
async def test_a_bad_body_is_refused(api: httpx.AsyncClient, store: BaseStore, body: bytes) -> None:
    answer = await api.put("/memory/file", params=NOTES, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == (413 if len(body) > MAX_INPUT_BYTES else 422), answer.text
    assert set(answer.json()) == {"detail"}
    assert "AKIA" not in answer.text
    assert not kept(store)


def body_for(method: str, path: str) -> dict[str, Any] | None:
    bodies: dict[str, Any] = {"/memory/file": {"content": "mallory's"}, "/memory/undo": {**NOTES, "revision": 1}}
    bodies |= {"/memory/import": exported(), "/memory/bring": {"text": "- likes leek"}}
    return bodies.get(path) if method in {"PUT", "POST"} else None


async def test_an_operator_names_a_person_and_otherwise_is_themselves(
    calling: Open, api: httpx.AsyncClient, store: BaseStore
) -> None:
    await put(api, "alice's")
    async with calling("root", permissions=[OPERATE]) as root:
        named = {**NOTES, "user_id": "alice", "org_id": "acme"}
        assert (await root.get("/memory/file", params=named)).json()["content"] == "alice's"
        assert (await root.get("/memory/file", params=NOTES)).status_code == 404
        assert (await root.get("/memory", params={"user_id": ""})).status_code == 422, "not the operator's own"
        assert (await root.get("/memory", params={"user": "alice"})).status_code == 422
        assert (await root.get("/memory", params={"user_id": "x" * 2000})).status_code == 422
        await put(root, "root's")
    assert store.get(("memories", "default:root"), "/notes.md")


@pytest.mark.parametrize(("method", "path", "params"), [route for route in ROUTES if route[1] != "/memory/export"][:-1])
async def test_where_memory_is_shared_nobody_has_files_of_their_own(
    calling: Open, store: BaseStore, method: str, path: str, params: dict[str, str]
) -> None:
    async with calling(settings=deployed(memory_scope="assistant", shared_writes="allow")) as client:
        answer = await client.request(method, path, params=params, json=body_for(method, path))
        assert answer.status_code == 409
        assert "MEMORY_SCOPE=assistant" in answer.json()["detail"]
    assert not kept(store)


async def test_each_assistant_has_its_own_files(calling: Open, store: BaseStore) -> None:
    other = "11111111-2222-3333-4444-000000000000"
    async with calling(settings=deployed(memory_scope="user+assistant")) as client:
        assert (await put(client, "y", params={**NOTES, "assistant_id": other})).status_code == 200
        assert (await put(client, "default's")).status_code == 200, "nobody has to name the default one"
        assert (await client.get("/memory/file", params={**NOTES, "assistant_id": other})).json()["content"] == "y"
        assert (await client.get("/memory/file", params=NOTES)).json()["content"] == "default's"
    assert store.get(("memories", f"{other}:acme:alice"), "/notes.md")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/memory"), ("DELETE", "/memory/file"), ("POST", "/memory/consolidate")]
)
async def test_a_body_that_would_be_passed_over_is_refused(api: httpx.AsyncClient, method: str, path: str) -> None:
    await put(api, "x")
    params = NOTES if "file" in path else {}
    for body in ({"dry_run": True}, NOTES, {"x": "x" * 2_000}):
        assert (await api.request(method, path, params=params, json=body)).status_code in {413, 422}, body
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "x"
