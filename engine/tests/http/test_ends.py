"""Facts with an end, as the page and other programs see them: which are over, and that they stay so
when they are undone, exported and imported.
"""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.http import export
from lasting_memory.people.identity import Actor
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.conftest import Clock
from tests.http.conftest import NOTES, Open, exported, put
from tests.http.test_memory_mcp import call

SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"
OFFER = f"- The offer holds {SOURCE} (until 2026-06-30)"
ACME = "- Worked at Acme (until 2024-06-30)"
TEXT = f"# Notes\n\n{OFFER}\n{ACME}\n- Likes tea\n"


async def lines(api: httpx.AsyncClient, path: str = NOTES["path"]) -> list[dict[str, Any]]:
    groups = (await api.get("/memory/facts")).json()["groups"]
    return next(group["lines"] for group in groups if group["path"] == path)


async def test_facts_say_until_when_they_hold_and_which_are_over(
    api: httpx.AsyncClient, clock: Clock
) -> None:
    await put(api, TEXT)
    offer = {"line": 2, "text": "The offer holds", "until": "2026-06-30"}
    history = {"line": 3, "text": "Worked at Acme (until 2024-06-30)"}
    tea = {"line": 4, "text": "Likes tea"}
    assert await lines(api) == [offer, history, tea]
    clock.set("2026-07-01")
    assert await lines(api) == [{**offer, "over": True}, history, tea]
    file = (await api.get("/memory/file", params=NOTES)).json()
    assert file["content"] == TEXT, "the text stays as it is"


async def test_a_line_that_is_over_is_not_in_the_page_s_search_and_prompt(
    api: httpx.AsyncClient, clock: Clock
) -> None:
    await put(api, TEXT, "/memories/preferences.md")
    clock.set("2026-07-01")
    found = (await api.get("/memory/find", params={"q": "offer"})).json()["found"]
    assert found == []
    blocks = (await api.get("/memory/prompt")).json()["blocks"]
    memory = next(block["text"] for block in blocks if block["name"] == "memory")
    assert "The offer" not in memory
    assert ACME in memory


async def test_other_programs_see_no_line_that_is_over_and_may_still_take_it_out(
    calling: Open, clock: Clock
) -> None:
    async with calling() as api:
        await put(api, TEXT)
        clock.set("2026-07-01")
        _, known = await call(api, "what_do_you_know")
        assert "offer" not in known
        assert "Worked at Acme (until 2024-06-30)" in known
        _, found = await call(api, "search_memory", query="offer")
        assert "The offer holds" not in found
        done, _ = await call(api, "forget", line="The offer holds")
        assert done
        file = (await api.get("/memory/file", params=NOTES)).json()
        assert "offer" not in file["content"]


async def test_lines_undone_restored_or_imported_are_over_as_before(
    calling: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "get_client", Platform)
    async with calling() as api, calling("bob") as other:
        first = (await put(api, TEXT)).json()["revision"]
        clock.set("2026-07-01")
        assert (await api.delete("/memory/file", params=NOTES)).status_code == 200
        restored = {"path": NOTES["path"], "revision": first}
        assert (await api.post("/memory/undo", json=restored)).status_code == 200
        assert [line.get("over") for line in await lines(api)] == [True, None, None]
        document = (await api.get("/memory/export")).json()
        files = [file for file in document["files"] if file["path"] == NOTES["path"]]
        assert (await other.post("/memory/import", json=exported(*files))).status_code == 200
        assert [line.get("over") for line in await lines(other)] == [True, None, None]


@pytest.mark.parametrize("at", ["never", "2999-01-01T00:00:00+00:00", "0001-01-01", ""])
async def test_a_time_that_is_none_of_an_import_is_left_out(
    api: httpx.AsyncClient, clock: Clock, at: str
) -> None:
    clock.set("2026-07-01")
    file = {"path": NOTES["path"], "content": TEXT, "written": {"x" * 16: at}}
    assert (await api.post("/memory/import", json=exported(file))).status_code == 200
    assert [line.get("over") for line in await lines(api)] == [None, None, None]


async def test_days_in_a_group_s_folder_are_those_of_utc(
    calling: Open, store: BaseStore, clock: Clock
) -> None:
    routes = {**ROUTES, "/team/": group("team_id", over_http=True)}
    team = routes["/team/"].namespace(Actor("alice", "acme"), "", {"team_id": "red"})
    file = {"content": TEXT, "encoding": "utf-8", "modified_at": "2026-06-01T00:00:00+00:00"}
    await store.aput(team, "/plan.md", file)
    async with calling(
        settings=replace(deployed(), routes=routes), claims={"team_id": "red"}
    ) as api:
        await put(api, '{"timezone": "Pacific/Kiritimati"}', "/memories/profile.json")
        await put(api, TEXT)
        for day, hour, is_over in (("2026-06-30", 20, None), ("2026-07-01", 1, True)):
            clock.set(day, hour)
            assert (await lines(api))[0]["over"]
            (folder,) = (await api.get("/memory/facts")).json()["shared"]
            (plan,) = folder["groups"]
            assert plan["lines"][0].get("over") is is_over


async def test_facts_of_a_deployment_without_ends_are_text(calling: Open, clock: Clock) -> None:
    async with calling(settings=replace(deployed(), ends=False)) as api:
        await put(api, TEXT)
        clock.set("2026-07-01")
        (offer, *_) = await lines(api)
        assert offer == {"line": 2, "text": "The offer holds (until 2026-06-30)"}
        assert (await api.get("/memory/me")).json()["ends"] is False
