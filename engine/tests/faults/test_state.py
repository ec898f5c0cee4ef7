"""State that a client sends, of whatever type: the request is refused before there is a run, or the
run goes well.
"""

import asyncio
import copy
import json
import uuid
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
from agent import build_agent
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from langgraph_sdk import Auth

from lasting_memory import Context, build_consolidation_agent
from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.state_input import check_state_write, rebuild_state
from lasting_memory.offline.model import OfflineModel
from lasting_memory.testing.contract import Scripted
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person

BUILDERS: dict[str, Any] = {"agent": build_agent, "consolidation_agent": build_consolidation_agent}
HELLO = {"role": "user", "content": "hello"}
# What the model does with the files that it finds.
USES = [
    [("ls", {"path": "/"}), ("grep", {"pattern": "a", "path": "/"})],
    [
        ("read_file", {"file_path": "/x"}),
        ("edit_file", {"file_path": "/x", "old_string": "a", "new_string": "b"}),
    ],
    [("write_file", {"file_path": "/x", "content": "x"}), ("ls", {"path": "/"})],
]
# Values of the fields that the graphs take, most of which failed a run before there was a rule for
# them.
NO_SKILLS: list[Any] = [7, True, [{}], [["a"]], {"__overwrite__": 7}]
NO_FILES: list[Any] = [
    7,
    "x",
    [],
    {"/x": 7},
    {"/x": {"content": 7}},
    {"/x": {}},
    {"__overwrite__": 7},
    {"role": []},
    {"type": {}},
]
NO_MESSAGES: list[Any] = [
    7, {}, [7], [None], [{"role": "user"}], [{"role": "x", "content": "x"}], [["human"]], {"__overwrite__": 7},
    [{**HELLO, "content": 7}], [{**HELLO, "id": [1]}], [{**HELLO, "name": 7}], [{**HELLO, "additional_kwargs": 7}],
    [{"type": "tool", "content": "x"}], [{"type": "ai", "content": "", "tool_calls": 7}],
]  # fmt: skip
ODD_CONTENTS: list[Any] = [
    [{"type": "text", "text": 5}], [{"type": "text", "text": None}], [{"type": "text"}], [{"type": "text", "text": ["x"]}],
    ["x", {"type": 5, "text": "x"}], [{"text": "x"}], [{}], [{"type": "text", "text": "x"}, 5], [None], {"type": "text"}, 5,
]  # fmt: skip
ODD_MESSAGES: list[Any] = [
    *({"role": "user", "content": content} for content in ODD_CONTENTS),
    *(["human", content] for content in ODD_CONTENTS),
    *({"role": "tool", "content": content, "tool_call_id": "1"} for content in ODD_CONTENTS),
    {"role": "tool", "content": "x", "tool_call_id": 5}, {**HELLO, "id": 5}, {**HELLO, "name": 5},
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
     "kwargs": {"content": [{"type": "text", "text": 5}]}},
]  # fmt: skip
NULLS: list[dict[str, Any]] = [
    {"messages": None},
    {"messages": [HELLO], "files": None},
    {"messages": [HELLO], "pinned_skills": None},
]
# Fields that deepagents or langchain know, and of which clients have no business to say anything.
OTHERS = [
    "skills_metadata",
    "memory_contents",
    "todos",
    "jump_to",
    "async_tasks",
    "structured_response",
    "remaining_steps",
    "x",
]
ODD: list[dict[str, Any]] = [
    *({"messages": [HELLO], "pinned_skills": value} for value in NO_SKILLS),
    *({"messages": [HELLO], "files": value} for value in NO_FILES),
    *({"messages": value} for value in NO_MESSAGES),
    *NULLS,
    *({"messages": [HELLO], name: [7]} for name in OTHERS),
]

NAMES = st.sampled_from(
    [
        "messages",
        "files",
        "pinned_skills",
        "skills_metadata",
        "jump_to",
        "_blob_payloads",
        "unknown",
    ]
)
KEYS = st.sampled_from(
    [
        "role",
        "type",
        "content",
        "id",
        "name",
        "tool_calls",
        "/x",
        "encoding",
        "modified_at",
        "__overwrite__",
    ]
)
TEXTS = st.sampled_from(["user", "ai", "tool", "remove", "hello", "letters", "utf-8", "/x", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@cache
def built(name: str) -> tuple[Any, Scripted]:
    model = Scripted(script=[], shown=[], tools={})
    return BUILDERS[name](deployed(), model), model


def taken(request: RunState) -> bool:
    """Whether the rule takes it. Otherwise it is refused with 422, in one line."""
    try:
        rebuild_state(request)
    except Auth.exceptions.HTTPException as refused:
        detail = str(refused.detail)
        if refused.status_code != 422 or "\n" in detail:
            pytest.fail(f"{refused.status_code}: {detail}")
        return False
    return True


async def run(name: str, request: RunState) -> None:
    """A run with this request and one after it, on a thread that has a conversation."""
    shared, model = built(name)
    graph = shared.copy()
    graph.store, graph.checkpointer = InMemoryStore(), InMemorySaver()
    config: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
    context = Context("alice", "acme")
    await graph.ainvoke({"messages": [HELLO]}, config, context=context)
    model.script[:] = [list(calls) for calls in USES]
    command = request.get("command")
    asked = Command(update=command["update"]) if command else request["input"]
    await graph.ainvoke(asked, config, context=context)
    model.script.clear()
    await graph.ainvoke({"messages": [HELLO]}, config, context=context)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("state", ODD, ids=lambda state: json.dumps(state)[:60])
async def test_odd_state_is_refused_or_fails_no_run(name: str, state: dict[str, Any]) -> None:
    requests: list[RunState] = [{"input": state}, {"command": {"update": state}}]
    for request in requests:
        given_state = copy.deepcopy(request)
        if taken(given_state):
            await run(name, given_state)


@pytest.mark.proof
@settings(max_examples=60, deadline=None)
@given(
    state=st.dictionaries(NAMES, VALUES, max_size=3) | VALUES,
    name=st.sampled_from(sorted(BUILDERS)),
)
def test_a_run_goes_well_with_any_state_that_is_taken(state: Any, name: str) -> None:
    request: RunState = {"input": state}
    if state is not None and taken(request):
        asyncio.run(run(name, request))


@pytest.mark.parametrize("message", ODD_MESSAGES, ids=lambda message: json.dumps(message)[:80])
def test_a_message_that_would_break_its_conversation_is_refused_with_its_number(
    message: Any,
) -> None:
    messages = [HELLO, message]
    requests: list[RunState] = [
        {"input": {"messages": messages}},
        {"command": {"update": {"messages": messages}}},
        {"command": {"update": [["messages", messages]]}},
    ]
    for request in requests:
        with pytest.raises(Auth.exceptions.HTTPException, match="number 1") as refused:
            rebuild_state(request)
        assert refused.value.status_code == 422


async def test_messages_with_other_blocks_pass() -> None:
    blocks = [
        "x",
        {"type": "text", "text": ""},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    calls = [{"name": "ls", "args": {}, "id": "1", "type": "tool_call"}]
    sent = [
        {**HELLO, "content": blocks, "id": None, "name": None},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": blocks[:2], "tool_call_id": "1"},
        HELLO,
    ]
    assert taken({"input": {"messages": sent}})
    await run("agent", {"input": {"messages": sent}})


@pytest.mark.parametrize("state", [{"messages": []}, {"messages": None}, {}], ids=repr)
async def test_the_offline_model_says_of_no_message_that_there_is_none(
    state: dict[str, Any],
) -> None:
    request: Any = {"input": state}
    assert taken(request)
    graph = build_agent(deployed(), OfflineModel())
    graph.store, graph.checkpointer = InMemoryStore(), InMemorySaver()
    for said in ([], ["Remember that I like dill"]):
        config: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
        for text in said:
            message = {"messages": [{"role": "user", "content": text}]}
            await graph.ainvoke(message, config, context=Context("alice", "acme"))
        answered = await graph.ainvoke(
            request["input"] or {"messages": []}, config, context=Context("alice", "acme")
        )
        assert answered["messages"][-1].text.startswith("You have said nothing new")


NO_UPDATES: list[Any] = [
    7,
    "x",
    [7],
    [["messages"]],
    [["messages", 7]],
    {"files": 7},
    {},
    [],
    {"files": None},
]


@pytest.mark.parametrize("update", NO_UPDATES, ids=repr)
def test_an_update_that_no_state_could_take_is_refused(update: Any) -> None:
    assert not taken({"command": {"update": update}})


def test_state_that_a_client_may_send_comes_through() -> None:
    files = {"/a.md": {"content": "a", "encoding": "utf-8"}, "/b.md": None}
    answer = {"type": "ai", "content": [{"type": "text", "text": "z"}]}
    sent = {"messages": [HELLO, ["human", "x"], "y", answer], "files": files}
    requests: list[RunState] = [
        {"input": {**sent, "own": None}},
        {"command": {"update": [["messages", sent["messages"]], ["own", 7]]}},
    ]
    for request in requests:
        before = copy.deepcopy(request)
        assert taken(request)
        assert request == before


@pytest.mark.server
async def test_no_run_of_a_server_fails_of_odd_state(server: DevServer, ada: Person) -> None:
    """By a run, a command's update and the thread's state: of each, what is refused is refused in a
    sentence.
    """
    thread = await ada.thread()
    await ada.turn(thread, "hello")
    requests = [
        {"input": state}
        for state in (*ODD[::3], {"messages": [{**HELLO, "content": ODD_CONTENTS[0]}]}, 7, [], "x")
    ]
    requests += [{"command": {"update": state}} for state in ODD[1::3]]
    for request in requests:
        answer = await ada.ask(
            "POST", f"/threads/{thread}/runs/wait", {"assistant_id": "agent", **request}
        )
        assert answer.status_code in {200, 422}, (request, answer.text)
        assert answer.status_code == 200 or answer.json()["detail"].startswith(
            ("input", "command.update")
        ), answer.text
        assert "__error__" not in answer.text, (request, answer.text)
    call = {"name": "agent", "arguments": {"messages": 7}}
    ada.raw.headers["accept"] = "application/json"
    answer = await ada.ask(
        "POST", "/mcp", {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": call}
    )
    assert (answer.status_code, answer.json()["detail"][:14]) == (422, "input.messages"), (
        answer.text
    )
    assert (await ada.turn(thread, "and go on"))["messages"][-1]["content"] == "ok"


@pytest.mark.parametrize(
    "state", [*ODD[:40:3], *({"messages": [HELLO, message]} for message in ODD_MESSAGES)], ids=repr
)
def test_a_write_of_state_is_held_to_the_rule_of_a_run_s_input(state: dict[str, Any]) -> None:
    """Fields that are null aside: an input drops them, a write has no reason for them."""
    if any(value is None for value in state.values()):
        return
    is_taken = taken({"input": copy.deepcopy(state)})
    for body in (
        {"values": state},
        {"values": [{}, state]},
        {"supersteps": [{"updates": [{"values": state, "as_node": "x"}]}]},
    ):
        with nullcontext() if is_taken else pytest.raises(Auth.exceptions.HTTPException):
            check_state_write(body)


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"values": None}, {"supersteps": 7}, {"supersteps": [7, {"updates": [7]}]}],
    ids=repr,
)
def test_a_request_that_writes_no_state_passes_to_the_platform(body: Any) -> None:
    check_state_write(body)


@pytest.mark.server
async def test_a_thread_s_state_takes_no_message_that_would_break_it(
    server: DevServer, ada: Person
) -> None:
    thread = await ada.thread()
    await ada.turn(thread, "hello")
    for message in ODD_MESSAGES[::5]:
        values = {"messages": [HELLO, message]}
        written = await ada.ask("POST", f"/threads/{thread}/state", {"values": values})
        steps = [{"updates": [{"values": values, "as_node": "__start__"}]}]
        made = await ada.ask(
            "POST", "/threads", {"metadata": {"graph_id": "agent"}, "supersteps": steps}
        )
        for answer in (written, made):
            assert answer.status_code == 422, answer.text
            assert "number 1" in answer.json()["detail"]
    noted = {"values": {"messages": [{**HELLO, "content": "noted"}]}}
    assert (await ada.ask("POST", f"/threads/{thread}/state", noted)).status_code == 200
    assert (await ada.turn(thread, "and go on"))["messages"][-1]["content"] == "ok"
