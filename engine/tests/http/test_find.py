"""Search of one's memory by HTTP, as the agent's tool finds it."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent import memory_search
from lasting_memory.recall import rank
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.stores import INDEX
from tests.http.conftest import MEMORIES, Open, put

COOKING = "/memories/topics/cooking.md"
SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"
LIST = (
    "# Cooking\n\n"
    + "".join(f"- Dish number {n} is a soup\n" for n in range(60))
    + f"- Grows leek behind the shed {SOURCE}\n"
)


async def found(client: httpx.AsyncClient, query: str, **more: Any) -> Any:
    answer = await client.get("/memory/find", params={"q": query, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["found"]


async def test_the_best_file_its_passage_and_its_facts_are_found(api: httpx.AsyncClient) -> None:
    await put(api, "- Plays the cello.\n", "/memories/topics/music.md")
    await put(api, LIST, COOKING)
    (best,) = await found(api, "who grows leek?")
    assert (best["path"], best["lines"]) == (
        COOKING,
        [{"line": 62, "text": "Grows leek behind the shed"}],
    )
    assert "Grows leek" in best["text"], "though it is at the end of a long list"
    assert len(best["text"]) <= 600
    facts = (await api.get("/memory/facts")).json()["groups"]
    lines = next(group["lines"] for group in facts if group["path"] == COOKING)
    assert {"line": 62, "text": "Grows leek behind the shed"} in lines, (
        "the numbers and texts of both are the same"
    )
    assert await found(api, "submarines") == []


async def test_a_search_of_memory_finds_no_other_person_s_lines(calling: Open) -> None:
    async with (
        calling("bob") as bob,
        calling("alice", org_id="other") as other,
        calling("alice") as alice,
    ):
        await put(bob, "- Bob grows leek.\n")
        await put(other, "- Other grows leek.\n")
        assert await found(alice, "leek") == []
        (hers,) = await found(bob, "leek")
        assert hers["text"] == "- Bob grows leek."


async def test_an_operator_may_search_somebody_s(calling: Open) -> None:
    async with (
        calling("bob") as bob,
        calling("root", permissions=["memory:operate"]) as root,
        calling("alice") as alice,
    ):
        await put(bob, "- Bob grows leek.\n")
        assert len(await found(root, "leek", user_id="bob", org_id="acme")) == 1
        refused = await alice.get(
            "/memory/find", params={"q": "leek", "user_id": "bob", "org_id": "acme"}
        )
        assert refused.status_code == 403


@pytest.mark.parametrize("query", [
    {}, {"q": ""}, {"q": "  "}, {"q": "x" * 1_001}, {"q": "x", "limit": 0}, {"q": "x", "limit": 21}, {"q": "x", "path": "y"},
])  # fmt: skip
async def test_a_search_s_query_and_limit_are_bounded(
    api: httpx.AsyncClient, query: dict[str, Any]
) -> None:
    assert (await api.get("/memory/find", params=query)).status_code == 422


async def test_a_search_finds_no_more_files_than_asked_for(api: httpx.AsyncClient) -> None:
    for number in range(8):
        await put(api, "- leek\n", f"/memories/{number}.md")
    assert len(await found(api, "leek")) == 5
    assert len(await found(api, "leek", limit=7)) == 7


def ranked_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of texts that the search has ranked."""
    counts: list[int] = []

    def counted(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        counts.append(len(texts))
        return rank(query, texts)

    monkeypatch.setattr(memory_search, "rank", counted)
    return counts


async def test_a_search_of_long_files_ranks_few_lines_and_finds_the_right_ones(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(
        api, "a\n\n" * 40_000 + "- grows leek\n\n" + "b\n\n" * 40_000, "/memories/paragraphs.md"
    )
    await put(api, "- a\n" * 30_000 + "- likes leek\n" + "- b\n" * 30_000, "/memories/lines.md")
    counts = ranked_at_once(monkeypatch)
    by_path = {file["path"]: file for file in await found(api, "leek")}
    assert by_path["/memories/lines.md"]["lines"] == [{"line": 30_000, "text": "likes leek"}]
    assert by_path["/memories/paragraphs.md"]["lines"] == [{"line": 80_000, "text": "grows leek"}]
    assert all("leek" in file["text"] for file in by_path.values())
    assert sum(counts) < 40_000


async def test_the_search_of_one_s_memory_says_that_memory_is_shared(calling: Open) -> None:
    async with calling(settings=deployed(memory_scope="assistant")) as api:
        assert (await api.get("/memory/find", params={"q": "leek"})).status_code == 409


async def test_a_search_finds_by_meaning_where_the_store_has_an_index() -> None:
    store = InMemoryStore(index=INDEX)
    await store.aput(MEMORIES, "/a.md", {**create_file_data("Has a puppy.")})
    async with http_client(
        deployed(), store, SignedIn(identity="alice", org_id="acme", permissions=[])
    ) as api:
        (best,) = await found(api, "any pet?")
    assert (best["path"], best["text"], best["lines"]) == ("/memories/a.md", "Has a puppy.", [])


async def test_a_file_is_found_once_however_many_of_its_paragraphs_match(calling: Open) -> None:
    async with calling() as api:
        await put(api, "cello in spring\n\ncello in autumn\n\ncello\n", "/memories/topics/a.md")
        await put(api, "a cello\n", "/memories/topics/b.md")
        found = (await api.get("/memory/find", params={"q": "cello", "limit": 2})).json()["found"]
    assert sorted(file["path"] for file in found) == [
        "/memories/topics/a.md",
        "/memories/topics/b.md",
    ]
