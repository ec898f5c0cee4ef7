"""What of a request reaches a run, a thread or the store: only what is listed, whatever the
platform's next version adds.
"""

import ast
import copy
import importlib.util
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_api import validation  # type: ignore[import-untyped]
from langgraph_sdk import Auth

from lasting_memory.auth import run_requests
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.callers import Callers
from lasting_memory.auth.handler_values import RunRequest
from lasting_memory.auth.operator_runs import OperatorRuns
from lasting_memory.auth.request_fields import MAX_METADATA_CHARS, MAX_METADATA_KEYS
from lasting_memory.auth.run_requests import MAX_RECURSION_LIMIT
from lasting_memory.people import identity
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn

HTTPException = Auth.exceptions.HTTPException

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


def test_a_run_for_somebody_else_is_refused_to_an_operator_whose_token_has_expired() -> None:
    """As one that such an operator's run asks for within the server: it would be a run on the
    operator's own memory.
    """
    operator: Any = SignedIn(
        identity="root", org_id="acme", permissions=[identity.OPERATE], expires_at=1
    )
    callers = Callers(deployed())
    with pytest.raises(HTTPException) as refused:
        callers.owner(operator, {"user_id": "alice", "org_id": None})
    assert (refused.value.status_code, "token has expired" in str(refused.value.detail)) == (
        403,
        True,
    )
    assert callers.owner(operator) == identity.Actor("root", "acme")


async def test_a_run_that_an_operator_resumes_plans_consolidation_for_its_owner() -> None:
    """Also when the token has expired of the operator who resumed it: so is their consolidation,
    minutes later.
    """
    owner: dict[str, Any] = {"user_id": "alice", "org_id": "acme", "claims": {}, "expires_at": None}
    operator: Any = SignedIn(
        identity="root",
        permissions=[identity.OPERATE],
        expires_at=time.time() + 3600,
        thread_owner=owner,
    )
    kwargs = request(context={"user_id": "alice", "org_id": "acme"})["kwargs"]
    operator_runs = OperatorRuns(deployed(), Approvals(deployed()))
    owner_of_run = await operator_runs.act_as(operator, None, kwargs)
    assert owner_of_run == identity.Actor("alice", "acme")
    stamped: Any = SignedIn(
        {**kwargs["config"]["configurable"]["langgraph_auth_user"], "expires_at": 1}
    )
    named = identity.Context("alice", "acme")
    assert identity.acting(stamped, named, deployed().settings) == identity.Actor("alice", "acme")


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


# --- The platform's code: a field or key that a new version adds fails here until somebody decides
# about it ---------


def sources(package: str) -> list[str]:
    """Texts of a package's modules: read, not imported, which takes a server's environment."""
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.origin
    return [file.read_text("utf-8") for file in Path(spec.origin).parent.rglob("*.py")]


def keys_of(source: str, name: str) -> set[str]:
    """Keys by which a module reads, writes or spells out mappings of this name."""
    read = rf"""{name}["']?\]?\)?(?:,\s*{{}}\))?(?: or {{}})?\)?(?:\.(?:get|pop|setdefault)\(|\[)\s*["']([^"']+)["']"""
    spelled = " ".join(re.findall(rf"""{name}["']?\s*[:=]\s*{{([^}}]*)}}""", source))
    return {*re.findall(read, source), *re.findall(r"""["'](\w+)["']\s*:""", spelled)}


# Metadata that is no run's and no thread's: of a message or its parts, an event, a request to
# cancel, a tool's schema.
NOBODY_S_METADATA = {
    *(
        "a2uiClientCapabilities",
        "a2uiClientDataModel",
        "mimeType",
        "inputSchema",
        "input_modes",
        "output_modes",
    ),
    *("run_ids", "status", "metadata", "supportsA2A", "tenant_id", "properties", "required"),
}
# Decided: below `a2a` a client may say what it likes about its tasks, on its own threads.
TYPED_METADATA = {"a2a", "a2ui", "a2ui_active", "a2ui_mime_type"}


@pytest.mark.parametrize("package", ["langgraph_api", "langgraph_runtime_inmem"])
def test_every_key_of_metadata_that_the_platform_knows_is_decided(package: str) -> None:
    known = set().union(*(keys_of(source, "metadata") for source in sources(package)))
    assert {"graph_id", "assistant_id"} <= known
    open_keys = {key for key in known if not run_requests.reserved(key)}
    assert open_keys <= NOBODY_S_METADATA | TYPED_METADATA


def test_keys_that_the_platform_takes_from_metadata_are_taken_here_too() -> None:
    assert set(validation.RESERVED_METADATA_KEYS) <= run_requests.RESERVED_METADATA


(RUN,) = (source for source in sources("langgraph_api") if "class RunCreateDict(" in source)


def test_every_field_that_the_platform_hands_to_a_run_is_decided() -> None:
    (kwargs,) = (
        {key.value for key in node.args[2].keys if isinstance(key, ast.Constant)}
        for node in ast.walk(ast.parse(RUN))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Runs.put"
        and isinstance(node.args[2], ast.Dict)
    )
    assert kwargs == set(KWARGS)


def test_every_field_of_a_run_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
    section = page.partition("## Fields of a request that reach a run")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    decided = {field for row in rows for field in re.findall(r"`([^`]+)`", row)}
    declared = RUN.partition("class RunCreateDict(")[2].partition("\n\n\n")[0]
    asked = {*re.findall(r"^    ([a-z]\w*):", declared, re.MULTILINE)} | keys_of(RUN, "payload")
    for schema in ("RunCreateStateful", "RunCreateStateless"):
        asked |= set(validation.openapi["components"]["schemas"][schema]["properties"])
    assert len(asked) > 20
    assert asked - decided == {"config"}
    assert {f"config.{name}" for name in CONFIG} <= decided
