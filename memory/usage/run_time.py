"""The time that one run may take."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.prebuilt.tool_node import ToolCallRequest

from memory.identity import current_run_id

# Runs whose start time is kept: more than a server can run at once.
_RUNS_REMEMBERED = 10_000


class RunTooLongError(RuntimeError):
    """A run took longer than its limit."""


class RunBound(AgentMiddleware[Any, Any, Any]):
    """Ends a run whose calls of models and tools, subagents among them, take too long.

    The time begins with the first call in a process. Runs of scripts have no id, and no limit.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._began: OrderedDict[str, float] = OrderedDict()

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        async with self._bounded():
            return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        async with self._bounded():
            return await handler(request)

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        if (run_id := current_run_id()) is None:
            yield
            return
        left = self._began.setdefault(run_id, time.monotonic()) + self._seconds - time.monotonic()
        while len(self._began) > _RUNS_REMEMBERED:
            self._began.popitem(last=False)
        try:
            async with asyncio.timeout(left) as bound:
                yield
        except TimeoutError as error:
            if bound.expired():
                raise RunTooLongError(f"The run took longer than {self._seconds:g} seconds.") from error
            raise
