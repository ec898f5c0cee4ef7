"""The project's app as the server under test loads it: with routes of its own and code of its own
that fails, with a name server that answers nobody, and with a queue that takes long to take a run.
"""

import asyncio
import json
import socket
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from deployment import DEPLOYMENT
from fastapi import APIRouter
from langgraph_runtime_inmem.ops import Runs  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lasting_memory import build_http
from lasting_memory.memory.validation import RefusedWrite

# Of the server's folder: the hosts whose addresses were asked for.
ASKED = Path("asked.txt")
NAME_SECONDS = 1
# Between a run's admission and its being in the queue, and so in the platform's counts.
QUEUE_SECONDS = 0.5
# What a request says for which code of the engine fails.
try:
    max([])
except ValueError as error:
    # Python's own words, which are others in each version.
    FAILS = str(error)

router = APIRouter()


@router.get("/own/fails")
async def fails() -> dict[str, int]:
    return {"most": max(json.loads("[]"))}


@router.get("/own/refuses")
async def refuses() -> None:
    raise RefusedWrite("Say it differently.")


async def decodes(request: Request) -> Response:
    return JSONResponse(bytes([0xFF]).decode())


# Untyped: other code takes the place of theirs.
temporary_threads: Any = import_module("lasting_memory.auth.temporary_threads")
recall: Any = import_module("lasting_memory.recall")
run_requests: Any = import_module("lasting_memory.auth.run_requests")
_search, _resolve = recall.search, socket.getaddrinfo
_rebuild, _delete_temporary = (
    run_requests.rebuild_thread_metadata,
    temporary_threads.delete_temporary,
)
_handle = Runs.handle_event


async def search(
    store: Any, threads: Any, actor: Any, query: str, *args: Any, **options: Any
) -> Any:
    if query == FAILS:
        max([])
    return await _search(store, threads, actor, query, *args, **options)


def rebuild(metadata: Any, *args: Any, **options: Any) -> None:
    if metadata.get("title") == FAILS:
        max([])
    _rebuild(metadata, *args, **options)


def resolve(host: Any, *args: Any, **options: Any) -> Any:
    if not str(host).endswith(".example"):
        return _resolve(host, *args, **options)
    with ASKED.open("a") as asked:
        asked.write(f"{host}\n")
    time.sleep(NAME_SECONDS)
    raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")


async def handled(ctx: Any, action: Any, value: Any) -> Any:
    filters = await _handle(ctx, action, value)
    if action == "create_run" and value["metadata"].get("note") == "slow":
        await asyncio.sleep(QUEUE_SECONDS)
    return filters


async def delete_temporary(client: Any, hours: float, actor: Any) -> None:
    if actor.user_id.startswith("unlucky"):
        raise RuntimeError("the list is locked")
    await _delete_temporary(client, hours, actor)


recall.search = search
run_requests.rebuild_thread_metadata = rebuild
socket.getaddrinfo = resolve
Runs.handle_event = handled
temporary_threads.delete_temporary = delete_temporary
app = build_http(DEPLOYMENT, routes=[*router.routes, Route("/own/decodes", decodes)])
