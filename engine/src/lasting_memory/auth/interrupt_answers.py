"""What a person's answers to interrupts may be.

An answer is rebuilt by the form of the question, where langchain has one for it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, NotRequired, TypeVar

import orjson
from langgraph_sdk import Auth
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from lasting_memory.auth.interrupt_forms import Request, form
from lasting_memory.auth.interrupts import INTERRUPT_ID, Pending
from lasting_memory.memory.validation import RefusedWrite, check_text

HTTPException = Auth.exceptions.HTTPException

# Bytes of a person's answer as JSON.
MAX_ANSWER_BYTES = 100_000
# Levels of nesting of a person's answer.
MAX_ANSWER_DEPTH = 20

OPERATORS = "Operators approve writes here: only they may answer the interrupt {}."


def checked_answers(resume: object, waiting: Sequence[Pending]) -> dict[str, object]:
    """A person's answers by the ids of the interrupts, rebuilt.

    `resume` is that of the request, `waiting` what waits in the thread. Raises `HTTPException` for
    what is not theirs to answer. It reads all of the answers: call it outside of the event loop.
    """
    answers = _answers_by_id(resume, waiting)
    interrupts = {interrupt.id: interrupt for interrupt in waiting}
    for interrupt_id in answers:
        if interrupt_id not in interrupts:
            raise HTTPException(
                409,
                f"The interrupt {interrupt_id} does not wait for an answer; read what does, and answer that.",
            )
        if interrupts[interrupt_id].is_operators:
            raise HTTPException(403, OPERATORS.format(interrupt_id))
    rebuilt = dict[str, object]()
    for interrupt_id, answer in answers.items():
        rebuilt[interrupt_id] = _checked_answer(answer, interrupts[interrupt_id])
    return rebuilt


def _answers_by_id(resume: object, waiting: Sequence[Pending]) -> dict[str, object]:
    """Answers by the ids of interrupts. Without ids, the answer is to the only one that waits."""
    if isinstance(resume, Mapping):
        ids = [key for key in resume if isinstance(key, str) and INTERRUPT_ID.fullmatch(key)]
        if 0 < len(ids) < len(resume):
            raise HTTPException(
                422,
                "command.resume has other keys beside ids of interrupts; name each answer by its id alone.",
            )
        if ids:
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


# --- The shapes of answers that langchain reads


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
    args: dict[str, object]


class _EditedCall(TypedDict):
    type: Literal["edit"]
    edited_action: _Call


_Decision = Annotated[_Approve | _Reject | _Respond | _EditedCall, Field(discriminator="type")]


class _Decisions(TypedDict):
    decisions: list[_Decision]


class _Accept(TypedDict):
    type: Literal["accept", "ignore"]


class _TextResponse(TypedDict):
    type: Literal["response"]
    args: str


class _Action(TypedDict):
    action: str
    args: dict[str, object]


class _EditedAction(TypedDict):
    type: Literal["edit"]
    args: _Action


_Response = Annotated[_Accept | _TextResponse | _EditedAction, Field(discriminator="type")]

_DECISIONS = TypeAdapter(_Decisions)
_RESPONSE = TypeAdapter[_Response](_Response)
_RESPONSES = TypeAdapter(list[_Response])

_Shape = TypeVar("_Shape")


# --- Checks of one answer


class _Reply(NamedTuple):
    """What an answer says about one action: its type, and the action that it edits, if it does."""

    kind: str
    edited_name: str | None


def _checked_answer(answer: object, interrupt: Pending) -> object:
    """An answer within its bounds, with the fields of its form and no others."""
    _check_bounds(answer)
    kind, requests = form(interrupt.value)
    if kind == "value":
        return answer
    if kind == "decisions":
        return _checked_decisions(answer, requests)
    if kind == "response" and not isinstance(answer, list):
        response = _rebuilt(_RESPONSE, answer)
        _check_replies([_reply_of(response)], requests)
        return {"args": None, **response}
    # Agent front ends send a list for one question, too.
    responses = _rebuilt(_RESPONSES, answer)
    _check_replies([_reply_of(response) for response in responses], requests)
    return [{"args": None, **response} for response in responses]


def _checked_decisions(answer: object, requests: Sequence[Request]) -> _Decisions:
    """Decisions about these actions, rebuilt. Raises `HTTPException` 422 for another form, for
    another number than the actions, and for a decision that is not allowed.
    """
    rebuilt = _rebuilt(_DECISIONS, answer)
    replies = list[_Reply]()
    for decision in rebuilt["decisions"]:
        edited_name = None
        if decision["type"] == "edit":
            edited_name = decision["edited_action"]["name"]
        replies.append(_Reply(decision["type"], edited_name))
    _check_replies(replies, requests)
    return rebuilt


def _reply_of(response: _Response) -> _Reply:
    """What a response says about its action."""
    edited_name = None
    if response["type"] == "edit":
        edited_name = response["args"]["action"]
    return _Reply(response["type"], edited_name)


def _check_replies(replies: Sequence[_Reply], requests: Sequence[Request]) -> None:
    """Raise `HTTPException` unless there is one reply to each request.

    The reply is of an allowed type, and edits no other action.
    """
    if len(replies) != len(requests):
        raise HTTPException(
            422,
            f"command.resume has {len(replies)} answers to {len(requests)} actions; send one for each.",
        )
    for reply, request in zip(replies, requests, strict=True):
        if reply.kind not in request.allowed:
            allowed = ", ".join(request.allowed) or "none: ask an operator"
            raise HTTPException(
                422,
                f"command.resume answers {request.name[:100]!r} by {reply.kind!r}; allowed are: {allowed}.",
            )
        if reply.edited_name is not None and reply.edited_name != request.name:
            edited = f"{reply.edited_name[:100]!r}"
            raise HTTPException(
                422,
                f"command.resume edits {edited}; the question is about {request.name[:100]!r}.",
            )


def _rebuilt(shape: TypeAdapter[_Shape], answer: object) -> _Shape:
    """An answer with the fields of this shape. Raises `HTTPException` 422 for another shape."""
    try:
        return shape.validate_python(answer, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part)[:100] for part in ("command.resume.<id>", *problem["loc"]))
        raise HTTPException(
            422, f"{path} is no answer to this question: {problem['msg'][:200]}."
        ) from None


def _check_bounds(answer: object) -> None:
    """Raise `HTTPException` for an answer that is too large, or too deep.

    Also for one that is no JSON, or none that a database keeps.
    """
    _check_depth(answer)
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


def _check_depth(answer: object) -> None:
    """Raise `HTTPException` for an answer of too many levels. It looks at one level at a time."""
    level = 0
    parts = [answer]
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
