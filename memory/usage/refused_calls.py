"""A model that repeats a call which is refused each time: without an end it would make thousands of calls."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

# Model calls in a row that make the same call, with the same refusal, until the run ends.
_TIMES = 3
_STOPPED = "I stopped, because"
_SHOWN_CHARS = 1_000


class RefusedCalls(AgentMiddleware[Any, Any, Any]):
    """Ends the run of an agent or subagent with a message that names the call and its refusal."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        if repeated := repeated_refusal(request.messages):
            return ModelResponse([AIMessage(f"{_STOPPED} {repeated}")])
        return await handler(request)


def repeated_refusal(messages: Sequence[AnyMessage]) -> str:
    """Which call the model's last steps since the last human message all made, and why it was refused each time; or ""."""
    steps: list[list[tuple[str, dict[str, Any], str]]] = []
    refusals: dict[str | None, str] = {}
    for message in takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages)):
        if isinstance(message, ToolMessage) and (message.status == "error" or message.text.startswith(("Error", _STOPPED))):
            refusals[message.tool_call_id] = message.text
        elif isinstance(message, AIMessage):
            calls = [call for call in message.tool_calls if call["id"] in refusals]
            steps.append([(call["name"], call["args"], refusals[call["id"]]) for call in calls])
            if len(steps) == _TIMES:
                break
    same = [call for call in steps[0] if all(call in step for step in steps)] if len(steps) == _TIMES else []
    return f"{same[0][0]} was refused three times in a row: {same[0][2][:_SHOWN_CHARS]}" if same else ""
