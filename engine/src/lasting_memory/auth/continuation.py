"""What a person's run may go on with in a thread: answers to what waits there, and begun calls.

A begun call is a tool call that an operator approved and that a run began to make: it may be done.
"""

from collections.abc import Mapping, MutableMapping

from langgraph_sdk import Auth
from langgraph_sdk.schema import Thread

from lasting_memory import checkpoints, platform
from lasting_memory.auth import interrupt_answers, interrupts
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.handler_values import RunKwargs, checkpoint_of, configurable_of

HTTPException = Auth.exceptions.HTTPException

# Where in a thread's history a run begins.
_CHECKPOINT = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_REPEATED = (
    "Operators approve calls of tools here: only they may have calls made that were begun before; "
    "send input, or go back to before the model's answer."
)


async def check_continuation(
    approvals: Approvals,
    thread: Thread | None,
    kwargs: RunKwargs,
    *,
    resumes: bool,
) -> None:
    """Raise `HTTPException` for what a person's run may not go on with in its thread.

    It may not answer what is not theirs, nor make an approved call once more. `resumes` says
    whether the request has answers (`command.resume`). They are rebuilt in `kwargs`.
    """
    if resumes:
        await _check_answers(approvals, thread, kwargs)
    goes_on = resumes or kwargs.get("input") is None
    if thread and goes_on and approvals.exist:
        await _check_repeated(approvals, thread, kwargs)


async def _check_answers(approvals: Approvals, thread: Thread | None, kwargs: RunKwargs) -> None:
    """Rebuild a person's answers to what waits in their thread: each by the id of its interrupt.

    The run takes these ids or fails. Whatever happens meanwhile, it answers what was looked at
    here.
    """
    if thread is None:
        approvals.check_state_write()
        raise HTTPException(
            404, "There is no such thread of yours in which something waits for an answer."
        )
    configurable = configurable_of(kwargs["config"])
    thread_id = str(thread["thread_id"])
    checkpoint_id, pending_interrupts = await interrupts.pending(thread_id)
    is_latest = checkpoint_of(configurable) in (None, checkpoint_id)
    if not is_latest or configurable.get("checkpoint_ns"):
        raise HTTPException(
            409,
            "The thread has gone on since this checkpoint; answer what waits in its latest state.",
        )
    _drop_checkpoint(configurable)
    command = kwargs.get("command") or {}  # which has answers, so it is not empty
    command["resume"] = await platform.in_thread(
        interrupt_answers.checked_answers, command["resume"], pending_interrupts
    )
    configurable[interrupts.STRICT_RESUME] = True


async def _check_repeated(approvals: Approvals, thread: Thread, kwargs: RunKwargs) -> None:
    """Raise `HTTPException` 403 if a person's run would make a call that was approved and begun.

    The call may be done already. It is at an earlier checkpoint, or at the latest of a run that was
    stopped, or that was copied meanwhile.
    """
    configurable = configurable_of(kwargs["config"])
    checkpoint_map = configurable.get("checkpoint_map")
    is_in_subagent = isinstance(checkpoint_map, Mapping) and any(checkpoint_map)
    if configurable.get("checkpoint_ns") or is_in_subagent:
        raise HTTPException(403, _REPEATED)
    calls, is_latest = await checkpoints.calls_to_make(
        str(thread["thread_id"]), checkpoint_of(configurable)
    )
    if approvals.concern(calls):
        raise HTTPException(403, _REPEATED)
    if is_latest:
        _drop_checkpoint(configurable)


def _drop_checkpoint(configurable: MutableMapping[str, object]) -> None:
    """Take the name of the latest checkpoint out of a run's config: it goes on there anyway."""
    for name in _CHECKPOINT:
        configurable.pop(name, None)
