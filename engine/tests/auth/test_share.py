"""One person's share of a server, so that a flood slows down its sender only."""

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.exceptions import HTTPException

from lasting_memory.auth.share import MAX_REQUEST_WAIT_SECONDS, Share
from lasting_memory.deployment import DEFAULTS
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, after

pytestmark = pytest.mark.begins_first


async def test_a_request_beyond_the_rate_is_refused_after_the_longest_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited = list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("lasting_memory.auth.share.sleep", sleep)  # of many who wait at once
    share = Share(DEFAULTS)
    for _ in range(
        DEFAULTS.requests_at_once + DEFAULTS.requests_per_second * MAX_REQUEST_WAIT_SECONDS
    ):
        await share.request()
    share.charge(1)  # an answer, which forgives nothing of what is owed
    with pytest.raises(HTTPException) as refusal:
        await share.request(DEFAULTS.requests_per_second)  # a slow machine has earned some
    assert (refusal.value.status_code, waited[-1]) == (429, MAX_REQUEST_WAIT_SECONDS)
    await Share(DEFAULTS).request()
    assert waited[-1] == MAX_REQUEST_WAIT_SECONDS, "others do not wait"


@pytest.mark.proof
@pytest.mark.server
@pytest.mark.parametrize("way", ["sent", "answered", "computed"])
async def test_a_flood_of_bytes_waits_for_its_sender_s_turn_and_others_do_not(
    server: DevServer, way: str
) -> None:
    flooder, other = (
        server.person(f"{uuid.uuid4().hex}@example.com", seconds=120) for _ in range(2)
    )
    said = {"messages": [{"role": "user", "content": "y" * 1_000_000}]}
    steps = [{"updates": [{"values": said, "as_node": "__start__"}]}] if way == "answered" else []
    made = await flooder.made(
        "POST", "/threads", {"metadata": {"graph_id": "agent"}, "supersteps": steps}
    )
    mcp = {"accept": "application/json"}
    ways: dict[str, tuple[int, Callable[[], Awaitable[httpx.Response]]]] = {
        "sent": (
            8,
            lambda: flooder.ask("POST", "/threads/search", {"metadata": {"a": "x" * 1_000_000}}),
        ),
        "answered": (8, lambda: flooder.ask("GET", f"/threads/{made['thread_id']}/state")),
        "computed": (
            20,
            lambda: flooder.raw.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=mcp
            ),
        ),
    }
    requests, send = ways[way]
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            assert (await other.raw.get("/memory/me")).status_code == 200
            await asyncio.sleep(0.05)

    watching, began, times = (
        asyncio.create_task(watch()),
        time.monotonic(),
        DEFAULTS.requests_at_once // requests + 8,
    )
    for _ in range(times):
        await send()
    done.set()
    await watching
    # A slow machine takes longer; without the share all of this takes a moment.
    assert (
        time.monotonic() - began
        > (times * requests - DEFAULTS.requests_at_once) / DEFAULTS.requests_per_second / 2
    )


@pytest.mark.server
async def test_a_person_has_one_export_and_one_import_at_a_time(person: Person) -> None:
    document = {
        "version": 1,
        "files": [
            {"path": f"/memories/{number}.md", "content": "- mine\n"} for number in range(100)
        ],
    }
    for method, path, body in (
        ("POST", "/memory/import", document),
        ("GET", "/memory/export", None),
    ):
        answers = await asyncio.gather(*(person.ask(method, path, body) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200, 429}
    await person.made("GET", "/memory/export")  # what ended holds nothing


@pytest.mark.server
async def test_a_person_has_so_many_streams_open_at_once(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    over, person = threading.Event(), server.person(alice, limits=httpx.Limits(max_connections=100))
    model.script(f"slow {alice}", after(over, [Text("done")]))
    thread = await person.thread()
    said = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": f"slow {alice}"}]},
    }
    run = await person.made("POST", f"/threads/{thread}/runs", said)
    path = f"/threads/{thread}/runs/{run['run_id']}"
    async with AsyncExitStack() as streams:
        opened = [
            await streams.enter_async_context(person.raw.stream("GET", f"{path}/stream"))
            for _ in range(DEFAULTS.open_streams)
        ]
        assert {answer.status_code for answer in opened} == {200}
        assert (await person.ask("GET", f"{path}/stream")).status_code == 429
        for who in (person, server.person(f"other-{alice}")):
            assert (await who.ask("GET", "/memory/me")).status_code == 200
    status = 429
    async with asyncio.timeout(300):
        while status != 200:
            async with person.raw.stream("GET", f"{path}/stream") as again:
                status = again.status_code
    over.set()
    await person.ask("GET", f"{path}/join")
