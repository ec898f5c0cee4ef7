"""Limits on what one person may ask for, policies that people may change, and what the logs must not show."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable
from typing import Any

import httpx
import jwt
import pytest
from langgraph_sdk.client import LangGraphClient

from settings import MAX_BUSY_THREADS, MAX_FILE_BYTES, MAX_INPUT_BYTES
from testing.dev_server import DevServer, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, system_text
from tests.conftest import served

SECRET = "a shared secret that nobody may read in a log"
API_KEY = "sk-ant-nobody-may-read-this-either"
pytestmark = pytest.mark.server


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def status(call: Awaitable[Any]) -> int:
    """The HTTP status with which the server refuses a call."""
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        await call
    return refusal.value.response.status_code


async def no_busy_thread(client: LangGraphClient) -> None:
    """Return when no thread of the client's is busy any more."""
    async with asyncio.timeout(60):
        while (await client.threads.count(status="busy")) > 0:  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.1)


async def test_a_run_is_sent_no_more_than_the_limit_and_is_told_so(server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    thread = await new_thread(client)
    assert await status(run_turn(client, thread, "é" * (MAX_INPUT_BYTES // 2))) == 413
    await run_turn(client, thread, "x" * (MAX_INPUT_BYTES // 2))


async def test_a_person_with_too_many_busy_conversations_is_told_to_wait(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A person with too many busy conversations is told to wait, and others are not."""
    client = server.as_user(alice)
    message: Any = {"messages": [{"role": "user", "content": f"slow {alice}"}]}
    model.script(f"slow {alice}", *[Slow(60, [Text("late")])] * MAX_BUSY_THREADS)
    threads = [await new_thread(client) for _ in range(MAX_BUSY_THREADS + 1)]
    runs = [await client.runs.create(thread, "agent", input=message) for thread in threads[:-1]]
    assert await status(run_turn(client, threads[-1], "one too many")) == 429
    other = server.as_user(f"other-{alice}")
    task = asyncio.create_task(run_turn(other, await new_thread(other), "I have none"))
    for thread, run in zip(threads, runs, strict=False):
        await client.runs.cancel(thread, run["run_id"])
    await task
    await no_busy_thread(client)
    await run_turn(client, threads[-1], "now it is fine")


async def test_a_run_that_is_rolled_back_leaves_its_thread_idle(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    model.script(f"slow {alice}", Slow(60, [Text("late")]))
    thread = await new_thread(client)
    message: Any = {"messages": [{"role": "user", "content": f"slow {alice}"}]}
    run = await client.runs.create(thread, "agent", input=message)
    async with asyncio.timeout(60):
        while not model.requests_for(f"slow {alice}"):  # noqa: ASYNC110  # the scripted server's
            await asyncio.sleep(0.1)
    await client.runs.cancel(thread, run["run_id"], action="rollback")
    await no_busy_thread(client)
    assert await client.runs.list(thread) == []


LATER: dict[str, Any] = {"input": {"messages": [{"role": "user", "content": "later"}]}, "after_seconds": 3_600}


async def waiting(client: LangGraphClient) -> list[int]:
    """How many runs wait on each conversation of the client's on which any does, whatever its status says."""
    threads = await client.threads.search(limit=100)
    runs = [await client.runs.list(thread["thread_id"], status="pending") for thread in threads]
    return [len(count) for count in runs if count]


async def two_runs(client: LangGraphClient, how: Any) -> None:
    """Two runs for later on a new thread, of which the first is cancelled, so that the platform calls the thread idle."""
    thread = await new_thread(client)
    first = await client.runs.create(thread, "agent", **LATER)
    await client.runs.create(thread, "agent", multitask_strategy="enqueue" if how == "cancel" else how, **LATER)
    if how == "cancel":
        await client.runs.cancel(thread, first["run_id"])
    assert (await client.threads.get(thread))["status"] == "idle"


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_no_conversation_with_a_run_waiting_escapes_the_limit(server: DevServer, alice: str, how: str) -> None:
    """No conversation with a run waiting escapes the limit, and forgetting stops it."""
    client = server.as_user(alice)
    for _ in range(MAX_BUSY_THREADS - 1):
        await two_runs(client, how)
    last = await new_thread(client)
    await client.runs.create(last, "agent", **LATER)
    assert await status(client.runs.create(await new_thread(client), "agent", **LATER)) == 429
    assert await waiting(client) == [1] * MAX_BUSY_THREADS
    answer = await client.http.client.delete("/memory")
    assert answer.json()["deleted"]["runs"] == MAX_BUSY_THREADS
    assert await waiting(client) == []


async def test_every_run_of_a_batch_counts(server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        await client.runs.create_batch([{"assistant_id": "agent", **LATER} for _ in range(30)])  # type: ignore[typeddict-item]
    assert refusal.value.response.status_code == 429
    assert len(await waiting(client)) <= MAX_BUSY_THREADS


def token(identity: str, *permissions: str, org: str = "acme") -> str:
    claims = {"sub": identity, "org_id": org, "permissions": list(permissions), "exp": int(time.time()) + 3600}
    return jwt.encode(claims, SECRET, algorithm="HS256")


signed = served(AUTH_JWT_SECRET=SECRET, ANTHROPIC_API_KEY=API_KEY, LOG_LEVEL="DEBUG")
RULE = {"content": "Never promise a date.", "encoding": "utf-8"}


async def test_with_the_permission_people_change_their_organization_s_policies(
    signed: DevServer, model: ScriptedAnthropic
) -> None:
    """With the permission people change their own organization's policies, and it is logged."""
    author, reader = signed.client(token("author\nAUDIT forged", "policies:write")), signed.client(token("reader"))
    await author.store.put_item(["policies", "acme"], "/dates.md", RULE)
    await run_turn(reader, await new_thread(reader), "are there rules?")
    assert "Never promise a date." in system_text(model.requests[-1])
    await author.store.delete_item(["policies", "acme"], "/dates.md")
    lines = [line for line in signed.log.splitlines() if "AUDIT policies." in line]
    assert len(lines) == 2
    assert all(r"org='acme' by='author\nAUDIT forged' key='/dates.md'" in line for line in lines)


@pytest.mark.parametrize(
    ("namespace", "permissions"),
    [
        (["policies", "acme"], []),
        (["policies", "globex"], ["policies:write"]),
        (["policies"], ["policies:write"]),
        (["policies", "acme", "deeper"], ["policies:write"]),
        (["skills", "x"], ["policies:write"]),
        (["memories", "acme:author"], ["policies:write"]),
    ],
)
async def test_nothing_else_is_theirs_to_write(signed: DevServer, namespace: list[str], permissions: list[str]) -> None:
    client = signed.client(token("author", *permissions))
    assert await status(client.store.put_item(namespace, "/x.md", RULE)) == 403
    assert await status(client.store.delete_item(namespace, "/x.md")) == 403
    assert await signed.as_operator().store.get_item(namespace, "/x.md") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("/", RULE),
        ("x.md", RULE),
        ("/a/../x.md", RULE),
        ("/x.txt", RULE),
        ("/x.md", {"rule": "no content"}),
        ("/x.md", {"content": 7}),
        ("/x.md", {"content": "AAEC", "encoding": "base64"}),
        ("/x.md", {"content": "x" * (MAX_FILE_BYTES + 1), "encoding": "utf-8"}),
        ("/x.md", {"content": "a\x00b", "encoding": "utf-8"}),
    ],
)
async def test_a_policy_the_agent_could_not_be_shown_is_refused(signed: DevServer, key: str, value: dict[str, Any]) -> None:
    client = signed.client(token("author", "policies:write"))
    assert await status(client.store.put_item(["policies", "acme"], key, value)) == 422


async def test_the_agent_of_somebody_with_the_permission_still_cannot(signed: DevServer, model: ScriptedAnthropic) -> None:
    client = signed.client(token("author", "policies:write"))
    text = f"change the rules {uuid.uuid4()}"
    model.script(text, [ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"})], [Text("done")])
    await run_turn(client, await new_thread(client), text)
    assert await client.store.get_item(["policies", "acme"], "/mine.md") is None


async def test_no_secret_is_in_the_logs_whatever_happens(signed: DevServer, model: ScriptedAnthropic) -> None:
    good, bad = token("alice@example.com"), token("alice@example.com") + "x"
    client = signed.client(good)
    await run_turn(client, await new_thread(client), "hello")
    assert await status(signed.client(bad).threads.search()) == 401
    assert await status(signed.client("x" * 100_000).threads.search()) == 401
    model.script("fail", lambda _: [ToolCall("ls", {"path": 7})], lambda body: [Text(str(body["nothing"]))])
    with pytest.raises(Exception, match="Error"):
        await run_turn(client, await new_thread(client), "fail")
    assert signed.log
    for secret in (SECRET, API_KEY, good, bad, good.split(".")[2], "x" * 1_000):
        assert secret not in signed.log
