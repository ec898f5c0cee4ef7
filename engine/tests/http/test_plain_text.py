"""Files with other line ends, over HTTP: imported, put around the journal, changed and compared."""

import unicodedata
from pathlib import Path
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.memory.seeded import SeedError, seed_value
from lasting_memory.testing.deployed import deployed
from tests.memory.test_plain_text import FILE, KEY, MEMORIES, SAID, SPELLED


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
async def test_an_import_of_the_same_file_adds_nothing(
    api: httpx.AsyncClient, store: BaseStore, text: str
) -> None:
    def document(content: str) -> dict[str, Any]:
        return {"version": 1, "files": [{"path": FILE, "content": content}]}

    assert (await api.post("/memory/import", json=document(SAID))).json()["files"][0][
        "action"
    ] == "create"
    for spelled in (text, unicodedata.normalize("NFD", text)):
        action = (await api.post("/memory/import", json=document(spelled))).json()["files"][0][
            "action"
        ]
        assert action in {"same", "keep"}
    kept = (await api.get("/memory/file", params={"path": FILE})).json()
    assert (kept["content"], kept["revision"]) == (SAID, 1)


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
async def test_a_file_that_was_put_around_the_journal_is_shown_changed_and_undone_as_text(
    api: httpx.AsyncClient, store: BaseStore, text: str
) -> None:
    await store.aput(MEMORIES, "/topics/tea.md", {**create_file_data(text)})
    facts = (await api.get("/memory/facts")).json()["groups"]
    assert [line["text"] for group in facts for line in group.get("lines", ())] == [
        "mag Grüntee",
        "no sugar",
    ]
    shown = (await api.get("/memory/file", params={"path": FILE})).json()["content"]
    assert shown == SAID
    changed = await api.put(
        "/memory/file", params={"path": FILE}, json={"content": f"{SAID}- hot\r\n"}
    )
    assert changed.status_code == 200
    history = (await api.get("/memory/history", params={"path": FILE})).json()["revisions"]
    diffs = [entry.get("diff") for entry in history]
    assert "+- hot" in str(diffs[0])
    assert "sugar" not in "".join(
        line for line in str(diffs[0]).split("\n") if line.startswith(("+", "-"))
    )


HIDDEN = f"{KEY[:6]}\ufeff{KEY[6:]}"


async def test_no_door_takes_a_credential_with_a_mark_within_it(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    put = await api.put("/memory/file", params={"path": FILE}, json={"content": HIDDEN})
    assert put.status_code == 422
    document = {"version": 1, "files": [{"path": FILE, "content": HIDDEN}]}
    await api.post("/memory/import", json=document)
    assert await store.aget(MEMORIES, "/topics/tea.md") is None


def test_a_seed_takes_no_hidden_credential_and_is_put_as_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "tea.md"
    path.write_bytes("\ufeff- tea\r\n\ufeff- cake\r".encode())
    assert seed_value(path, FILE, deployed())["content"] == "- tea\n- cake\n"
    path.write_text(HIDDEN, "utf-8")
    with pytest.raises(SeedError):
        seed_value(path, FILE, deployed())


async def test_a_time_zone_that_is_none_is_refused(api: httpx.AsyncClient) -> None:
    put = await api.put(
        "/memory/file",
        params={"path": "/memories/profile.json"},
        json={"content": '{"timezone": "CEST"}'},
    )
    assert put.status_code == 422
    assert (
        "'CEST' is no time zone; use an IANA name such as 'Europe/Berlin'" in put.json()["detail"]
    )
