"""Several middleware in one: the same as one after the other, without what langchain adds to each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from memory.usage import Combined
from tests.conftest import BuildGraph

Handler = Callable[[Any], Awaitable[Any]]


class Noted(AgentMiddleware[Any, Any, Any]):
    """Notes when a call begins and ends."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self._name, self._notes = name, notes

    @property
    def name(self) -> str:
        return self._name

    async def awrap_model_call(self, request: Any, handler: Handler) -> Any:
        return await self._noted("model", request, handler)

    async def awrap_tool_call(self, request: Any, handler: Handler) -> Any:
        return await self._noted("tool", request, handler)

    async def _noted(self, kind: str, request: Any, handler: Handler) -> Any:
        self._notes.append(f"{self._name} {kind}")
        result = await handler(request)
        self._notes.append(f"{kind} {self._name}")
        return result


class Talking(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_the_first_is_the_outermost_as_in_a_list() -> None:
    async def notes(combine: Callable[..., list[Any]]) -> list[str]:
        taken: list[str] = []
        calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
        middleware = combine(*(Noted(name, taken) for name in "abc"))
        model = Talking(messages=iter([calls, AIMessage("done")]))
        await create_agent(model, [look], middleware=middleware).ainvoke({"messages": [HumanMessage("hello")]})
        return taken

    together = await notes(lambda *parts: [Combined(*parts)])
    assert together == await notes(lambda *parts: list(parts))
    assert together[:6] == ["a model", "b model", "c model", "model c", "model b", "model a"]


class Ends(AgentMiddleware[Any, Any, Any]):
    async def aafter_agent(self, state: Any, runtime: Any) -> None: ...


@pytest.mark.parametrize("part", [Ends(), TodoListMiddleware()], ids=lambda part: part.name)
def test_what_would_be_lost_is_refused(part: AgentMiddleware[Any, Any, Any]) -> None:
    with pytest.raises(TypeError, match=rf"{part.name} has .*; list it by itself"):
        Combined(part)


def test_a_turn_has_no_nodes_but_deepagents_own(graph: BuildGraph) -> None:
    hooks = {name for name in graph().graph.nodes if "." in name}
    assert hooks == {"_ParentNotifierMiddleware.after_agent", "PatchToolCallsMiddleware.before_agent"}
