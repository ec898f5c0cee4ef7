"""Somebody is forgotten after a crash in which the server lost threads from its list: nothing that they said is left."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import psycopg
import pytest

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.postgres.conftest import embedded_in

pytestmark = [pytest.mark.server, pytest.mark.postgres, pytest.mark.proof]

SECRET, OTHERS = "the-safe-opens-with-4711", "bob-likes-tea"


@pytest.fixture
def server(model: ScriptedAnthropic) -> Iterator[DevServer]:
    with TemporaryDirectory(prefix="postgres-") as folder, DevServer(Path(folder), model.env, ON_POSTGRES) as server:
        yield server


def tables_with(connection: psycopg.Connection[Any], text: str) -> set[str]:
    """Tables that hold a text, as text or as bytes."""
    listed = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'").fetchall()
    queries = {table: f"SELECT 1 FROM {table} t WHERE t::text LIKE ANY(%s)" for (table,) in listed}  # noqa: S608
    # Bytes are shown as hexadecimal digits.
    patterns = [f"%{text}%", f"%{text.encode().hex()}%"]
    return {table for table, query in queries.items() if connection.execute(query.encode(), (patterns,)).fetchone()}


async def test_nothing_a_person_said_is_in_the_database_after_a_kill(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, bob, operator = server.person(alice), server.person("bob"), server.person("root", headers=OPERATOR)
    model.script("remember", [ToolCall("append_memory", {"path": "/memories/a.md", "text": SECRET})], [Text(f"noted {SECRET}")])
    task: dict[str, Any] = {"description": f"look for {SECRET}", "subagent_type": "general-purpose"}
    model.script("delegate", [ToolCall("task", task)], [Text("done")], [Text("done")])
    for text in ("remember", "delegate", "copied"):
        await person.turn(said := await person.thread(), f"{text} {SECRET}")
    await person.made("POST", f"/threads/{said}/copy")
    await operator.turn(await operator.thread(), SECRET, context={"user_id": alice, "org_id": "acme"})
    await bob.turn(await bob.thread(), OTHERS)
    shared = await operator.thread()
    for user in (alice, "carol"):
        await operator.turn(shared, "of both", context={"user_id": user, "org_id": "acme"})
    with psycopg.connect(embedded_in(server.folder)) as connection:
        assert {"store", "checkpoint_writes"} <= tables_with(connection, SECRET)

    pid = int((server.folder / ".postgres/postmaster.pid").read_text().splitlines()[0])
    postmaster = psutil.Process(pid)
    backends = postmaster.children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    server.kill()
    psutil.wait_procs([postmaster, *backends], timeout=20)  # none begins where one is still ending
    for lost in (server.folder / ".langgraph_api").glob(".langgraph_ops*"):
        lost.unlink()  # what was not flushed yet, whenever that was
    server.start()
    await server.close_clients()
    person = server.person(alice)
    assert await person.made("POST", "/threads/search", {}) == []

    assert (await person.made("DELETE", "/memory"))["deleted"]["unlisted_threads"] >= 5
    with psycopg.connect(embedded_in(server.folder)) as connection:
        assert not tables_with(connection, SECRET)
        assert tables_with(connection, OTHERS), "nobody else's is touched"
        kept = connection.execute("SELECT count(*) FROM checkpoints WHERE thread_id = %s", (shared,)).fetchone()
        assert kept != (0,), "a conversation that is also somebody else's is not one person's to delete"
    assert "unlisted_threads" not in (await person.made("DELETE", "/memory"))["deleted"]
    await server.close_clients()


async def test_so_it_is_where_everything_is_kept_in_files(tmp_path: Path, model: ScriptedAnthropic, alice: str) -> None:
    with DevServer(tmp_path, model.env) as server:
        for user, text in ((alice, SECRET), ("bob", OTHERS)):
            person = server.person(user)
            await person.turn(await person.thread(), text)
        server.stop()  # flushed
        files = tmp_path / ".langgraph_api"
        for lost in files.glob(".langgraph_ops*"):
            lost.unlink()
        assert any(SECRET.encode() in file.read_bytes() for file in files.iterdir())
        server.start()
        await server.close_clients()
        assert (await server.person(alice).made("DELETE", "/memory"))["deleted"]["unlisted_threads"] == 1
        await server.close_clients()
        server.stop()
        assert not any(SECRET.encode() in file.read_bytes() for file in files.iterdir())
        assert any(OTHERS.encode() in file.read_bytes() for file in files.iterdir())
