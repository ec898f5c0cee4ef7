"""Each route under /memory says in `/openapi.json` what it answers, and answers nothing else.

The fixture of `tests/conftest.py` holds what other tests are answered to that as well.
"""

import asyncio
import json
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


# Which routes the tests below ask, each all of its own.
OF_CHOICES = {
    "GET /memory/controls",
    "PUT /memory/controls",
    "GET /memory/me",
    "GET /memory/policies",
    "GET /memory/prompt",
    "PUT /memory/seen",
}
OF_FILES = {
    "GET /memory",
    "GET /memory/changes",
    "GET /memory/export",
    "DELETE /memory/fact",
    "GET /memory/facts",
    "DELETE /memory/file",
    "GET /memory/file",
    "PUT /memory/file",
    "GET /memory/find",
    "GET /memory/history",
    "POST /memory/confirm",
    "GET /memory/trash",
    "POST /memory/undo",
}
OF_CONVERSATIONS = {"GET /memory/interrupts", "GET /memory/search"}
OF_DREAMS = {
    "POST /memory/consolidate",
    "DELETE /memory/dream",
    "GET /memory/dream",
    "GET /memory/export",
}
OF_CONSOLIDATIONS = {
    "POST /memory/bring",
    "POST /memory/consolidate",
    "GET /memory/consolidations",
    "GET /memory/proposals",
    "POST /memory/proposals/{proposal_id}",
}
OF_ALL_THERE_IS = {
    "DELETE /memory",
    "POST /memory/bring",
    "GET /memory/export",
    "POST /memory/import",
}
OF_OPERATORS = {"GET /memory/operations"}
FOOD = "# Food\n- likes dill\n"
ADDED = ToolCall("append_memory", {"path": "/memories/topics/air.md", "text": "- flies"})


class Asking:
    """A person whose answers are held to their schemas, and the routes that they asked."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.asked = set[str]()

    async def made(self, method: str, path: str, body: Any = None, /, **params: Any) -> Any:
        answer = await self.person.ask(method, path, body, **params)
        assert answer.is_success, (method, path, answer.text)
        check(answer)
        route = operation_of(answer.request)
        assert route is not None
        self.asked.add(" ".join(route))
        return answer.json()


@pytest.fixture
def asking(server: DevServer, alice: str) -> Asking:
    return Asking(server.person(alice))


def test_each_route_is_asked_for_an_answer() -> None:
    asked = {
        *OF_CHOICES, *OF_FILES, *OF_CONVERSATIONS, *OF_DREAMS, *OF_CONSOLIDATIONS, *OF_ALL_THERE_IS, *OF_OPERATORS,
    }  # fmt: skip
    routes = {" ".join(route) for route in ROUTES}
    # What is offered to groups is asked for where there are some: tests/http/offers/.
    elsewhere = {" ".join(route) for route in ROUTES if route[1].startswith("/memory/offers")}
    assert routes - elsewhere == asked


@pytest.mark.server
async def test_the_server_s_own_document_has_the_schemas_of_answers(asking: Asking) -> None:
    described = await asking.person.made("GET", "/openapi.json")
    for name, schema in spec()["components"]["schemas"].items():
        assert described["components"]["schemas"][name] == schema


@pytest.mark.server
async def test_answers_about_a_person_s_choices_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    made = asking.made
    await remembered(asking.person, model)
    assert await made("PUT", "/memory/controls", {"review": True, "review_agent": True}) == {
        "paused": False,
        "review": True,
        "review_agent": True,
    }
    for path in ("controls", "me", "prompt", "policies"):
        assert await made("GET", f"/memory/{path}")
    await made("PUT", "/memory/seen", {"until": "2026-01-01T00:00:00Z"})
    assert asking.asked == OF_CHOICES


@pytest.mark.server
async def test_answers_about_files_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    made = asking.made
    fact = {"text": "likes dill", "conversations": []}
    await remembered(asking.person, model)
    await made("PUT", "/memory/file", {"content": f"{FOOD}- likes leek\n"}, path=FILE)
    for path in ("facts", "changes", "trash", "export"):
        assert await made("GET", f"/memory/{path}")
    assert (await made("GET", "/memory"))["files"]
    assert (await made("GET", "/memory/file", path=FILE))["lines"]
    assert (await made("GET", "/memory/history", path=FILE))["revisions"]
    assert (await made("GET", "/memory/find", q="dill"))["found"]
    assert await made("POST", "/memory/confirm", {"text": fact["text"]}, path=FILE)
    assert (await made("DELETE", "/memory/fact", fact, path=FILE, dry_run=True))["deleted"]["files"]
    await made("DELETE", "/memory/fact", fact, path=FILE)
    assert await made("POST", "/memory/undo", {"path": FILE, "revision": 1})
    await made("DELETE", "/memory/file", path=FILE)
    assert (await made("GET", "/memory/trash"))["files"]
    assert (await made("GET", "/memory/export"))["deleted_files"]
    assert asking.asked == OF_FILES


@pytest.mark.server
async def test_answers_about_conversations_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    thread = await talk(asking.person, model)
    assert (await asking.made("GET", "/memory/search", q="gliders"))["conversations"]
    await asking.made("GET", "/memory/interrupts", thread_id=thread)
    assert asking.asked == OF_CONVERSATIONS


@pytest.mark.server
async def test_answers_about_reading_all_again_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    """It is stopped while the model reads the first conversation."""
    made = asking.made
    await talk(asking.person, model)
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
    assert (await made("GET", "/memory/export"))["dream"]["status"] == "ended"
    assert asking.asked == OF_DREAMS


@pytest.mark.server
async def test_answers_about_consolidations_and_their_proposals_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    made = asking.made
    await remembered(asking.person, model)
    model.script(batch_with("gliders"), [ADDED], [Text("done")])
    assert (await made("POST", "/memory/consolidate", dry_run=True))["files"]
    assert (await bring(asking, model))["proposal"]
    (proposal,) = (await made("GET", "/memory/proposals"))["proposals"]
    await made("POST", f"/memory/proposals/{proposal['id']}", {"accept": True})
    assert (await made("POST", "/memory/consolidate", dry_run=True))["reason"] is not None
    await made("POST", "/memory/consolidate")
    assert (await made("GET", "/memory/consolidations"))["consolidations"]
    assert asking.asked == OF_CONSOLIDATIONS


@pytest.mark.server
async def test_answers_about_all_that_there_is_of_a_person_are_as_described(
    asking: Asking, model: ScriptedAnthropic
) -> None:
    """All of it is exported, imported, and deleted."""
    made = asking.made
    await remembered(asking.person, model)
    await bring(asking, model)
    exported = await made("GET", "/memory/export")
    assert exported["proposals"]
    assert exported["conversations"]
    assert exported["deleted_files"] == []
    await made("POST", "/memory/import", {**exported, "conversations": []})
    await made("DELETE", "/memory")
    assert asking.asked == OF_ALL_THERE_IS


@pytest.mark.server
async def test_answers_about_operations_are_as_described(server: DevServer) -> None:
    root = Asking(server.person("root", "default"))
    await root.made("GET", "/memory/operations")
    assert root.asked == OF_OPERATORS


async def remembered(person: Person, model: ScriptedAnthropic) -> None:
    """A conversation, in which the agent writes a file, which the person changes.

    From then on they look over what is written.
    """
    await talk(person, model)
    await person.control(review=True, review_agent=True)
    await person.write(FILE, f"{FOOD}- likes rye\n")
    await person.write(FILE, FOOD)


async def bring(asking: Asking, model: ScriptedAnthropic) -> Any:
    """The answer to a text that the person brings along, and what is proposed to be added of it."""
    model.script("brought a text along", [ADDED], [Text("done")])
    return await asking.made("POST", "/memory/bring", {"text": "- flies"})


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
