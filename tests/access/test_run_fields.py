"""What of a request reaches a run: rebuilt by `access/run_requests.py` from an allow-list, whatever was sent."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk import Auth

from access import run_requests
from access.run_requests import MAX_METADATA_CHARS, MAX_METADATA_KEYS
from memory import controls, identity
from settings import MAX_RECURSION_LIMIT
from tests.access.decided_fields import CONFIG, CONFIGURABLE, KWARGS, OPERATORS_CONFIGURABLE

HTTPException = Auth.exceptions.HTTPException


def request(**given: Any) -> dict[str, Any]:
    """What `threads.create_run` is given for a run's fields."""
    metadata, after_seconds = given.pop("metadata", {}), given.pop("after_seconds", 0)
    kwargs = {**copy.deepcopy(KWARGS), **copy.deepcopy(given)}
    kwargs["config"].setdefault("configurable", {})
    return {"kwargs": kwargs, "metadata": copy.deepcopy(metadata), "after_seconds": after_seconds}


def with_context(context: dict[str, Any]) -> dict[str, Any]:
    """The same for a run with a context: the platform copies it into `configurable`."""
    return request(context=context, config={"configurable": {**context, "__context_provided__": True}})


NAMES = st.sampled_from(
    sorted(
        {*CONFIG, *OPERATORS_CONFIGURABLE, *run_requests.RESERVED_METADATA, *KWARGS, "__pregel_read", "callbacks", "run_name"}
        | {"__context_provided__", "max_concurrency", "a2a", "note", "dry_run", "ls_agent_type"}
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.uuids().map(str)
BODIES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.dictionaries(NAMES | st.text(max_size=5), BODIES, max_size=6)
# Often of the type that fits, so that much is accepted.
CONFIGS = st.fixed_dictionaries(
    {"configurable": OBJECTS},
    optional={
        "tags": st.lists(st.text(max_size=3), max_size=3),
        "metadata": st.dictionaries(NAMES | st.text(max_size=5), LEAVES, max_size=4) | BODIES,
        "recursion_limit": st.integers(1, 100) | BODIES,
        "thread_id": BODIES,
        "assistant_id": BODIES,
    },
)
METADATA = st.dictionaries(NAMES | st.text(max_size=5), LEAVES, max_size=4) | OBJECTS


@given(
    config=CONFIGS | OBJECTS.map(lambda config: {**config, "configurable": {}}),
    metadata=METADATA,
    context=OBJECTS,
    extra=OBJECTS,
    operator=st.booleans(),
)
def test_whatever_is_sent_only_what_is_listed_comes_out(
    config: dict[str, Any], metadata: dict[str, Any], context: dict[str, Any], extra: dict[str, Any], operator: bool
) -> None:
    """Whatever is sent, only what is listed comes out, and it comes out the same again."""
    value = request(config=config, metadata=metadata, context=context)
    value["kwargs"] = {**extra, **value["kwargs"]}
    kwargs, kept_config = value["kwargs"], value["kwargs"]["config"]
    if not accepted(lambda: run_requests.rebuild_run(value, operator=operator)):
        return
    assert value["kwargs"] is kwargs
    assert kwargs["config"] is kept_config, "the platform goes on with the object it had before"
    assert set(kwargs) == set(KWARGS)
    assert set(kept_config) <= CONFIG
    assert set(kept_config["configurable"]) <= (OPERATORS_CONFIGURABLE if operator else CONFIGURABLE)
    assert set(kwargs["context"]) <= set(identity.Context.__dataclass_fields__)
    for stamped in (value["metadata"], kept_config.get("metadata", {})):
        assert not set(stamped) & run_requests.RESERVED_METADATA
        assert all(of is None or isinstance(of, (str, int, float, bool)) for key, of in stamped.items() if key != "a2a")
    before = repr(value)
    run_requests.rebuild_run(value, operator=operator)
    assert repr(value) == before


@given(config=CONFIGS, context=OBJECTS | st.just({"dry_run": True}), metadata=METADATA)
def test_an_assistant_and_a_cron_hold_no_more_than_a_run(
    config: dict[str, Any], context: dict[str, Any], metadata: dict[str, Any]
) -> None:
    given = {"config": config, "context": context, "metadata": metadata}
    assistant, cron = copy.deepcopy(given), {"payload": copy.deepcopy(given), "metadata": copy.deepcopy(metadata)}
    held = [assistant] if accepted(lambda: run_requests.rebuild_assistant(assistant)) else []
    if accepted(lambda: run_requests.rebuild_cron(cron)):
        held.append({"config": {}, "context": {}, **cron["payload"], "metadata": cron["metadata"]})
    for kept in held:
        assert set(kept["config"]) <= CONFIG
        fields = set(identity.Context.__dataclass_fields__)
        assert set(kept["config"].get("configurable", {})) <= OPERATORS_CONFIGURABLE | fields
        assert set(kept["context"]) <= fields
        assert set(kept["metadata"]) & run_requests.RESERVED_METADATA <= {"created_by"}


def accepted(rebuild: Callable[[], None]) -> bool:
    """Whether it was rebuilt. A refusal says that the request is at fault."""
    try:
        rebuild()
    except HTTPException as refusal:
        status = refusal.status_code
    else:
        return True
    assert status in (400, 422)
    return False


def test_what_a_client_may_say_comes_through() -> None:
    checkpoint = {"checkpoint_id": str(uuid.uuid4()), "checkpoint_ns": "", "checkpoint_map": {"": str(uuid.uuid4())}}
    config = {"tags": ["a"], "metadata": {"note": "b"}, "recursion_limit": 7, "configurable": checkpoint}
    metadata = {"title": "c", "stars": 4, "share": 0.5, "open": True, "none": None}
    command = {"resume": {"id": 1}, "update": {"x": 1}, "goto": ["model", {"node": "tools", "input": None}]}
    value = request(config=config, metadata=metadata, command=command, feedback_keys=["good"])
    expected = copy.deepcopy(value)
    expected["kwargs"]["context"] = {"user_id": None, "org_id": None}
    run_requests.rebuild_run(value, operator=False)
    assert value == expected


def test_a_context_comes_through_without_its_copy_in_configurable() -> None:
    context = {"user_id": "alice", "org_id": "acme", "assistant_id": "tutor", "dry_run": True}
    value = with_context(context)
    run_requests.rebuild_run(value, operator=False)
    assert value["kwargs"]["context"] == context
    assert value["kwargs"]["config"] == {"configurable": {}}


def test_configurable_in_a_context_s_place_is_taken_as_one() -> None:
    old_style = {"user_id": "alice", "thread_id": "x", "unknown": 1}
    value = request(config={"configurable": old_style}, context=old_style)
    run_requests.rebuild_run(value, operator=True)
    assert value["kwargs"]["context"] == {"user_id": "alice", "org_id": None}
    assert value["kwargs"]["config"] == {"configurable": {}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "metadata that is a list": ({"config": {"metadata": [1]}}, "config.metadata"),
    "an object in metadata": ({"metadata": {"x": {"y": 1}}}, "metadata"),
    "a list in metadata": ({"metadata": {"x": ["y"]}}, "metadata.x"),
    "too much metadata": ({"metadata": {str(i): i for i in range(MAX_METADATA_KEYS + 1)}}, f"at most {MAX_METADATA_KEYS}"),
    "a long text in metadata": ({"metadata": {"x": "y" * (MAX_METADATA_CHARS + 1)}}, f"at most {MAX_METADATA_CHARS}"),
    "a long key in metadata": ({"metadata": {"x" * (MAX_METADATA_CHARS + 1): 1}}, f"at most {MAX_METADATA_CHARS}"),
    "NUL in metadata": ({"metadata": {"x": "\0"}}, "metadata.x"),
    "no steps": ({"config": {"recursion_limit": 0}}, "config.recursion_limit"),
    "too many steps": ({"config": {"recursion_limit": MAX_RECURSION_LIMIT + 1}}, "config.recursion_limit"),
    "steps that are a flag": ({"config": {"recursion_limit": True}}, "config.recursion_limit"),
    "tags that are none": ({"config": {"tags": [1]}}, "config.tags.0"),
    "a checkpoint that is none": ({"config": {"configurable": {"checkpoint_id": "x"}}}, "checkpoint_id"),
    "a map of none": ({"config": {"configurable": {"checkpoint_map": {"": "x"}}}}, "checkpoint_map"),
    "a time that is none": ({"config": {"configurable": {"__request_start_time_ms__": "x"}}}, "__request_start_time_ms__"),
    "a time before others": ({"after_seconds": -1}, "after_seconds"),
    "a time beyond time": ({"after_seconds": 1e300}, "after_seconds"),
    "too many links for feedback": ({"feedback_keys": ["x"] * 11}, "feedback_keys"),
}


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(("body", "reason"), BAD.values(), ids=list(BAD))
def test_what_does_not_fit_is_refused_by_name_for_everybody(body: dict[str, Any], reason: str, operator: bool) -> None:
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(request(**body), operator=operator)
    assert refusal.value.status_code == 422
    assert reason in refusal.value.detail
    assert "\n" not in refusal.value.detail


def test_what_nests_too_deep_for_python_to_print_is_refused_too() -> None:
    value = request()
    value["metadata"]["x"] = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(HTTPException, match="422"):
        run_requests.rebuild_run(value, operator=False)


def test_an_unknown_field_of_a_context_is_refused_by_name() -> None:
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(with_context({"user_id": "x", "graph_id": "agent"}), operator=True)
    assert refusal.value.status_code == 422
    assert "context.graph_id" in refusal.value.detail


@pytest.mark.parametrize("field", ["webhook", "interrupt_before", "interrupt_after"])
def test_what_is_an_operator_s_is_refused_to_others_and_not_to_operators(field: str) -> None:
    given: dict[str, Any] = {field: "https://example.com/x" if field == "webhook" else ["model"]}
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(request(**given), operator=False)
    assert refusal.value.status_code == 403
    assert field in refusal.value.detail
    value = request(**given)
    run_requests.rebuild_run(value, operator=True)
    assert value["kwargs"][field] == given[field]


def test_a_fork_may_open_webhooks_to_everybody() -> None:
    value = request(webhook="https://example.com/x")
    run_requests.rebuild_run(value, operator=False, webhooks=True)
    assert value["kwargs"]["webhook"] == "https://example.com/x"


def test_a_new_thread_may_say_that_it_is_a_conversation() -> None:
    """A new thread may say that it is a conversation, and nothing else of the platform's."""
    for new, graph, kept in ((True, "agent", True), (True, "consolidation_agent", False), (False, "agent", False)):
        metadata = {"graph_id": graph, "user_id": "x", "assistant_id": "x", "langgraph_host": "x", "title": "mine"}
        run_requests.rebuild_thread_metadata(metadata, new=new)
        assert metadata == {"title": "mine", **({"graph_id": "agent"} if kept else {})}


def test_only_this_process_says_what_triggered_a_run() -> None:
    metadata = {"trigger": "idle", "since": "2026-01-01"}
    forged = request(metadata=metadata)
    run_requests.rebuild_run(forged, operator=True)
    assert forged["metadata"] == {}
    token = controls.creating_run.set(True)
    try:
        ours = request(metadata=metadata)
        run_requests.rebuild_run(ours, operator=False)
    finally:
        controls.creating_run.reset(token)
    assert ours["metadata"] == metadata


def test_a_cron_may_say_that_its_conversations_are_temporary() -> None:
    given: dict[str, Any] = {"payload": {"metadata": {"temporary": True}}, "metadata": {"temporary": True, "org_id": "x"}}
    run_requests.rebuild_cron(given)
    assert (given["metadata"], given["payload"]["metadata"]) == ({"temporary": True}, {"temporary": True})
