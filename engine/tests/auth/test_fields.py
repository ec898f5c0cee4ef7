"""What of a request reaches a run: only what is listed, within bounds, whatever is sent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk import Auth

from lasting_memory.auth import run_requests
from lasting_memory.auth.handler_values import RunRequest
from lasting_memory.auth.request_fields import MAX_METADATA_CHARS, MAX_METADATA_KEYS
from lasting_memory.auth.run_requests import MAX_RECURSION_LIMIT
from lasting_memory.people import identity
from tests.auth.run_fields import CONFIG, CONFIGURABLE, KWARGS, OPERATORS_CONFIGURABLE, request

HTTPException = Auth.exceptions.HTTPException


def with_context(context: dict[str, Any]) -> Any:
    """The same for a run with a context: the platform copies it into `configurable`."""
    return request(
        context=context, config={"configurable": {**context, "__context_provided__": True}}
    )


def refusal(value: RunRequest, *, operator: bool) -> tuple[int, str]:
    with pytest.raises(HTTPException) as refused:
        run_requests.rebuild_run(value, operator=operator)
    return refused.value.status_code, str(refused.value.detail)


NAMES = st.sampled_from(
    sorted(
        {
            *CONFIG,
            *OPERATORS_CONFIGURABLE,
            *run_requests.RESERVED_METADATA,
            *KWARGS,
            "__pregel_read",
            "callbacks",
            "run_name",
        }
        | {"__context_provided__", "max_concurrency", "a2a", "note", "dry_run", "ls_agent_type"}
    )
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.uuids().map(str)
)
BODIES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=15,
)
OBJECTS = st.dictionaries(NAMES | st.text(max_size=5), BODIES, max_size=6)
METADATA = st.dictionaries(NAMES | st.text(max_size=5), LEAVES, max_size=4) | OBJECTS
# Often of the type that fits, so that much is accepted.
CONFIGS = st.fixed_dictionaries(
    {"configurable": OBJECTS},
    optional={
        "tags": st.lists(st.text(max_size=3), max_size=3),
        "metadata": METADATA | BODIES,
        "recursion_limit": st.integers(1, 100) | BODIES,
        "thread_id": BODIES,
        "assistant_id": BODIES,
    },
)


@given(config=CONFIGS, metadata=METADATA, context=OBJECTS, operator=st.booleans())
def test_a_rebuilt_run_has_listed_fields_alone_whatever_is_sent(
    config: dict[str, Any], metadata: dict[str, Any], context: dict[str, Any], operator: bool
) -> None:
    """It comes out the same again, in the objects that the platform goes on with."""
    value = request(config=config, metadata=metadata, context=context)
    kwargs, kept_config = value["kwargs"], value["kwargs"]["config"]
    try:
        run_requests.rebuild_run(value, operator=operator)
    except HTTPException:
        return
    assert value["kwargs"] is kwargs
    assert kwargs["config"] is kept_config
    assert set(kept_config) <= CONFIG
    assert set(kept_config["configurable"]) <= (
        OPERATORS_CONFIGURABLE if operator else CONFIGURABLE
    )
    assert set(kwargs["context"]) <= set(identity.Context.__dataclass_fields__)
    for stamped in (value["metadata"], kept_config.get("metadata", {})):
        assert not set(stamped) & run_requests.RESERVED_METADATA
        assert all(
            of is None or isinstance(of, (str, int, float, bool))
            for key, of in stamped.items()
            if key != "a2a"
        )
    before = repr(value)
    run_requests.rebuild_run(value, operator=operator)
    assert repr(value) == before


def test_a_context_comes_through_and_configurable_in_its_place() -> None:
    context = {"user_id": "alice", "org_id": "acme", "assistant_id": "tutor", "dry_run": True}
    old_style = {"user_id": "alice", "thread_id": "x", "unknown": 1}
    for value, kept in (
        (with_context(context), context),
        (
            request(config={"configurable": old_style}, context=old_style),
            {"user_id": "alice", "org_id": None},
        ),
    ):
        run_requests.rebuild_run(value, operator=True)
        assert value["kwargs"]["context"] == kept
        assert value["kwargs"]["config"] == {"configurable": {}}


BAD: dict[str, dict[str, Any]] = {
    "metadata": {"metadata": {"x": {"y": 1}}},
    f"at most {MAX_METADATA_KEYS}": {"metadata": {str(i): i for i in range(MAX_METADATA_KEYS + 1)}},
    f"at most {MAX_METADATA_CHARS}": {"metadata": {"x": "y" * (MAX_METADATA_CHARS + 1)}},
    "metadata.nul": {"metadata": {"nul": "\0"}},
    "recursion_limit is 1": {"config": {"recursion_limit": MAX_RECURSION_LIMIT + 1}},
    "checkpoint_id": {"config": {"configurable": {"checkpoint_id": "x"}}},
    "after_seconds is 1e+300": {"after_seconds": 1e300},
    "after_seconds is 604801": {"after_seconds": 604_801},
    "after_seconds is -1": {"after_seconds": -1},
    "feedback_keys": {"feedback_keys": ["x"] * 11},
    "context.graph_id": {
        "context": {"graph_id": "x"},
        "config": {"configurable": {"__context_provided__": True}},
    },
}


@pytest.mark.parametrize("reason", BAD)
def test_a_field_that_does_not_fit_is_refused_by_name_also_for_operators(reason: str) -> None:
    for operator in (False, True):
        status, detail = refusal(request(**BAD[reason]), operator=operator)
        assert (status, reason in detail, "\n" in detail) == (422, True, False), detail


def test_webhooks_breakpoints_and_jumps_are_for_operators_alone() -> None:
    jumps: list[dict[str, Any]] = [
        {"goto": ["model", "model"]},
        {"goto": {"node": "tools", "input": []}},
    ]
    asked: list[dict[str, Any]] = [
        {"webhook": "https://example.com/x"},
        {"interrupt_before": ["model"]},
        {"interrupt_after": "*"},
    ]
    for told in [*asked, *({"command": jump} for jump in jumps)]:
        assert refusal(request(**told), operator=False)[0] == 403
        value = request(**told)
        run_requests.rebuild_run(value, operator=True)
        assert told.items() <= value["kwargs"].items()
