"""Interrupts of runs: what waits in a thread, and who may answer it.

A fork's own tool, or a node of its graph, asks the person whose conversation it is (`interrupt()`).
What `interrupt_on` names waits for an operator. Which of the two it is, the node says that raised
the interrupt: the value is data, which a hostile text can make look like the other kind.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from lasting_memory import checkpoints

# With this key in `config.configurable`, langgraph fails a run that answers an interrupt which is
# not pending. Without it the run ignores the answer and continues. With any other key than ids of
# interrupts it takes a whole resume as one answer to any.
STRICT_RESUME = "__pregel_strict_resume"

INTERRUPT_ID = re.compile("[0-9a-f]{32}")
# Nodes of middleware: `HumanInTheLoopMiddleware.after_model` is that of `interrupt_on`, also under
# another class's name.
_HOOK = re.compile(r"\.(?:before|after)_(?:agent|model)$")


class Pending(NamedTuple):
    """An interrupt that waits for an answer.

    `value` is the question, `schema` the JSON schema of answers, and `is_operators` says whether
    only an operator may answer.
    """

    id: str
    value: object
    schema: Mapping[str, object]
    is_operators: bool


async def pending(thread_id: str) -> tuple[str, list[Pending]]:
    """The id of a thread's latest checkpoint, and what waits there.

    The caller has seen to it that the thread may be read.
    """
    checkpoint_id, raised_interrupts = await checkpoints.pending_interrupts(thread_id)
    pending_interrupts = list[Pending]()
    for interrupt, node in raised_interrupts:
        schema = interrupt.response_schema
        if not isinstance(schema, Mapping):
            schema = {}
        # What cannot be proved to be the person's is an operator's, too.
        is_operators = not node or _HOOK.search(node) is not None
        pending_interrupt = Pending(interrupt.id, interrupt.value, schema, is_operators)
        pending_interrupts.append(pending_interrupt)
    return checkpoint_id, pending_interrupts
