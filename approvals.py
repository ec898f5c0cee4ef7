"""What an approval approves: the interrupts that it names, as long as they are the ones that are pending.

A resume value without an interrupt's id answers whatever waits when the run executes. The owner of a thread can delete it and
make it again, with the same id and another pending write. The id of an interrupt is another one then: it is derived from the
checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import ThreadState

# Key of `config.configurable` by which langgraph fails a run that answers an interrupt which is not pending (any more). Without
# it the answer is ignored, and the run goes on with what is there.
STRICT_RESUME = "__pregel_strict_resume"
# Any other key makes langgraph take the whole map for one answer to whatever waits.
_INTERRUPT = re.compile("[0-9a-f]{32}")


async def check_approval(thread_id: object, kwargs: Mapping[str, Any]) -> None:
    """Refuse a resume that does not name the pending interrupts that it answers. The run itself checks the names once more.

    Args:
        thread_id: of the run.
        kwargs: of the run; its `command` resumes.

    Raises:
        Auth.exceptions.HTTPException: 422, it names none, or something else beside them; 409, one of them is not pending, or
            it goes back to an earlier checkpoint. The detail lists those that are pending.
    """
    state = await _state(thread_id)
    pending = sorted({str(interrupt["id"]) for interrupt in state["interrupts"]}) if state else []
    answered, configurable = kwargs["command"]["resume"], kwargs["config"]["configurable"]
    if not isinstance(answered, Mapping) or not answered or not all(_INTERRUPT.fullmatch(key) for key in answered):
        raise _refused(422, "The resume does not name the interrupts that it answers.", pending)
    if unknown := [key for key in answered if key not in pending]:
        raise _refused(409, f"The resume names {unknown[0]}, which is not pending.", pending)
    at = configurable.get("checkpoint_id")
    if at is not None and (state is None or str(at) != state["checkpoint"]["checkpoint_id"]):
        raise _refused(409, "The resume goes back to an earlier checkpoint; leave it out.", pending)
    configurable[STRICT_RESUME] = True


async def _state(thread_id: object) -> ThreadState | None:
    """The newest state of a thread that the caller may see; None if there is no such thread."""
    try:
        return await get_client().threads.get_state(str(thread_id)) if thread_id else None
    except NotFoundError:
        return None


def _refused(status: int, why: str, pending: list[str]) -> Auth.exceptions.HTTPException:
    if not pending:
        return Auth.exceptions.HTTPException(status_code=status, detail=f"{why} Nothing waits for an approval on this thread.")
    how = f'look at what waits, and send {{"resume": {{"<id>": {{"decisions": [...]}}}}}} with an id of {", ".join(pending)}.'
    return Auth.exceptions.HTTPException(status_code=status, detail=f"{why} With SHARED_WRITES=interrupt {how}")
