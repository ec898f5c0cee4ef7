"""The platform's internal names, in one place for all code that serves requests.

The server tests of tests/http/test_api.py and tests/postgres/test_servers.py fail when one moves.
(`postgres/store.py`, which only `make dev-postgres` loads, has two more.)
"""

import asyncio
import contextvars
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache, partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

from langgraph._internal._constants import CONFIG_KEY_DURABILITY, INTERRUPT, NULL_TASK_ID, RESUME
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.store.base import BaseStore
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.types import Interrupt, Send, TracePolicy, _interrupt_id, omit_payload
from langgraph_sdk.client import LangGraphClient
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

logger = logging.getLogger("memory")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

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
_IDS = 1_000
# Checkpoints that are read to learn where the interrupts of one thread were raised. One for each
# subagent that waits.
_MOST_CHECKPOINTS = 100
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


async def delete_checkpoints(client: LangGraphClient, user_id: str, org_id: str) -> int:
    """Delete a person's conversations of which only checkpoints are left. Returns their number.

    A killed development server may have lost threads from its list. Deployments keep both in one
    database.
    """
    from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # noqa: PLC0415  # as below

    checkpointer = await get_checkpointer()
    if delete := getattr(checkpointer, "adelete_for_person", None):
        return int(await delete(user_id, org_id))
    in_memory, deleted = list(getattr(checkpointer, "storage", ())), 0
    for start in range(0, len(in_memory), _IDS):
        ids = in_memory[start : start + _IDS]
        listed = await client.threads.search(ids=ids, limit=_IDS, select=["thread_id"])
        for thread_id in set(ids) - {thread["thread_id"] for thread in listed}:
            saved = await checkpointer.aget_tuple({"configurable": {"thread_id": thread_id}})
            if saved and (saved.metadata.get("user_id"), saved.metadata.get("org_id")) == (
                user_id,
                org_id,
            ):
                await checkpointer.adelete_thread(thread_id)
                deleted += 1
    return deleted


class PendingInterrupt(NamedTuple):
    """An interrupt that waits for an answer, and the node that raised it: "" where that cannot be
    proved.
    """

    interrupt: Interrupt
    node: str


async def pending_interrupts(thread_id: str) -> tuple[str, list[PendingInterrupt]]:
    """The id of a thread's latest checkpoint ("" if it has none), and the interrupts that wait
    there for an answer.

    An interrupt's id is a hash of where it was raised: the nodes and their tasks, from the
    outermost graph to the innermost. So the node whose name gives this id did raise it, whatever
    the interrupt's value says.
    """
    latest, nodes, _ = await _latest_state(thread_id)
    if latest is None:
        return "", []
    waiting = [interrupt for interrupts in _waiting(latest).values() for interrupt in interrupts]
    pending = [PendingInterrupt(interrupt, nodes.get(interrupt.id, "")) for interrupt in waiting]
    return str(latest.checkpoint["id"]), pending


async def calls_to_make(thread_id: str, checkpoint_id: str | None) -> tuple[set[str], bool]:
    """Names of the tools that a run from this checkpoint of a thread calls first ("" if unknown),
    and whether it is the latest.

    langgraph makes a call by sending it to its node, and what was sent is in the checkpoint before.
    From a named checkpoint all its calls are made anew. From the latest, not named, those without a
    result are, also inside of subagents.
    """
    from langgraph_api._checkpointer import get_checkpointer  # noqa: PLC0415  # only on a server

    latest, _, unfinished = await _latest_state(thread_id)
    if latest is None or checkpoint_id in (None, str(latest.checkpoint["id"])):
        return unfinished, True
    place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    saved = await (await get_checkpointer()).aget_tuple({"configurable": place})
    return {name for send in _sent(saved) for name in _called(send)} if saved else set(), False


async def _latest_state(thread_id: str) -> tuple[CheckpointTuple | None, dict[str, str], set[str]]:
    """A thread's latest checkpoint, the nodes that raised what waits there, and the tools whose
    calls have no result yet.
    """
    from langgraph_api._checkpointer import get_checkpointer  # noqa: PLC0415  # only on a server

    saver, nodes, unfinished = await get_checkpointer(), dict[str, str](), set[str]()
    latest: CheckpointTuple | None = None
    places = [[""]]  # of each graph in which something waits, those where it may be
    for _ in range(_MOST_CHECKPOINTS):
        if not places:
            break
        place = places[0].pop(0)
        saved = await saver.aget_tuple(
            {"configurable": {"thread_id": thread_id, "checkpoint_ns": place}}
        )
        if saved is not None or not places[0]:
            places.pop(0)
        if saved is None:
            continue
        if not place:
            latest = saved
        unfinished |= _unfinished(saved)
        for task, interrupts in _waiting(saved).items():
            found = _raised(saved, place, task, {interrupt.id for interrupt in interrupts})
            nodes |= found
            if len(found) < len(interrupts):  # graphs inside of this task raised the others
                inside = [_place(place, node, task) for node in _nodes(saved.checkpoint)]
                places += [inside] if inside else []
    if places:  # there are too many to look at
        unfinished.add("")
    return latest, nodes, unfinished


def _sent(saved: CheckpointTuple) -> list[Send]:
    sent = saved.checkpoint["channel_values"].get("__pregel_tasks") or ()
    return [send for send in sent if isinstance(send, Send)]


def _called(send: Send) -> set[str]:
    """Names of the tools that are called by what was sent; "" where it is no call of a tool."""
    call = send.arg.get("tool_call") if isinstance(send.arg, Mapping) else None
    return {str(call.get("name", ""))} if isinstance(call, Mapping) else {""}


def _unfinished(saved: CheckpointTuple) -> set[str]:
    """Names of the tools called at a checkpoint, if one of the calls has no result, and does not
    wait for an answer either.
    """
    sent = _sent(saved)
    results = {
        task
        for task, channel, _ in saved.pending_writes or ()
        if channel not in (RESUME, INTERRUPT)
    }
    made = (results | _waiting(saved).keys()) - {NULL_TASK_ID}
    return {name for send in sent for name in _called(send)} if len(made) < len(sent) else set()


def _waiting(saved: CheckpointTuple) -> dict[str, tuple[Interrupt, ...]]:
    """The interrupts of a checkpoint's tasks that are not answered, by the task's id."""
    from langgraph.pregel._task_status import read_task_statuses  # noqa: PLC0415  # only on a server

    statuses = read_task_statuses(saved.pending_writes or ())
    return {
        task: status.pending_interrupts
        for task, status in statuses.items()
        if status.pending_interrupts
    }


def _raised(saved: CheckpointTuple, place: str, task: str, ids: set[str]) -> dict[str, str]:
    """Of a task's interrupts those that it raised itself: the node, by the interrupt's id."""
    answers = [
        value
        for of, channel, value in saved.pending_writes or ()
        if (of, channel) == (task, RESUME)
    ]
    answered = sum(len(value) if isinstance(value, list) else 1 for value in answers)
    raised = dict[str, str]()
    for node in _nodes(saved.checkpoint):
        for number in range(answered + 1):
            interrupt_id = _interrupt_id(_place(place, node, task), number)
            if interrupt_id in ids:
                raised[interrupt_id] = node
    return raised


def _nodes(checkpoint: Any) -> list[str]:
    """Names of the nodes that may have a task at a checkpoint: what was sent there first, and then
    what edges lead to.
    """
    branch = "branch:to:"
    sent = checkpoint["channel_values"].get("__pregel_tasks") or ()
    nodes = [send.node for send in sent if isinstance(send, Send)]
    nodes += [
        name.removeprefix(branch)
        for name in checkpoint["channel_versions"]
        if name.startswith(branch)
    ]
    return list(dict.fromkeys(nodes))


def _place(place: str, node: str, task: str) -> str:
    """The namespace of a task, inside of that of its graph."""
    return f"{place}|{node}:{task}" if place else f"{node}:{task}"


async def store() -> BaseStore:
    """The runs' store, in a custom route. `langgraph.config.get_store()` gave an empty one there."""
    from langgraph_api.store import get_store  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    return cast("BaseStore", await get_store())


def is_server() -> bool:
    """Whether the platform serves in this process."""
    return "langgraph_api.graph" in sys.modules


def loaded_graph(graph_id: str) -> "Pregel[Any, Any, Any, Any] | None":
    """A graph that this server has loaded; None for one that is made anew for each run."""
    from langgraph.pregel import Pregel  # noqa: PLC0415  # commands that need no graph import this module, too

    server = sys.modules.get("langgraph_api.graph")  # only on a server
    graph = server.GRAPHS.get(graph_id) if server else None
    return graph if isinstance(graph, Pregel) else None


@asynccontextmanager
async def graph_to_read(
    graph_id: str, store: BaseStore
) -> "AsyncIterator[Pregel[Any, Any, Any, Any] | None]":
    """A graph of this server, to look at: the loaded one, or one that its factory makes, as the
    server does for its schemas.

    None off a server, and where the factory fails without a run.
    """
    if loaded := loaded_graph(graph_id):
        yield loaded
        return
    server = sys.modules.get("langgraph_api.graph")  # only on a server
    if server is None or graph_id not in server.GRAPHS:
        yield None
        return
    async with AsyncExitStack() as stack:
        made = None
        try:
            opened = server.get_graph(
                graph_id, {"configurable": {}}, store=store, access_context="assistants.read"
            )
            made = await stack.enter_async_context(opened)
        except Exception as error:  # a fork's factory may raise anything
            logger.warning(
                "The graph %r could not be made to read its tools: %r.",
                graph_id,
                error,
                exc_info=True,
            )
        yield made if isinstance(getattr(made, "nodes", None), dict) else None


def embedding_model(store: BaseStore) -> str:
    """The model that embeds what the store's semantic index holds, and its dimensions; empty if
    there is no such index.

    The platform's store does not say so itself, but its configuration does: as a text, or as what
    was loaded from it.
    """
    if hasattr(store, "index_config"):
        index = store.index_config
    else:
        config = sys.modules.get("langgraph_api.config")  # only on a server
        index = (config.STORE_CONFIG or {}).get("index") if config else None
    if not index:
        return ""
    embed = index.get("embed")
    if isinstance(embed, str):  # ./file.py:function, or provider:model
        name = embed.rsplit(":", 1)[-1] if ".py:" in embed else embed.split(":", 1)[-1]
    else:
        function = getattr(embed, "func", None) or getattr(embed, "afunc", None) or embed
        names = (
            getattr(embed, "model", None),
            getattr(embed, "model_name", None),
            getattr(function, "__name__", None),
        )
        name = next((each for each in names if isinstance(each, str)), type(embed).__name__)
    return f"{name.removeprefix('models/')}, {index.get('dims')} dimensions"


async def bad_request(request: Request, error: ValueError) -> Response | None:
    """The platform's answer to a value that one of its own routes cannot use; None for an error of
    any other code.

    It answers every `ValueError` so, whoever raised it, which tells a client in Python's words that
    the request was wrong.
    """
    own_module = str(getattr(request.scope.get("endpoint"), "__module__", ""))
    frames = [str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)]
    if not own_module.startswith("langgraph_api.") or any(
        name.startswith(f"{__package__}.") for name in frames
    ):
        return None
    from langgraph_api.errors import value_error_handler  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    return cast("Response", await value_error_handler(request, error))


def serves_in_memory() -> bool:
    """Whether this process is a server on the in-memory runtime: `langgraph dev`."""
    runtime = (
        sys.modules.get("langgraph_runtime") if "langgraph_api.server" in sys.modules else None
    )
    return getattr(runtime, "RUNTIME_EDITION", None) == "inmem"


def is_in_process(scope: Scope) -> bool:
    """Whether a call comes from inside the server (`get_client()`). No request can set the root
    path.
    """
    root = scope.get("root_path", "")
    return bool(root == "/noauth" or root.startswith("/noauth/"))


def acting_as_caller(request: Request) -> AbstractAsyncContextManager[None]:
    """Within this context, in-process clients act as the request's user for the handlers of
    `auth.py`; otherwise as nobody.
    """
    from langgraph_api.utils import with_user  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    return cast("AbstractAsyncContextManager[None]", with_user(request.user, request.auth))


async def in_thread(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """The result of a function that takes long, which is called in a thread of this library's own,
    in the current context.
    """
    return await _called_in(_THREADS, partial(function, *args, **options))


async def in_thread_of_forks(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """As `in_thread`, for a function that calls one of a fork's which may not return: there are few
    threads for these alone.
    """
    return await _called_in(_FORKS_THREADS, partial(function, *args, **options))


async def _called_in(threads: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, context.run, function)


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of work that goes on where its caller is cancelled, who waits for its end and is
    cancelled then.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def as_nobody(call: Coroutine[Any, Any, Result]) -> Result:
    """The result of a call whose in-process clients act as nobody, also within a request: what
    people may do is no bound.
    """
    from langgraph_api.utils import with_user  # noqa: PLC0415  # as above

    async def called() -> Result:  # in a task of its own, whose context is its own
        async with with_user():
            return await call

    return await asyncio.create_task(called())


def lock_of(*key: object) -> asyncio.Lock:
    """This process's lock of that name, while somebody holds it or waits. Other processes have
    their own.
    """
    return _LOCKS.setdefault((asyncio.get_running_loop(), *key), asyncio.Lock())


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
