"""What an answer to a question may be, and what of a question is shown."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from langgraph_sdk import Auth

from lasting_memory.auth.interrupt_answers import (
    MAX_ANSWER_BYTES,
    MAX_ANSWER_DEPTH,
    checked_answers,
)
from lasting_memory.auth.interrupt_display import shown
from lasting_memory.auth.interrupts import Pending
from tests.auth.questions import HITL, HUMAN

ID = "0123456789abcdef" * 2


def answered(answer: Any, value: Any = "a question") -> Any:
    return checked_answers({ID: answer}, [Pending(ID, value, {}, is_operators=False)])[ID]


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"__proto__": [value]}
    return value


FREE = [
    "text",
    "",
    0,
    1.5,
    True,
    [],
    {},
    {"a": [1, {"b": None}]},
    {"__proto__": {"polluted": True}},
    "<img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("answer", FREE, ids=str)
def test_any_json_answers_a_question_of_no_known_shape(answer: Any) -> None:
    assert answered(answer) == answer


BIG = "x" * (MAX_ANSWER_BYTES + 1)
HUMAN_NO = {**HUMAN, "config": {}}


def edit(name: str = "write_file", **args: Any) -> dict[str, Any]:
    return {"decisions": [{"type": "edit", "edited_action": {"name": name, "args": args}}]}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("a question", BIG),
        ("a question", {BIG: 1}),
        ("a question", nested(MAX_ANSWER_DEPTH)),
        ("a question", nested(5_000)),
        ("a question", "\x00"),
        ("a question", "\ud800"),
        ("a question", {"\x00": 1}),
        ("a question", 10**30),
        (HITL, "yes"),
        (HITL, {}),
        (HITL, {"decisions": []}),
        (HITL, {"decisions": [{"type": "approve"}] * 2}),
        (HITL, {"decisions": [{"type": "respond", "message": "no"}]}),
        (HITL, {"decisions": [{"type": "reject", "message": {}}]}),
        (HITL, {"decisions": ["approve"]}),
        (HITL, edit("delete")),
        (
            HITL,
            {"decisions": [{"type": "edit", "edited_action": {"name": "write_file", "args": []}}]},
        ),
        (HUMAN, {"type": "ignore"}),
        (HUMAN, {"type": "response", "args": {}}),
        (HUMAN, {"type": "edit", "args": {"action": "steal", "args": {}}}),
        (HUMAN_NO, {"type": "accept"}),
        ([HUMAN, HUMAN], [{"type": "accept"}]),
        ([HUMAN], {"type": "accept"}),
    ],
)
def test_an_answer_of_another_shape_or_beyond_its_bounds_is_refused_in_one_line(
    value: Any, answer: Any
) -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        answered(answer, value)
    assert refused.value.status_code == 422
    assert "\n" not in refused.value.detail
    assert len(refused.value.detail) < 500


@pytest.mark.parametrize(
    ("value", "answer", "rebuilt"),
    [
        (HITL, {"decisions": [{"type": "approve", "more": 1}], "also": 2}, {"decisions": [{"type": "approve"}]}),
        (HITL, {"decisions": [{"type": "reject"}]}, {"decisions": [{"type": "reject"}]}),
        (HITL, edit(file_path="/y"), edit(file_path="/y")),
        (HUMAN, {"type": "accept", "args": {"action": "steal"}}, {"type": "accept", "args": None}),
        (HUMAN, [{"type": "response", "args": "later", "x": 1}], [{"type": "response", "args": "later"}]),
        ([HUMAN], [{"type": "edit", "args": {"action": "pay", "args": {"euros": 4}, "x": 1}}],
         [{"type": "edit", "args": {"action": "pay", "args": {"euros": 4}}}]),
    ],
    ids=str,
)  # fmt: skip
def test_an_answer_to_a_known_shape_is_rebuilt_from_its_fields(
    value: Any, answer: Any, rebuilt: Any
) -> None:
    assert answered(answer, value) == rebuilt


HOSTILE = [nested(300), "x" * 1_000_000, {"k": ["y" * 10_000] * 1_000}, {f"key {n}": n for n in range(100_000)}, object(),
           b"\xff", "\ud800", float("nan"), 10**400, {1: {2: 3}}, [{**HUMAN, "description": nested(50)}],
           {**HITL, "review_configs": [{"action_name": [], "allowed_decisions": {}}]},
           {"action_requests": [[]], "review_configs": [[]]}]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_an_interrupt_s_value_of_any_type_is_shown_as_a_bounded_text(value: Any) -> None:
    about = shown(Pending(ID, value, {"enum": ["z" * 10_000]}, is_operators=False))
    text = json.dumps(about)
    assert len(text) < 200_000
    assert about["choices"] == []


def test_arguments_that_are_shown_in_part_cannot_be_edited() -> None:
    value: Mapping[str, Any] = {
        **HUMAN,
        "action_request": {"action": "pay", "args": {"text": "x" * 10_000}},
    }
    (request,) = shown(Pending(ID, value, {}, is_operators=False))["requests"]
    assert request["may"] == ["accept", "response"]
