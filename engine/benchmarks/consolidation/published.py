"""The yardstick of `cost.py`: a consolidation agent as the published recipes have it, repaired just
enough to run.

Repaired: `threads.search` has no `updated_after`, so the threads are sorted by time and those that
are too old left out here; and the lookback is given by the benchmark (`since`), which keeps it in
step with the schedule better than a clock would.
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from deployment import DEPLOYMENT
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph_sdk import get_client

from lasting_memory.agent.models import build_model

PROMPT = "Review recent conversations and update the user's memory file. Merge new facts, remove outdated ones, keep it short."


def _user(runtime: Runtime[Any]) -> str:
    return (
        runtime.server_info.user.identity
        if runtime.server_info and runtime.server_info.user
        else ""
    )


@tool
async def search_recent_conversations(query: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Search this user's conversations since the last consolidation."""
    client, since = get_client(), get_config()["metadata"]["window_began"]
    threads: Any = await client.threads.search(
        metadata={"user_id": _user(get_runtime()), "graph_id": "agent"},
        sort_by="updated_at",
        sort_order="desc",
        limit=20,
    )
    recent = [thread["thread_id"] for thread in threads if str(thread["updated_at"]) >= since]
    histories: Any = [await client.threads.get_history(thread_id) for thread_id in recent]
    return str([history[0]["values"]["messages"] for history in histories])


published_consolidation = create_deep_agent(
    model=build_model(DEPLOYMENT),
    name="published_consolidation",
    system_prompt=PROMPT,
    tools=[search_recent_conversations],
    backend=CompositeBackend(
        default=StateBackend(),
        routes={"/memories/": StoreBackend(namespace=lambda runtime: ("bench", _user(runtime)))},
    ),
)
