"""Several middleware in one: langchain traces each one's calls apart, with two hops to a thread and a task, traced or not."""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware

_Part = AgentMiddleware[Any, Any, Any]
_Handler = Callable[[Any], Awaitable[Any]]
_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
_MORE = (*_HOOKS, *(f"a{hook}" for hook in _HOOKS), "state_schema")


class Combined(AgentMiddleware[Any, Any, Any]):
    """Middleware around model and tool calls, the first outermost. Raises `TypeError` for one that does anything else."""

    def __init__(self, *parts: _Part) -> None:
        super().__init__()
        for part in parts:
            if getattr(part, "tools", None) or any(_overrides(part, name) for name in _MORE):
                raise TypeError(
                    f"{part.name} has nodes, tools or state of its own; list it by itself in the agent's `middleware`."
                )
        self._around_models = [part.awrap_model_call for part in reversed(parts) if _overrides(part, "awrap_model_call")]
        self._around_tools = [part.awrap_tool_call for part in reversed(parts) if _overrides(part, "awrap_tool_call")]

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """A script called `invoke` or `stream`. Raises `NotImplementedError`: memory is asynchronous."""
        raise NotImplementedError("This graph is asynchronous; await agent.ainvoke(...), or iterate agent.astream(...).")

    async def awrap_model_call(self, request: Any, handler: _Handler) -> Any:
        for hook in self._around_models:
            handler = _around(handler, hook)
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: _Handler) -> Any:
        for hook in self._around_tools:
            handler = _around(handler, hook)
        return await handler(request)


def _around(handler: _Handler, hook: Callable[[Any, Any], Awaitable[Any]]) -> _Handler:
    return lambda request: hook(request, handler)


def _overrides(part: _Part, name: str) -> bool:
    return getattr(type(part), name) is not getattr(AgentMiddleware, name)
