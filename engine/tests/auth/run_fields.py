"""Fields of a run that are decided about, and a request with them."""

import copy
from typing import Any

# Every field of a run that is decided about: whoever adds one decided it, and docs/security.md says
# why.
KWARGS: dict[str, Any] = {
    "input": {"messages": []},
    **dict.fromkeys(("command", "interrupt_before", "interrupt_after", "webhook", "feedback_keys")),
    "config": {"configurable": {}},
    "context": {},
    "stream_mode": ["values"],
    **dict.fromkeys(("temporary", "subgraphs", "resumable"), False),
    "checkpoint_during": True,
    "durability": "async",
}
CONFIG = {"tags", "metadata", "recursion_limit", "configurable"}
CONFIGURABLE = {
    *("checkpoint_id", "checkpoint_ns", "checkpoint_map"),
    *(
        "langgraph_auth_user",
        "langgraph_auth_user_id",
        "langgraph_auth_permissions",
        "langgraph_request_id",
    ),
    *("__event_streaming_v2", "__request_start_time_ms__", "__after_seconds__"),
    *("__otel_traceparent__", "__otel_tracestate__", "__dd_trace_headers__"),
}
OPERATORS_CONFIGURABLE = CONFIGURABLE | {
    *("cron_id", "__langsmith_project__", "__langsmith_example_id__"),
    *("langsmith-trace", "langsmith-metadata", "langsmith-tags", "langsmith-project"),
}


def request(**given: Any) -> Any:
    """What `threads.create_run` is given for a run's fields."""
    metadata, after_seconds = given.pop("metadata", {}), given.pop("after_seconds", 0)
    kwargs = {**copy.deepcopy(KWARGS), **copy.deepcopy(given)}
    kwargs["config"].setdefault("configurable", {})
    return {"kwargs": kwargs, "metadata": copy.deepcopy(metadata), "after_seconds": after_seconds}
