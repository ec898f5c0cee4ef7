"""Temporary conversations have no tools for memory."""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from memory.controls.marks import in_temporary_conversation

_REMEMBERING = {"append_memory", "save_profile", "search_memories", "search_past_conversations", "read_conversation"}


class TemporaryTools(AgentMiddleware[Any, Any, Any]):
    """Removes the tools for memory and past conversations from temporary conversations, and refuses their calls."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        if in_temporary_conversation():
            tools = [tool for tool in request.tools if getattr(tool, "name", None) not in _REMEMBERING]
            request = request.override(tools=tools)
        return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        call = request.tool_call
        if call["name"] in _REMEMBERING and in_temporary_conversation():
            text = "Error: this is a temporary conversation, without memory and past conversations."
            return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
        return await handler(request)
