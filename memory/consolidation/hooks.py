"""What an agent does for consolidation: it finishes what a dead run left, and plans the next run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.config import get_store

from memory import identity, namespaces
from memory.blocks import PerRun
from memory.consolidation.acceptance import finish_accepted
from memory.consolidation.trigger import IdleTrigger
from memory.controls import in_temporary_conversation
from settings import Settings

logger = logging.getLogger(__name__)


def agent_hooks(settings: Settings) -> list[AgentMiddleware[Any, Any, Any]]:
    """The middleware of an agent whose conversations are consolidated."""
    # Private conversations must not flow into shared memory.
    plans = settings.consolidate_after_seconds and settings.memory_scope != "assistant"
    return [FinishesAccepted(settings), *([IdleTrigger(settings)] if plans else [])]


class FinishesAccepted(AgentMiddleware[Any, Any, Any]):
    """Completes the batch of a dead consolidation, once a run, before `PromptBlocks` reads memory."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings, self._finished = settings, PerRun(self._finish)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        await self._finished.get()
        return await handler(request)

    async def _finish(self) -> None:
        if in_temporary_conversation():
            return
        store, actor = get_store(), identity.current_actor(self._settings)
        files = namespaces.memories(actor, identity.current_assistant(), self._settings)
        try:
            await finish_accepted(store, actor, files)
        except Exception:  # a store raises what its driver raises, and the run goes on
            logger.exception("A consolidation could not be finished; memory may lack its changes until the next run.")
