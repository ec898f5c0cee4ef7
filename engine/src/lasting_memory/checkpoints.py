"""What the platform's checkpoints say of a thread: its latest state, what waits there, and calls.

A graph runs as tasks, one for each node that it calls. A graph inside of a task, such as a
subagent's, has checkpoints of its own, in a namespace that is called its place here. An interrupt
waits in the task that raised it until somebody answers it. Also the deletion of a person's
checkpoints. This module uses langgraph's internal names: the server tests of
tests/auth/test_interrupts.py and tests/auth/test_approvals.py fail when one moves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import INTERRUPT, NULL_TASK_ID, RESUME
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt, Send, _interrupt_id
from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform

# Threads that are searched for by their ids at once.
_MAX_IDS = 1_000
# Checkpoints that are read to learn where the interrupts of one thread were raised. One for each
# subagent that waits.
_MAX_CHECKPOINTS = 100
# The channel of what was sent to nodes.
_SENDS = "__pregel_tasks"
# The channels of edges begin so; the name of the node follows.
_EDGE = "branch:to:"


async def delete_checkpoints(client: LangGraphClient, user_id: str, org_id: str) -> int:
    """Delete a person's conversations of which only checkpoints are left. Returns their number.

    A killed development server may have lost threads from its list. Deployments keep both in one
    database. `client` sees everybody's threads.
    """
    checkpointer = await platform.checkpointer()
    delete_for_person = getattr(checkpointer, "adelete_for_person", None)
    if delete_for_person:
        return int(await delete_for_person(user_id, org_id))
    deletions = 0
    stored_ids = list(getattr(checkpointer, "storage", ()))
    for start in range(0, len(stored_ids), _MAX_IDS):
        end = start + _MAX_IDS
        for thread_id in await _unlisted(client, stored_ids[start:end]):
            checkpoint = await checkpointer.aget_tuple(_config(thread_id))
            if checkpoint and _belongs_to(checkpoint, user_id, org_id):
                await checkpointer.adelete_thread(thread_id)
                deletions += 1
    return deletions


async def _unlisted(client: LangGraphClient, thread_ids: list[str]) -> set[str]:
    """Those of the threads that the platform does not list."""
    threads = await client.threads.search(ids=thread_ids, limit=_MAX_IDS, select=["thread_id"])
    listed_ids = {str(thread["thread_id"]) for thread in threads}
    return set(thread_ids) - listed_ids


def _belongs_to(checkpoint: CheckpointTuple, user_id: str, org_id: str) -> bool:
    """Whether a checkpoint is of a conversation of this person."""
    metadata: Mapping[str, object] = checkpoint.metadata
    if metadata.get("user_id") != user_id:
        return False
    return metadata.get("org_id") == org_id


class PendingInterrupt(NamedTuple):
    """An interrupt that waits for an answer, and the node that raised it.

    The node is "" where it cannot be proved.
    """

    interrupt: Interrupt
    node: str


async def pending_interrupts(thread_id: str) -> tuple[str, list[PendingInterrupt]]:
    """The id of a thread's latest checkpoint, and the interrupts that wait there for an answer.

    The id is "" if the thread has no checkpoint. An interrupt's id is a hash of where it was
    raised: the nodes and their tasks, from the outermost graph to the innermost. So the node whose
    name gives this id did raise it, whatever the interrupt's value says.
    """
    state = await _latest_state(thread_id)
    if state.checkpoint is None:
        return "", []
    all_interrupts = list[PendingInterrupt]()
    for interrupts in _waiting_interrupts(state.checkpoint).values():
        for interrupt in interrupts:
            node = state.nodes.get(interrupt.id, "")
            all_interrupts.append(PendingInterrupt(interrupt, node))
    return _id_of(state.checkpoint), all_interrupts


async def calls_to_make(thread_id: str, checkpoint_id: str | None) -> tuple[set[str], bool]:
    """Names of the tools that a run calls first, and whether it begins at the latest checkpoint.

    The run begins at this checkpoint of a thread; None: at the latest. A name is "" where it is
    unknown. langgraph makes a call by sending it to its node, and what was sent is in the
    checkpoint before. From a named checkpoint all its calls are made anew. From the latest, not
    named, those without a result are, also inside of subagents.
    """
    state = await _latest_state(thread_id)
    if state.checkpoint is None or checkpoint_id is None:
        return state.unfinished_tools, True
    is_latest = checkpoint_id == _id_of(state.checkpoint)
    if is_latest:
        return state.unfinished_tools, True
    checkpointer = await platform.checkpointer()
    config = _config(thread_id, checkpoint_id=checkpoint_id)
    checkpoint = await checkpointer.aget_tuple(config)
    if checkpoint is None:
        return set(), False
    sends = _sends(checkpoint)
    return _called_tools(sends), False


def _config(thread_id: str, place: str = "", *, checkpoint_id: str | None = None) -> RunnableConfig:
    """What names a checkpoint of a thread to a checkpointer; without an id, the latest.

    `place` is the namespace of a graph within the thread's graph.
    """
    configurable = {"thread_id": thread_id, "checkpoint_ns": place}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def _id_of(checkpoint: CheckpointTuple) -> str:
    return str(checkpoint.checkpoint["id"])


@dataclass(slots=True)
class _LatestState:
    """A thread's latest state, in its graph and in those inside of it in which something waits."""

    # The latest checkpoint of the thread's graph.
    checkpoint: CheckpointTuple | None = None
    # The nodes that raised what waits there, by the ids of the interrupts.
    nodes: dict[str, str] = field(default_factory=dict)
    # The tools whose calls have no result yet; "" for an unknown one.
    unfinished_tools: set[str] = field(default_factory=set)


async def _latest_state(thread_id: str) -> _LatestState:
    """A thread's latest state, which is read from one checkpoint after the other."""
    checkpointer = await platform.checkpointer()
    state = _LatestState()
    # Of each graph in which something waits, the places where its checkpoint may be.
    graphs = [[""]]
    for _ in range(_MAX_CHECKPOINTS):
        if not graphs:
            break
        places = graphs[0]
        place = places.pop(0)
        config = _config(thread_id, place)
        checkpoint = await checkpointer.aget_tuple(config)
        if checkpoint is not None or not places:
            graphs.pop(0)
        if checkpoint is None:
            continue
        if not place:
            state.checkpoint = checkpoint
        state.unfinished_tools |= _tools_without_result(checkpoint)
        graphs += _read_interrupts(checkpoint, place, state)
    if graphs:  # there are too many to look at
        state.unfinished_tools.add("")
    return state


def _read_interrupts(
    checkpoint: CheckpointTuple, place: str, state: _LatestState
) -> list[list[str]]:
    """Add the nodes that raised a checkpoint's interrupts to the state.

    Returns, of each graph inside of which others were raised, the places where it may be.
    """
    inner_graphs = list[list[str]]()
    interrupts_by_task = _waiting_interrupts(checkpoint)
    for task, interrupts in interrupts_by_task.items():
        ids = {interrupt.id for interrupt in interrupts}
        node_by_id = _interrupts_of_task(checkpoint, place, task, ids)
        state.nodes |= node_by_id
        if len(node_by_id) >= len(interrupts):
            continue
        # Graphs inside of this task raised the others.
        places = [_task_place(place, node, task) for node in _nodes(checkpoint)]
        if places:
            inner_graphs.append(places)
    return inner_graphs


def _sends(checkpoint: CheckpointTuple) -> list[Send]:
    """What was sent to nodes before a checkpoint, and waits for them there."""
    values = checkpoint.checkpoint["channel_values"]
    sends = list[Send]()
    for value in values.get(_SENDS) or ():
        if isinstance(value, Send):
            sends.append(value)
    return sends


def _called_tools(sends: Iterable[Send]) -> set[str]:
    """Names of the tools that are called by what was sent; "" for what is no call of a tool."""
    names = set[str]()
    for send in sends:
        name = ""
        if isinstance(send.arg, Mapping):
            call = send.arg.get("tool_call")
            if isinstance(call, Mapping):
                name = str(call.get("name", ""))
        names.add(name)
    return names


def _tools_without_result(checkpoint: CheckpointTuple) -> set[str]:
    """Names of the tools called at a checkpoint, if one of the calls is not done.

    Such a call has no result, and does not wait for an answer either.
    """
    sends = _sends(checkpoint)
    finished_tasks = set(_waiting_interrupts(checkpoint))
    for task, channel, _ in checkpoint.pending_writes or ():
        is_result = channel not in (RESUME, INTERRUPT)
        if is_result:
            finished_tasks.add(task)
    finished_tasks.discard(NULL_TASK_ID)
    if len(finished_tasks) >= len(sends):
        return set()
    return _called_tools(sends)


def _waiting_interrupts(checkpoint: CheckpointTuple) -> dict[str, tuple[Interrupt, ...]]:
    """The interrupts of a checkpoint's tasks that are not answered, by the task's id."""
    from langgraph.pregel._task_status import read_task_statuses  # noqa: PLC0415  # only on a server

    interrupts_by_task = dict[str, tuple[Interrupt, ...]]()
    statuses = read_task_statuses(checkpoint.pending_writes or ())
    for task, status in statuses.items():
        interrupts = status.pending_interrupts
        if interrupts:
            interrupts_by_task[task] = interrupts
    return interrupts_by_task


def _interrupts_of_task(
    checkpoint: CheckpointTuple, place: str, task: str, ids: set[str]
) -> dict[str, str]:
    """Of these interrupts of a task those that it raised itself: the node, by the interrupt's id.

    An id is made of the task's place and of how many interrupts the task raised before. So the ids
    that it may have are tried, for each node that the task may be of.
    """
    answered_count = _answered_count(checkpoint, task)
    node_by_id = dict[str, str]()
    for node in _nodes(checkpoint):
        task_place = _task_place(place, node, task)
        for number in range(answered_count + 1):
            interrupt_id = _interrupt_id(task_place, number)
            if interrupt_id in ids:
                node_by_id[interrupt_id] = node
    return node_by_id


def _answered_count(checkpoint: CheckpointTuple, task: str) -> int:
    """How many interrupts of a task are answered."""
    count = 0
    for writer, channel, value in checkpoint.pending_writes or ():
        is_answer = writer == task and channel == RESUME
        if not is_answer:
            continue
        if isinstance(value, list):
            count += len(value)
        else:
            count += 1
    return count


def _nodes(checkpoint: CheckpointTuple) -> list[str]:
    """Names of the nodes that may have a task at a checkpoint.

    Those come first to which something was sent, and then those to which edges lead.
    """
    nodes = dict[str, None]()  # in this order, each once
    for send in _sends(checkpoint):
        nodes[send.node] = None
    for channel in checkpoint.checkpoint["channel_versions"]:
        if channel.startswith(_EDGE):
            node = channel.removeprefix(_EDGE)
            nodes[node] = None
    return list(nodes)


def _task_place(place: str, node: str, task: str) -> str:
    """The namespace of a task, inside of that of its graph."""
    name = f"{node}:{task}"
    if not place:
        return name
    return f"{place}|{name}"
