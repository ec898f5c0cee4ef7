"""Somebody is forgotten after a crash in which the server lost threads from its list: nothing that they said is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from langgraph_sdk.client import LangGraphClient
from psycopg import sql

from memory.postgres.store import open_checkpointer
from settings import Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall
from tests.conftest import model_env

pytestmark = [pytest.mark.server, pytest.mark.postgres, pytest.mark.proof]

SECRET, OTHERS = "the-safe-opens-with-4711", "bob-likes-tea"


def address(folder: Path) -> str:
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"


@pytest.fixture
def server(shared_model: ScriptedAnthropic) -> Iterator[DevServer]:
    env = model_env(shared_model)
    with TemporaryDirectory(prefix="postgres-") as folder, DevServer(Path(folder), env, ON_POSTGRES) as server:
        yield server


def tables_with(connection: psycopg.Connection[Any], text: str) -> dict[str, int]:
    """By table, in how many rows a text is: in any column, as text or as bytes."""
    counts = {}
    tables = connection.execute(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'"
    ).fetchall()
    for (table,) in tables:
        columns = connection.execute(
            "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = %s", (table,)
        ).fetchall()
        conditions = [
            sql.SQL("position({} in {}) > 0").format(
                sql.Literal(text.encode() if kind == "bytea" else text),
                sql.Identifier(name) if kind == "bytea" else sql.SQL("{}::text").format(sql.Identifier(name)),
            )
            for name, kind in columns
        ]
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(sql.Identifier(table), sql.SQL(" OR ").join(conditions))
        row = connection.execute(query).fetchone()
        if row and row[0]:
            counts[str(table)] = int(row[0])
    return counts


async def new_thread(client: LangGraphClient, **kwargs: Any) -> str:
    return str((await client.threads.create(**kwargs))["thread_id"])


async def forget(server: DevServer, user: str) -> dict[str, int]:
    headers = {"Authorization": f"Bearer {dev_token('acme', user)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        answer = await http.delete("/memory")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["deleted"])


async def test_nothing_a_person_said_is_in_the_database_after_a_kill(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Nothing that a person said is in the database after a kill of the server and of Postgres."""
    client, bob, operator = server.as_user(alice), server.as_user(f"bob of {alice}"), server.as_operator()
    model.script("remember", [ToolCall("append_memory", {"path": "/memories/a.md", "text": SECRET})], [Text(f"noted {SECRET}")])
    task: dict[str, Any] = {"description": f"look for {SECRET}", "subagent_type": "general-purpose"}
    model.script("delegate", [ToolCall("task", task)], [Text("done")], [Text("done")])
    model.script("hangs", Slow(60, [Text("never")]))
    await run_turn(client, await new_thread(client), f"remember {SECRET}")
    await run_turn(client, await new_thread(client), f"delegate {SECRET}")
    said: dict[str, Any] = {"messages": [{"role": "user", "content": SECRET}]}
    written, copied = await new_thread(client, graph_id="agent"), await new_thread(client)
    await client.threads.update_state(written, said)
    history: Any = [{"updates": [{"values": said, "as_node": "__start__"}]}]
    await new_thread(client, graph_id="agent", supersteps=history)
    await run_turn(client, copied, SECRET)
    await client.threads.copy(copied)
    await run_turn(operator, await new_thread(operator), SECRET, context={"user_id": alice, "org_id": "acme"})
    bobs, shared = await new_thread(bob), await new_thread(operator)
    await run_turn(bob, bobs, OTHERS)
    for user in (alice, "carol"):
        await run_turn(operator, shared, "of both", context={"user_id": user, "org_id": "acme"})
    hanging: Any = {"messages": [{"role": "user", "content": f"hangs {SECRET}"}]}
    await client.runs.create(await new_thread(client), "agent", input=hanging)
    while not model.requests_for("hangs"):  # noqa: ASYNC110  # the scripted server's thread sets no event
        await asyncio.sleep(0.05)
    with psycopg.connect(address(server.folder)) as connection:
        before = tables_with(connection, SECRET)
    assert {"store", "checkpoint_writes"} <= before.keys()

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
    assert await server.as_user(alice).threads.search(limit=1000) == []

    deleted = await forget(server, alice)
    assert deleted["unlisted_threads"] >= 7
    with psycopg.connect(address(server.folder)) as connection:
        assert tables_with(connection, SECRET) == {}
        assert tables_with(connection, OTHERS), "nobody else's is touched"
        kept = connection.execute("SELECT count(*) FROM checkpoints WHERE thread_id = %s", (shared,)).fetchone()
        assert kept != (0,), "a conversation that is also somebody else's is not one person's to delete"
    assert "unlisted_threads" not in await forget(server, alice)
    await server.close_clients()


async def test_a_person_among_ten_thousand_conversations_is_found_at_once(postgres_uri: str) -> None:
    """A person among ten thousand conversations is found by an index in a moment."""
    async with open_checkpointer(Settings(memory_postgres_uri=postgres_uri)) as checkpointer:
        async with checkpointer._cursor() as cursor:
            await cursor.execute("TRUNCATE checkpoints")
            await cursor.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint, metadata) "
                "SELECT 't' || n / 10, n, '{}', jsonb_build_object('user_id', 'u' || n / 100, 'org_id', 'acme') "
                "FROM generate_series(0, 99999) AS n"
            )
            await cursor.execute("ANALYZE checkpoints")
        assert await checkpointer.adelete_for_person("u500", "globex") == 0
        assert await checkpointer.adelete_for_person("u500", "acme") == 10
        async with checkpointer._cursor() as cursor:
            await cursor.execute("SELECT count(*) AS left FROM checkpoints")
            assert await cursor.fetchone() == {"left": 99_900}
            await cursor.execute("EXPLAIN SELECT thread_id FROM checkpoints WHERE metadata->>'user_id' = 'u1'")
            assert "checkpoints_user_id_idx" in str(await cursor.fetchall())
            await cursor.execute("TRUNCATE checkpoints")


@pytest.mark.proof
async def test_so_it_is_where_everything_is_kept_in_files(tmp_path: Path, shared_model: ScriptedAnthropic, alice: str) -> None:
    with DevServer(tmp_path, env=model_env(shared_model)) as server:
        for user, text in ((alice, SECRET), ("bob", OTHERS)):
            client = server.as_user(user)
            await run_turn(client, await new_thread(client), text)
        server.stop()  # flushed
        files = tmp_path / ".langgraph_api"
        for lost in files.glob(".langgraph_ops*"):
            lost.unlink()
        assert any(SECRET.encode() in file.read_bytes() for file in files.iterdir())
        server.start()
        await server.close_clients()
        assert (await forget(server, alice))["unlisted_threads"] == 1
        server.stop()
        assert not any(SECRET.encode() in file.read_bytes() for file in files.iterdir())
        assert any(OTHERS.encode() in file.read_bytes() for file in files.iterdir())
