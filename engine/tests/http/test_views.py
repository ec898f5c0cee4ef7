"""What the page asks for beside files: who one is, what the model sees, one's organization's rules, past conversations."""

import json
from typing import Any

import httpx
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory import journal
from lasting_memory.deployment import DEFAULTS
from lasting_memory.http import views as api_views
from lasting_memory.people.identity import WRITE_POLICIES
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, system_text
from tests.http.conftest import Open, kept, put
from tests.recall.talks import ALICE, left, say

BLOCKS = ["agent", "policies", "memory", "skills"]
POLICIES, SKILL = ("policies", "acme"), "---\nname: letters\ndescription: Write letters.\n---\nDo it well.\n"


async def told(client: httpx.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"/memory/{path}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def test_me_says_who_one_is_and_how_memory_is_kept(calling: Open) -> None:
    settings = deployed(memory_scope="user+assistant", memory_writes="background")
    async with calling("alice", settings, permissions=[WRITE_POLICIES]) as client:
        assert await told(client, "me") == {
            "user_id": "alice",
            "org_id": "acme",
            "agents": ["agent"],
            "memory_scope": "user+assistant",
            "routes": {
                "/memories/": {
                    "shared": False,
                    "writes": "deny",
                    "namespace": ["memories", f"{settings.default_assistant}:acme:alice"],
                },
                "/policies/": {"shared": True, "writes": "deny", "namespace": ["policies", "acme"]},
                "/skills/": {"shared": True, "writes": "deny", "namespace": None},
            },
            "memory_writes": "background",
            "sign_in": "token",
            "operator": False,
            "writes_policies": True,
        }
    async with calling("root", deployed(operators=frozenset({"root"}), local_dev=True)) as root:
        root.headers["host"] = "127.0.0.1"
        me = await told(root, "me", user_id="bob", org_id="globex")
        assert (me["user_id"], me["org_id"], me["operator"], me["sign_in"]) == ("bob", "globex", True, "dev")


async def test_policies_are_one_s_organization_s_with_the_way_to_change_them(calling: Open, store: BaseStore) -> None:
    store.put(POLICIES, "/compliance.md", {**create_file_data("Be kind.\n")})
    store.put(POLICIES, "/more/details.md", {**create_file_data("é")})
    store.put(POLICIES, "/odd.md", {"content": 7})
    store.put(("policies", "globex"), "/secret.md", {**create_file_data("Theirs.\n")})
    async with calling() as client:
        policies = await told(client, "policies")
    assert (policies["namespace"], policies["writable"]) == (list(POLICIES), False)
    assert [(file["path"], file["key"], file["content"], file["bytes"], file["in_prompt"]) for file in policies["files"]] == [
        ("/policies/compliance.md", "/compliance.md", "Be kind.\n", 9, True),
        ("/policies/more/details.md", "/more/details.md", "é", 2, False),
        ("/policies/odd.md", "/odd.md", None, 0, True),
    ]
    async with calling(permissions=[WRITE_POLICIES]) as writer:
        assert (await told(writer, "policies"))["writable"] is True


async def test_the_prompt_is_shown_with_sizes_and_what_was_left_out(api: httpx.AsyncClient, store: BaseStore) -> None:
    store.put(POLICIES, "/compliance.md", {**create_file_data("Be kind.\n")})
    await put(api, "x" * (DEFAULTS.memory_block_bytes + 1_000), "/memories/preferences.md")
    await put(api, SKILL, "/memories/skills/letters/SKILL.md")
    agent, policies, memory, *skills = blocks = (await told(api, "prompt"))["blocks"]
    assert [block["name"] for block in blocks] == BLOCKS
    assert (agent["text"][:60] in deployed().prompt("agent.md"), agent["budget"]) == (True, None)
    assert all(len(block["text"]) / 5 < block["tokens"] < len(block["text"]) / 3 + 10 for block in blocks)
    assert "## /policies/compliance.md\n\nBe kind." in policies["text"]
    assert (policies["left_out"], memory["budget"]) == ([], DEFAULTS.memory_block_bytes)
    assert memory["left_out"] == ["/memories/preferences.md: 1,000 bytes"]
    assert ["Write letters." in block["text"] for block in skills] == [True]
    assert all(block["bytes"] == len(block["text"].encode()) for block in blocks)


async def test_looking_at_the_prompt_writes_nothing_and_shows_the_first_memory(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    assert "## /memories/preferences.md" in (await told(api, "prompt"))["blocks"][2]["text"]
    assert not kept(store)


@pytest.mark.parametrize(
    "query", ["", "q=", "q=%20", f"q={'x' * 1_001}", "q=x&limit=0", "q=x&limit=21", "q=x&limit=1.5", "q=x&Q=y"]
)
async def test_a_bad_search_is_refused(api: httpx.AsyncClient, query: str) -> None:
    assert (await api.get(f"/memory/search?{query}")).status_code == 422


@pytest.mark.server
async def test_the_prompt_is_the_next_turn_s_and_a_search_finds_one_s_own_words(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    told = await client.http.get("/memory/prompt")
    blocks = told["blocks"]
    assert {"append_memory", "search_past_conversations", "task", "read_file"} <= set(told["tools"])
    thread = await client.threads.create()
    await run_turn(client, thread["thread_id"], "I keep a zebra called Quirin.")
    shown = system_text(model.requests[-1])
    assert [block["name"] for block in blocks if block["text"] not in shown] == []
    answer = await client.http.get("/memory/search", params={"q": "zebra", "limit": 3})
    assert [talk["thread_id"] for talk in answer["conversations"]] == [thread["thread_id"]]
    assert answer["conversations"][0]["turns"][0] == {"number": 1, "speaker": "user", "text": "I keep a zebra called Quirin."}
    assert "zebra" not in json.dumps(await bob.http.get("/memory/search", params={"q": "zebra"}))


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_search_of_somebody_forgotten_meanwhile_writes_no_index_back(
    store: BaseStore, calling: Open, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    threads = Platform()

    async def forget_alice(_: str) -> None:
        if threads.calls["threads.search"] == nth:
            await journal.forget(store, ALICE)
            while items := await left(store):
                for item in items:
                    await store.adelete(tuple(item.namespace), item.key)
            for thread_id in list(threads.kept):
                threads.remove(thread_id)

    threads.after = forget_alice
    monkeypatch.setattr(api_views, "get_client", lambda: threads)
    async with calling() as client:
        for number in range(30):
            say(threads, f"t{number}", "a zebra", days=number)
        assert (await client.get("/memory/search?q=zebra")).is_success
    assert threads.calls["threads.search"] >= nth
    assert await left(store) == []
