"""What people use up: a day's tokens (`DAILY_TOKENS`) and the time of a run. `merged` makes one middleware of several."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache, reduce
from typing import Any
from uuid import uuid4

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.config import get_store
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.base import BaseStore, PutOp

from memory import identity, namespaces
from memory.journal import all_items
from settings import Settings

Handler = Callable[[Any], Awaitable[Any]]
Middleware = AgentMiddleware[Any, Any, Any]

# Runs of which a process knows what they took so far: more than it can run at once.
_RUNS_KNOWN = 10_000


class TokenBudgetError(RuntimeError):
    """A person's tokens of the day are used up."""


class RunTooLongError(RuntimeError):
    """A run took longer than its limit."""


# --- Tokens. Each model call has an item of its own, `<day>/<id>`: their sum is what a person used.


def next_day(now: datetime) -> datetime:
    """When the next day's budget begins, at midnight in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


async def budget_refusal(store: BaseStore, actor: identity.Actor, settings: Settings) -> tuple[str, int] | None:
    """Why this person may make no further model call today, and the seconds until the next budget; None if they may."""
    if not settings.daily_tokens:
        return None
    now = datetime.now(UTC)
    items, today = await all_items(store, namespaces.usage(actor)), now.date().isoformat()
    if earlier := [PutOp(item.namespace, item.key, None) for item in items if item.key < today]:
        await store.abatch(earlier)
    counts = [item.value.get("tokens") for item in items if item.key >= today]
    used = sum(tokens for tokens in counts if isinstance(tokens, int))
    if used < settings.daily_tokens:
        return None
    more = next_day(now)
    said = f"Today's {settings.daily_tokens:,} tokens are used up ({used:,}); there are more from {more:%Y-%m-%dT%H:%MZ}."
    return said, max(1, round((more - now).total_seconds()))


class TokenBudget(Middleware):
    """Counts the tokens of model calls, and makes none for a person whose budget is spent.

    A conversation gets the refusal as its answer; a consolidation fails with `TokenBudgetError`, and stays due.
    """

    def __init__(self, settings: Settings, *, consolidating: bool = False) -> None:
        super().__init__()
        self._settings, self._consolidating = settings, consolidating

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        if not self._settings.daily_tokens:
            response: ModelResponse[Any] = await handler(request)
            return response
        store, actor = get_store(), identity.current_actor(self._settings, request.runtime)
        if refusal := await budget_refusal(store, actor, self._settings):
            if self._consolidating:
                raise TokenBudgetError(refusal[0])
            return ModelResponse([AIMessage(refusal[0])])
        response = await handler(request)
        took = sum((getattr(message, "usage_metadata", None) or {}).get("total_tokens", 0) for message in response.result)
        key = f"{datetime.now(UTC).date().isoformat()}/{uuid4()}"
        await store.aput(namespaces.usage(actor), key, {"tokens": took}, index=False)
        return response


class RunBound(Middleware):
    """Ends a run whose calls of models and tools take longer than `seconds` from its first one on: `RunTooLongError`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._began = lru_cache(maxsize=_RUNS_KNOWN)(lambda _: time.monotonic())

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Any:
        async with self._bounded():
            return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Any:
        async with self._bounded():
            return await handler(request)

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        run_id = identity.current_run_id()
        left = self._began(run_id) + self._seconds - time.monotonic() if run_id else None
        try:
            async with asyncio.timeout(left) as bound:
                yield
        except TimeoutError as error:
            if bound.expired():
                raise RunTooLongError(f"The run took longer than {self._seconds:g} seconds.") from error
            raise


def merged(*parts: Middleware) -> Middleware:
    """One middleware for several that have nothing but hooks around model and tool calls, the first outermost.

    langchain traces each one's calls apart, with two hops to a thread and a task, traced or not.
    """
    return _Merged(parts)


class _Merged(Middleware):
    def __init__(self, parts: Sequence[Middleware]) -> None:
        super().__init__()
        self._models = [part.awrap_model_call for part in reversed(parts) if _has(part, "awrap_model_call")]
        self._tools = [part.awrap_tool_call for part in reversed(parts) if _has(part, "awrap_tool_call")]

    async def awrap_model_call(self, request: Any, handler: Handler) -> Any:
        return await reduce(_around, self._models, handler)(request)

    async def awrap_tool_call(self, request: Any, handler: Handler) -> Any:
        return await reduce(_around, self._tools, handler)(request)


def _has(part: Middleware, name: str) -> bool:
    return getattr(type(part), name) is not getattr(AgentMiddleware, name)


def _around(inner: Handler, hook: Callable[[Any, Any], Awaitable[Any]]) -> Handler:
    return lambda request: hook(request, inner)
