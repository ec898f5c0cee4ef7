"""The graphs as deployed, on a development server that is quick where it is slow: what the server
under test loads.

It flushes often, and forgets a person after a second. The graph `stubborn` does not let itself be
cancelled: its runs end once there is a file `let_go` in the server's folder.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import langgraph_runtime_inmem._persistence as persistence  # type: ignore[import-untyped]
from agent import build_agent
from deployment import DEPLOYMENT
from langgraph.graph import START, MessagesState, StateGraph

from lasting_memory import build_consolidation_agent
from lasting_memory.conversations import stopping
from lasting_memory.http import forget
from lasting_memory.people.identity import Context

LET_GO = Path("let_go")
persistence._flush_interval = 0.3
persistence.stop_flush_loop()  # which may wait for its first time
for _saved in [saved() for saved in persistence._stores.values()]:
    persistence.register_persistent_dict(_saved)
forget.STOP_SECONDS = stopping.STOP_SECONDS = 1


async def _hold(_: MessagesState) -> dict[str, Any]:
    while not LET_GO.exists():  # noqa: ASYNC240
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
    return {}


_stubborn: Any = StateGraph(MessagesState, context_schema=Context)
stubborn = _stubborn.add_node("hold", _hold).add_edge(START, "hold").compile()
agent, consolidation_agent = build_agent(DEPLOYMENT), build_consolidation_agent(DEPLOYMENT)
