"""What is known, as facts; what changed since somebody looked; what was deleted."""

from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory import journal
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from tests.http.calls import MEMORIES, NOTES, Open, put

THREAD = "0199f0aa-0000-7000-8000-000000000001"
AGENT = Author("agent", "alice", "run-1", THREAD)


async def groups(api: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    answer = await api.get("/memory/facts", params=params)
    assert answer.status_code == 200, answer.text
    return {group["path"]: group for group in answer.json()["groups"]}


async def changed(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = (await api.get("/memory/changes")).json()
    return {"until": answer["until"], **{change["path"]: change for change in answer["changes"]}}


async def by(store: BaseStore, author: Author, content: str, key: str = "/notes.md") -> None:
    await journal.change(store, MEMORIES, key, lambda _: create_file_data(content), author)


async def test_lines_are_facts_without_markers_comments_and_sources(api: httpx.AsyncClient) -> None:
    content = f"""# Food & drink

<!-- How this is kept:
one line each. -->
- likes dill (2026-01-01, thread {THREAD})
2. no nuts <!-- really -->
## Drinks
Tea (with milk)
* <!-- this never ends
"""
    await put(api, content, "/memories/topics/food.md")
    group = (await groups(api))["/memories/topics/food.md"]
    assert (group["title"], group["kind"], group["revision"]) == ("Food & drink", "lines", 1)
    assert group["lines"] == [
        {"line": 4, "text": "likes dill"},
        {"line": 5, "text": "no nuts"},
        {"line": 6, "heading": "Drinks"},
        {"line": 7, "text": "Tea (with milk)"},
        {"line": 8, "text": "<!-- this never ends"},
    ]


async def test_titles_come_from_names_and_what_has_no_facts_is_a_file(api: httpx.AsyncClient, store: BaseStore) -> None:
    await put(api, "x", "/memories/topics/winter-garden.md")
    await put(api, "- garden.md", "/memories/topics/index.md")
    await put(api, "---\nname: mine\ndescription: x\n---\n- do it so", "/memories/skills/mine/SKILL.md")
    await put(api, "{}", "/memories/data.json")
    store.put(MEMORIES, "/odd.md", {"content": 7})
    found = await groups(api)
    assert found["/memories/topics/winter-garden.md"]["title"] == "Winter garden"
    assert {path: group["kind"] for path, group in found.items()} == {
        "/memories/profile.json": "profile",
        "/memories/topics/winter-garden.md": "lines",
        "/memories/data.json": "file",
        "/memories/odd.md": "file",
        "/memories/skills/mine/SKILL.md": "file",
        "/memories/topics/index.md": "file",
    }
    assert "not a file" in found["/memories/odd.md"]["error"]
    assert next(iter(found)) == "/memories/profile.json"


async def test_a_profile_is_its_fields_also_before_there_is_one(api: httpx.AsyncClient, store: BaseStore) -> None:
    path = "/memories/profile.json"
    empty = (await groups(api))[path]
    assert (empty["revision"], {field["value"] for field in empty["fields"]}) == (0, {None})
    assert [field["name"] for field in empty["fields"]] == ["name", "role", "language", "timezone", "units"]
    assert empty["fields"][0]["description"] == "What to call the person."
    await put(api, '{"name": "Zoe"}', path)
    assert (await groups(api))[path]["fields"][0]["value"] == "Zoe"
    store.put(MEMORIES, "/profile.json", {**create_file_data('{"name": NaN, "x": ' + "[" * 5_000)})
    assert (await groups(api))[path]["kind"] == "file", "another code's value is no profile"


async def test_changes_are_those_since_one_looked_and_say_to_what_to_undo_them(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await by(store, Author("seed", "alice"), "# Notes\n")
    assert list(await changed(api)) == ["until"], "with what a memory starts nothing changed"
    await by(store, AGENT, "# Notes\n- tea\n")
    await by(store, AGENT, "# Notes\n- tea\n- milk\n")
    first = await changed(api)
    notes = first[NOTES["path"]]
    assert (notes["revision"], notes["before"], notes["author"]["kind"], notes["deleted"]) == (3, 1, "agent", False)
    assert [line for line in notes["diff"].splitlines() if line[0] in "+-"] == ["+- tea", "+- milk"]
    assert (await api.put("/memory/seen", json={"until": first["until"]})).json() == {"since": first["until"]}
    assert list(await changed(api)) == ["until"]
    await api.delete("/memory/file", params=NOTES)
    await by(store, AGENT, "x", "/new.md")
    after = await changed(api)
    assert (after[NOTES["path"]]["deleted"], after[NOTES["path"]]["before"]) == (True, 3)
    assert after["/memories/new.md"]["before"] == 0
    await api.delete("/memory/file", params={"path": "/memories/new.md"})
    gone = (await changed(api))["/memories/new.md"]
    assert (gone["deleted"], gone["before"], gone["diff"][-3:]) == (True, 1, "-x\n"), "what came and went can come back"
    undo = {**NOTES, "revision": after[NOTES["path"]]["before"]}
    assert (await api.post("/memory/undo", json=undo, headers={"if-match": "0"})).status_code == 200
    assert NOTES["path"] not in await changed(api), "it is again what was seen"


@pytest.mark.parametrize("until", ["", "soon", "2026-01-01T00:00:00", None, "9999999999999-01-01T00:00:00Z"])
async def test_a_time_that_is_none_is_refused(api: httpx.AsyncClient, until: object) -> None:
    assert (await api.put("/memory/seen", json={"until": until})).status_code == 422


async def test_nobody_has_seen_what_is_to_come(api: httpx.AsyncClient, store: BaseStore) -> None:
    await api.put("/memory/seen", json={"until": "9998-01-01T00:00:00+12:00"})
    await by(store, AGENT, "x")
    assert NOTES["path"] in await changed(api)


async def test_an_operator_looks_and_does_not_see_for_somebody(calling: Open, store: BaseStore) -> None:
    await by(store, AGENT, "- tea")
    alice = {"user_id": "alice", "org_id": "acme"}
    async with calling("root", deployed(operators=frozenset({"root"}))) as root:
        assert NOTES["path"] in await groups(root, **alice)
        now = (await root.get("/memory/changes", params=alice)).json()
        assert len(now["changes"]) == 1
        assert (await root.put("/memory/seen", params=alice, json={"until": now["until"]})).status_code == 403


async def test_the_trash_has_deleted_files_and_lines_that_are_gone(api: httpx.AsyncClient, store: BaseStore) -> None:
    await put(api, "# Notes\n- tea\n- milk\n- bread\n")
    await by(store, AGENT, f"# Notes\n- tea (2026-01-01, thread {THREAD})\n- bread\n")
    await put(api, "# Notes\n- bread\n")
    await put(api, "gone", "/memories/gone.md")
    await api.delete("/memory/file", params={"path": "/memories/gone.md"})
    trash = (await api.get("/memory/trash")).json()
    assert [(line["text"], line["author"]["kind"]) for line in trash["lines"]] == [("tea", "person"), ("milk", "agent")]
    (file,) = trash["files"]
    assert (file["path"], file["revision"]) == ("/memories/gone.md", 1)
    body = {"path": file["path"], "revision": file["revision"]}
    assert (await api.post("/memory/undo", json=body)).status_code == 200
    assert (await api.get("/memory/trash")).json()["files"] == []


async def test_a_hostile_memory_is_read_in_linear_time(api: httpx.AsyncClient, store: BaseStore) -> None:
    """Each of these takes minutes where a pattern goes back and forth."""
    for number, text in enumerate(("<!--" * 25_000, "(" * 100_000 + "thread 0199f0aa-)", " " * 100_000 + "x", "1" * 100_000)):
        await by(store, AGENT, text, f"/{number}.md")
    assert len(await groups(api)) == 5
    assert len(await changed(api)) == 5
