"""What every server refuses before it works on a request: spellings of ids, and bodies out of bounds."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.http.body_checks import (
    BYTES_A_VALUE,
    MAX_BATCH,
    MAX_HISTORY,
    MAX_REQUEST_NESTING,
    shape,
)
from lasting_memory.http.request_bounds import MAX_BROUGHT_BYTES, MAX_IMPORT_BYTES
from lasting_memory.memory.validation import MAX_INPUT_BYTES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person

pytestmark = pytest.mark.begins_first

JsonValue = st.recursive(
    st.none() | st.integers() | st.text('[]{},"\\a\u20ac'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\a'), inner),
)


@given(JsonValue, st.booleans())
def test_nesting_is_that_of_the_parsed_value(value: Any, escaped: bool) -> None:
    def children(of: Any) -> list[Any]:
        return list(of.values()) if isinstance(of, dict) else of if isinstance(of, list) else []

    def depth(of: Any) -> int:
        return 1 + max(map(depth, children(of)), default=0) if isinstance(of, dict | list) else 0

    def commas(of: Any) -> int:
        return max(len(children(of)) - 1, 0) + sum(map(commas, children(of)))

    assert shape(json.dumps(value, ensure_ascii=escaped).encode()) == (depth(value), commas(value))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "no dashes": lambda thread: thread.replace("-", ""),
    "braces": lambda thread: f"{{{thread}}}",
    "a URN": lambda thread: f"urn:uuid:{thread}",
    "full-width digits": lambda thread: thread.translate(
        {ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)}
    ),
    "percent-encoded capitals": lambda thread: "".join(
        f"%{ord(character):x}" for character in thread.upper()
    ),
}
STATE = {"values": {"messages": [{"role": "user", "content": "a secret of hers"}]}}
SUPERSTEPS = [{"updates": [{"values": STATE["values"], "as_node": "__input__"}]}]


async def talked(person: Person) -> str:
    thread = await person.thread(graph_id="agent")
    await person.turn(thread, "hello")
    return thread


@pytest.mark.server
async def test_an_id_has_one_spelling(server: DevServer, person: Person) -> None:
    """In paths, bodies and A2A. What was forgotten is not there for who makes a thread of the same
    id.
    """
    thread = await talked(person)
    for how, spell in SPELLINGS.items():
        spelled = spell(thread)
        requests: list[tuple[str, str, Any]] = [
            ("POST", f"/threads/{spelled}/state", STATE),
            ("GET", f"/threads/{spelled}/state", None),
            ("DELETE", f"/threads/{spelled}", None),
        ]
        if "percent" not in how:
            body = {
                "thread_id": spelled,
                "metadata": {"graph_id": "agent"},
                "supersteps": SUPERSTEPS,
            }
            requests += [
                ("POST", "/threads", body),
                ("POST", "/threads/prune", {"thread_ids": [spelled]}),
            ]
            escaped = json.dumps(body).replace("thread_id", "thread\\u005fid")
            assert (await person.raw.post("/threads", content=escaped)).status_code == 422
        for method, path, sent in requests:
            answer = await person.ask(method, path, sent)
            assert (answer.status_code, thread in answer.text) == (422, True), (
                how,
                method,
                path,
                answer.text,
            )
    run = (await person.made("GET", f"/threads/{thread.replace('-', '%2d')}/runs"))[0]
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tasks/get",
        "params": {"id": f"{thread.upper()}:{run['run_id']}"},
    }
    assert "result" not in (await person.ask("POST", f"/a2a/{run['assistant_id']}", call)).json()
    await person.made("DELETE", "/memory")
    other = server.person(f"other-{person.name}")
    await other.made("POST", "/threads", {"thread_id": thread, "metadata": {"graph_id": "agent"}})
    for spelled in (thread, *(spell(thread) for spell in SPELLINGS.values())):
        assert "hello" not in (await other.ask("GET", f"/threads/{spelled}/state")).text


DEEP = "[" * MAX_REQUEST_NESTING + "]" * MAX_REQUEST_NESTING
MANY = "[" + "[]," * (MAX_INPUT_BYTES // BYTES_A_VALUE + 1) + "[]]"
LONG = 'x" ' + "x" * MAX_INPUT_BYTES
BAD_BODIES: list[tuple[str, str, int]] = [
    *((f"POST {path}", LONG, 413) for path in ("/threads/<thread>/state", "/runs/batch", "/mcp")),
    ("PUT /memory/file?path=/memories/x.md", LONG, 413),
    (
        "POST /threads/<thread>/commands",
        '{"method": "run.start", "params": {}, "id": ' + DEEP + "}",
        422,
    ),
    ("POST /threads/search", "[" * (MAX_INPUT_BYTES - 1), 422),
    ("POST /threads/search", '{"input": {"messages": ' + MANY + "}}", 422),
    ("POST /runs/batch", json.dumps([{}] * (MAX_BATCH + 1)), 422),
    ("POST /threads/<thread>/history", json.dumps({"limit": MAX_HISTORY + 1}), 422),
    ("GET /threads/<thread>/history?limit=1e9", "", 422),
    (
        "POST /memory/import",
        '{"version":1,"files":[' + "{}," * (MAX_IMPORT_BYTES // 3 - 20) + "{}]}",
        422,
    ),
    ("POST /memory/bring", '{"text":"' + "x" * MAX_BROUGHT_BYTES + '"}', 413),
    (
        "PUT /memory/file?path=/memories/x.md",
        '{"content":' + "[" * 300_000 + "]" * 300_000 + "}",
        422,
    ),
]


@pytest.mark.server
@pytest.mark.parametrize(("route", "body", "status"), BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_a_body_out_of_bounds_is_not_parsed(
    server: DevServer, person: Person, route: str, body: str, status: int
) -> None:
    method, path = route.replace("<thread>", await person.thread(graph_id="agent")).split(" ")
    sent: dict[str, Any] = (
        {"content": body, "headers": {"content-type": "application/json"}} if body else {}
    )
    answer = await person.raw.request(method, path, **sent)
    assert answer.status_code == status, answer.text[:300]
    if body:
        nobody = await server.person("", headers={}).raw.request(method, path, **sent)
        assert nobody.status_code == 401, "nobody is told of bounds before they are signed in"


@pytest.mark.server
@pytest.mark.parametrize(
    "body",
    [{}, {"namespace_prefix": None}, {"namespace_prefix": "memories"}, {"namespace_prefix": [7]}],
)
async def test_a_search_of_the_store_without_a_namespace_is_refused_by_its_field(
    person: Person, body: Any
) -> None:
    answer = await person.raw.post("/store/items/search", json=body)
    assert answer.status_code == 422, "the platform would fail"
    assert "namespace_prefix" in answer.text


@pytest.mark.server
async def test_a_body_within_bounds_is_taken(person: Person) -> None:
    thread = await talked(person)
    at_most = '{"values": {}, "x": "' + "x" * (MAX_INPUT_BYTES - 23) + '"}'
    assert len(at_most) == MAX_INPUT_BYTES
    assert (await person.raw.post(f"/threads/{thread}/state", content=at_most)).is_success
    assert (
        await person.ask("POST", "/threads/search", {"metadata": {"title": "," * 100_000}})
    ).status_code in (200, 422)
    await person.turn(thread, '"[{\\' * 1_000)
    for body in ({"limit": MAX_HISTORY}, {}):
        assert await person.made("POST", f"/threads/{thread}/history", body)
