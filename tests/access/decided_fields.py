"""Every field of a run that is decided about: whoever adds one decided it, and docs/security.md says why."""

from __future__ import annotations

from typing import Any

# --- The rebuild itself ----------------------------------------------------------------------------------------------

KWARGS: dict[str, Any] = {
    "input": {"messages": []},
    "command": None,
    "config": {"configurable": {}},
    "context": {},
    "stream_mode": ["values"],
    "interrupt_before": None,
    "interrupt_after": None,
    "webhook": None,
    "feedback_keys": None,
    "temporary": False,
    "subgraphs": False,
    "resumable": False,
    "checkpoint_during": True,
    "durability": "async",
}
# Whoever adds to these decided it: docs/security.md says why.
CONFIG = {"tags", "metadata", "recursion_limit", "configurable"}
CONFIGURABLE = {
    *("checkpoint_id", "checkpoint_ns", "checkpoint_map"),
    *("langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions", "langgraph_request_id"),
    *("__event_streaming_v2", "__request_start_time_ms__", "__after_seconds__"),
    *("__otel_traceparent__", "__otel_tracestate__", "__dd_trace_headers__"),
}
OPERATORS_CONFIGURABLE = CONFIGURABLE | {
    *("cron_id", "__langsmith_project__", "__langsmith_example_id__"),
    *("langsmith-trace", "langsmith-metadata", "langsmith-tags", "langsmith-project"),
}
