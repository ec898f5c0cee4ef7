"""Limits on what one person may ask for, policies that people may change, and what the logs must not show."""

import time
import uuid
from typing import Any

import jwt
import pytest

from lasting_memory.limits import DEFAULTS
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, system_text
from lasting_memory.validation import MAX_FILE_BYTES
from tests.conftest import served

SECRET = "a shared secret that nobody may read in a log"
API_KEY = "sk-ant-nobody-may-read-this-either"
LATER: dict[str, Any] = {
    "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "later"}]}, "after_seconds": 3_600,
}  # fmt: skip
pytestmark = pytest.mark.server


def saying(text: str) -> dict[str, Any]:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}


async def test_a_person_with_too_many_busy_conversations_is_told_to_wait(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, other = server.person(alice), server.person(f"other-{alice}")
    model.script(f"slow {alice}", *[Slow(60, [Text("late")])] * DEFAULTS.busy_threads)
    threads = [await person.thread() for _ in range(DEFAULTS.busy_threads + 1)]
    runs = [await person.made("POST", f"/threads/{thread}/runs", saying(f"slow {alice}")) for thread in threads[:-1]]
    assert (await person.ask("POST", f"/threads/{threads[-1]}/runs", saying("one too many"))).status_code == 429
    await other.turn(await other.thread(), "I have none")
    for thread, run in zip(threads, runs, strict=False):
        await person.ask("POST", f"/threads/{thread}/runs/{run['run_id']}/cancel")
    await person.idle()
    await person.turn(threads[-1], "now it is fine")


async def waiting(person: Person) -> list[int]:
    """How many runs wait on each conversation of the person's on which any does, whatever its status says."""
    threads = await person.made("POST", "/threads/search", {"limit": 100})
    runs = [await person.made("GET", f"/threads/{thread['thread_id']}/runs", status="pending") for thread in threads]
    return [len(count) for count in runs if count]


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_no_conversation_with_a_run_waiting_escapes_the_limit(server: DevServer, alice: str, how: str) -> None:
    """Not one that the platform calls idle, since the first of its two runs is cancelled; and forgetting stops it."""
    person = server.person(alice)
    for _ in range(DEFAULTS.busy_threads - 1):
        thread = await person.thread()
        first = await person.made("POST", f"/threads/{thread}/runs", LATER)
        strategy = "enqueue" if how == "cancel" else how
        await person.made("POST", f"/threads/{thread}/runs", {**LATER, "multitask_strategy": strategy})
        if how == "cancel":
            await person.ask("POST", f"/threads/{thread}/runs/{first['run_id']}/cancel")
        assert (await person.made("GET", f"/threads/{thread}"))["status"] == "idle"
    await person.made("POST", f"/threads/{await person.thread()}/runs", LATER)
    assert (await person.ask("POST", f"/threads/{await person.thread()}/runs", LATER)).status_code == 429
    assert await waiting(person) == [1] * DEFAULTS.busy_threads
    await person.made("DELETE", "/memory")
    assert await waiting(person) == []


async def test_every_run_of_a_batch_counts(server: DevServer, alice: str) -> None:
    person = server.person(alice)
    assert (await person.ask("POST", "/runs/batch", [LATER] * 30)).status_code == 429
    assert len(await waiting(person)) <= DEFAULTS.busy_threads


def token(identity: str, *permissions: str, org: str = "acme") -> str:
    claims = {"sub": identity, "org_id": org, "permissions": list(permissions), "exp": int(time.time()) + 3600}
    return jwt.encode(claims, SECRET, algorithm="HS256")


signed = served(AUTH_JWT_SECRET=SECRET, ANTHROPIC_API_KEY=API_KEY, LOG_LEVEL="DEBUG")
RULE = {"content": "Never promise a date.", "encoding": "utf-8"}
WRITER = "policies:write"


def of(server: DevServer, token: str) -> Person:
    return server.person("", headers={"Authorization": f"Bearer {token}"})


async def put(who: Person, namespace: list[str], key: str = "/x.md", value: Any = RULE) -> int:
    return (await who.ask("PUT", "/store/items", {"namespace": namespace, "key": key, "value": value})).status_code


async def test_with_the_permission_people_change_their_organization_s_policies(
    signed: DevServer, model: ScriptedAnthropic
) -> None:
    """With the permission people change their own organization's policies, and it is logged. Their agents do not."""
    author, reader = of(signed, token("author\nAUDIT forged", WRITER)), of(signed, token("reader"))
    assert await put(author, ["policies", "acme"], "/dates.md") == 204
    await reader.turn(await reader.thread(), "are there rules?")
    assert "Never promise a date." in system_text(model.requests[-1])
    deleted = await author.ask("DELETE", "/store/items", {"namespace": ["policies", "acme"], "key": "/dates.md"})
    assert deleted.status_code == 204
    lines = [line for line in signed.log.splitlines() if "AUDIT policies." in line]
    assert len(lines) == 2
    assert all(r"org='acme' by='author\nAUDIT forged' key='/dates.md'" in line for line in lines)
    text = f"change the rules {uuid.uuid4()}"
    model.script(text, [ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"})], [Text("done")])
    await author.turn(await author.thread(), text)
    found = await author.made("POST", "/store/items/search", {"namespace_prefix": ["policies", "acme"]})
    assert found["items"] == []


@pytest.mark.parametrize("namespace", [["policies", "globex"], ["memories", "acme:author"]])
async def test_nothing_else_is_theirs_to_write(signed: DevServer, namespace: list[str]) -> None:
    author, operator = of(signed, token("author", WRITER)), signed.person("", headers=OPERATOR)
    assert await put(author, namespace) == 403
    assert (await author.ask("DELETE", "/store/items", {"namespace": namespace, "key": "/x.md"})).status_code == 403
    assert (await operator.made("POST", "/store/items/search", {"namespace_prefix": namespace}))["items"] == []


async def test_a_policy_the_agent_could_not_be_shown_is_refused(signed: DevServer) -> None:
    author, policies = of(signed, token("author", WRITER)), ["policies", "acme"]
    for key in ("/", "x.md", "/a/../x.md", "/x.txt"):
        assert await put(author, policies, key) == 422, key
    for content in (7, "x" * (MAX_FILE_BYTES + 1), "a\x00b"):
        assert await put(author, policies, value={"content": content, "encoding": "utf-8"}) == 422, str(content)[:20]
    for value in ({"rule": "no content"}, {"content": "AAEC", "encoding": "base64"}):
        assert await put(author, policies, value=value) == 422, value


async def test_no_secret_is_in_the_logs_whatever_happens(signed: DevServer, model: ScriptedAnthropic) -> None:
    good, bad = token("alice@example.com"), token("alice@example.com") + "x"
    person = of(signed, good)
    await person.turn(await person.thread(), "hello")
    for wrong in (bad, "x" * 100_000):
        assert (await of(signed, wrong).http.post("/threads/search", json={})).status_code in (400, 401, 431)
    model.script("fail", lambda _: [ToolCall("ls", {"path": 7})], lambda body: [Text(str(body["nothing"]))])
    failed = await person.ask("POST", f"/threads/{await person.thread()}/runs/wait", saying("fail"))
    assert "Error" in failed.text
    assert signed.log
    for secret in (SECRET, API_KEY, good, bad, good.split(".")[2], "x" * 1_000):
        assert secret not in signed.log
