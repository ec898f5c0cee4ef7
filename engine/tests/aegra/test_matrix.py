"""The authorization matrix on aegra: every row of `tests/auth/matrix.py` whose route is there.

`ABSENT` holds the routes that aegra does not serve; a test fails when one appears. `OTHERWISE`
holds the rows that are answered with another status, each with the reason. Two things differ
everywhere: who sends a token that is none is refused, also where nobody needs one, and there is no
HEAD.
"""

import asyncio
import re
import traceback
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from lasting_memory.testing.deployed import with_routes
from lasting_memory.testing.people import dev_token
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.aegra.servers import AegraServer
from tests.auth import test_matrix as on_the_platform
from tests.auth.matrix import DISCOVERY, OF_THE_PAGE, ROWS
from tests.auth.rules import CLOSED, Cell, Row, everybody
from tests.auth.world import ANSWER_SECONDS, World, echo
from tests.conftest import free_port

pytestmark = [pytest.mark.proof, pytest.mark.server, pytest.mark.postgres]

AT_ONCE = 6
_NO_TOKEN = Cell(401, "refused")
_NO_HEAD = re.compile(r"HEAD without a token got 40[45]")
# Each world has one of these operators: one alone would be over its share.
OPERATORS = [f"root{number}" for number in range(24)]
# Routes of langgraph-api that aegra does not have.
ABSENT = {
    "DELETE /a2a/{assistant_id}",
    "DELETE /a2a/{assistant_id}/",
    "DELETE /mcp",
    "GET /.well-known/agent-card.json",
    "GET /a2a/{assistant_id}",
    "GET /a2a/{assistant_id}/",
    "GET /a2a/{assistant_id}/.well-known/agent-card.json",
    "GET /a2a/{assistant_id}/.well-known/agent.json",
    "GET /assistants/{assistant_id}/subgraphs/{namespace}",
    "GET /mcp",
    "GET /metrics",
    "GET /runs/crons/{cron_id}",
    "GET /threads/{thread_id}/storage",
    "GET /threads/{thread_id}/stream",
    "GET /ui/*",
    "POST /a2a/{assistant_id}",
    "POST /a2a/{assistant_id}/",
    "POST /mcp",
    "POST /runs/batch",
    "POST /threads/{thread_id}/copy",
    "POST /ui/{graph_id}",
}


@dataclass(frozen=True)
class Otherwise:
    """A row that aegra answers otherwise than langgraph-api, and why.

    `statuses` are for somebody else, the same identity of another organization, the owner and an
    operator. A success is the owner's own unless the matrix says "yes" for the same status.
    """

    statuses: tuple[int | Cell, int | Cell, int | Cell, int | Cell]
    why: str


_COMMANDS = "nobody could look at what a run is sent"
_CRONS = "a cron's run would have no claims, so it would be nobody's"
_ASSISTANTS = "an operator's assistant is that operator's; people have those of the graphs"
_CANCELS = "what is cancelled by a list are the caller's own runs; others stay as they are"
_NO_ROLLBACK = "a run that is cancelled is kept"
_AT_ONCE = "the refusal comes before the answer has begun"
_OWN_STATUS = "aegra's own status for the same"
OTHERWISE = {
    "POST /threads: create one that exists, with state": Otherwise(
        (422, 422, 422, 422), "a state comes from the server alone"
    ),
    "DELETE /threads/{thread_id}: delete": Otherwise((404, 404, 200, 200), _OWN_STATUS),
    "POST /threads/{thread_id}/commands: answer an interrupt there is not": Otherwise(
        (403, 403, 403, 403), _COMMANDS
    ),
    "POST /threads/{thread_id}/commands: start a run": Otherwise((403, 403, 403, 403), _COMMANDS),
    "POST /threads/{thread_id}/commands: the tree of agents": Otherwise(
        (403, 403, 403, 403), _COMMANDS
    ),
    "POST /threads/{thread_id}/stream/events: its events from the beginning": Otherwise(
        (404, 404, Cell(200, "own"), Cell(200, "own")), "events are those of now"
    ),
    "POST /threads/{thread_id}/runs/crons: create a cron": Otherwise((403, 403, 403, 403), _CRONS),
    "POST /runs/crons: create": Otherwise((403, 403, 403, 403), _CRONS),
    "POST /runs/crons/search: search": Otherwise((403, 403, 403, Cell(200, "own")), _CRONS),
    "POST /runs/crons/count: count": Otherwise((403, 403, 403, Cell(200, "own")), _CRONS),
    "PATCH /runs/crons/{cron_id}: change": Otherwise((403, 403, 403, 403), _CRONS),
    "DELETE /runs/crons/{cron_id}: delete": Otherwise((403, 403, 403, 404), _CRONS),
    "GET /threads/{thread_id}/runs/{run_id}/join: wait for it by way of a thread of one's own": Otherwise(
        (404, 404, 404, 404), _AT_ONCE
    ),
    "GET /threads/{thread_id}/runs/{run_id}/stream: its events": Otherwise(
        (404, 404, 200, 200), _AT_ONCE
    ),
    "GET /threads/{thread_id}/runs/{run_id}/stream: its events by way of a thread of one's own": Otherwise(
        (404, 404, 404, 404), _AT_ONCE
    ),
    "POST /threads/{thread_id}/runs/{run_id}/cancel: cancel": Otherwise(
        (404, 404, 200, 200), _OWN_STATUS
    ),
    "POST /threads/{thread_id}/runs/{run_id}/cancel: cancel and roll back": Otherwise(
        (422, 422, 422, 422), _NO_ROLLBACK
    ),
    "POST /runs/cancel: cancel by id, by way of a thread of one's own": Otherwise(
        (204, 204, 204, 204), _CANCELS
    ),
    "POST /runs/cancel: cancel by id": Otherwise((404, 404, 204, 404), _CANCELS),
    "POST /runs/cancel: cancel all": Otherwise((204, 204, 204, Cell(204, "own")), _CANCELS),
    "POST /runs/cancel: cancel all that wait, and roll back": Otherwise(
        (422, 422, 422, 422), _NO_ROLLBACK
    ),
    "GET /assistants/{assistant_id}: read": Otherwise((404, 404, 404, 200), _ASSISTANTS),
    "GET /assistants/{assistant_id}/graph: its graph": Otherwise((404, 404, 404, 200), _ASSISTANTS),
    "GET /assistants/{assistant_id}/schemas: its schemas": Otherwise(
        (404, 404, 404, 200), _ASSISTANTS
    ),
    "GET /assistants/{assistant_id}/subgraphs: its subgraphs": Otherwise(
        (404, 404, 404, 200), _ASSISTANTS
    ),
    "POST /assistants/{assistant_id}/versions: its versions": Otherwise(
        (404, 404, 404, 200), _ASSISTANTS
    ),
    "DELETE /assistants/{assistant_id}: delete": Otherwise((403, 403, 403, 200), _OWN_STATUS),
    "DELETE /assistants/{assistant_id}: delete, and its threads": Otherwise(
        (403, 403, 403, 200), _OWN_STATUS
    ),
}
# Where aegra has the path for another method.
_STATUS_OF_ABSENT = {"GET /runs/crons/{cron_id}": 405}
# Of `langgraph dev` alone: nobody comes to what Studio's page may see there.
CLOSED_ROWS = {
    "GET /deploy: the same, by Studio's page",
    "GET /deploy/{operation_id}/stream: the same, by Studio's page (there is none)",
}
_BY_MIDDLEWARE = {row.name for row in (*OF_THE_PAGE, *DISCOVERY)}


class AegraWorld(World):
    """A world on a server that has no Studio: an operator does what Studio does elsewhere."""

    def headers(self, caller: str) -> dict[str, str]:
        if caller in ("studio", "root"):
            operator = OPERATORS[int(self.id[:8], 16) % len(OPERATORS)]
            return {"Authorization": f"Bearer {dev_token('default', operator)}"}
        return super().headers(caller)

    async def make(self, kind: str) -> None:
        """As elsewhere. aegra has one assistant for each config of a graph, and no crons here."""
        if kind == "cron":
            await super().make("thread")
            self.names["cron"] = str(uuid.uuid4())
            return
        if kind != "assistant":
            await super().make(kind)
            return
        body = {
            "graph_id": "agent",
            "name": f"assistant {uuid.uuid4().hex}",
            "config": {"tags": [uuid.uuid4().hex]},
        }
        assistant = (await self.api("studio", "POST", "/assistants", body))["assistant_id"]
        await self.furnish_assistant(assistant)


def as_on_aegra(row: Row) -> Row:
    """The row with the statuses that are right on aegra."""
    if row.name in CLOSED_ROWS:
        return replace(row, rule=CLOSED, shows="")
    if row.route in ABSENT:
        absent = everybody(_STATUS_OF_ABSENT.get(row.route, 404), "refused")
        return replace(
            row, rule=(absent[0], _NO_TOKEN, *absent[2:]), shows="", acts=False, changes=False
        )
    otherwise = OTHERWISE.get(row.name)
    if otherwise is not None:
        cells = list(map(_cell, row.rule[2:], otherwise.statuses))
        changes = row.changes and cells[-1].meaning == "yes"
        stranger, elsewhere, owner, operator = cells
        rule = (row.rule[0], row.rule[1], stranger, elsewhere, owner, operator)
        return replace(row, rule=rule, changes=changes, queues=row.queues and changes)
    if row.rule[1].meaning == "public" and row.name not in _BY_MIDDLEWARE:
        # Whoever sends a token is signed in first, or refused.
        return replace(row, rule=(row.rule[0], _NO_TOKEN, *row.rule[2:]))
    return row


def _cell(on_the_platform: Cell, here: int | Cell) -> Cell:
    if isinstance(here, Cell):
        return here
    if here >= 400:
        return Cell(here, "refused")
    is_same = on_the_platform.meaning == "yes"
    return Cell(here, "yes" if is_same else "own")


@pytest.fixture(scope="module")
def echoing() -> Iterator[ScriptedAnthropic]:
    with ScriptedAnthropic() as model:
        model.script(lambda _: True, *[echo] * 10_000)
        yield model


@pytest.fixture(scope="module")
def server(
    python: Path,
    redis: str,
    database: str,
    echoing: ScriptedAnthropic,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AegraServer]:
    project = with_routes('"/team/": group("team_id")', tmp_path_factory.mktemp("fork"))
    env = {
        **echoing.env,
        "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
        "CONSOLIDATE_AFTER_SECONDS": "0",
        "OPERATORS": ",".join(OPERATORS),
    }
    serving = AegraServer(
        python,
        tmp_path_factory.mktemp("matrix"),
        free_port(),
        database=database,
        redis=redis,
        env=env,
        project=project,
    )
    serving.make_tables()
    with serving:
        yield serving


@asynccontextmanager
async def clients(server: AegraServer) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=100, keepalive_expiry=2)
    async with httpx.AsyncClient(
        base_url=server.url, timeout=ANSWER_SECONDS, trust_env=False, limits=limits
    ) as http:
        yield http


async def faults_of(server: AegraServer, rows: list[Row]) -> list[tuple[str, str]]:
    """What does not go as the rows say, with their names."""
    room = asyncio.Semaphore(AT_ONCE)
    faults = list[tuple[str, str]]()
    async with clients(server) as http:

        async def look(row: Row) -> None:
            async with room:
                try:
                    found = await on_the_platform.wrong(AegraWorld(server, http), row)
                except Exception:  # noqa: BLE001  # it is shown beside those of other rows
                    found = [traceback.format_exc()]
                # FastAPI's routes have no HEAD.
                faults.extend((row.name, fault) for fault in found if not _NO_HEAD.match(fault))

        await asyncio.gather(*(look(row) for row in rows if not row.last))
        for row in rows:
            if row.last:
                await look(row)
    return faults


async def test_every_caller_gets_what_the_matrix_says_and_nothing_more(
    server: AegraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_the_platform, "OPERATORS", ("root",))
    faults = await faults_of(server, [as_on_aegra(row) for row in ROWS])
    assert "\n".join(f"{name}: {fault}" for name, fault in faults) == ""


async def test_absent_routes_and_rows_answered_otherwise_are_in_the_matrix(
    server: AegraServer,
) -> None:
    async with clients(server) as http:
        served = set[str]()
        for path, methods in (await http.get("/openapi.json")).json()["paths"].items():
            served |= {f"{method.upper()} {path}" for method in methods}
    routes = {row.route for row in ROWS}
    assert ABSENT - routes == set()
    assert ABSENT & served == set(), "these are there now: take them out of ABSENT"
    assert OTHERWISE.keys() | CLOSED_ROWS <= {row.name for row in ROWS}
