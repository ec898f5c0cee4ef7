"""Plans a consolidation some time after a person's last turn."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from lasting_memory.agent.answer_errors import NO_ANSWER
from lasting_memory.agent.bounds import CalledByBounds
from lasting_memory.agent.stack import Middleware
from lasting_memory.consolidation.owners import owner_for
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Context
from lasting_memory.platform import get_client

logger = logging.getLogger(__name__)

# Planning waits until the turn's checkpoint and answer are out.
_DELAY_SECONDS = 0.2


class IdleTrigger(CalledByBounds):
    """Plans a consolidation when a turn ends.

    For the main agent only, because subagents end no turn.
    """

    def __init__(self, deployment: Deployment, delay: float = _DELAY_SECONDS) -> None:
        super().__init__()
        self._deployment = deployment
        self._delay = delay
        self._planning_tasks: set[asyncio.Task[None]] = (
            set()
        )  # the event loop itself keeps no task alive

    async def awrap_model_call(
        self,
        request: ModelRequest[Context],
        handler: Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """Answer as `handler` does. A consolidation is planned if the answer ends the turn, or the
        model gave none.
        """
        try:
            response = await handler(request)
        except NO_ANSWER:
            # What the person said is due all the same, and it may be the last for a long time.
            self._plan_soon(request.runtime)
            raise
        if _ends_turn(request, response):
            self._plan_soon(request.runtime)
        return response

    def _plan_soon(self, runtime: Runtime[Context]) -> None:
        """Plan in the background, so that the turn neither waits nor fails."""
        task = asyncio.create_task(self._plan(runtime))
        self._planning_tasks.add(task)
        task.add_done_callback(self._planning_tasks.discard)

    async def _plan(self, runtime: Runtime[Context]) -> None:
        """Plan a consolidation for the run's owner. Logs an error instead of raising it."""
        store = runtime.store
        if store is None or not identity.on_server(runtime):
            return
        if in_temporary_conversation():
            return
        try:
            caller = Caller.of_run(self._deployment, runtime)
            owner = owner_for(caller, self._deployment)
            await asyncio.sleep(self._delay)
            writer = journal.writer_of_caller(caller)
            seconds = self._deployment.settings.consolidate_after_seconds
            await start(owner, get_client(), Trigger.IDLE, seconds, store=store, writer=writer)
        # Whatever the error is, the turn is done, and the next sweep finds the conversation.
        except Exception as error:
            logger.warning(
                "No consolidation could be planned after a turn: %r. The sweep does it.",
                error,
                exc_info=True,
            )


def _ends_turn(request: ModelRequest[Context], response: ModelResponse[object]) -> bool:
    """Whether an answer calls no tools, or only such whose result ends the turn (`return_direct`)."""
    ending_tools = set[str]()
    for tool in request.tools:
        if isinstance(tool, BaseTool) and tool.return_direct:
            ending_tools.add(tool.name)
    for message in response.result:
        for call in getattr(message, "tool_calls", ()):
            if call["name"] not in ending_tools:
                return False
    return True


def consolidated(d: Deployment) -> Middleware | None:
    """The middleware of an agent whose conversations become memory; None where nothing is to be
    consolidated after them.
    """
    is_off = d.consolidation is None or not d.settings.consolidate_after_seconds
    if is_off:
        return None
    if d.memory.is_shared:  # private conversations must not flow into shared memory
        return None
    return IdleTrigger(d)
