"""Every route as every caller: the outcomes that `tests/auth/matrix.py` declares, on the real
server.
"""

import asyncio
import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from lasting_memory.testing import dev_server
from lasting_memory.testing.deployed import with_routes
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.auth import matrix
from tests.auth.matrix import DISCOVERY, OF_THE_PAGE, ROWS
from tests.auth.rules import CALLERS, Cell, Row
from tests.auth.world import ANSWER_SECONDS, Answer, World, _call, body_of, echo, filled

pytestmark = [pytest.mark.server, pytest.mark.begins_first]

AT_ONCE = 12
OPERATORS = ("studio", "root")
STRANGERS = CALLERS[:4]

# Lists the routes of the app that `langgraph dev` would serve, in its place, with everything else
# as it is.
LIST_ROUTES = """
import importlib, json, sys, uvicorn
from langgraph_cli.cli import cli

def routes(of, prefix=""):
    for route in of:
        path = prefix + route.path
        if inner := getattr(route, "routes", None):
            yield from routes(inner, path)
        elif "WebSocket" in type(route).__name__:
            yield "WS " + path
        elif methods := getattr(route, "methods", None):
            yield from (f"{method} {path}" for method in methods if method != "HEAD" or "GET" not in methods)
        else:  # a folder of files
            yield f"GET {path}/*"

def run(app, **_):
    module, name = app.split(":")
    print("ROUTES " + json.dumps(sorted(routes(getattr(importlib.import_module(module), name).routes))))

uvicorn.run = run
cli()
"""


async def wrong(world: World, row: Row) -> list[str]:
    """What does not go as the row says, as all its callers; nothing when all does."""
    await world.furnish(repr(row))
    await world.make(row.needs)
    callers = [
        *zip(CALLERS[:5], row.rule, strict=False),
        *((operator, row.rule[5]) for operator in OPERATORS),
    ]
    faults = await wrong_for_others(
        world, row, [(caller, cell) for caller, cell in callers if cell.meaning != "yes"]
    )
    succeeding = [caller for caller, cell in callers if cell.meaning == "yes"]
    for caller in succeeding:
        if row.changes and caller != succeeding[0]:
            await world.furnish(repr(row))
            await world.make(row.needs)
        if row.queues:
            await world.wait_until_idle()
        faults += await wrong_for_one(world, row, caller, dict(callers)[caller])
    return faults


async def wrong_for_others(world: World, row: Row, callers: list[tuple[str, Cell]]) -> list[str]:
    """For those who change nothing of the owner's, all at once."""
    mine = {caller: await world.own_thread(caller, row) for caller, _ in callers}
    before = None if row.reads else await world.owned()
    answers = await asyncio.gather(
        *(world.send(caller, row, mine=mine[caller]) for caller, _ in callers)
    )
    faults = [
        fault
        for of, answer in zip(callers, answers, strict=True)
        for fault in judged(world, row, *of, answer)
    ]
    after = None if row.reads else await world.owned()
    if before != after:
        faults.append(f"one of {callers} changed what the owner has: {before} -> {after}")
    if row.method == "GET" and row.rule[0].status == 401:
        head = await world.http.head(filled(row.at or _call(row), {**world.names, "mine": "x"}))
        if head.status_code != 401:
            faults.append(f"HEAD without a token got {head.status_code}")
    return faults


async def wrong_for_one(world: World, row: Row, caller: str, cell: Cell) -> list[str]:
    mine = await world.own_thread(caller, row)
    before = await world.owned() if row.changes else None
    until = filled("<kept>" if row.acts and caller == "owner" else row.shows, world.names)
    faults = judged(world, row, caller, cell, await world.send(caller, row, mine=mine, until=until))
    if row.changes and before == await world.owned():
        faults.append(f"{caller}: nothing has changed")
    stamp = None if row.reads else await world.stamp()
    if stamp not in (None, [world.owner, world.org]):
        faults.append(f"{caller}: the thread is now of {stamp}")
    return faults


def judged(world: World, row: Row, caller: str, cell: Cell, answer: Answer) -> list[str]:
    """What is wrong with an answer."""
    faults = []
    shows = filled(row.shows, world.names)
    if answer.status != cell.status:
        faults.append(f"status {answer.status}, not {cell.status}")
    if cell.meaning in ("yes", "public") and shows not in answer.text:
        faults.append(f"does not show {shows!r}")
    if (
        cell.meaning in ("nothing", "refused", "own")
        and caller != "owner"
        and shows in world.secrets
        and shows in answer.text
    ):
        faults.append(f"shows {shows!r}")
    if row.acts and (world.names["kept"] in answer.text) != (caller == "owner"):
        faults.append("acts as somebody else")
    if (
        cell.meaning == "nothing"
        and row.instead is not None
        and body_of(answer) != filled(row.instead, world.names)
    ):
        faults.append("shows more than nothing")
    secrets = list(world.secrets)
    if cell.meaning == "public":
        secrets += [
            world.owner,
            world.org,
            *(str(world.names[name]) for name in ("thread", "run") if name in world.names),
        ]
    if cell.meaning == "public" or caller in STRANGERS:
        faults += [f"shows the owner's {secret!r}" for secret in secrets if secret in answer.text]
    return [f"{caller}: {what}: {answer.text[-600:]}" for what in faults]


@pytest.fixture(scope="module")
def echoing() -> Iterator[ScriptedAnthropic]:
    with ScriptedAnthropic() as model:
        model.script(lambda _: True, *[echo] * 10_000)
        yield model


@pytest.fixture(scope="module")
def environment(echoing: ScriptedAnthropic) -> dict[str, str]:
    return {**echoing.env, "OPERATORS": "root", "CONSOLIDATE_AFTER_SECONDS": "0"}


@pytest.fixture(scope="module")
def dev(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DevServer]:
    """A server of the matrix's own: rows stop everybody's runs, and the last one wipes it. It has a
    folder of teams.
    """
    project = with_routes('"/team/": group("team_id")', tmp_path_factory.mktemp("fork"))
    with DevServer(tmp_path_factory.mktemp("matrix"), env=environment, project=project) as server:
        yield server


@asynccontextmanager
async def clients(server: DevServer) -> AsyncIterator[httpx.AsyncClient]:
    # Less than the seconds after which the server closes an idle connection.
    limits = httpx.Limits(max_connections=200, keepalive_expiry=2)
    async with httpx.AsyncClient(
        base_url=server.url, timeout=ANSWER_SECONDS, trust_env=False, limits=limits
    ) as http:
        yield http


async def test_every_caller_gets_what_the_matrix_says_and_nothing_more(dev: DevServer) -> None:
    """The rows run at the same time, each on an owner of its own."""
    room = asyncio.Semaphore(AT_ONCE)
    async with clients(dev) as http:

        async def one(row: Row) -> list[str]:
            async with room:
                try:
                    return await wrong(World(dev, http), row)
                except Exception:  # noqa: BLE001  # it is told beside those of other rows
                    return [traceback.format_exc()]

        early, late = ([row for row in ROWS if row.last is last] for last in (False, True))
        faults = [
            *zip(early, await asyncio.gather(*map(one, early)), strict=True),
            *[(row, await one(row)) for row in late],
        ]
    assert "\n".join(f"{row.name}: {fault}" for row, of in faults for fault in of) == ""


@pytest.fixture(scope="module")
def served(dev: DevServer, environment: dict[str, str]) -> set[str]:
    """Every route of the app that `langgraph dev` serves, as "METHOD /path"."""
    command = [
        sys.executable,
        "-c",
        LIST_ROUTES,
        "dev",
        "--config",
        "langgraph.json",
        "--no-browser",
        "--no-reload",
    ]
    done = subprocess.run(
        command,
        cwd=dev.folder,
        env=dev_server.environment(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ROUTES "))
    return set(json.loads(line.removeprefix("ROUTES ")))


def test_every_route_of_the_server_has_a_decision_and_every_decision_a_route(
    served: set[str],
) -> None:
    by_middleware = {row.route for row in (*OF_THE_PAGE, *DISCOVERY)}
    decided = {row.route for row in ROWS} - by_middleware
    assert len(served) > 70
    assert served - decided == set(), (
        "routes without a row in tests/auth/matrix.py: who may call them?"
    )
    assert decided - served == set(), (
        "rows of tests/auth/matrix.py for routes that the server does not have"
    )


def test_no_route_but_the_interface_s_files_begins_with_ui(served: set[str]) -> None:
    assert {route for route in served if route.startswith("GET /ui")} == {"GET /ui/*"}


def test_a_caller_without_a_token_gets_public_answers_alone() -> None:
    assert [
        row.name
        for row in ROWS
        for cell in row.rule[:2]
        if cell.status < 400 and cell.meaning != "public"
    ] == []


def test_the_page_shows_the_matrix_as_it_is() -> None:
    assert matrix.shown() == matrix.render(), (
        "docs/matrix.md is out of date: python -m tests.auth.matrix"
    )
