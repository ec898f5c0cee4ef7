"""The answer to one question, rebuilt by the question's form (`interrupt_forms.py`).

langchain reads answers about actions in two shapes: decisions, and responses. The fields of these
are kept, and no others. A reply is what an answer says about one of the actions.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, NotRequired, TypeVar

from langgraph_sdk import Auth
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from lasting_memory.auth.interrupt_forms import Request, form

HTTPException = Auth.exceptions.HTTPException


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


class _Reply(NamedTuple):
    """What an answer says about one action: its type, and the action that it edits, if it does."""

    kind: str
    edited_name: str | None


def rebuilt_answer(answer: object, question: object) -> object:
    """An answer with the fields of its question's form; as it is where langchain has no form for it.

    Raises `HTTPException` 422 for an answer of another form, or one that the question does not allow.
    """
    kind, requests = form(question)
    if kind == "value":
        return answer
    if kind == "decisions":
        return _rebuilt_decisions(answer, requests)
    if kind == "response" and not isinstance(answer, list):
        response = _rebuilt(_RESPONSE, answer)
        _check_replies([_reply_of(response)], requests)
        return {"args": None, **response}
    # Agent front ends send a list for one question, too.
    responses = _rebuilt(_RESPONSES, answer)
    _check_replies([_reply_of(response) for response in responses], requests)
    return [{"args": None, **response} for response in responses]


def _rebuilt_decisions(answer: object, requests: Sequence[Request]) -> _Decisions:
    """Decisions about these actions, rebuilt. Raises `HTTPException` 422 for another form, for
    another number than the actions, and for a decision that is not allowed.
    """
    decisions = _rebuilt(_DECISIONS, answer)
    replies = list[_Reply]()
    for decision in decisions["decisions"]:
        edited_name = None
        if decision["type"] == "edit":
            edited_name = decision["edited_action"]["name"]
        replies.append(_Reply(decision["type"], edited_name))
    _check_replies(replies, requests)
    return decisions


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
        if reply.kind not in request.allowed_kinds:
            allowed_kinds = ", ".join(request.allowed_kinds) or "none: ask an operator"
            raise HTTPException(
                422,
                f"command.resume answers {request.name[:100]!r} by {reply.kind!r}; allowed are: {allowed_kinds}.",
            )
        if reply.edited_name is not None and reply.edited_name != request.name:
            edited_name = reply.edited_name[:100]
            raise HTTPException(
                422,
                f"command.resume edits {edited_name!r}; the question is about {request.name[:100]!r}.",
            )


def _rebuilt(shape: TypeAdapter[_Shape], answer: object) -> _Shape:
    """An answer with the fields of this shape. Raises `HTTPException` 422 for another shape."""
    try:
        return shape.validate_python(answer, strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        problem = problems[0]
        parts = [str(part)[:100] for part in ("command.resume.<id>", *problem["loc"])]
        path = ".".join(parts)
        raise HTTPException(
            422, f"{path} is no answer to this question: {problem['msg'][:200]}."
        ) from None
