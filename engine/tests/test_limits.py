"""Limits on what one person may ask for and use up, policies that people may change, and what the
logs must not show.
"""

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from langgraph.store.base import BaseStore, Item

from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory.stored_files import NEARLY_FULL, usage_of
from lasting_memory.memory.validation import MAX_FILE_BYTES
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    system_text,
)
from tests.conftest import BuildGraph, Scripted, served

SECRET = "a shared secret that nobody may read in a log"
API_KEY = "sk-ant-nobody-may-read-this-either"


def saying(text: str) -> dict[str, Any]:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}


LATER = {**saying("later"), "after_seconds": 3_600}


@pytest.mark.server
async def test_too_many_busy_conversations_have_to_wait(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, other = server.person(alice), server.person(f"other-{alice}")
    model.script(f"slow {alice}", *[Slow(60, [Text("late")])] * DEFAULTS.busy_threads)
    threads = [await person.thread() for _ in range(DEFAULTS.busy_threads + 1)]
    runs = [
        await person.made("POST", f"/threads/{thread}/runs", saying(f"slow {alice}"))
        for thread in threads[:-1]
    ]
    assert (
        await person.ask("POST", f"/threads/{threads[-1]}/runs", saying("one too many"))
    ).status_code == 429
    await other.turn(await other.thread(), "I have none")
    for thread, run in zip(threads, runs, strict=False):
        await person.ask("POST", f"/threads/{thread}/runs/{run['run_id']}/cancel")
    await person.idle()
    await person.turn(threads[-1], "now it is fine")


async def waiting(person: Person) -> list[int]:
    """How many runs wait on each conversation of the person's on which any does, whatever its
    status says.
    """
    threads = await person.made("POST", "/threads/search", {"limit": 100})
    runs = [
        await person.made("GET", f"/threads/{thread['thread_id']}/runs", status="pending")
        for thread in threads
    ]
    return [len(count) for count in runs if count]


@pytest.mark.server
@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_no_conversation_with_a_run_waiting_escapes_the_limit(
    server: DevServer, alice: str, how: str
) -> None:
    """Not one that the platform calls idle, since the first of its two runs is cancelled; and
    forgetting stops it.
    """
    person = server.person(alice)
    for _ in range(DEFAULTS.busy_threads - 1):
        thread = await person.thread()
        first = await person.made("POST", f"/threads/{thread}/runs", LATER)
        strategy = "enqueue" if how == "cancel" else how
        await person.made(
            "POST", f"/threads/{thread}/runs", {**LATER, "multitask_strategy": strategy}
        )
        if how == "cancel":
            await person.ask("POST", f"/threads/{thread}/runs/{first['run_id']}/cancel")
        assert (await person.made("GET", f"/threads/{thread}"))["status"] == "idle"
    await person.made("POST", f"/threads/{await person.thread()}/runs", LATER)
    assert (
        await person.ask("POST", f"/threads/{await person.thread()}/runs", LATER)
    ).status_code == 429
    assert await waiting(person) == [1] * DEFAULTS.busy_threads
    await person.made("DELETE", "/memory")
    assert await waiting(person) == []


@pytest.mark.server
async def test_every_run_of_a_batch_counts(server: DevServer, alice: str) -> None:
    person = server.person(alice)
    assert (await person.ask("POST", "/runs/batch", [LATER] * 30)).status_code == 429
    assert len(await waiting(person)) <= DEFAULTS.busy_threads


def token(identity: str, *permissions: str, org: str = "acme") -> str:
    claims = {
        "sub": identity,
        "org_id": org,
        "permissions": list(permissions),
        "exp": int(time.time()) + 3600,
    }
    return jwt.encode(claims, SECRET, algorithm="HS256")


signed = served(AUTH_JWT_SECRET=SECRET, ANTHROPIC_API_KEY=API_KEY, LOG_LEVEL="DEBUG")
RULE = {"content": "Never promise a date.", "encoding": "utf-8"}
WRITER = "policies:write"


def of(server: DevServer, token: str) -> Person:
    return server.person("", headers={"Authorization": f"Bearer {token}"})


async def put(who: Person, namespace: list[str], key: str = "/x.md", value: Any = RULE) -> int:
    return (
        await who.ask("PUT", "/store/items", {"namespace": namespace, "key": key, "value": value})
    ).status_code


@pytest.mark.server
async def test_people_with_the_permission_change_their_policies(
    signed: DevServer, model: ScriptedAnthropic
) -> None:
    """With the permission people change their own organization's policies, and it is logged. Their
    agents do not.
    """
    author, reader = of(signed, token("author\nAUDIT forged", WRITER)), of(signed, token("reader"))
    assert await put(author, ["policies", "acme"], "/dates.md") == 204
    await reader.turn(await reader.thread(), "are there rules?")
    assert "Never promise a date." in system_text(model.requests[-1])
    deleted = await author.ask(
        "DELETE", "/store/items", {"namespace": ["policies", "acme"], "key": "/dates.md"}
    )
    assert deleted.status_code == 204
    lines = [line for line in signed.log.splitlines() if "AUDIT policies." in line]
    assert len(lines) == 2
    assert all(r"org='acme' by='author\nAUDIT forged' key='/dates.md'" in line for line in lines)
    text = f"change the rules {uuid.uuid4()}"
    model.script(
        text,
        [ToolCall("write_file", {"file_path": "/policies/mine.md", "content": "x"})],
        [Text("done")],
    )
    await author.turn(await author.thread(), text)
    found = await author.made(
        "POST", "/store/items/search", {"namespace_prefix": ["policies", "acme"]}
    )
    assert found["items"] == []


@pytest.mark.server
async def test_people_with_the_permission_write_nothing_else_and_no_unusable_policy(
    signed: DevServer,
) -> None:
    author, operator = of(signed, token("author", WRITER)), signed.person("", headers=OPERATOR)
    for namespace in (["policies", "globex"], ["memories", "acme:author"]):
        assert await put(author, namespace) == 403
        assert (
            await author.ask("DELETE", "/store/items", {"namespace": namespace, "key": "/x.md"})
        ).status_code == 403
        assert (
            await operator.made("POST", "/store/items/search", {"namespace_prefix": namespace})
        )["items"] == []
    policies = ["policies", "acme"]
    for key in ("/", "x.md", "/a/../x.md", "/x.txt"):
        assert await put(author, policies, key) == 422, key
    for content in (7, "x" * (MAX_FILE_BYTES + 1), "a\x00b", "Pay with 4111 1111 1111 1111."):
        assert (
            await put(author, policies, value={"content": content, "encoding": "utf-8"}) == 422
        ), str(content)[:20]
    for value in ({"rule": "no content"}, {"content": "AAEC", "encoding": "base64"}):
        assert await put(author, policies, value=value) == 422, value


@pytest.mark.server
async def test_no_secret_is_in_the_logs_whatever_happens(
    signed: DevServer, model: ScriptedAnthropic
) -> None:
    good, bad = token("alice@example.com"), token("alice@example.com") + "x"
    person = of(signed, good)
    await person.turn(await person.thread(), "hello")
    for wrong in (bad, "x" * 100_000):
        assert (await of(signed, wrong).raw.post("/threads/search", json={})).status_code in (
            400,
            401,
            431,
        )
    model.script(
        "fail", lambda _: [ToolCall("ls", {"path": 7})], lambda body: [Text(str(body["nothing"]))]
    )
    failed = await person.ask("POST", f"/threads/{await person.thread()}/runs/wait", saying("fail"))
    assert "Error" in failed.text
    assert signed.log
    for secret in (SECRET, API_KEY, good, bad, good.split(".")[2], "x" * 1_000):
        assert secret not in signed.log


ALICE = Actor("alice", "acme")


async def used(store: BaseStore, actor: Actor) -> int:
    return sum(item.value["tokens"] for item in await store.asearch(namespaces.usage(actor)))


async def test_a_turn_beyond_the_budget_is_answered_with_when_there_is_more(
    graph: BuildGraph,
) -> None:
    agent = graph(deployed(daily_tokens=1))
    await agent.turn("hello")
    assert await used(agent.store, ALICE) > 1
    said = await agent.turn("and again")
    assert said[-1].startswith("Today's 1 tokens are used up")
    assert len(agent.model.requests) == 1
    assert (await agent.turn("hello", thread="2", user="bob"))[-1] == "ok"


async def test_a_subagents_calls_count_too_and_earlier_days_do_not(graph: BuildGraph) -> None:
    agent = graph(deployed(daily_tokens=10**9))
    agent.store.put(namespaces.usage(ALICE), "2026-01-01/run", {"tokens": 10**10})
    await agent.called(ToolCall("task", {"description": "the subtask", "subagent_type": "writer"}))
    asked = [len(str(body)) // 5 for body in agent.model.requests]
    assert len(asked) == 3
    assert sum(asked) < await used(agent.store, ALICE) < 10**9, "those of earlier days are gone"


async def test_tokens_without_a_budget_are_not_counted(agent: Scripted) -> None:
    await agent.turn("hello")
    assert await used(agent.store, ALICE) == 0


bounded = served(DAILY_TOKENS="1")


@pytest.mark.server
@pytest.mark.proof  # a server of its own
async def test_a_run_beyond_the_budget_is_refused_with_the_time_of_more(
    bounded: DevServer, alice: str
) -> None:
    person, other = bounded.person(alice), bounded.person(f"other-{alice}")
    thread = await person.thread()
    await person.turn(thread, "hello")
    refused = await person.ask("POST", f"/threads/{thread}/runs/wait", saying("again"))
    assert refused.status_code == 429
    assert f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT00:00Z}" in refused.json()["detail"]
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    await person.made("DELETE", "/memory")
    assert (await person.ask("POST", "/runs/wait", saying("again"))).status_code == 429, (
        "being forgotten gives no tokens"
    )
    await other.turn(await other.thread(), "hello")


@pytest.mark.parametrize(("files", "size", "nearly_full"), [
    (1, int(NEARLY_FULL * DEFAULTS.max_bytes) - 1, False), (1, int(NEARLY_FULL * DEFAULTS.max_bytes) + 1, True),
    (int(NEARLY_FULL * DEFAULTS.max_files) - 1, 0, False), (int(NEARLY_FULL * DEFAULTS.max_files), 0, True),
])  # fmt: skip
def test_memory_is_nearly_full_by_its_bytes_or_by_its_files(
    files: int, size: int, nearly_full: bool
) -> None:
    now = datetime.now(UTC)
    item = Item(
        value={"content": "x" * size},
        key="/a.md",
        namespace=("memories",),
        created_at=now,
        updated_at=now,
    )
    assert usage_of([item] * files, DEFAULTS)["nearly_full"] is nearly_full
