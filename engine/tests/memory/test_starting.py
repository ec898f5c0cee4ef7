"""Starting files: for a person whose memory never began, and not while it is paused."""

import pytest

from lasting_memory.files.starting import starting_memory
from lasting_memory.people import identity, namespaces
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, system_text

pytestmark = pytest.mark.server
STARTING = {f"/memories{key}" for key in starting_memory(deployed().folder)}
NOTHING = "(Nothing is remembered yet.)"


async def paths(person: Person) -> set[str]:
    return {file["path"] for file in (await person.made("GET", "/memory"))["files"]}


async def turn(person: Person) -> None:
    await person.turn(await person.thread(), "hello")


@pytest.mark.parametrize("imported", [False, True], ids=["started", "imported"])
async def test_who_deletes_all_files_does_not_get_the_starting_files_back(
    server: DevServer, model: ScriptedAnthropic, alice: str, imported: bool
) -> None:
    person = server.person(alice)
    if imported:
        files = [{"path": "/memories/mine.md", "content": "- mine\n"}]
        await person.made("POST", "/memory/import", {"version": 1, "files": files})
    else:
        await turn(person)
        assert await paths(person) == STARTING != set()
    for path in await paths(person):
        await person.made("DELETE", "/memory/file", path=path)
    await turn(person)
    assert NOTHING in system_text(model.requests[-1])
    assert NOTHING in str(await person.made("GET", "/memory/prompt"))
    assert await paths(person) == set()
    await person.made("DELETE", "/memory")
    await turn(person)
    assert await paths(person) == STARTING, "who was forgotten begins anew"


async def test_while_memory_is_paused_none_begins(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    person, operator = server.person(alice), server.as_operator()
    files = deployed().memory.namespace(identity.Actor(alice, "acme"), "")
    await person.made("PUT", "/memory/controls", {"paused": True})
    await turn(person)
    assert NOTHING in system_text(model.requests[-1])
    assert NOTHING in str(await person.made("GET", "/memory/prompt"))
    for path in ("", "/me", "/controls", "/search?q=hello", "/export", "/proposals", "/consolidations"):
        await person.made("GET", f"/memory{path}")
    await person.turn(await person.thread(), "go", "consolidation_agent")
    for namespace in (files, namespaces.journals(files)):
        assert (await operator.store.search_items(namespace))["items"] == []
    await person.made("PUT", "/memory/controls", {"paused": False})
    await turn(person)
    assert await paths(person) == STARTING
