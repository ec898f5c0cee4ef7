"""Servers on Postgres: what lasts, what two of them see, and their configuration."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from lasting_memory.dev.configuration import ON_POSTGRES, configuration
from lasting_memory.settings import ENGINE, project_config
from lasting_memory.testing import dev_server
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    after,
    system_text,
    tool_results,
)
from lasting_memory.testing.stores import SERVED, embedded_in

pytestmark = [pytest.mark.postgres, pytest.mark.begins_first]


@pytest.fixture(scope="module")
def servers(shared_model: ScriptedAnthropic) -> Iterator[list[DevServer]]:
    """Two servers, each in a folder of its own, with a semantic index: the second on the Postgres
    that the first started.
    """
    env = shared_model.env
    config = {**ON_POSTGRES, "store": {**ON_POSTGRES["store"], "index": SERVED}}
    # Folders that the user Postgres runs as under root can reach.
    with TemporaryDirectory(prefix="postgres-") as one, TemporaryDirectory() as two:
        address = {"MEMORY_POSTGRES_URI": embedded_in(Path(one))}
        first = DevServer(Path(one), env=env, config=config)
        second = DevServer(Path(two), env={**env, **address}, config=config)
        # The platform deletes what a run that is rolled back wrote while the next may begin: in
        # half a second it has.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dev_server, "queue_seconds", None)
            with first, second:
                yield [first, second]
        assert not (Path(one) / ".postgres" / "postmaster.pid").exists(), (
            "the server left its Postgres running"
        )


@pytest.fixture
async def pair(
    servers: list[DevServer], model: ScriptedAnthropic
) -> AsyncIterator[list[DevServer]]:
    yield servers
    for server in servers:
        await server.close_clients()


@pytest.mark.server
async def test_conversations_and_memory_survive_a_kill(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    server, person = pair[1], pair[1].person(alice)
    thread = await person.thread()
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- survives"})
    model.script("before the kill", [append], [Text("done")])
    await person.turn(thread, "before the kill")
    server.kill()
    server.start()
    await person.made(
        "POST", "/threads", {"thread_id": thread, "if_exists": "do_nothing"}
    )  # the list may not be on disk yet
    await person.turn(thread, "after the kill")
    last = model.requests[-1]
    assert "- survives" in system_text(last)
    assert "before the kill" in str(last["messages"])


@pytest.mark.server
async def test_conversations_that_somebody_deletes_at_once_are_that_person_s_alone(
    pair: list[DevServer], alice: str
) -> None:
    """The platform deletes from its list by a position that it found before it waited for Postgres."""
    alice_, other = pair[0].person(alice), pair[0].person(f"other-{alice}")
    threads = [[await person.thread() for person in (alice_, other)] for _ in range(20)]
    deleted, kept = zip(*threads, strict=True)
    await asyncio.gather(*(alice_.made("DELETE", f"/threads/{thread}") for thread in deleted))
    everybodys = [
        await person.made("POST", "/threads/search", {"limit": 100}) for person in (alice_, other)
    ]
    assert [{thread["thread_id"] for thread in one} for one in everybodys] == [set(), {*kept}]


@pytest.mark.server
async def test_a_run_that_is_rolled_back_leaves_nothing_in_the_conversation(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    person = pair[1].person(alice)
    thread = await person.thread()
    await person.turn(thread, "stays")
    model.script("goes away", Slow(30, [Text("never")]))
    message: Any = {"messages": [{"role": "user", "content": "goes away"}]}
    await person.made(
        "POST", f"/threads/{thread}/runs", {"assistant_id": "agent", "input": message}
    )
    await model.asked("goes away")
    await person.turn(thread, "comes instead", multitask_strategy="rollback")
    shown = str(model.requests_for("comes instead")[-1]["messages"])
    assert ("stays" in shown, "goes away" in shown) == (True, False)


@pytest.mark.server
async def test_a_person_forgotten_on_one_server_is_forgotten_on_the_other(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    one, two = (server.person(alice) for server in pair)
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- late"})
    forgotten = threading.Event()
    model.script("take your time", after(forgotten, [append]), [Text("done")])
    thread, elsewhere = await one.thread(), await two.thread()
    await one.turn(thread, "hello")
    going = asyncio.create_task(two.turn(elsewhere, "take your time"))
    await model.asked("take your time")
    assert [file["path"] for file in (await one.made("GET", "/memory"))["files"]] == [
        "/memories/preferences.md"
    ]
    deleted = (await one.made("DELETE", "/memory"))["deleted"]
    assert (deleted["threads"], deleted["memories"], deleted["runs"]) == (1, 1, 0)
    forgotten.set()
    await going
    assert (
        "was deleted since this run began"
        in tool_results(model.requests_for("take your time")[-1])[0]
    )
    assert (await one.made("GET", "/memory"))["files"] == []
    with psycopg.connect(embedded_in(pair[0].folder)) as connection:
        for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs"):
            count = f"SELECT count(*) FROM {table} WHERE thread_id = %s"  # noqa: S608
            counted = [connection.execute(count, (of,)).fetchone() for of in (thread, elsewhere)]
            assert counted[0] == (0,), table
            assert counted[1] != (0,), (
                f"{table}: the other server's conversation is the other server's to delete"
            )


def test_a_semantic_index_is_asked_of_postgres_too() -> None:
    index = {"embed": "a:b", "dims": 3}
    written = configuration({**project_config(PROJECT), "store": {"index": index}}, postgres=True)
    assert written["store"] == {"index": index, "path": f"{ENGINE}/postgres/store.py:store"}
