"""Servers on Postgres: what lasts, what two of them see, and their configuration."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psycopg
import pytest
from deepagents.backends.utils import create_file_data

from dev.server import configuration
from memory import identity, namespaces
from settings import PROJECT, Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.embedding import SUBJECTS
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, after, system_text, tool_results
from tests.conftest import model_env

pytestmark = pytest.mark.postgres


def embedded_in(folder: Path) -> str:
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"


@pytest.fixture(scope="module")
def servers(shared_model: ScriptedAnthropic) -> Iterator[list[DevServer]]:
    """Two servers, each in a folder of its own, with a semantic index: the second on the Postgres that the first started."""
    env = model_env(shared_model)
    index = {"embed": "testing/embedding.py:embed", "dims": len(SUBJECTS), "fields": ["content"]}
    config = {**ON_POSTGRES, "store": {**ON_POSTGRES["store"], "index": index}}
    # Folders that the user Postgres runs as under root can reach.
    with TemporaryDirectory(prefix="postgres-") as one, TemporaryDirectory() as two:
        address = {"MEMORY_POSTGRES_URI": embedded_in(Path(one))}
        first = DevServer(Path(one), env=env, config=config)
        second = DevServer(Path(two), env={**env, **address}, config=config)
        with first, second:
            yield [first, second]
        assert not (Path(one) / ".postgres" / "postmaster.pid").exists(), "the server left its Postgres running"


@pytest.fixture
async def pair(servers: list[DevServer], model: ScriptedAnthropic) -> AsyncIterator[list[DevServer]]:
    yield servers
    for server in servers:
        await server.close_clients()


@pytest.mark.server
async def test_conversations_and_memory_survive_a_kill(pair: list[DevServer], model: ScriptedAnthropic, alice: str) -> None:
    server = pair[1]
    client = server.as_user(alice)
    thread = (await client.threads.create())["thread_id"]
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- survives"})
    model.script("before the kill", [append], [Text("done")])
    await run_turn(client, thread, "before the kill")
    server.kill()
    server.start()
    await client.threads.create(thread_id=thread, if_exists="do_nothing")  # the list of threads may not be on disk yet
    await run_turn(client, thread, "after the kill")
    last = model.requests[-1]
    assert "- survives" in system_text(last)
    assert "before the kill" in str(last["messages"])


@pytest.mark.server
async def test_conversations_that_somebody_deletes_at_once_are_that_person_s_alone(pair: list[DevServer], alice: str) -> None:
    """The platform deletes from its list by a position that it found before it waited for Postgres."""
    hers, others = pair[0].as_user(alice), pair[0].as_user(f"other-{alice}")
    threads = [[str((await client.threads.create())["thread_id"]) for client in (hers, others)] for _ in range(20)]
    deleted, kept = zip(*threads, strict=True)
    await asyncio.gather(*(hers.threads.delete(thread) for thread in deleted))
    assert {thread["thread_id"] for thread in await others.threads.search(limit=100)} == {*kept}
    assert await hers.threads.search(limit=100) == []


@pytest.mark.server
async def test_a_run_that_is_rolled_back_leaves_nothing_in_the_conversation(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    client = pair[1].as_user(alice)
    thread = (await client.threads.create())["thread_id"]
    await run_turn(client, thread, "stays")
    model.script("goes away", Slow(30, [Text("never")]))
    message: Any = {"messages": [{"role": "user", "content": "goes away"}]}
    await client.runs.create(thread, "agent", input=message)
    while not model.requests_for("goes away"):  # noqa: ASYNC110  # the scripted server's thread sets no event
        await asyncio.sleep(0.05)
    await run_turn(client, thread, "comes instead", multitask_strategy="rollback")
    shown = str(model.requests_for("comes instead")[-1]["messages"])
    assert "stays" in shown
    assert "goes away" not in shown


@pytest.mark.server
async def test_somebody_forgotten_on_one_server_is_so_on_the_other(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    """Somebody forgotten on one server is so on the other, and leaves no checkpoint."""
    one, two = (server.as_user(alice) for server in pair)
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- late"})
    forgotten = threading.Event()
    model.script("take your time", after(forgotten, [append]), [Text("done")])
    thread, elsewhere = [str((await client.threads.create())["thread_id"]) for client in (one, two)]
    await run_turn(one, thread, "hello")
    going = asyncio.create_task(run_turn(two, elsewhere, "take your time"))
    while not model.requests_for("take your time"):  # noqa: ASYNC110  # the model's server is in another thread
        await asyncio.sleep(0.05)
    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=pair[0].url, headers=headers, trust_env=False, timeout=60) as http:
        assert [file["path"] for file in (await http.get("/memory")).json()["files"]] == ["/memories/preferences.md"]
        deleted = (await http.delete("/memory")).json()["deleted"]
        assert (deleted["threads"], deleted["memories"], deleted["runs"]) == (1, 1, 0)
        forgotten.set()
        await going
        assert "was deleted since this run began" in tool_results(model.requests_for("take your time")[-1])[0]
        assert (await http.get("/memory")).json()["files"] == []
    with psycopg.connect(embedded_in(pair[0].folder)) as connection:
        for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs"):
            counted = [
                connection.execute(f"SELECT count(*) FROM {table} WHERE thread_id = %s", (of,)).fetchone()  # noqa: S608
                for of in (thread, elsewhere)
            ]
            assert counted[0] == (0,), table
            assert counted[1] != (0,), f"{table}: the other server's conversation is the other server's to delete"


@pytest.mark.server
async def test_the_server_searches_by_the_index_of_its_configuration(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    operator = pair[0].as_operator()
    namespace = list(namespaces.memories(identity.Actor(alice, "acme"), "", Settings()))
    for key, text in (("/topics/a.md", "Has a puppy."), ("/topics/b.md", "Sold the vehicle.")):
        await operator.store.put_item(namespace, key, {**create_file_data(text)})
    items = (await operator.store.search_items(namespace, query="any pet?"))["items"]
    assert items[0]["key"] == "/topics/a.md"
    assert (items[0].get("score") or 0) > (items[1].get("score") or 0)
    assert "Blocking call" not in pair[0].log


def test_the_configuration_on_postgres_is_the_deployment_s_with_its_semantic_index() -> None:
    """The guard, the sign-in and the routes are those of a deployment, and a semantic index is asked of Postgres, too."""
    deployed = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
    index = {"embed": "a:b", "dims": 3}
    written = configuration({**deployed, "store": {"index": index}}, postgres=True)
    assert written["store"] == {"index": index, "path": "./memory/postgres/store.py:store"}
    others = {key: value for key, value in deployed.items() if key not in {"env", "http"}}
    assert others == {key: value for key, value in written.items() if key in others}
    assert {**written["http"], "app": deployed["http"]["app"]} == deployed["http"]
