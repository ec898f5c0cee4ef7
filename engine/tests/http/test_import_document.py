"""Files of a document are merged into a memory: none of them, if anything is wrong with one."""

import asyncio
import gc
import json
import time
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.deployment import DEFAULTS
from tests.conftest import stores
from tests.http.conftest import NOTES, exported, kept, put


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
