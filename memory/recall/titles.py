"""A conversation's title: its first message, in the thread's metadata, so that lists of threads are read without messages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph_sdk import get_client
from langgraph_sdk.errors import LangGraphError

from memory import identity

logger = logging.getLogger(__name__)

# Key of a thread's metadata. Its owner may change it: `PATCH /threads/{id}` with `{"metadata": {"title": ...}}`.
TITLE = "title"
MAX_TITLE_CHARS = 80
# Characters of a message that a title is made of, and seconds that it may delay a turn.
_READ_CHARS = 1_000
_WAIT_SECONDS = 2.0


class Titles(AgentMiddleware[Any, Any, Any]):
    """Gives a thread without a title one while the model begins its first turn, which so takes no longer. It acts as the run's
    user, on their threads only.
    """

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        messages = request.state["messages"]
        if messages and isinstance(messages[-1], ToolMessage):  # not the first call of a turn
            return await handler(request)
        titling = asyncio.create_task(self._title(messages, request.runtime))
        try:
            return await handler(request)
        finally:
            await titling

    async def _title(self, messages: Sequence[AnyMessage], runtime: Runtime[Any]) -> None:
        said = next((message for message in messages if isinstance(message, HumanMessage)), None)
        config, title = get_config(), title_of(said) if said else ""
        thread_id = config.get("configurable", {}).get("thread_id")
        # A run's metadata holds that of its thread.
        if not thread_id or not title or not identity.on_server(runtime) or config.get("metadata", {}).get(TITLE):
            return
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await get_client().threads.update(str(thread_id), metadata={TITLE: title})
        except (LangGraphError, httpx.HTTPError, TimeoutError) as error:  # the turn goes on without
            logger.warning("Thread %s got no title: %r.", thread_id, error)


def title_of(message: BaseMessage) -> str:
    """The beginning of a message's text in one line of at most `MAX_TITLE_CHARS`; empty without text."""
    words = "".join(c if c.isprintable() else " " for c in str(message.text)[:_READ_CHARS]).split()
    line = " ".join(words)
    if len(line) <= MAX_TITLE_CHARS:
        return line
    cut = line[: MAX_TITLE_CHARS - 1]
    whole = cut.rpartition(" ")[0]
    return f"{whole if len(whole) > MAX_TITLE_CHARS // 2 else cut}…"
