"""What `langgraph dev` keeps in files, where it has no Postgres: what is said is saved, what is deleted is gone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from testing.dev_server import DevServer, run_turn
from testing.parts import graph_builders
from testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import model_env

pytestmark = pytest.mark.server

GRAPHS = {name: f"{Path(__file__).parent / 'hasty_runtime.py'}:{name}" for name in (*graph_builders(), "stubborn")}


@pytest.fixture(scope="module")
def shared_hasty(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    folder = tmp_path_factory.mktemp("saving")
    with DevServer(folder, env=model_env(shared_model), config={"graphs": GRAPHS}) as server:
        yield server
        (folder / "let_go").touch()


@pytest.fixture
async def server(shared_hasty: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:
    """A server that is quick where it is slow; it keeps what it has in files."""
    if not shared_hasty.answers():  # a test has stopped it
        shared_hasty.start()
    (shared_hasty.folder / "let_go").unlink(missing_ok=True)
    yield shared_hasty
    await shared_hasty.close_clients()


async def new_thread(client: LangGraphClient, **metadata: Any) -> str:
    return str((await client.threads.create(metadata=metadata))["thread_id"])


def files_with(server: DevServer, text: str, pattern: str = "*") -> list[str]:
    """The server's files that have this text."""
    found = list[str]()
    for file in (server.folder / ".langgraph_api").glob(pattern):
        with suppress(FileNotFoundError):  # another has taken its place
            found += [file.name] * (file.is_file() and text.encode() in file.read_bytes())
    return found


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # files tell nobody
            await asyncio.sleep(0.1)


async def test_what_was_forgotten_or_deleted_is_in_no_file_after_a_flush_and_after_a_stop(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await until((server.folder / ".langgraph_api/.langgraph_ops.pckl").exists)
    await asyncio.sleep(1)  # a flush that finds nothing to save is not the last one
    secrets = {how: f"the safe opens with {uuid.uuid4()}" for how in ("forgotten", "deleted", "temporary", "stateless", "kept")}
    clients = {how: server.as_user(f"{how} {alice}") for how in secrets}
    threads = {how: await new_thread(clients[how], temporary=how == "temporary") for how in secrets}
    for how, secret in secrets.items():
        task = ToolCall("task", {"description": f"look for {secret}", "subagent_type": "general-purpose"})
        model.script(secret, [task], [Text(f"found {secret}")], [Text(f"noted {secret}")])
        await run_turn(clients[how], threads[how], secret)
    said: Any = {"messages": [{"role": "user", "content": secrets["stateless"]}]}
    await clients["stateless"].runs.wait(None, "agent", input=said)
    await until(lambda: all(files_with(server, secret, ".langgraph_checkpoint*") for secret in secrets.values()))

    await clients["forgotten"].http.delete("/memory")
    for how in ("deleted", "temporary", "stateless"):
        await clients[how].threads.delete(threads[how])
    gone = [secret for how, secret in secrets.items() if how != "kept"]
    await until(lambda: not any(files_with(server, secret) for secret in gone), 20)
    server.stop()
    assert [files_with(server, secret) for secret in gone] == [[]] * len(gone)
    assert files_with(server, secrets["kept"])


async def test_after_a_thread_s_state_was_read_everybody_s_conversations_are_still_saved(server: DevServer, alice: str) -> None:
    client, bob, said = server.as_user(alice), server.as_user(f"bob of {alice}"), f"said later {uuid.uuid4()}"
    mine, bobs = await new_thread(client), await new_thread(bob)
    await run_turn(client, mine, "hello")
    assert "hello" in str(await client.threads.get_state(mine))
    await client.threads.delete(await new_thread(client))
    await run_turn(bob, bobs, said)
    await until(lambda: files_with(server, said, ".langgraph_checkpoint*") and files_with(server, said, ".langgraph_ops*"), 20)
    server.kill()
    server.start()
    await server.close_clients()
    assert said in str(await server.as_user(f"bob of {alice}").threads.get_state(bobs))


async def test_after_a_disk_was_full_for_a_moment_saving_goes_on(server: DevServer, alice: str) -> None:
    client, said = server.as_user(alice), f"said later {uuid.uuid4()}"
    thread = await new_thread(client)
    await run_turn(client, thread, "hello")
    in_the_way = server.folder / ".langgraph_api" / "store.pckl.tmp"
    await until(lambda: not in_the_way.exists())
    in_the_way.mkdir()  # no file can be written there: an OSError as of a full disk
    await until(lambda: "store.pckl could not be saved" in server.log, 20)
    in_the_way.rmdir()
    await run_turn(client, thread, said)
    await until(lambda: files_with(server, said, ".langgraph_checkpoint*"), 20)


async def test_forgetting_says_what_still_runs_and_finishes_once_it_has_ended(server: DevServer, alice: str) -> None:
    """Of a run that cannot be stopped nothing is left either: forgetting says that it goes on, and finishes at the next try."""
    client, secret = server.as_user(alice), f"the safe opens with {uuid.uuid4()}"
    said: Any = {"messages": [{"role": "user", "content": secret}]}
    other, thread = await new_thread(client), await new_thread(client)
    await run_turn(client, other, secret)
    await client.http.put("/memory/file", params={"path": "/memories/a.md"}, json={"content": secret})
    for _ in range(2):  # cancelling the one that waits makes the platform call the thread idle
        await client.runs.create(thread, "stubborn", input=said, multitask_strategy="enqueue")
    await until(lambda: files_with(server, thread, ".langgraph_checkpoint*"))
    for _ in range(2):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await client.http.delete("/memory")
        assert refused.value.response.status_code == 503
        assert thread in refused.value.response.text
        assert other not in refused.value.response.text
    assert [each["thread_id"] for each in await client.threads.search()] == [thread], "everything else is gone"
    assert not (await client.http.get("/memory"))["files"]
    (server.folder / "let_go").touch()
    for _ in range(100):
        with suppress(httpx.HTTPStatusError):
            await client.http.delete("/memory")
            break
    await until(lambda: not files_with(server, secret), 20)
    server.stop()
    assert not files_with(server, secret)


async def test_of_a_server_killed_meanwhile_nothing_runs_on(server: DevServer, alice: str) -> None:
    """Who is forgotten after a kill in the midst of it is: of what the list of threads calls busy nothing runs."""
    client = server.as_user(alice)
    thread = await new_thread(client)
    await client.runs.create(thread, "stubborn", input={})
    await until(lambda: files_with(server, thread, ".langgraph_checkpoint*"))
    with pytest.raises(httpx.HTTPStatusError):
        await client.http.delete("/memory")
    await asyncio.sleep(1)  # for a flush
    server.kill()
    server.start()
    await server.close_clients()
    client = server.as_user(alice)
    assert [each["status"] for each in await client.threads.search()] == ["busy"]
    await client.http.delete("/memory")
    assert not await client.threads.search()
