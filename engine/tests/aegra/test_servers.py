"""The template on aegra: two processes, workers, a broker, and a Postgres that is counted by SQL."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import person_label
from lasting_memory.testing.deployed import run_command
from lasting_memory.testing.people import Person, dev_token
from tests.aegra.servers import OPERATOR, AegraServer
from tests.conftest import free_port

pytestmark = [pytest.mark.proof, pytest.mark.server, pytest.mark.postgres]

# Seconds after a turn in which no other one may follow, for consolidation.
IDLE_SECONDS = 3
PEOPLE = 50
_TABLES = (
    "thread", "runs", "checkpoints", "checkpoint_blobs", "checkpoint_writes", "store", "crons",
)  # fmt: skip
PREFERENCES = "/memories/preferences.md"


@pytest.fixture(scope="module")
def started(
    python: Path, redis: str, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[AegraServer]]:
    folder = tmp_path_factory.mktemp("aegra")
    # The offline model, which does what simple sentences say.
    env = {"AGENT_MODEL": "", "CONSOLIDATE_AFTER_SECONDS": str(IDLE_SECONDS)}
    servers = [
        AegraServer(python, folder, free_port(), database=database, redis=redis, env=env)
        for _ in range(2)
    ]
    servers[0].make_tables()
    with ExitStack() as stack:
        for server in servers:
            server.begin()
            stack.callback(server.__exit__)
        for server in servers:
            server.wait()
        yield servers


@pytest.fixture
async def pair(started: list[AegraServer]) -> AsyncIterator[list[AegraServer]]:
    yield started
    for server in started:
        await server.close_clients()


def count(database: str, query: str, *values: Any) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute(query.encode(), values).fetchone()
        assert row
        return int(row[0])


async def settled(person: Person) -> None:
    """Wait until no run of the person's goes on or waits."""
    async with asyncio.timeout(120):
        while await person.client.threads.count(status="busy"):  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.1)


def test_smoke(pair: list[AegraServer]) -> None:
    for server in pair:
        token = dev_token("acme", f"smoke-{uuid.uuid4().hex[:8]}")
        done = run_command("lasting_memory.dev.smoke", "--url", server.url, stdin=f"{token}\n")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "deletion" in done.stdout


async def test_the_same_identity_in_another_organization_is_somebody_else(
    pair: list[AegraServer], alice: str
) -> None:
    acme = pair[0].person(alice)
    secret = f"secret{uuid.uuid4().hex[:8]}"
    thread = await acme.chat(f"Remember that I like {secret}")
    for server in pair:
        other = server.person(alice, "globex")
        await other.say("hello")
        for method, path, body in (
            ("GET", f"/threads/{thread}", None),
            ("GET", f"/threads/{thread}/state", None),
            ("GET", f"/threads/{thread}/history", None),
            ("PATCH", f"/threads/{thread}", {"metadata": {"x": 1}}),
            ("DELETE", f"/threads/{thread}", None),
            (
                "POST",
                f"/threads/{thread}/runs/wait",
                {"assistant_id": "agent", "input": {"messages": []}},
            ),
        ):
            assert (await other.ask(method, path, body)).status_code == 404, (method, path)
        found = await other.made("POST", "/threads/search", {"limit": 100})
        assert thread not in str(found)
        assert len(found) >= 1
        for config in (
            {"thread_id": thread},
            {"configurable": {"thread_id": thread}},
            {"configurable": {"user_id": alice, "org_id": "acme"}},
        ):
            answer = await other.say("hello", config=config)
            assert secret not in str(answer)
        for path in ("/memory", "/memory/export", "/memory/search?q=" + secret):
            assert secret not in (await other.ask("GET", path)).text.replace(f'"{secret}"', "")
        assert secret not in str(await other.read(PREFERENCES))
    assert secret in str(await acme.read(PREFERENCES))


async def test_an_operator_goes_on_in_somebody_s_conversation(
    pair: list[AegraServer], alice: str
) -> None:
    owner, operator = pair[0].person(alice), pair[1].person(OPERATOR, "default")
    thread = await owner.chat("hello")
    there = {"thread_id": thread, "if_exists": "do_nothing"}
    assert (await operator.made("POST", "/threads", there))["thread_id"] == thread
    again = {"thread_id": thread}
    assert (await operator.ask("POST", "/threads", again)).status_code == 409
    await operator.turn(thread, "hello from the operator")
    state = await owner.made("GET", f"/threads/{thread}/state")
    texts = [message["content"] for message in state["values"]["messages"]]
    assert "hello from the operator" in texts
    assert len(await owner.made("GET", f"/threads/{thread}/runs")) == 2


@pytest.mark.parametrize("path", ["/threads/{}/runs/wait", "/threads/{}/runs", "/threads"])
async def test_a_stranger_begins_no_run_in_a_person_s_thread(
    pair: list[AegraServer], alice: str, path: str
) -> None:
    owner, stranger = pair[0].person(alice), pair[1].person(f"mallory-{alice}")
    thread = await owner.chat("hello")
    body = {"assistant_id": "agent", "input": {"messages": []}, "thread_id": thread}
    answer = await stranger.ask("POST", path.format(thread), {**body, "if_exists": "do_nothing"})
    assert answer.status_code in (404, 409)
    assert len(await owner.made("GET", f"/threads/{thread}/runs")) == 1


async def test_a_prune_that_names_another_person_s_thread_deletes_no_thread(
    pair: list[AegraServer], alice: str
) -> None:
    owner, stranger = pair[0].person(alice), pair[1].person(f"mallory-{alice}")
    thread = await owner.chat("hello")
    own = await stranger.chat("hello")
    named = {"thread_ids": [own, thread]}
    assert (await stranger.ask("POST", "/threads/prune", named)).status_code == 404
    assert (await stranger.ask("GET", f"/threads/{own}")).status_code == 200
    assert await owner.made("POST", "/threads/prune", {"thread_ids": [thread]}) == {
        "pruned_count": 1
    }
    kept = {"thread_ids": [own], "strategy": "keep_latest"}
    assert (await stranger.ask("POST", "/threads/prune", kept)).status_code == 422


async def test_a_forgotten_person_leaves_no_row(
    pair: list[AegraServer], database: str, alice: str
) -> None:
    person = pair[0].person(alice)
    await person.chat("Remember that I like green tea", "hello again")
    await person.write("/memories/notes.md", "- a note\n")
    await settled(person)
    assert count(database, "SELECT count(*) FROM thread WHERE user_id = %s", label(alice)) > 0
    await pair[1].person(alice).made("DELETE", "/memory")
    left = list[str]()
    with psycopg.connect(database) as connection:
        for table in _TABLES:
            query = f"SELECT t::text FROM {table} t WHERE t::text LIKE %s"  # noqa: S608  # our tables
            found = connection.execute(query.encode(), [f"%{alice}%"]).fetchall()
            left += [str(row[0]) for row in found]
    # When they were forgotten, and what they have used of the day's tokens.
    assert [row for row in left if not row.startswith(("(forgotten.", "(usage."))] == []
    again = pair[0].person(alice)
    await again.say("Remember that I like black tea")
    content = str(await again.read(PREFERENCES))
    assert "black tea" in content
    assert "green tea" not in content


def label(identity: str, org: str = "acme") -> str:
    return person_label(Actor(identity, org))


async def test_consolidation_begins_once_some_time_after_the_last_turn(
    pair: list[AegraServer], database: str, alice: str
) -> None:
    runs = (
        "SELECT count(*) FROM runs WHERE user_id = %s AND execution_params->>'graph_id' = "
        "'consolidation_agent' AND status = %s"
    )
    people = [server.person(alice) for server in pair]
    thread = await people[0].thread()
    for turn in range(4):  # by turns at both processes
        await people[turn % 2].turn(thread, f"I moved to Lisbon, street {turn}")
        await asyncio.sleep(IDLE_SECONDS / 4)
        assert count(database, runs, label(alice), "success") == 0
    async with asyncio.timeout(60):
        while not count(database, runs, label(alice), "success"):  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.1)
    began = (
        "SELECT extract(epoch FROM max(updated_at) FILTER (WHERE execution_params->>'graph_id' = "
        "'consolidation_agent') - max(updated_at) FILTER (WHERE execution_params->>'graph_id' = "
        "'agent'))::int FROM runs WHERE user_id = %s"
    )
    assert count(database, began, label(alice)) >= IDLE_SECONDS
    await settled(people[0])
    await asyncio.sleep(IDLE_SECONDS)
    assert count(database, runs, label(alice), "success") == 1
    assert await people[1].listed("consolidations")


async def test_runs_of_one_thread_wait_for_each_other(pair: list[AegraServer], alice: str) -> None:
    people = [server.person(alice) for server in pair]
    thread = await people[0].thread()

    async def say(turn: int) -> None:
        """One turn, once there is room on the thread: two runs may wait there."""
        text = {"role": "user", "content": f"Remember that I like color{turn}"}
        body = {"assistant_id": "agent", "input": {"messages": [text]}}
        while True:
            path = f"/threads/{thread}/runs/wait"
            answer = await people[turn % 2].ask("POST", path, body)
            if answer.status_code != 429:
                assert answer.status_code == 200, answer.text
                return
            await asyncio.sleep(0.1)

    async with asyncio.timeout(300):
        await asyncio.gather(*(say(turn) for turn in range(4)))
    state = await people[0].client.threads.get_state(thread)
    values: Any = state["values"]
    said = [message["content"] for message in values["messages"] if message["type"] == "human"]
    assert len(said) == 4
    content = str(await people[1].read(PREFERENCES))
    assert [f"color{turn}" in content for turn in range(4)] == [True] * 4


async def test_fifty_people_lose_and_leak_nothing_when_a_process_is_killed(
    pair: list[AegraServer],
) -> None:
    group = uuid.uuid4().hex[:8]
    names = [f"crowd{group}-{number}@example.com" for number in range(PEOPLE)]
    acknowledged: dict[str, list[str]] = {name: [] for name in names}
    is_killed = asyncio.Event()

    async def live(number: int) -> None:
        """Says three things in a conversation, each once the server has taken the one before."""
        name = names[number]
        for turn in range(3):
            fact = f"fact{group}x{number}x{turn}x"
            body = {
                "assistant_id": "agent",
                "input": {
                    "messages": [{"role": "user", "content": f"Remember that I like {fact}"}]
                },
            }
            taken = False
            while not taken:
                server = pair[0] if is_killed.is_set() else pair[number % 2]
                async with Person(server.url, name, seconds=60) as person:
                    try:
                        thread = await person.thread()
                        answer = await person.ask("POST", f"/threads/{thread}/runs", body)
                    except httpx.TransportError:
                        await asyncio.sleep(0.2)
                        continue
                    assert answer.status_code in (200, 429), answer.text
                    taken = answer.status_code == 200
                    if not taken:
                        await asyncio.sleep(1)
            acknowledged[name].append(fact)

    async def kill() -> None:
        while sum(map(len, acknowledged.values())) < PEOPLE:  # noqa: ASYNC110  # a third of it
            await asyncio.sleep(0.05)
        await asyncio.to_thread(pair[1].kill)
        is_killed.set()

    try:
        await asyncio.gather(kill(), *(live(number) for number in range(PEOPLE)))
        for name in names:
            async with asyncio.timeout(180), Person(pair[0].url, name) as person:
                await settled(person)
    finally:
        await asyncio.to_thread(pair[1].start)
    lost = list[str]()
    leaked = list[str]()
    for name in names:
        content = str(await pair[1].person(name).read(PREFERENCES))
        lost += [fact for fact in acknowledged[name] if fact not in content]
        others = [fact for other in names if other != name for fact in acknowledged[other]]
        leaked += [fact for fact in others if fact in content]
    assert lost == []
    assert leaked == []
