"""A thread as it is answered: its row, the values of its state, and what a search shows of both."""

import asyncio
import re
from collections.abc import Mapping, Sequence

from aegra_api.core.serializers import GeneralSerializer
from aegra_api.services.langgraph_service import create_thread_config, get_langgraph_service

from lasting_memory.platform.aegra.rows import ThreadRow
from lasting_memory.platform.aegra.visible_threads import ThreadSearch

_serialize = GeneralSerializer().serialize


def thread_json(row: ThreadRow) -> dict[str, object]:
    """A thread as it is answered, without its values."""
    return {
        "thread_id": row.thread_id,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "metadata": row.metadata_json or {},
        "status": row.status,
    }


async def search_entry(
    row: ThreadRow, search: ThreadSearch, state_reads: asyncio.Semaphore
) -> dict[str, object]:
    """What a search shows of a thread: the selected fields (all if none are), and what it extracts."""
    entry = thread_json(row)
    selected_fields = search.select
    shows_state = (
        selected_fields is None or "values" in selected_fields or "interrupts" in selected_fields
    )
    if shows_state or search.extract:
        async with state_reads:
            state = await read_state(row)
        entry.update(state)
    if search.extract:
        extracted_values = dict[str, object]()
        for name, path in search.extract.items():
            extracted_values[name] = _value_at(path, entry)
        entry["extracted"] = extracted_values
    if selected_fields is None:
        return entry
    answer_fields = {*selected_fields, "extracted"}
    return {field: entry[field] for field in entry if field in answer_fields}


async def read_state(row: ThreadRow) -> dict[str, object]:
    """The values of a thread, and its interrupts by the task that waits for an answer.

    A thread without a graph that is served here has neither.
    """
    metadata = row.metadata_json or {}
    graph_id = metadata.get("graph_id")
    service = get_langgraph_service()
    if graph_id not in service.list_graphs():
        return {"values": None, "interrupts": {}}
    config = create_thread_config(row.thread_id, None)
    opening = service.get_graph(graph_id, config=config, access_context="threads.read")
    async with opening as graph:
        state = await graph.aget_state(config)
    interrupts = dict[str, object]()
    for task in state.tasks:
        if task.interrupts:
            interrupts[task.id] = _serialize([*task.interrupts])
    values = _serialize(state.values) or None
    return {"values": values, "interrupts": interrupts}


def _value_at(path: str, entry: Mapping[str, object]) -> object:
    """What a path such as values.messages[-1].content leads to; None if that is not there."""
    value: object = entry
    for name in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, list):
            value = _item_at(name, value)
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def _item_at(number: str, items: Sequence[object]) -> object:
    """The item of a list with this number; None if it is not there, or that is no number."""
    try:
        return items[int(number)]
    except (IndexError, ValueError):
        return None
