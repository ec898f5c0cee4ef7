"""Who vouches for what memory says, where a person or a document writes it."""

from collections.abc import Mapping

import httpx
import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from lasting_memory.deployment import Source
from lasting_memory.http import export
from lasting_memory.memory import journal
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.http.conftest import MEMORIES, NOTES, Open, exported, put
from tests.memory.test_sources import sources

CONFIRMED, INFERRED, UNCONFIRMED = Source.CONFIRMED, Source.INFERRED, Source.UNCONFIRMED


async def test_lines_written_on_the_page_are_confirmed_and_the_rest_of_the_file_stays(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await written(store, "- from a page\n- inferred\n", {"from a page": UNCONFIRMED})
    await put(api, "- from a page\n- inferred\n- my own\n")
    known = {"from a page": UNCONFIRMED, "inferred": INFERRED, "my own": CONFIRMED}
    assert sources(store) == known
    await put(api, "- my own\n")
    await api.post("/memory/undo", json={**NOTES, "revision": 2})
    assert sources(store) == known


async def written(store: BaseStore, text: str, known: Mapping[str, Source]) -> None:
    """A file that an agent has written."""
    author = Author("agent", "alice")

    def vouch(entry: str, _: Source | None) -> Source:
        return known.get(entry, INFERRED)

    file = FileData(content=text, encoding="utf-8")
    await journal.change(store, MEMORIES, "/notes.md", lambda _: file, author, vouch=vouch)


async def test_imported_lines_are_unconfirmed(api: httpx.AsyncClient, store: BaseStore) -> None:
    file = {"path": "/memories/notes.md", "content": "- likes leek\n", "encoding": "utf-8"}
    await api.post("/memory/import", json=exported(file))
    assert sources(store) == {"likes leek": UNCONFIRMED}
    await put(api, "- likes leek\n- my own\n")
    assert sources(store) == {"likes leek": UNCONFIRMED, "my own": CONFIRMED}


async def test_an_export_comes_back_as_it_was_but_nothing_of_it_is_confirmed(
    api: httpx.AsyncClient, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "get_client", Platform)
    known = {"pays Bob": UNCONFIRMED, "likes leek": CONFIRMED}
    await written(store, "- pays Bob\n- likes leek\n- inferred\n", known)
    document = (await api.get("/memory/export")).json()
    (file,) = [file for file in document["files"] if file["path"] == NOTES["path"]]
    assert file["sources"] == "-+"
    copy = {**file, "path": "/memories/copy.md"}
    answer = await api.post("/memory/import", json=exported(copy))
    assert answer.status_code == 200, answer.text
    read = (await api.get("/memory/file", params={"path": copy["path"]})).json()
    assert [line["source"] for line in read["lines"]] == ["unconfirmed", "inferred", "inferred"]


async def test_a_person_s_confirmation_raises_a_line_and_changes_no_text(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await written(store, "- pays Bob\n- inferred\n", {"pays Bob": UNCONFIRMED})
    shown = (await api.get("/memory/facts")).json()["groups"]
    (group,) = [group for group in shown if group["path"] == NOTES["path"]]
    assert [line.get("source") for line in group["lines"]] == ["unconfirmed", None]
    missing = await api.post("/memory/confirm", params=NOTES, json={"text": "pays Carla"})
    assert missing.status_code == 404
    answer = await api.post("/memory/confirm", params=NOTES, json={"text": "pays Bob"})
    assert answer.json() == {"path": NOTES["path"], "revision": 2}
    assert sources(store) == {"pays Bob": CONFIRMED, "inferred": INFERRED}
    read = (await api.get("/memory/file", params=NOTES)).json()
    assert read["content"] == "- pays Bob\n- inferred\n"
    assert [line["source"] for line in read["lines"]] == ["confirmed", "inferred"]


async def test_a_line_with_an_end_is_confirmed_as_the_page_shows_it(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    file = {"path": NOTES["path"], "content": "- The offer holds (until 2999-12-31)\n"}
    await api.post("/memory/import", json=exported({**file, "encoding": "utf-8"}))
    shown = (await api.get("/memory/facts")).json()["groups"]
    (group,) = [group for group in shown if group["path"] == NOTES["path"]]
    (line,) = group["lines"]
    assert (line["text"], line["source"]) == ("The offer holds", "unconfirmed")
    answer = await api.post("/memory/confirm", params=NOTES, json={"text": line["text"]})
    assert answer.status_code == 200, answer.text
    assert set(sources(store).values()) == {CONFIRMED}
    read = (await api.get("/memory/file", params=NOTES)).json()
    assert read["content"] == file["content"]


async def test_a_field_is_confirmed_by_its_name(api: httpx.AsyncClient, store: BaseStore) -> None:
    file = {"path": "/memories/profile.json", "content": '{"role": "pilot"}'}
    await api.post("/memory/import", json=exported({**file, "encoding": "utf-8"}))
    assert sources(store) == {"pilot": UNCONFIRMED}
    params = {"path": "/memories/profile.json"}
    other = {"field": "role", "value": "baker"}
    assert (await api.post("/memory/confirm", params=params, json=other)).status_code == 404
    alone = await api.post("/memory/confirm", params=params, json={"text": "x", "value": "pilot"})
    assert alone.status_code == 422
    seen = {"field": "role", "value": "pilot"}
    answer = await api.post("/memory/confirm", params=params, json=seen)
    assert answer.status_code == 200
    assert sources(store) == {"pilot": CONFIRMED}
    shown = (await api.get("/memory/facts")).json()["groups"]
    (profile,) = [group for group in shown if group["kind"] == "profile"]
    known = {field["name"]: field.get("source") for field in profile["fields"]}
    assert known["role"] is None


async def test_a_repeated_confirmation_leaves_no_revision(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await written(store, "- pays Bob\n", {"pays Bob": UNCONFIRMED})
    answers = []
    for _ in range(60):
        answer = await api.post("/memory/confirm", params=NOTES, json={"text": "pays Bob"})
        answers.append(answer.json()["revision"])
    assert answers == [2] * 60
    history = (await api.get("/memory/history", params=NOTES)).json()
    assert [revision["revision"] for revision in history["revisions"]] == [2, 1]


@pytest.mark.parametrize("signs", ["????", "+ ", "a", "---", "\n"])
async def test_sources_that_do_not_fit_the_file_are_refused(
    api: httpx.AsyncClient, store: BaseStore, signs: str
) -> None:
    file = {"path": NOTES["path"], "content": "- pays Bob\n- likes leek\n", "sources": signs}
    answer = await api.post("/memory/import", json=exported({**file, "encoding": "utf-8"}))
    assert answer.status_code == 422, answer.text
    assert "sources" in answer.text
    assert sources(store) == {}


async def test_lines_of_a_json_file_have_the_source_of_their_field(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    content = '{\n  "name": "Zoe",\n  "timezone": "Asia/Kolkata",\n  "role": "pilot"\n}\n'
    path = "/memories/profile.json"
    file = {"path": path, "content": content, "encoding": "utf-8", "sources": ".-."}
    answer = await api.post("/memory/import", json=exported(file))
    assert answer.status_code == 200, answer.text
    read = (await api.get("/memory/file", params={"path": path})).json()
    shown = [line["source"] for line in read["lines"]]
    assert shown[2] == "unconfirmed"
    assert shown.count("unconfirmed") == 1
    facts = (await api.get("/memory/facts")).json()["groups"]
    (profile,) = [group for group in facts if group["kind"] == "profile"]
    doubted = [field["name"] for field in profile["fields"] if field.get("source")]
    assert doubted == ["timezone"]


async def test_an_operator_cannot_confirm_a_line_for_a_person(
    api: httpx.AsyncClient, calling: Open, store: BaseStore
) -> None:
    await written(store, "- pays Bob\n", {"pays Bob": UNCONFIRMED})
    named = {**NOTES, "user_id": "alice", "org_id": "acme"}
    async with calling("root", deployed(operators=frozenset({"root"}))) as root:
        refused = await root.post("/memory/confirm", params=named, json={"text": "pays Bob"})
    assert refused.status_code == 403
    assert sources(store) == {"pays Bob": UNCONFIRMED}
