"""Reading all conversations again, at the HTTP door: the estimate, the begin, the state, and the
stop.
"""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.http import dream_runs as routes
from lasting_memory.http import export as export_routes
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.http.conftest import Open, kept, put

ALICE = Actor("alice", "acme")
AGAIN = {"from": "beginning"}


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    platform = Platform()
    for module in (routes, export_routes):
        monkeypatch.setattr(module, "get_client", lambda: platform)
    # It is the platform's own way to act as somebody, which needs a server.
    monkeypatch.setattr("lasting_memory.platform.acting_as_caller", lambda _: nullcontext())
    for number in range(3):
        messages = [{"type": "human", "id": f"m{number}", "content": "I like leek " * 20}]
        platform.put(ALICE, f"t{number}", platform.now.isoformat(), messages)
    return platform


async def ask(client: httpx.AsyncClient, **query: Any) -> httpx.Response:
    return await client.post("/memory/consolidate", params={**AGAIN, **query})


async def state(client: httpx.AsyncClient) -> Any:
    answer = await client.get("/memory/dream")
    assert answer.status_code == 200, answer.text
    return answer.json()["dream"]


async def test_a_dream_begins_only_with_a_confirmed_estimate(
    api: httpx.AsyncClient, platform: Platform, store: BaseStore
) -> None:
    before = kept(store)
    estimate = await ask(api)
    assert estimate.status_code == 200
    told = estimate.json()
    assert (told["conversations"], told["messages"]) == (3, 3)
    assert told["tokens"] > 0
    assert kept(store) == before
    assert await state(api) is None
    assert not platform.runs.all()
    too_many = await ask(api, tokens=told["tokens"] * 2 + 1)
    assert too_many.status_code == 422
    assert "at most" in too_many.json()["detail"]
    assert not platform.runs.all()


async def test_a_confirmed_estimate_is_its_cap_and_there_is_one_dream_a_person(
    api: httpx.AsyncClient, platform: Platform
) -> None:
    tokens = (await ask(api)).json()["tokens"]
    begun = await ask(api, tokens=tokens)
    assert begun.status_code == 202, begun.text
    dream = begun.json()["dream"]
    assert (dream["status"], dream["cap"], dream["conversations"]) == ("reading", tokens, 3)
    assert await state(api) == dream
    (run,) = platform.runs.all()
    assert run["metadata"] == {"trigger": "dream", "consolidates": "dream all"}
    for query in ({}, {"tokens": tokens}):
        refused = await ask(api, **query)
        assert (refused.status_code, "DELETE /memory/dream" in refused.text) == (409, True)
    platform.runs.kept.clear()  # its process died
    assert (await ask(api)).status_code == 202
    assert len(platform.runs.all()) == 1


async def test_a_dream_that_is_stopped_leaves_nothing_of_its_draft(
    api: httpx.AsyncClient, platform: Platform, store: BaseStore
) -> None:
    assert (await put(api, "- Owns a tractor\n")).is_success
    assert (await api.delete("/memory/dream")).status_code == 404
    tokens = (await ask(api)).json()["tokens"]
    assert (await ask(api, tokens=tokens)).status_code == 202
    of_dream = [key for (place, key) in kept(store) if place[0] == "dream"]
    assert "file /notes.md" in of_dream
    stopped = (await api.delete("/memory/dream")).json()["dream"]
    assert (stopped["status"], stopped["reason"]) == ("ended", "stopped")
    assert {key for (place, key) in kept(store) if place[0] == "dream"} == {"state", "stopped"}
    assert (await ask(api)).status_code == 200


async def test_an_export_has_its_draft(api: httpx.AsyncClient, platform: Platform) -> None:
    platform.kept.clear()
    assert (await put(api, "- Owns a tractor\n")).is_success
    assert json.loads((await api.get("/memory/export")).text)["dream"] is None
    tokens = (await ask(api)).json()["tokens"]
    messages = [{"type": "human", "id": "m", "content": "I like leek"}]
    platform.put(ALICE, "t", platform.now.isoformat(), messages)
    tokens = tokens or (await ask(api)).json()["tokens"]
    assert (await ask(api, tokens=tokens)).status_code == 202
    platform.kept.clear()
    exported = json.loads((await api.get("/memory/export")).text)["dream"]
    assert (exported["status"], exported["cap"]) == ("reading", tokens)
    assert exported["files"] == {"/memories/notes.md": "- Owns a tractor\n"}


@pytest.mark.parametrize(
    "query",
    [{"dry_run": "true"}, {"tidy": "true"}, {"tokens": "0"}, {"tokens": "many"}, {"from": "now"}],
    ids=str,
)
async def test_queries_that_do_not_go_together_are_refused(
    api: httpx.AsyncClient, platform: Platform, query: dict[str, str]
) -> None:
    assert (await ask(api, **query)).status_code == 422
    assert (await api.post("/memory/consolidate", params={"tokens": "5"})).status_code == 422
    assert not platform.runs.all()


async def test_paused_memory_is_not_read_again(api: httpx.AsyncClient, platform: Platform) -> None:
    assert (await api.put("/memory/controls", json={"paused": True})).is_success
    assert (await ask(api)).status_code == 409
    assert not platform.runs.all()


async def test_a_dream_is_begun_and_stopped_by_its_person_alone(
    calling: Open, platform: Platform
) -> None:
    operator = {"permissions": ["memory:operate"]}
    about = {"user_id": "alice", "org_id": "acme"}
    async with calling("root", **operator) as client:
        assert (await ask(client, **about)).status_code == 403
        assert (await client.delete("/memory/dream", params=about)).status_code == 403
        assert (await client.get("/memory/dream", params=about)).json() == {"dream": None}


async def test_turned_off_its_routes_and_its_part_of_the_page_are_not_there(
    calling: Open, platform: Platform
) -> None:
    for settings in (deployed(), replace(deployed(), dream=False)):
        async with calling("alice", settings) as client:
            page = (await client.get("/app")).text
            assert ("dream/part.js" in page) == settings.dream
            if not settings.dream:
                for refused in (
                    await ask(client),
                    await client.get("/memory/dream"),
                    await client.delete("/memory/dream"),
                ):
                    assert refused.status_code == 404
                    assert "dream is False" in refused.json()["detail"]
