"""What a person's answers to interrupts may be: whose they are to give, and how large they are.

Each answer is rebuilt by the form of its question (`answer_forms.py`).
"""

from collections.abc import Mapping, Sequence

import orjson
from langgraph_sdk import Auth

from lasting_memory.auth.answer_forms import rebuilt_answer
from lasting_memory.auth.interrupts import INTERRUPT_ID, Pending
from lasting_memory.memory.validation import RefusedWrite, check_text

HTTPException = Auth.exceptions.HTTPException

# Bytes of a person's answer as JSON.
MAX_ANSWER_BYTES = 100_000
# Levels of nesting of a person's answer.
MAX_ANSWER_DEPTH = 20

OPERATORS = "Operators approve writes here: only they may answer the interrupt {}."


def checked_answers(resume: object, pending_interrupts: Sequence[Pending]) -> dict[str, object]:
    """A person's answers by the ids of the interrupts, rebuilt.

    `resume` is that of the request; the interrupts wait in the thread. Raises `HTTPException` 409
    for an interrupt that does not wait, 403 for one that is the operators', and 422 for an answer
    that is too large, of another form, or for none of several. Blocks.
    """
    answers = _answers_by_id(resume, pending_interrupts)
    interrupts = {interrupt.id: interrupt for interrupt in pending_interrupts}
    for interrupt_id in answers:
        if interrupt_id not in interrupts:
            raise HTTPException(
                409,
                f"The interrupt {interrupt_id} does not wait for an answer; read what does, and answer that.",
            )
        if interrupts[interrupt_id].is_operators:
            raise HTTPException(403, OPERATORS.format(interrupt_id))
    rebuilt_answers = dict[str, object]()
    for interrupt_id, answer in answers.items():
        _check_bounds(answer)
        question = interrupts[interrupt_id].value
        rebuilt_answers[interrupt_id] = rebuilt_answer(answer, question)
    return rebuilt_answers


def _answers_by_id(resume: object, pending_interrupts: Sequence[Pending]) -> dict[str, object]:
    """Answers by the ids of interrupts. Without ids, the answer is to the only one that waits."""
    if isinstance(resume, Mapping):
        ids = [key for key in resume if _is_interrupt_id(key)]
        if 0 < len(ids) < len(resume):
            raise HTTPException(
                422,
                "command.resume has other keys beside ids of interrupts; name each answer by its id alone.",
            )
        if ids:
            return dict(resume)
    if not pending_interrupts:
        raise HTTPException(
            409,
            "Nothing waits for an answer in this thread; send input in place of command.resume.",
        )
    if all(interrupt.is_operators for interrupt in pending_interrupts):
        raise HTTPException(403, OPERATORS.format(pending_interrupts[0].id))
    if len(pending_interrupts) > 1:
        raise HTTPException(
            422,
            f'{len(pending_interrupts)} interrupts wait here; name each in command.resume: {{"<id>": <answer>}}.',
        )
    return {pending_interrupts[0].id: resume}


def _is_interrupt_id(key: object) -> bool:
    """Whether this has the form of an interrupt's id."""
    if not isinstance(key, str):
        return False
    return INTERRUPT_ID.fullmatch(key) is not None


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
        inner_parts = list[object]()
        for part in parts:
            if isinstance(part, Mapping):
                inner_parts += part.values()
            elif isinstance(part, list):
                inner_parts += part
        parts = inner_parts
