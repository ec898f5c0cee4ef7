"""What is done at the end of a run, whatever ends it: an error in any node, its own limits, a cancellation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from contextvars import Context, copy_context
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from memory import identity

# It gets the error that ended the run, or None.
Ending = Callable[[BaseException | None], Coroutine[Any, Any, None]]
# By run id, with the context to call it in.
_ENDINGS: dict[str, tuple[Ending, Context]] = {}


def at_end(ending: Ending) -> None:
    """Have this called when the current run of an `EndedGraph` ends."""
    _ENDINGS[identity.current_run_id() or ""] = ending, copy_context()


class EndedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose runs end as `at_end` says. Middleware would not do: no node runs after an error."""

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Run the graph. Everything that a server runs or streams it with calls this."""
        error: BaseException | None = None
        try:
            parts: Any = super().astream(input, config, **options)
            async with aclosing(parts):
                async for part in parts:
                    yield part
        except BaseException as raised:
            error = raised
            raise
        finally:
            run_id = str((config or {}).get("configurable", {}).get("run_id") or "")
            if known := _ENDINGS.pop(run_id, None):
                ending, context = known
                # A task of its own: whoever cancels the run once more does not cancel this.
                await asyncio.shield(asyncio.create_task(ending(error), context=context))
