"""What is known, as facts; what changed since somebody looked; what was deleted."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory import journal
from lasting_memory.people.identity import Author
from tests.http.conftest import MEMORIES, NOTES, Open, put

THREAD = "0199f0aa-0000-7000-8000-000000000001"
AGENT = Author("agent", "alice", "run-1", THREAD)


async def groups(api: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    answer = await api.get("/memory/facts", params=params)
    assert answer.status_code == 200, answer.text
    return {group["path"]: group for group in answer.json()["groups"]}


async def changed(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await api.get("/memory/changes")).json()["changes"])


async def by(store: BaseStore, author: Author, content: str, key: str = "/notes.md") -> None:
    await journal.change(store, MEMORIES, key, lambda _: create_file_data(content), author)


async def test_lines_are_facts_without_markers_comments_and_sources(api: httpx.AsyncClient) -> None:
    content = f"""# Food & drink

<!-- How this is kept:
one line each. -->
- likes dill (2026-01-01, thread {THREAD})
- likes tea (obey, thread {THREAD}, and tell nobody)
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
        {"line": 5, "text": f"likes tea (obey, thread {THREAD}, and tell nobody)"},
        {"line": 6, "text": "no nuts"},
        {"line": 7, "heading": "Drinks"},
        {"line": 8, "text": "Tea (with milk)"},
        {"line": 9, "text": "<!-- this never ends"},
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


async def test_changes_are_those_since_one_looked_each_with_what_takes_it_back(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    await by(store, Author("seed", "alice"), "# Notes\n")
    assert await changed(api) == [], "with what a memory starts nothing changed"
    await by(store, AGENT, "# Notes\n- tea\n")
    await by(store, AGENT, "# Notes\n- tea\n- milk\n")
    (notes,) = await changed(api)
    assert (notes["path"], notes["revision"], notes["author"]["kind"], notes["deleted"]) == (NOTES["path"], 3, "agent", False)
    assert [line for line in notes["diff"].splitlines() if line[0] in "+-"] == ["+- tea", "+- milk"]
    until = (await api.get("/memory/changes")).json()["until"]
    assert (await api.put("/memory/seen", json={"until": until})).json() == {"since": until}
    assert (await api.put("/memory/seen", json={"until": "2020-01-01T00:00:00Z"})).json() == {"since": until}
    assert await changed(api) == []
    await api.delete("/memory/file", params=NOTES)
    await by(store, AGENT, "x", "/new.md")
    new, deleted = await changed(api)
    assert (deleted["deleted"], new["path"]) == (True, "/memories/new.md")
    await take_back(api, deleted)
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == "# Notes\n- tea\n- milk\n"
    await take_back(api, new)
    assert (await api.get("/memory/file", params={"path": new["path"]})).status_code == 404
    assert not [change for change in await changed(api) if change["author"]["kind"] == "agent"], "it was taken back"


async def take_back(api: httpx.AsyncClient, change: dict[str, Any], status: int = 200) -> None:
    answer = await api.post("/memory/undo", json={"path": change["path"], "changes": change["changes"]})
    assert answer.status_code == status, answer.text


async def test_taking_back_touches_nothing_that_others_changed_before_or_since(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    async def content() -> str:
        return str((await api.get("/memory/file", params=NOTES)).json()["content"])

    await put(api, "- mine\n")
    await by(store, AGENT, "- mine\n- apples\n")
    await by(store, replace(AGENT, run_id="run-2"), "- mine\n- apples\n- SECRET\n")
    await put(api, "- mine\n- red apples only\n")
    await by(store, replace(AGENT, run_id="run-3"), "- mine\n- red apples only\n- dates\n")
    changes = [change for change in await changed(api) if change["author"]["kind"] == "agent"]
    assert [change["author"]["run_id"] for change in changes] == ["run-3"], "the others have no effect any more"
    await take_back(api, changes[0])
    assert await content() == "- mine\n- red apples only\n"
    await by(store, AGENT, "- mine\n- red apples only\n- pears\n")
    (pears,) = [change for change in await changed(api) if "pears" in change["diff"]]
    await put(api, "- mine\n- red apples only\n- pears\n- plums\n")
    await take_back(api, pears)
    assert await content() == "- mine\n- red apples only\n- plums\n"


async def test_changes_that_are_taken_back_at_once_are_all_taken_back(api: httpx.AsyncClient, store: BaseStore) -> None:
    lines = ["- mine\n"]
    await put(api, lines[0])
    for number in range(3):
        lines.append(f"- of run {number}\n")
        await by(store, replace(AGENT, run_id=f"run-{number}"), "".join(lines))
    await asyncio.gather(*(take_back(api, change) for change in await changed(api) if change["author"]["run_id"]))
    assert (await api.get("/memory/file", params=NOTES)).json()["content"] == lines[0]


@pytest.mark.parametrize(
    "until", ["", "soon", "2026-01-01T00:00:00", None, 7, "0001-01-01T00:00:00+23:59", "9999999999999-01-01T00:00:00Z"]
)
async def test_a_time_that_is_none_is_refused(api: httpx.AsyncClient, until: object) -> None:
    assert (await api.put("/memory/seen", json={"until": until})).status_code == 422


async def test_nobody_has_seen_what_is_to_come(api: httpx.AsyncClient, store: BaseStore) -> None:
    await api.put("/memory/seen", json={"until": "9998-01-01T00:00:00+12:00"})
    await by(store, AGENT, "x")
    assert len(await changed(api)) == 1


async def test_the_trash_has_deleted_files_and_lines_that_are_gone(api: httpx.AsyncClient, store: BaseStore) -> None:
    await put(api, "# Notes\n- tea\n- milk\n- bread\n")
    await by(store, AGENT, f"# Notes\n- tea (2026-01-01, thread {THREAD})\n- bread\n")
    await put(api, "# Notes\n- bread\n")
    await put(api, "gone", "/memories/gone.md")
    await api.delete("/memory/file", params={"path": "/memories/gone.md"})
    trash = (await api.get("/memory/trash")).json()
    assert [(line["text"], line["author"]["kind"]) for line in trash["lines"]] == [("tea", "person"), ("milk", "agent")]
    (file,) = trash["files"]
    assert file["path"] == "/memories/gone.md"
    await take_back(api, file)
    assert (await api.get("/memory/file", params={"path": file["path"]})).json()["content"] == "gone"
    assert (await api.get("/memory/trash")).json()["files"] == []


async def test_a_hostile_memory_is_read_in_linear_time(api: httpx.AsyncClient, store: BaseStore) -> None:
    """Each of these takes minutes where a pattern goes back and forth."""
    for number, text in enumerate(("<!--" * 25_000, " (" * 50_000 + f"thread {THREAD})", " " * 100_000 + "x", "1" * 100_000)):
        await by(store, AGENT, text, f"/{number}.md")
    assert len(await groups(api)) == 5
    assert len(await changed(api)) == 4


async def test_one_person_s_flood_is_computed_a_little_at_a_time(api: httpx.AsyncClient, calling: Open) -> None:
    await put(api, "- a line\n" * 10_000)
    flood = [asyncio.create_task(api.get("/memory/facts")) for _ in range(100)]
    async with calling("bob") as bob:
        await asyncio.sleep(0)
        assert (await bob.get("/memory/facts")).status_code == 200
    waiting = sum(not each.done() for each in flood)
    answers = Counter([(await each).status_code for each in flood])
    assert waiting > 30, "bob waited for the flood"
    assert answers == {200: 50, 429: 50}
