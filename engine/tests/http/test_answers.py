"""Each route under /memory says in `/openapi.json` what it answers, and answers nothing else.

The fixture of `tests/conftest.py` holds what other tests are answered to that as well.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import jsonschema_rs
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import FILE, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import batch_with
from tests.http.answers import JSON, check, operation_of, operations, spec

ROUTES = sorted(operations())
# What is an object of anything: a profile's fields, and what is the platform's or other code's.
FREE = {
    "ProfileField.schema",
    "ExportedConversation.metadata",
    "ExportedConversation.values",
    "ExportedValue.value",
}


@pytest.mark.parametrize("route", ROUTES, ids="{0[0]} {0[1]}".format)
def test_every_route_has_schemas_of_its_answers_and_refusals(route: tuple[str, str]) -> None:
    responses = operations()[route]["responses"]
    assert {"4XX", "5XX"} < {*responses}
    for status, response in responses.items():
        schema = response["content"][JSON]["schema"]
        if status in {"4XX", "5XX"}:
            assert schema == {"$ref": "#/components/schemas/Refusal"}
        else:
            assert "$ref" in schema or "anyOf" in schema, "which FastAPI makes of a model"


def test_no_object_of_an_answer_has_other_keys_than_its_schema() -> None:
    answers, schemas = set[str](), spec()["components"]["schemas"]
    new = {json.dumps(operation["responses"]) for operation in operations().values()}
    while new:
        names = {name for name in schemas if any(f'schemas/{name}"' in text for text in new)}
        new = {json.dumps(schemas[name]) for name in names - answers}
        answers |= names
    open_objects = set[str]()
    for name in answers:
        assert schemas[name].get("additionalProperties") is False, name
        for key, of in schemas[name]["properties"].items():
            if '"additionalProperties": true' in json.dumps(of):
                open_objects.add(f"{name}.{key}")
    assert open_objects == FREE


def test_refusals_are_one_sentence() -> None:
    refusal = spec()["components"]["schemas"]["Refusal"]
    assert (refusal["required"], {*refusal["properties"]}) == (["detail"], {"detail"})


def test_no_schema_takes_the_place_of_one_of_the_platform_s() -> None:
    """The platform puts ours over its own."""
    file = metadata.distribution("langgraph-api").locate_file("openapi.json")
    platform = json.loads(Path(str(file)).read_text())
    assert not {*platform["components"]["schemas"]} & {*spec()["components"]["schemas"]}


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, {"since": "2026-01-01", "more": 1}),
        (200, {}),
        (200, {"since": None}),
        (422, {"detail": "No.", "why": "more"}),
        (200, {"detail": "No."}),
    ],
)
def test_the_check_sees_what_a_schema_does_not_have(status: int, answer: Any) -> None:
    request = httpx.Request("PUT", "http://server/memory/seen")
    with pytest.raises(jsonschema_rs.ValidationError):
        check(httpx.Response(status, json=answer, request=request))


async def read_again(
    made: Callable[..., Awaitable[Any]],
    model: ScriptedAnthropic,
) -> None:
    """All conversations are read again, until that is stopped while the model reads the first."""
    is_asked = Event()
    may_go_on = Event()

    def waits(_: object) -> list[Text]:
        is_asked.set()
        may_go_on.wait(300)
        return [Text("done")]

    model.script(batch_with("gliders"), waits)
    beginning: dict[str, Any] = {"from": "beginning"}
    tokens = (await made("POST", "/memory/consolidate", **beginning))["tokens"]
    begun = await made("POST", "/memory/consolidate", **beginning, tokens=tokens)
    assert begun["dream"]["status"] == "reading"
    assert await asyncio.to_thread(is_asked.wait, 300)
    assert (await made("GET", "/memory/dream"))["dream"]["cap"] == tokens
    assert (await made("DELETE", "/memory/dream"))["dream"]["status"] == "ended"
    may_go_on.set()


@pytest.mark.server
async def test_a_person_s_answers_are_as_the_server_describes_them(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, root = server.person(alice), server.person("root", "default")
    described = await person.made("GET", "/openapi.json")
    for name, schema in spec()["components"]["schemas"].items():
        assert described["components"]["schemas"][name] == schema
    asked = set[tuple[str, str] | None]()

    async def made(method: str, path: str, body: Any = None, /, **params: Any) -> Any:
        answer = await person.ask(method, path, body, **params)
        assert answer.is_success, (method, path, answer.text)
        check(answer)
        asked.add(operation_of(answer.request))
        return answer.json()

    fact = {"text": "likes dill", "conversations": []}
    thread = await talk(person, model)
    assert await made("PUT", "/memory/controls", {"review": True, "review_agent": True}) == {
        "paused": False,
        "review": True,
        "review_agent": True,
    }
    await made("PUT", "/memory/file", {"content": "# Food\n- likes dill\n- likes rye\n"}, path=FILE)
    await made("PUT", "/memory/file", {"content": "# Food\n- likes dill\n"}, path=FILE)
    for path in ("controls", "facts", "changes", "trash", "me", "prompt", "policies", "export"):
        assert await made("GET", f"/memory/{path}")
    assert (await made("GET", "/memory"))["files"]
    assert (await made("GET", "/memory/file", path=FILE))["lines"]
    assert (await made("GET", "/memory/history", path=FILE))["revisions"]
    assert (await made("GET", "/memory/find", q="dill"))["found"]
    assert (await made("GET", "/memory/search", q="gliders"))["conversations"]
    await made("GET", "/memory/interrupts", thread_id=thread)
    await made("PUT", "/memory/seen", {"until": "2026-01-01T00:00:00Z"})

    added = ToolCall("append_memory", {"path": "/memories/topics/air.md", "text": "- flies"})
    await read_again(made, model)
    model.script(batch_with("gliders"), [added], [Text("done")])
    assert (await made("POST", "/memory/consolidate", dry_run=True))["files"]
    model.script("brought a text along", [added], [Text("done")])
    assert (await made("POST", "/memory/bring", {"text": "- flies"}))["proposal"]
    exported = await made("GET", "/memory/export")
    assert exported["proposals"]
    assert exported["conversations"]
    assert exported["deleted_files"] == []
    (proposal,) = (await made("GET", "/memory/proposals"))["proposals"]
    await made("POST", f"/memory/proposals/{proposal['id']}", {"accept": True})
    assert (await made("POST", "/memory/consolidate", dry_run=True))["reason"] is not None
    await made("POST", "/memory/consolidate")
    assert (await made("GET", "/memory/consolidations"))["consolidations"]
    assert await made("POST", "/memory/undo", {"path": FILE, "revision": 1})
    await made("POST", "/memory/import", {**exported, "conversations": []})
    assert await made("POST", "/memory/confirm", {"text": fact["text"]}, path=FILE)
    assert (await made("DELETE", "/memory/fact", fact, path=FILE, dry_run=True))["deleted"]["files"]
    await made("DELETE", "/memory/fact", fact, path=FILE)
    await made("DELETE", "/memory/file", path=FILE)
    assert (await made("GET", "/memory/trash"))["files"]
    assert (await made("GET", "/memory/export"))["deleted_files"]
    await made("DELETE", "/memory")
    check(await root.ask("GET", "/memory/operations"))
    # What is offered to groups is asked for where there are some: tests/http/offers/.
    elsewhere = {route for route in ROUTES if route[1].startswith("/memory/offers")}
    unasked = {route for route in ROUTES if route not in asked}
    assert unasked - elsewhere == {("GET", "/memory/operations")}


async def talk(person: Person, model: ScriptedAnthropic) -> str:
    """A conversation, in which the agent writes a file."""
    written = ToolCall("append_memory", {"path": FILE, "text": "- flies gliders"})
    model.script("I fly gliders", [written], [Text("noted")])
    thread = await person.thread()
    await person.turn(thread, "I fly gliders")
    return thread


async def test_a_stored_record_is_sent_with_the_schema_s_fields_alone(
    api: httpx.AsyncClient, store: BaseStore
) -> None:
    """It may be another version's. One that cannot be read is left out."""
    place = namespaces.run_records(Actor("alice", "acme"))
    record = {"run_id": "r", "started_at": "2026-01-01", "status": "done"}
    store.put(place, "1", {**record, "later": "a field of tomorrow's"})
    store.put(place, "2", {**record, "files": "no object"})
    (shown,) = (await api.get("/memory/consolidations")).json()["consolidations"]
    assert (shown["run_id"], shown["status"], "later" in shown) == ("r", "done", False)
