"""What every server refuses before it works on a request: ids in another spelling, bodies out of bounds, fields of no use."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import websockets
from hypothesis import given
from hypothesis import strategies as st

from access.request_bounds import MAX_BATCH, MAX_REQUEST_BYTES, MAX_REQUEST_NESTING, MAX_REQUEST_VALUES, shape
from settings import REQUESTS_AT_ONCE, REQUESTS_PER_SECOND
from testing.dev_server import DevServer, dev_token, run_turn

SPELLINGS: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "no dashes": lambda thread: thread.replace("-", ""),
    "braces": lambda thread: f"{{{thread}}}",
    "a URN": lambda thread: f"urn:uuid:{thread}",
    "percent-encoded capitals": lambda thread: "".join(f"%{ord(character):x}" for character in thread.upper()),
    "full-width digits": lambda thread: thread.translate({ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)}),
}
STATE = {"values": {"messages": [{"role": "user", "content": "a secret of hers"}]}}
HELLO: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}
SUPERSTEPS = [{"updates": [{"values": STATE["values"], "as_node": "__input__"}]}]

JsonValue = st.recursive(
    st.none() | st.integers() | st.text('[]{},"\\a\u20ac'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\a'), inner),
)


@pytest.fixture
async def http(server: DevServer, alice: str) -> AsyncIterator[httpx.AsyncClient]:
    """Alice's requests."""
    async with caller(server, alice) as client:
        yield client


def caller(server: DevServer, identity: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {dev_token('acme', identity)}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False)


async def conversation(server: DevServer, identity: str) -> str:
    client = server.as_user(identity)
    thread = str((await client.threads.create())["thread_id"])
    await run_turn(client, thread, "hello")
    return thread


@given(JsonValue, st.booleans())
def test_nesting_is_that_of_the_parsed_value(value: Any, escaped: bool) -> None:
    def depth(of: Any) -> int:
        children = of.values() if isinstance(of, dict) else of if isinstance(of, list) else None
        return 0 if children is None else 1 + max(map(depth, children), default=0)

    def commas(of: Any) -> int:
        children = list(of.values()) if isinstance(of, dict) else of if isinstance(of, list) else []
        return max(len(children) - 1, 0) + sum(map(commas, children))

    assert shape(json.dumps(value, ensure_ascii=escaped).encode()) == (depth(value), commas(value))


@pytest.mark.server
async def test_an_id_has_one_spelling_in_paths(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    thread = await conversation(server, alice)
    for how, spelled in SPELLINGS.items():
        for method, end, body in (
            ("POST", "/state", STATE),
            ("GET", "/state", None),
            ("POST", "/history", {}),
            ("DELETE", "", None),
        ):
            answer = await http.request(method, f"/threads/{spelled(thread)}{end}", json=body)
            assert (answer.status_code, thread in answer.text) == (422, True), (how, method, end, answer.text)
    assert (await http.get(f"/threads/{thread}/state")).status_code == 200
    assert (await http.get(f"/threads/{thread.replace('-', '%2d')}/state")).status_code == 200


@pytest.mark.server
async def test_an_id_has_one_spelling_in_bodies(server: DevServer, http: httpx.AsyncClient) -> None:
    for spelled in (SPELLINGS[how] for how in ("capitals", "no dashes", "braces", "a URN", "full-width digits")):
        thread = str(uuid.uuid4())
        body = {"thread_id": spelled(thread), "metadata": {"graph_id": "agent"}, "supersteps": SUPERSTEPS}
        assert (await http.post("/threads", json=body)).status_code == 422
        escaped = json.dumps(body).replace("thread_id", "thread\\u005fid")
        assert (await http.post("/threads", content=escaped)).status_code == 422
        assert (await http.post("/threads/prune", json={"thread_ids": [spelled(thread)]})).status_code == 422
        assert (await http.get(f"/threads/{thread}")).status_code == 404
    assert (await http.post("/threads", json={**body, "thread_id": thread})).status_code == 200


@pytest.mark.server
async def test_an_id_has_one_spelling_for_websockets_and_a2a(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    thread = await conversation(server, alice)
    where: dict[str, Any] = {"proxy": None, "additional_headers": {"authorization": http.headers["authorization"]}}
    for spelled, connects in ((thread, True), (thread.upper(), False), (thread.replace("-", ""), False)):
        uri = f"ws://127.0.0.1:{server.port}/threads/{spelled}/stream/events"
        if connects:
            async with websockets.connect(uri, **where):
                continue
        with pytest.raises(websockets.InvalidStatus) as refusal:
            async with websockets.connect(uri, **where):
                pass
        assert refusal.value.response.status_code == 422
    run = (await http.get(f"/threads/{thread}/runs")).json()[0]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": f"{thread.upper()}:{run['run_id']}"}}
    assert "result" not in (await http.post(f"/a2a/{run['assistant_id']}", json=call)).json()


@pytest.mark.server
async def test_what_was_forgotten_is_not_there_for_who_makes_a_thread_of_the_same_id(
    server: DevServer, http: httpx.AsyncClient, alice: str
) -> None:
    thread = await conversation(server, alice)
    for spelled in (thread, *(spelled(thread) for spelled in SPELLINGS.values())):
        await http.post(f"/threads/{spelled}/state", json=STATE)
    assert (await http.delete("/memory")).status_code == 200
    async with caller(server, f"other-{alice}") as other:
        assert (await other.post("/threads", json={"thread_id": thread, "metadata": {"graph_id": "agent"}})).status_code == 200
        for spelled in (thread, *(spelled(thread) for spelled in SPELLINGS.values())):
            for answer in (
                await other.get(f"/threads/{spelled}/state"),
                await other.post(f"/threads/{spelled}/history", json={}),
            ):
                assert "secret" not in answer.text


@pytest.mark.server
async def test_a_body_has_at_most_so_many_bytes(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    thread = await conversation(server, alice)
    over, at_most = 'x" ' + "x" * MAX_REQUEST_BYTES, '{"values": {}, "x": "' + "x" * (MAX_REQUEST_BYTES - 23) + '"}'

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(0, len(over), 65_536):
            yield b"x" * 65_536

    for path in (
        f"/threads/{thread}/state",
        "/threads",
        "/threads/search",
        f"/threads/{thread}/commands",
        "/runs/batch",
        "/mcp",
    ):
        for content in (over, parts()):
            answer = await http.post(path, content=content)
            assert (answer.status_code, "send less" in answer.text) == (413, True), path
    assert len(at_most) == MAX_REQUEST_BYTES
    assert (await http.post(f"/threads/{thread}/state", content=at_most)).status_code == 200
    where: dict[str, Any] = {
        "proxy": None,
        "additional_headers": {"authorization": http.headers["authorization"]},
        "max_size": None,
    }
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/threads/{thread}/stream/events", **where) as connection:
        await connection.send(over)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1008


@pytest.mark.server
async def test_nobody_is_told_of_bounds_before_they_are_signed_in(server: DevServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as nobody:
        assert (await nobody.post("/threads", content="[" * (MAX_REQUEST_NESTING + 1))).status_code == 401


@pytest.mark.server
async def test_a_body_nests_at_most_so_deep(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    thread = await conversation(server, alice)
    deep = "[" * MAX_REQUEST_NESTING + "]" * MAX_REQUEST_NESTING
    commands = '{"method": "run.start", "params": {}, "id": '
    for path, content in (
        (f"/threads/{thread}/commands", commands + deep + "}"),
        ("/mcp", "[" * 3_000),
        ("/threads/search", '{"metadata": ' + deep + "}"),
        ("/threads/search", "[" * MAX_REQUEST_BYTES),
        ("/runs/batch", json.dumps([{}] * (MAX_BATCH + 1))),
    ):
        assert (await http.post(path, content=content)).status_code == 422, (path, content[:60])
    text = {**HELLO, "input": {"messages": [{"role": "user", "content": '"[{\\' * 1_000}]}}
    assert (await http.post(f"/threads/{thread}/runs/wait", json=text)).status_code == 200


@pytest.mark.server
async def test_fields_that_the_platform_relies_on_are_refused_with_their_name(
    server: DevServer, http: httpx.AsyncClient, alice: str
) -> None:
    thread = await conversation(server, alice)
    runs, one = f"/threads/{thread}/runs", {"a": 1}
    cases = [
        *((runs, {**HELLO, "checkpoint_id": value}) for value in (1, True, 1.5, ["x"], one)),
        *((runs, {**HELLO, "langsmith_tracer": value}) for value in (1, "x", ["x"], True)),
        ("/runs/batch", [HELLO, {**HELLO, "checkpoint_id": 1}]),
        (f"/threads/{thread}/state", {"values": {}, "checkpoint_id": ["x"]}),
        ("/store/items/search", {"namespace_prefix": None}),
        ("/threads", {"thread_id": 5}),
        *(("/runs/wait", {**HELLO, "checkpoint": value}) for value in (1, True, "x", ["x"])),
        *(("/runs/crons", {**HELLO, "schedule": "0 3 * * *", "timezone": value}) for value in ("America", "x" * 3_000, 5)),
    ]
    for path, body in cases:
        answer = await http.post(path, json=body)
        assert answer.status_code == 422, (path, body, answer.text)
    answer = await http.post(f"{runs}/wait", json={**HELLO, "checkpoint_id": None, "langsmith_tracer": {"project_name": "p"}})
    assert answer.status_code == 200


@pytest.mark.server
async def test_a_body_has_at_most_so_many_values(http: httpx.AsyncClient) -> None:
    """Others wait while the platform looks at each of them. Commas in texts are none."""
    many, text = "[" + "[]," * (MAX_REQUEST_VALUES + 1) + "[]]", "," * (MAX_REQUEST_VALUES + 1)
    for body in (many, f'{{"input": {{"messages": {many}}}}}'):
        refused = await http.post("/threads/search", content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, "values" in refused.text) == (422, True), refused.text
    assert (await http.post("/threads/search", json={"metadata": {"title": text}})).is_success


@pytest.mark.server
async def test_frames_are_requests_of_their_person(server: DevServer, alice: str) -> None:
    """A flood over one connection is as slow as one of requests. A binary frame ends the connection with a reason."""
    thread = await conversation(server, alice)
    where: dict[str, Any] = {"proxy": None, "additional_headers": {"authorization": f"Bearer {dev_token('acme', alice)}"}}
    uri, began = f"ws://127.0.0.1:{server.port}/threads/{thread}/stream/events", time.monotonic()
    async with websockets.connect(uri, **where) as connection:
        frames = REQUESTS_AT_ONCE + 3 * REQUESTS_PER_SECOND
        for number in range(frames):
            await connection.send(json.dumps({"id": number, "method": "agent.getTree", "params": {}}))
        answered = 0
        while answered < frames:
            answered += "id" in json.loads(await asyncio.wait_for(connection.recv(), 30))
    assert time.monotonic() - began > 2
    async with websockets.connect(uri, **where) as connection:
        await connection.send(b"binary")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(connection.recv(), 30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert "send text" in closed.value.rcvd.reason
