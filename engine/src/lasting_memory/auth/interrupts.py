"""Interrupts of runs: what waits in a thread, who may answer it, and what an answer may be.

A fork's own tool, or a node of its graph, asks the person whose conversation it is (`interrupt()`).
What `interrupt_on` names waits for an operator. Which of the two it is, the node says that raised
the interrupt: the value is data, which a hostile text can make look like the other kind. An answer
is rebuilt by the shape of the question, where langchain has one for it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import orjson
from langgraph_sdk import Auth
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from lasting_memory import platform
from lasting_memory.validation import RefusedWrite, check_text

HTTPException = Auth.exceptions.HTTPException

# Bytes of a person's answer as JSON, and its levels of nesting.
MAX_ANSWER_BYTES, MAX_ANSWER_DEPTH = 100_000, 20
# Of what a person is shown of a question: characters of one text, items of one list or object,
# levels, and all characters. The complete value is in the thread's state.
_MOST_CHARS, _MOST_ITEMS, _MOST_LEVELS, _MOST_TEXT = 4_000, 50, 8, 20_000
# Characters of the name of an action or a field, and of a choice.
_MOST_NAME_CHARS = 200
# Larger numbers are not exact in a browser.
_EXACT = 2**53
# Actions of one question, and choices of one answer, that a form is made for.
_MOST_REQUESTS, _MOST_CHOICES = 20, 12
# The mark of what is left out.
_CUT = "…"

INTERRUPT_ID = re.compile("[0-9a-f]{32}")
# Nodes of middleware: `HumanInTheLoopMiddleware.after_model` is that of `interrupt_on`, also under
# another class's name.
_HOOK = re.compile(r"\.(?:before|after)_(?:agent|model)$")

OPERATORS = "Operators approve writes here: only they may answer the interrupt {}."

Kind = Literal["decisions", "responses", "response", "value"]


class Pending(NamedTuple):
    """An interrupt that waits for an answer: its id, its value, the JSON schema of answers, and
    whether it is an operator's.
    """

    id: str
    value: object
    schema: Mapping[str, Any]
    is_operators: bool


async def pending(thread_id: str) -> tuple[str, list[Pending]]:
    """The id of a thread's latest checkpoint, and what waits there. The caller has seen to it that
    the thread may be read.
    """
    checkpoint_id, found = await platform.pending_interrupts(thread_id)
    waiting = list[Pending]()
    for interrupt, node in found:
        schema = interrupt.response_schema if isinstance(interrupt.response_schema, Mapping) else {}
        is_operators = (
            not node or _HOOK.search(node) is not None
        )  # what cannot be proved is an operator's, too
        waiting.append(Pending(interrupt.id, interrupt.value, schema, is_operators))
    return checkpoint_id, waiting


# --- What an answer may be


def checked_answers(resume: object, waiting: Sequence[Pending]) -> dict[str, Any]:
    """A person's answers by the ids of the interrupts, rebuilt. Raises `HTTPException` for what is
    not theirs to answer.

    It reads all of the answers: call it outside of the event loop.
    """
    named = _named(resume, waiting)
    by_id = {interrupt.id: interrupt for interrupt in waiting}
    for interrupt_id in named:
        if interrupt_id not in by_id:
            raise HTTPException(
                409,
                f"The interrupt {interrupt_id} does not wait for an answer; read what does, and answer that.",
            )
        if by_id[interrupt_id].is_operators:
            raise HTTPException(403, OPERATORS.format(interrupt_id))
    return {
        interrupt_id: _checked_answer(answer, by_id[interrupt_id])
        for interrupt_id, answer in named.items()
    }


def _named(resume: object, waiting: Sequence[Pending]) -> dict[str, Any]:
    """Answers by the ids of interrupts. Without ids, the answer is to the only one that waits."""
    ids = (
        [key for key in resume if isinstance(key, str) and INTERRUPT_ID.fullmatch(key)]
        if isinstance(resume, Mapping)
        else []
    )
    if isinstance(resume, Mapping) and ids:
        if len(ids) < len(resume):
            raise HTTPException(
                422,
                "command.resume has other keys beside ids of interrupts; name each answer by its id alone.",
            )
        return dict(resume)
    if not waiting:
        raise HTTPException(
            409,
            "Nothing waits for an answer in this thread; send input in place of command.resume.",
        )
    if all(interrupt.is_operators for interrupt in waiting):
        raise HTTPException(403, OPERATORS.format(waiting[0].id))
    if len(waiting) > 1:
        raise HTTPException(
            422,
            f'{len(waiting)} interrupts wait here; name each in command.resume: {{"<id>": <answer>}}.',
        )
    return {waiting[0].id: resume}


class _Approve(TypedDict):
    type: Literal["approve"]


class _Reject(TypedDict):
    type: Literal["reject"]
    message: NotRequired[str]


class _Respond(TypedDict):
    type: Literal["respond"]
    message: str


class _Call(TypedDict):
    name: str
    args: dict[str, Any]


class _EditedCall(TypedDict):
    type: Literal["edit"]
    edited_action: _Call


class _Decisions(TypedDict):
    decisions: list[
        Annotated[_Approve | _Reject | _Respond | _EditedCall, Field(discriminator="type")]
    ]


class _Accept(TypedDict):
    type: Literal["accept", "ignore"]


class _Response(TypedDict):
    type: Literal["response"]
    args: str


class _Action(TypedDict):
    action: str
    args: dict[str, Any]


class _EditedAction(TypedDict):
    type: Literal["edit"]
    args: _Action


_DECISIONS = TypeAdapter[Any](_Decisions)
_RESPONSE = TypeAdapter[Any](
    Annotated[_Accept | _Response | _EditedAction, Field(discriminator="type")]
)
_RESPONSES = TypeAdapter[Any](
    list[Annotated[_Accept | _Response | _EditedAction, Field(discriminator="type")]]
)


class Request(NamedTuple):
    """An action that a question is about, and the types of answers that it allows."""

    name: str
    args: Mapping[str, Any]
    description: str
    may: tuple[str, ...]


def form(value: object) -> tuple[Kind, list[Request]]:
    """The kind of answer that a question takes: by langchain's `HITLRequest` or `HumanInterrupt`,
    or any value.
    """
    if requests := _hitl_requests(value):
        return "decisions", requests
    if request := _human_request(value):
        return "response", [request]
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_REQUESTS:
        return "value", []
    requests = [request for item in value if (request := _human_request(item))]
    return ("responses", requests) if len(requests) == len(value) else ("value", [])


def _hitl_requests(value: object) -> list[Request]:
    """The actions of a `HITLRequest` (`langchain.agents.middleware`); none of another value."""
    actions = value.get("action_requests") if isinstance(value, Mapping) else None
    configs = value.get("review_configs") if isinstance(value, Mapping) else None
    if (
        not isinstance(actions, list)
        or not isinstance(configs, list)
        or len(actions) > _MOST_REQUESTS
    ):
        return []
    allowed = dict[str, object]()
    for config in configs:
        if isinstance(config, Mapping) and isinstance(config.get("action_name"), str):
            allowed[config["action_name"]] = config.get("allowed_decisions")
    requests = list[Request]()
    for action in actions:
        name, args = (
            (action.get("name"), action.get("args"))
            if isinstance(action, Mapping)
            else (None, None)
        )
        decisions = allowed.get(name) if isinstance(name, str) else None
        if (
            not isinstance(name, str)
            or not isinstance(args, Mapping)
            or not isinstance(decisions, list)
        ):
            return []
        may = tuple(kind for kind in ("approve", "edit", "reject", "respond") if kind in decisions)
        requests.append(Request(name, args, _text(action.get("description")), may))
    return requests


_MAY = {
    "accept": "allow_accept",
    "edit": "allow_edit",
    "response": "allow_respond",
    "ignore": "allow_ignore",
}


def _human_request(value: object) -> Request | None:
    """The action of a `HumanInterrupt` (`langgraph.prebuilt.interrupt`); None of another value."""
    action = value.get("action_request") if isinstance(value, Mapping) else None
    config = value.get("config") if isinstance(value, Mapping) else None
    if (
        not isinstance(value, Mapping)
        or not isinstance(action, Mapping)
        or not isinstance(config, Mapping)
    ):
        return None
    name, args = action.get("action"), action.get("args")
    if not isinstance(name, str) or not isinstance(args, Mapping):
        return None
    may = tuple(kind for kind, key in _MAY.items() if config.get(key) is True)
    return Request(name, args, _text(value.get("description")), may)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _checked_answer(answer: object, interrupt: Pending) -> Any:
    """An answer within its bounds, with the fields of its shape and no others."""
    _check_bounds(answer)
    kind, requests = form(interrupt.value)
    if kind == "value":
        return answer
    if kind == "decisions":
        rebuilt = _rebuilt(_DECISIONS, answer)
        _check_each(
            [
                (one["type"], one.get("edited_action", {}).get("name"))
                for one in rebuilt["decisions"]
            ],
            requests,
        )
        return rebuilt
    if kind == "response" and not isinstance(answer, list):
        rebuilt = _rebuilt(_RESPONSE, answer)
        _check_each([_kind_and_action(rebuilt)], requests)
        return {"args": None, **rebuilt}
    rebuilt = _rebuilt(_RESPONSES, answer)  # agent front ends send a list for one question, too
    _check_each([_kind_and_action(one) for one in rebuilt], requests)
    return [{"args": None, **one} for one in rebuilt]


def _kind_and_action(response: Mapping[str, Any]) -> tuple[str, str | None]:
    return response["type"], response["args"]["action"] if response["type"] == "edit" else None


def _check_each(answers: Sequence[tuple[str, str | None]], requests: Sequence[Request]) -> None:
    """Raise `HTTPException` unless there is one answer to each request, of an allowed type, about
    the same action.
    """
    if len(answers) != len(requests):
        raise HTTPException(
            422,
            f"command.resume has {len(answers)} answers to {len(requests)} actions; send one for each.",
        )
    for (kind, name), request in zip(answers, requests, strict=True):
        if kind not in request.may:
            allowed = ", ".join(request.may) or "none: ask an operator"
            raise HTTPException(
                422,
                f"command.resume answers {request.name[:100]!r} by {kind!r}; allowed are: {allowed}.",
            )
        if name is not None and name != request.name:
            raise HTTPException(
                422,
                f"command.resume edits {name[:100]!r}; the question is about {request.name[:100]!r}.",
            )


def _rebuilt(shape: TypeAdapter[Any], answer: object) -> Any:
    try:
        return shape.validate_python(answer, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part)[:100] for part in ("command.resume.<id>", *first["loc"]))
        raise HTTPException(
            422, f"{path} is no answer to this question: {first['msg'][:200]}."
        ) from None


def _check_bounds(answer: object) -> None:
    """Raise `HTTPException` for an answer that is too large, too deep, or no JSON that a database
    keeps.
    """
    level, parts = 0, [answer]
    while parts:
        level += 1
        if level > MAX_ANSWER_DEPTH:
            raise HTTPException(
                422,
                f"command.resume has an answer of more than {MAX_ANSWER_DEPTH} levels; send a flatter one.",
            )
        inner = list[object]()
        for part in parts:
            if isinstance(part, Mapping):
                inner += part.values()
            elif isinstance(part, list):
                inner += part
        parts = inner
    try:
        size = len(orjson.dumps(answer))
        check_text(answer)
    except RefusedWrite as error:
        raise HTTPException(422, f"command.resume: {error}") from None
    except (TypeError, ValueError):
        raise HTTPException(
            422,
            "command.resume has an answer that is no JSON; send texts, numbers, lists and objects.",
        ) from None
    if size > MAX_ANSWER_BYTES:
        raise HTTPException(
            422,
            f"command.resume has an answer of {size:,} bytes; send {MAX_ANSWER_BYTES:,} at most.",
        )


# --- What a person is shown


def shown(interrupt: Pending) -> dict[str, Any]:
    """An interrupt as the page shows it: texts within bounds, and the kind of answer that it takes.
    It computes.
    """
    kind, requests = form(interrupt.value)
    about: dict[str, Any] = {
        "id": interrupt.id,
        "answered_by": "operator" if interrupt.is_operators else "person",
        "kind": kind,
    }
    about["requests"] = [_shown_request(request) for request in requests]
    about["text"] = "" if requests else _Bounded().text_of(interrupt.value)
    about["choices"] = _choices(interrupt.schema) if kind == "value" else []
    return about


def _shown_request(request: Request) -> dict[str, Any]:
    bounded = _Bounded()
    args = bounded.text_of(request.args)
    # Nobody edits what they see a part of: the rest would be lost.
    may = [kind for kind in request.may if kind != "edit" or not bounded.is_cut]
    description = _Bounded().text_of(request.description)
    return {
        "name": request.name[:_MOST_NAME_CHARS],
        "args": args,
        "description": description,
        "may": may,
    }


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    """The answers among which a question's schema lets choose; none where it takes others."""
    if schema.get("type") == "boolean":
        return [True, False]
    choices = schema.get("enum")
    if not isinstance(choices, list) or not 0 < len(choices) <= _MOST_CHOICES:
        return []
    is_short = all(
        isinstance(choice, str | int | float) and len(str(choice)) <= _MOST_NAME_CHARS
        for choice in choices
    )
    return choices if is_short else []


class _Bounded:
    """Turns any value into a text within bounds. `is_cut` says whether something of it was left
    out.
    """

    def __init__(self) -> None:
        self.is_cut = False

    def text_of(self, value: object) -> str:
        """A text as it is, and anything else as JSON."""
        part = self._part(value, _MOST_LEVELS)
        text = (
            part
            if isinstance(part, str)
            else orjson.dumps(part, option=orjson.OPT_INDENT_2).decode()
        )
        return self._cut(text, _MOST_TEXT)

    def _part(self, value: object, levels: int) -> object:
        if isinstance(value, BaseModel):
            value = dict(value)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if abs(value) < _EXACT else self._cut(hex(value), _MOST_NAME_CHARS)
        if isinstance(value, str):
            return self._cut(value, _MOST_CHARS)
        if levels and isinstance(value, Mapping):
            return self._object(value, levels - 1)
        if levels and isinstance(value, list | tuple | set | frozenset):
            return self._list(list(value), levels - 1)
        self.is_cut = True  # too deep, or no JSON
        return _CUT

    def _object(self, value: Mapping[Any, Any], levels: int) -> dict[str, object]:
        parts = {
            self._cut(str(key), _MOST_NAME_CHARS): self._part(of, levels)
            for key, of in list(value.items())[:_MOST_ITEMS]
        }
        if len(value) > _MOST_ITEMS:
            self.is_cut = True
            parts[_CUT] = _CUT
        return parts

    def _list(self, value: list[Any], levels: int) -> list[object]:
        parts = [self._part(of, levels) for of in value[:_MOST_ITEMS]]
        if len(value) > _MOST_ITEMS:
            self.is_cut = True
            parts.append(_CUT)
        return parts

    def _cut(self, text: str, most: int) -> str:
        text = text.encode(errors="replace").decode()  # half of a character is no JSON
        if len(text) <= most:
            return text
        self.is_cut = True
        return text[:most] + _CUT
