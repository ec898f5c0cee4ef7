"""The platform: which server this is, and its internal names, for all code that serves requests.

That is langgraph-api, on `langgraph dev` or in a deployment, or aegra (`aegra/`). The rest of this
library does not know which. The server tests of tests/http/test_api.py, tests/postgres/test_servers.py
and tests/aegra fail when a name moves. (`checkpoints.py` has those of its subject, and
`postgres/store.py`, which only `make dev-postgres` loads, has two more.)
"""

import asyncio
import contextvars
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from functools import cache, partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from langgraph._internal._constants import CONFIG_KEY_DURABILITY
from langgraph.store.base import BaseStore
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.types import TracePolicy, omit_payload
from langgraph_sdk import Auth
from langgraph_sdk import get_client as _langgraph_client
from langgraph_sdk.client import LangGraphClient
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

if TYPE_CHECKING:
    from fastapi import FastAPI
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.pregel import Pregel

logger = logging.getLogger("memory")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Any graph: its type has its state, context, input and output, and a fork's may be any. A text, so
# that commands which need no graph do not import langgraph's: quote what is made of it
# ("Graph | None").
Graph: TypeAlias = "Pregel[Any, Any, Any, Any]"

# The threads in which this library computes. The event loop's own also resolve names of hosts, for
# anybody: a slow name server takes all of them. As many as the event loop's.
_THREADS = ThreadPoolExecutor(
    min(32, (os.cpu_count() or 1) + 4), thread_name_prefix="lasting-memory"
)
# Those of a fork's function that may never return: who waits for it gives up, and its thread is
# lost.
_FORKS_THREADS = ThreadPoolExecutor(4, thread_name_prefix="lasting-memory-fork")

# Of a middleware: traces show its hooks and how long they took. Otherwise each would copy the
# conversation and memory again.
SPANS_WITHOUT_PAYLOAD = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)

# Configures a graph without checkpoints that is called within another graph. It would inherit
# `durability="sync"`, with which langgraph waits for a checkpoint that is never made, and fails.
INNER_DURABILITY = {CONFIG_KEY_DURABILITY: "async"}
# How many runs go on in each thread, whoever's, by its id; None where the platform's own status of
# a thread says whether one does. `langgraph dev` calls a thread idle whose cancelled run goes on,
# and after a kill one busy in which none does.
runs_going: Counter[str] | None = None
# The runs themselves that go on, by their ids; None where the platform's own status of a run says
# whether it does.
run_ids_going: Counter[str] | None = None
# Writes to disk what is deleted now; None where a deletion is on disk already. `langgraph dev` does
# so every ten seconds.
flush: Callable[[], Awaitable[None]] | None = None
_LOCKS: WeakValueDictionary[tuple[object, ...], asyncio.Lock] = WeakValueDictionary()


def is_aegra() -> bool:
    """Whether aegra serves in this process, in place of langgraph-api."""
    return "aegra_api.main" in sys.modules


def get_client() -> LangGraphClient:
    """A client of this server, for calls within its process."""
    if is_aegra():
        from lasting_memory.platform.aegra import server  # noqa: PLC0415  # only in its process

        return server.client()
    return _langgraph_client()


def adapt_auth(auth: Auth, label_of: Callable[[str, str], str]) -> None:
    """Have this server ask the handlers of `auth` as they are written, for langgraph-api.

    `label_of` gives the label of a person, by identity and organization. A server that keeps people
    apart by one text takes it for their identity.
    """
    if is_aegra():
        from lasting_memory.platform.aegra.handlers import adapt  # noqa: PLC0415

        adapt(auth, label_of)


def adapt_app(app: "FastAPI") -> None:
    """Give the app what this server lacks of langgraph-api."""
    if is_aegra():
        from lasting_memory.platform.aegra import install  # noqa: PLC0415  # as above

        install.install(app)


async def checkpointer() -> "BaseCheckpointSaver[str]":
    """The runs' checkpointer. On the platform's runtimes, and any of one's own."""
    if is_aegra():
        from lasting_memory.platform.aegra import server  # noqa: PLC0415  # as above

        return server.checkpointer()
    from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    return cast("BaseCheckpointSaver[str]", await get_checkpointer())


async def store() -> BaseStore:
    """The runs' store, in a custom route. `langgraph.config.get_store()` gave an empty one there."""
    if is_aegra():
        from lasting_memory.platform.aegra import server  # noqa: PLC0415  # as above

        return server.store()
    from langgraph_api.store import get_store  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    return cast("BaseStore", await get_store())


def is_server() -> bool:
    """Whether the platform serves in this process."""
    return is_aegra() or "langgraph_api.graph" in sys.modules


def loaded_graph(graph_id: str) -> "Graph | None":
    """A graph that this server has loaded; None for one that is made anew for each run."""
    if is_aegra():
        from lasting_memory.platform.aegra import server  # noqa: PLC0415  # as above

        return server.loaded_graph(graph_id)
    from langgraph.pregel import Pregel  # noqa: PLC0415  # commands that need no graph import this module, too

    graphs_module = sys.modules.get("langgraph_api.graph")  # only on a server
    if graphs_module is None:
        return None
    graph = graphs_module.GRAPHS.get(graph_id)
    if not isinstance(graph, Pregel):
        return None
    return graph


@asynccontextmanager
async def graph_to_read(graph_id: str, store: BaseStore) -> "AsyncIterator[Graph | None]":
    """A graph of this server, to look at.

    That is the loaded one, or one that its factory makes, as the server does for its schemas. None
    off a server, and where the factory fails without a run.
    """
    server_graph = loaded_graph(graph_id)
    if server_graph:
        yield server_graph
        return
    graphs_module = sys.modules.get("langgraph_api.graph")  # only on a server
    if graphs_module is None or graph_id not in graphs_module.GRAPHS:
        yield None
        return
    async with AsyncExitStack() as stack:
        graph = None
        try:
            opening = graphs_module.get_graph(
                graph_id, {"configurable": {}}, store=store, access_context="assistants.read"
            )
            graph = await stack.enter_async_context(opening)
        except Exception as error:  # a fork's factory may raise anything
            logger.warning(
                "The graph %r could not be made to read its tools: %r.",
                graph_id,
                error,
                exc_info=True,
            )
        has_nodes = isinstance(getattr(graph, "nodes", None), dict)
        if not has_nodes:
            graph = None
        yield graph


def embedding_model(store: BaseStore) -> str:
    """The model that embeds what the store's semantic index holds, and its dimensions.

    "" if there is no such index. The platform's store does not say so itself, but its configuration
    does: as a text, or as what was loaded from it.
    """
    index = _index_config(store)
    if not index:
        return ""
    name = _name_of_embedding(index.get("embed"))
    return f"{name.removeprefix('models/')}, {index.get('dims')} dimensions"


def _index_config(store: BaseStore) -> Mapping[str, object] | None:
    """The configuration of a store's semantic index; None, or empty, without one."""
    if hasattr(store, "index_config"):
        return cast("Mapping[str, object] | None", store.index_config)
    config = sys.modules.get("langgraph_api.config")  # only on a server
    if config is None:
        return None
    return cast("Mapping[str, object] | None", (config.STORE_CONFIG or {}).get("index"))


def _name_of_embedding(embed: object) -> str:
    """The name of what embeds: a text of the configuration, an object, or a function."""
    if isinstance(embed, str):
        if ".py:" in embed:  # ./file.py:function
            return embed.rsplit(":", 1)[-1]
        return embed.split(":", 1)[-1]  # provider:model
    for field in ("model", "model_name"):
        name = getattr(embed, field, None)
        if isinstance(name, str):
            return name
    function = getattr(embed, "func", None) or getattr(embed, "afunc", None) or embed
    function_name = getattr(function, "__name__", None)
    if isinstance(function_name, str):
        return function_name
    return type(embed).__name__


async def bad_request(request: Request, error: ValueError) -> Response | None:
    """The platform's answer to a value that one of its own routes cannot use.

    None for an error of any other code. The platform answers every `ValueError` so, whoever raised
    it, which tells a client in Python's words that the request was wrong.
    """
    endpoint = request.scope.get("endpoint")
    route_module = str(getattr(endpoint, "__module__", ""))
    if not route_module.startswith("langgraph_api."):
        return None
    for module in _modules_of(error):
        if module.startswith("lasting_memory."):
            return None
    from langgraph_api.errors import value_error_handler  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    return cast("Response", await value_error_handler(request, error))


def _modules_of(error: Exception) -> Iterator[str]:
    """The names of the modules through which an error came."""
    for frame, _ in walk_tb(error.__traceback__):
        yield str(frame.f_globals.get("__name__", ""))


def serves_in_memory() -> bool:
    """Whether this process is a server on the in-memory runtime: `langgraph dev`."""
    if "langgraph_api.server" not in sys.modules:
        return False
    runtime = sys.modules.get("langgraph_runtime")
    return getattr(runtime, "RUNTIME_EDITION", None) == "inmem"


def is_in_process(scope: Scope) -> bool:
    """Whether a call comes from inside the server (`get_client()`).

    No request can set the root path.
    """
    root = str(scope.get("root_path", ""))
    return root == "/noauth" or root.startswith("/noauth/")


def acting_as_caller(request: Request) -> AbstractAsyncContextManager[None]:
    """Within this context, in-process clients act as the request's user.

    `auth.py` asks who acts. Outside of it they act as nobody, of whom `auth.py`
    is not asked: they may do everything, with anybody's threads.
    """
    if is_aegra():
        from lasting_memory.platform.aegra import users  # noqa: PLC0415

        return _as_async(users.acting(users.user_of(request.user)))
    from langgraph_api.utils import with_user  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    return cast("AbstractAsyncContextManager[None]", with_user(request.user, request.auth))


@asynccontextmanager
async def _as_async(context: AbstractContextManager[None]) -> AsyncIterator[None]:
    """A context manager for `with`, as one for `async with`."""
    with context:
        yield


async def in_thread(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """The result of a function that takes long.

    It is called in a thread of this library's own, in the current context.
    """
    return await _called_in(_THREADS, partial(function, *args, **options))


async def in_thread_of_forks(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """As `in_thread`, for a function that calls one of a fork's, which may not return.

    There are few threads for these alone.
    """
    return await _called_in(_FORKS_THREADS, partial(function, *args, **options))


async def _called_in(threads: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
    """The result of a function that is called in one of these threads, in the current context."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, context.run, function)


async def to_the_end(work: Coroutine[object, object, Result]) -> Result:
    """The result of work that goes on where its caller is cancelled.

    The caller waits for its end, and is cancelled then.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def as_nobody(call: Coroutine[object, object, Result]) -> Result:
    """The result of a call whose in-process clients act as nobody, also within a request.

    What people may do is no bound for it.
    """
    return await asyncio.create_task(_called_as_nobody(call))  # whose context is its own


async def _called_as_nobody(call: Coroutine[object, object, Result]) -> Result:
    """The result of a call whose in-process clients act as nobody. It changes the context of its
    task.
    """
    if is_aegra():
        from lasting_memory.platform.aegra import users  # noqa: PLC0415

        with users.acting(None):
            return await call
    from langgraph_api.utils import with_user  # noqa: PLC0415  # as above

    async with with_user():
        return await call


def lock_of(*key: object) -> asyncio.Lock:
    """This process's lock of that name, while somebody holds it or waits.

    Other processes have their own.
    """
    loop = asyncio.get_running_loop()
    return _LOCKS.setdefault((loop, *key), asyncio.Lock())


@cache
def isolate_store_calls() -> None:
    """Have a store carry out each call by itself, from now on.

    langgraph's stores collect the calls that all people make at one time, and carry them out as one
    batch. If a call fails, the batch does: everybody gets its error, which may quote a text of its
    person's.
    """
    for name in ("aget", "asearch", "aput", "adelete", "alist_namespaces"):
        setattr(AsyncBatchedBaseStore, name, getattr(BaseStore, name))


@cache
def log_no_queries() -> None:
    """Have the server's log name requests without their query strings, from now on.

    A query has what a person searched for, and an operator's has whom it is about.
    """

    def without_query(record: logging.LogRecord) -> bool:
        """A filter of the log that lets every record pass, without its query string."""
        if isinstance(record.msg, dict) and "query_string" in record.msg:  # as structlog gives it
            record.msg = {**record.msg, "query_string": ""}
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(without_query)


@cache
def warn_of_no_durability() -> None:
    """Have nobody warned, from now on, that a run without checkpoints has no use for `durability`.

    The platform gives it to every run, so a stateless one (a rehearsal, a call by MCP) warned of
    what nobody had asked for.
    """
    warnings.filterwarnings("ignore", message="`durability` has no effect")
