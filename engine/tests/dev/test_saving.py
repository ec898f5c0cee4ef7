"""What `langgraph dev` keeps in files, where it has no Postgres: what is said is saved, what is
deleted is gone.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import FILE
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BUILDERS, served

pytestmark = [pytest.mark.server, pytest.mark.begins_first]

GRAPHS = {
    name: f"{Path(__file__).parent / 'hasty_runtime.py'}:{name}" for name in (*BUILDERS, "stubborn")
}


hasty = served({"graphs": GRAPHS})


@pytest.fixture
def server(hasty: DevServer) -> Iterator[DevServer]:
    """A server that is quick where it is slow; it keeps what it has in files."""
    (hasty.folder / "let_go").unlink(missing_ok=True)
    yield hasty
    (hasty.folder / "let_go").touch()


def files_with(server: DevServer, text: str, pattern: str = "*") -> list[str]:
    """The server's files that have this text."""
    found = list[str]()
    for file in (server.folder / ".langgraph_api").glob(pattern):
        with suppress(FileNotFoundError):  # another has taken its place
            found += [file.name] * (file.is_file() and text.encode() in file.read_bytes())
    return found


async def until(condition: Callable[[], object], seconds: float = 300) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # files tell nobody
            await asyncio.sleep(0.1)


@pytest.mark.proof
async def test_conversations_are_saved_after_a_state_was_read_or_a_disk_was_full(
    server: DevServer, alice: str
) -> None:
    person, bob, said = (
        server.person(alice),
        server.person(f"bob of {alice}"),
        f"said later {uuid.uuid4()}",
    )
    mine, bobs = await person.thread(), await bob.thread()
    await person.turn(mine, "hello")
    assert "hello" in str(await person.made("GET", f"/threads/{mine}/state"))
    in_the_way = server.folder / ".langgraph_api" / "store.pckl.tmp"
    await until(lambda: not in_the_way.exists())
    in_the_way.mkdir()  # no file can be written there: an OSError as of a full disk
    await until(lambda: "store.pckl could not be saved" in server.log)
    in_the_way.rmdir()
    await bob.turn(bobs, said)
    await until(
        lambda: (
            files_with(server, said, ".langgraph_checkpoint*")
            and files_with(server, said, ".langgraph_ops*")
        )
    )
    server.kill()
    server.start()
    await server.close_clients()
    assert said in str(await server.person(f"bob of {alice}").made("GET", f"/threads/{bobs}/state"))


async def test_forgetting_says_what_still_runs_and_finishes_once_it_has_ended(
    server: DevServer, alice: str
) -> None:
    """Of a run that cannot be stopped nothing is left either: forgetting says that it goes on, and
    finishes at the next try.
    """
    person, secret = server.person(alice), f"the safe opens with {uuid.uuid4()}"
    other, thread = await person.thread(), await person.thread()
    await person.turn(other, secret)
    await person.write(FILE, secret)
    said = {
        "assistant_id": "stubborn",
        "input": {"messages": [{"role": "user", "content": secret}]},
    }
    for _ in range(2):  # cancelling the one that waits makes the platform call the thread idle
        await person.made(
            "POST", f"/threads/{thread}/runs", {**said, "multitask_strategy": "enqueue"}
        )
    await until(lambda: files_with(server, thread, ".langgraph_checkpoint*"))
    for _ in range(2):
        refused = await person.ask("DELETE", "/memory")
        assert (refused.status_code, thread in refused.text, other in refused.text) == (
            503,
            True,
            False,
        )
    assert [each["thread_id"] for each in await person.made("POST", "/threads/search", {})] == [
        thread
    ]
    assert not (await person.made("GET", "/memory"))["files"]
    (server.folder / "let_go").touch()
    while (await person.ask("DELETE", "/memory")).status_code == 503:
        pass
    await until(lambda: not files_with(server, secret))


async def test_a_deleted_run_that_cannot_be_stopped_leaves_its_conversation_free_once_it_has_ended(
    server: DevServer, alice: str
) -> None:
    person = server.person(alice)
    thread = await person.thread()
    said = {
        "assistant_id": "stubborn",
        "input": {"messages": [{"role": "user", "content": "hold"}]},
    }
    run = await person.made("POST", f"/threads/{thread}/runs", said)
    await until(lambda: files_with(server, thread, ".langgraph_checkpoint*"))
    assert (
        await person.ask("DELETE", f"/threads/{thread}/runs/{run['run_id']}")
    ).status_code == 204
    assert (await person.made("GET", f"/threads/{thread}"))["status"] == "busy", "it goes on"
    (server.folder / "let_go").touch()
    await person.idle()
    await person.say("hello")


async def test_deleted_conversations_are_in_no_file_after_a_flush_and_after_a_stop(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await until((server.folder / ".langgraph_api/.langgraph_ops.pckl").exists)
    await asyncio.sleep(1)  # a flush that finds nothing to save is not the last one
    secrets = {
        how: f"the safe opens with {uuid.uuid4()}"
        for how in ("forgotten", "deleted", "temporary", "kept")
    }
    people = {how: server.person(f"{how} {alice}") for how in secrets}
    threads = {how: await people[how].thread(temporary=how == "temporary") for how in secrets}
    for how, secret in secrets.items():
        task = ToolCall(
            "task", {"description": f"look for {secret}", "subagent_type": "general-purpose"}
        )
        model.script(secret, [task], [Text(f"found {secret}")], [Text(f"noted {secret}")])
        await people[how].turn(threads[how], secret)
    await until(
        lambda: all(
            files_with(server, secret, ".langgraph_checkpoint*") for secret in secrets.values()
        )
    )

    await people["forgotten"].made("DELETE", "/memory")
    assert not files_with(server, secrets["forgotten"])  # a kill at this moment brings nothing back
    for how in ("deleted", "temporary"):
        await people[how].made("DELETE", f"/threads/{threads[how]}")
    kept = secrets.pop("kept")
    await until(lambda: not any(files_with(server, secret) for secret in secrets.values()))
    server.stop()
    assert not any(files_with(server, secret) for secret in secrets.values())
    assert files_with(server, kept)


async def test_plain_langgraph_dev_keeps_nothing_of_who_was_forgotten_either(
    model: ScriptedAnthropic, alice: str, tmp_path: Path
) -> None:
    """It is what people type by habit: without `make`, and so without the app that `make dev` puts
    around theirs.
    """
    secrets = {
        how: f"the safe opens with {uuid.uuid4()}" for how in ("forgotten", "deleted", "kept")
    }
    with DevServer(tmp_path, env=model.env, plain=True) as server:
        people = {how: server.person(f"{how} {alice}") for how in secrets}
        threads = {how: await people[how].thread() for how in secrets}
        for how, secret in secrets.items():
            await people[how].turn(threads[how], secret)
            await people[how].write(FILE, secret)
        told = await people["forgotten"].made("DELETE", "/memory")
        assert told["deleted"]["threads"] == 1
        assert not files_with(server, secrets["forgotten"])
        await people["deleted"].made("DELETE", f"/threads/{threads['deleted']}")
        await people["deleted"].made("DELETE", "/memory/file", path=FILE)
        await server.close_clients()
        server.stop()
        assert not files_with(server, secrets["forgotten"])
        assert not files_with(server, secrets["deleted"], ".langgraph_checkpoint*")
        assert files_with(server, secrets["kept"], ".langgraph_checkpoint*")
