"""An import: what it creates, adds and keeps; with anything wrong it writes nothing."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from settings import (
    MAX_FILE_BYTES,
    MAX_IMPORT_BYTES,
    MAX_MEMORY_FILES,
)
from testing.parts import stores
from tests.api.calls import NOTES, exported, kept, put


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
    done = (await api.post("/memory/import", json=document)).json()
    assert [(step["path"].removeprefix("/memories/"), step["action"]) for step in done["files"]] == [
        ("notes.md", "append"), ("profile.json", "keep"), ("same.md", "same"), ("new.md", "create"), ("pixel.png", "create"),
    ]  # fmt: skip
    content = (await api.get("/memory/file", params=NOTES)).json()["content"]
    assert content == "# Notes\n- one\n- mine\n- theirs\n- more\n"
    assert (await api.get("/memory/file", params={"path": "/memories/pixel.png"})).json()["encoding"] == "base64"
    assert (await api.get("/memory/history", params=NOTES)).json()["revisions"][0]["author"]["kind"] == "person"
    again = (await api.post("/memory/import", json=document)).json()
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
    headers = {"content-type": "application/json"}
    answer = await api.post("/memory/import", content=json.dumps(document), headers=headers)
    assert answer.status_code == 422, answer.text
    assert len(answer.json()["detail"]) < 400
    assert not kept(store)


async def test_an_import_too_large_or_with_a_parameter_it_does_not_have_is_refused(api: httpx.AsyncClient) -> None:
    body, headers = b" " * (MAX_IMPORT_BYTES + 1), {"content-type": "application/json"}
    assert (await api.post("/memory/import", content=body, headers=headers)).status_code == 413
    assert (await api.post("/memory/import?dry_run=true", json=exported())).status_code == 400
    assert (await api.post("/memory/import?dry_run=false", json=exported())).status_code == 200


@pytest.mark.parametrize("store", stores(pytest.mark.proof), indirect=True)
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
    answer = await api.post("/memory/import", json=document)
    took, running = time.thread_time() - started, False
    await waiting
    gc.unfreeze()
    assert answer.status_code == 200
    assert len(kept(store)) >= 400
    assert max(stalls) < took / 10, f"nobody else was served for {max(stalls):.2f} of {took:.2f} s of the loop's own work"
