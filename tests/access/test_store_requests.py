"""People's requests to the store API: rebuilt from their shapes, and no call that fails fails another one's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk import Auth

from access.run_requests import MAX_LIMIT, MAX_OFFSET, rebuild_store_request
from memory.identity import Actor
from memory.namespaces import memories
from settings import Settings
from testing.dev_server import DevServer, dev_token

HTTPException = Auth.exceptions.HTTPException
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
FIELDS = {
    "get": ["refresh_ttl"],
    "search": ["filter", "query", "limit", "offset", "refresh_ttl"],
    "list_namespaces": ["suffix", "max_depth", "limit", "offset"],
    "put": ["value", "index", "ttl"],
    "delete": list[str](),
}


@pytest.mark.parametrize("action", FIELDS)
@given(data=st.data())
def test_whatever_is_sent_has_its_shape_or_is_refused(action: str, data: st.DataObject) -> None:
    names = st.sampled_from([*FIELDS[action], "other"])
    value: dict[str, Any] = {"namespace": ("memories", "a"), "key": "/a.md", **data.draw(st.dictionaries(names, JSON))}
    with contextlib.suppress(HTTPException):
        rebuild_store_request(action, value)
        value["rebuilt"] = True
    if not value.pop("rebuilt", False):
        return
    assert value.keys() == {"namespace", "key", *FIELDS[action]}
    assert (value["namespace"], value["key"]) == (("memories", "a"), "/a.md")
    assert 0 <= value.get("limit", 0) <= MAX_LIMIT
    assert 0 <= value.get("offset", 0) <= MAX_OFFSET
    assert not any(isinstance(of, dict | list) for of in (value.get("filter") or {}).values())
    assert value.get("value", {}).keys() <= {"content", "encoding", "created_at", "modified_at"}


@pytest.mark.server
async def test_others_are_served_beside_searches_that_fail(shared_server: DevServer, alice: str) -> None:
    """An operator's filter is not rebuilt; Studio may send any."""
    org, poison = "acme", {"namespace_prefix": ["memories"], "filter": {"content": {"$gt": 1}}}
    mine = {"authorization": f"Bearer {dev_token(org, alice)}"}
    async with httpx.AsyncClient(base_url=shared_server.url, timeout=60, trust_env=False) as http:
        path = {"path": "/memories/a.md"}
        await http.put("/memory/file", params=path, json={"content": "likes fennel"}, headers=mine)
        namespace = memories(Actor(alice, org), "", Settings())
        bad = [http.post("/store/items/search", json=poison, headers={"x-auth-scheme": "langsmith"}) for _ in range(40)]
        good = [http.get("/memory/file", params=path, headers=mine) for _ in range(40)]
        answers = await asyncio.gather(*(call for pair in zip(bad, good, strict=True) for call in pair))
        assert {answer.status_code for answer in answers[1::2]} == {200}

        async def search(**filters: Any) -> httpx.Response:
            return await http.post("/store/items/search", json={"namespace_prefix": namespace, "filter": filters}, headers=mine)

        for refused in [await search(content=odd) for odd in ({"$gt": 1}, {"$near": 1}, ["x"])]:
            assert refused.status_code == 422
            assert "filter" in refused.text
        fits = await search(encoding="utf-8")
        assert [item["key"] for item in fits.json()["items"]] == ["/a.md"]
