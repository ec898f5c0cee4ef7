"""Which tokens name whom, and who operators act for, on the real server. Who may do what is in test_matrix.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from memory import namespaces
from memory.identity import Actor
from settings import Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import Failure, ScriptedAnthropic, Text, ToolCall, system_text

pytestmark = pytest.mark.server

ORG, OTHER_ORG = "acme", "globex"
SECRET = "alice-says-4711"
NOW: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}


def memories(identity: str, org: str = ORG) -> list[str]:
    return list(namespaces.memories(Actor(identity, org), "", Settings()))


def file(text: str) -> dict[str, str]:
    return {"content": text, "encoding": "utf-8"}


@dataclass
class World:
    """An owner with a conversation and memory, and others who call."""

    http: httpx.Client
    owner: str
    conversation: str = ""

    def headers(self, caller: str) -> dict[str, str]:
        tokens = {
            "elsewhere": dev_token(OTHER_ORG, self.owner),
            "owner": dev_token(ORG, self.owner),
            "root": dev_token(ORG, "root"),
        }
        if caller == "studio":
            return {"x-auth-scheme": "langsmith"}
        return {"Authorization": f"Bearer {tokens[caller]}"}

    def send(self, caller: str, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, path, json=body, headers=self.headers(caller))

    def made(self, caller: str, path: str, body: Any, name: str) -> str:
        response = self.send(caller, "POST", path, body)
        assert response.status_code == 200, response.text
        return str(response.json()[name])


@pytest.fixture(scope="module")
def world(shared_server: DevServer) -> Iterator[World]:
    with httpx.Client(base_url=shared_server.url, timeout=30, trust_env=False) as http:
        world = World(http, owner=f"alice-{uuid.uuid4().hex[:8]}@example.com")
        world.conversation = world.made("owner", "/threads", {"metadata": {"note": SECRET}}, "thread_id")
        body = {**NOW, "input": {"messages": [{"role": "user", "content": SECRET}]}}
        assert world.send("owner", "POST", f"/threads/{world.conversation}/runs/wait", body).status_code == 200
        for namespace, text in (
            (memories(world.owner), SECRET),
            (list(namespaces.policies(ORG)), "policy of acme"),
            (list(namespaces.policies(OTHER_ORG)), "policy of globex"),
        ):
            put = {"namespace": namespace, "key": "/preferences.md", "value": file(text)}
            assert world.send("studio", "PUT", "/store/items", put).status_code == 204
        yield world
        for shared in (namespaces.policies(ORG), namespaces.policies(OTHER_ORG)):
            world.send("studio", "DELETE", "/store/items", {"namespace": list(shared), "key": "/preferences.md"})


@pytest.mark.parametrize("header", ["", "Basic dev:acme:alice", "Bearer dev:acme:"])
def test_who_is_not_signed_in_is_told_why(world: World, header: str) -> None:
    response = world.http.post("/threads/search", json={}, headers={"Authorization": header})
    assert response.status_code == 401
    assert response.json()["detail"]


@pytest.mark.parametrize("caller", ["studio", "root"])
async def test_an_operator_s_context_chooses_whose_memory_is_shown(
    server: DevServer, model: ScriptedAnthropic, world: World, caller: str
) -> None:
    """An operator's context chooses whose memory and which policies are shown."""
    client = server.as_operator() if caller == "studio" else server.as_user("root")
    context = {"user_id": world.owner, "org_id": ORG}
    await run_turn(client, await new_thread(client), f"for alice by {caller}", context=context)
    shown = system_text(model.requests_for(f"for alice by {caller}")[-1])
    assert SECRET in shown
    assert "policy of acme" in shown
    assert "policy of globex" not in shown


async def test_an_operator_without_context_acts_as_itself(server: DevServer, model: ScriptedAnthropic, world: World) -> None:
    """An operator without context acts as itself in the default organization."""
    call = ToolCall("append_memory", {"path": "/memories/note.md", "text": "root was here"})
    model.script("note it", [call], [Text("done")])
    client = server.as_user("root", org=ORG)
    thread = await new_thread(client)
    await run_turn(client, thread, "note it")
    item = await server.as_operator().store.get_item(memories("root", "default"), key="/note.md")
    assert item["value"]["content"] == "root was here\n"
    assert await server.as_operator().store.get_item(memories("root", ORG), key="/note.md") is None
    metadata = (await client.threads.get(thread))["metadata"]
    assert metadata == {**(metadata or {}), "user_id": "root", "org_id": "default"}


async def test_a_thread_that_an_operator_s_run_creates_is_the_user_s_it_acts_for(server: DevServer, world: World) -> None:
    thread = str(uuid.uuid4())
    context = {"user_id": world.owner, "org_id": ORG}
    run = await server.as_operator().runs.create(
        thread, "agent", input=NOW["input"], context=context, if_not_exists="create", after_seconds=3600
    )
    assert world.send("owner", "GET", f"/threads/{thread}/runs/{run['run_id']}").status_code == 200
    assert world.send("elsewhere", "GET", f"/threads/{thread}").status_code == 404


def test_a_copy_made_by_an_operator_is_still_the_owner_s(world: World) -> None:
    copy = world.made("studio", f"/threads/{world.conversation}/copy", None, "thread_id")
    assert SECRET in world.send("owner", "GET", f"/threads/{copy}/state").text
    assert world.send("elsewhere", "GET", f"/threads/{copy}/state").status_code == 404


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


@pytest.mark.parametrize("context", [
    {"user_id": 5}, {"user_id": ["alice"]}, {"user_id": "x" * 5_000}, {"org_id": {"a": 1}},
    {"user_id": "ali\x00ce"}, {"user_id": "alice", "org_id": "ac\x00me"},
])  # fmt: skip
def test_an_operator_who_names_nobody_that_could_be_is_told_so(shared_server: DevServer, context: dict[str, Any]) -> None:
    body = {"assistant_id": "agent", "input": {"messages": []}, "context": context}
    headers = {"x-auth-scheme": "langsmith"}
    answer = httpx.post(f"{shared_server.url}/runs/wait", json=body, headers=headers, trust_env=False, timeout=30)
    assert answer.status_code == 400
    assert "names nobody" in answer.json()["detail"]


async def test_an_operator_who_goes_on_with_a_stopped_run_acts_as_the_thread_s_owner(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, operator = server.as_user(alice), server.as_user("root")
    thread = str((await client.threads.create())["thread_id"])
    text = f"remember {alice}"
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- hers"})
    model.script(text, Failure(401, "authentication_error", "no"), [append], [Text("done")])
    with pytest.raises(Exception, match="Authentication"):
        await run_turn(client, thread, text)
    await operator.runs.wait(thread, "agent", input=None)
    hers, roots = (namespaces.memories(Actor(*who), "", Settings()) for who in ((alice, "acme"), ("root", "default")))
    assert "- hers" in (await operator.store.get_item(list(hers), "/preferences.md"))["value"]["content"]
    assert "- hers" not in str(await operator.store.search_items(list(roots)))


@pytest.mark.parametrize("webhook", ["http://10.0.0.1/x", "/threads"])
def test_no_run_calls_a_private_address(shared_server: DevServer, alice: str, webhook: str) -> None:
    body = {"assistant_id": "agent", "input": {"messages": []}, "webhook": webhook}
    headers = {"authorization": f"Bearer {dev_token('acme', alice)}"}
    answer = httpx.post(f"{shared_server.url}/runs", json=body, headers=headers, trust_env=False)
    assert answer.status_code == 422


def test_the_store_api_refuses_what_no_store_could_look_for(world: World) -> None:
    namespace, odd = memories(world.owner), "a\x00b"
    search = "/store/items/search"
    requests: list[tuple[str, str, Any]] = [
        ("GET", f"/store/items?namespace={'.'.join(namespace)}&key=a%00b", None),
        ("POST", search, {"namespace_prefix": namespace, "filter": {"encoding": odd}}),
        ("POST", search, {"namespace_prefix": namespace, "filter": {odd: "x"}}),
        ("POST", search, {"namespace_prefix": namespace, "query": odd}),
        ("POST", search, {"namespace_prefix": ["memories", odd]}),
        ("PUT", "/store/items", {"namespace": namespace, "key": odd, "value": file("x")}),
        ("DELETE", "/store/items", {"namespace": namespace, "key": odd}),
    ]
    for caller in ("owner", "studio"):
        for method, path, body in requests:
            answer = world.send(caller, method, path, body)
            assert answer.status_code == 422, (caller, method, path, body, answer.text)
