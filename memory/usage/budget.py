"""The budget `DAILY_TOKENS`: one person's tokens in a day (UTC). Without it nothing is counted.

It is checked before a run is created and before each model call, so only concurrent calls can exceed it. deepagents' own
summaries of very long conversations are not counted.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.config import get_store
from langgraph.store.base import BaseStore

from memory import identity, namespaces
from memory.usage.counts import count, counted
from settings import Settings

TOKENS = "tokens"


class TokenBudgetError(RuntimeError):
    """A person's tokens of the day are used up."""


def frees_at(now: datetime) -> datetime:
    """When the next day's budget begins."""
    return datetime.combine(now.date() + timedelta(days=1), time(), UTC)


async def budget_refusal(store: BaseStore, actor: identity.Actor, settings: Settings) -> tuple[str, int] | None:
    """The refusal of a further model call today, and the seconds until the next budget; None if the call is allowed."""
    if not settings.daily_tokens:
        return None
    now = datetime.now(UTC)
    used = (await counted(store, namespaces.usage(actor), now.date().isoformat()))[TOKENS]
    if used < settings.daily_tokens:
        return None
    frees = frees_at(now)
    said = f"Today's {settings.daily_tokens:,} tokens are used up ({used:,}); there are more from {frees:%Y-%m-%dT%H:%MZ}."
    return said, max(1, round((frees - now).total_seconds()))


class TokenBudget(AgentMiddleware[Any, Any, Any]):
    """Counts the tokens of model calls, and makes none for a person whose budget is spent.

    For every agent and subagent. A conversation gets the refusal as its answer; a consolidation fails, and stays due.
    """

    def __init__(self, settings: Settings, *, consolidating: bool = False) -> None:
        super().__init__()
        self._settings, self._consolidating = settings, consolidating

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        if not self._settings.daily_tokens:
            return await handler(request)
        store, actor = get_store(), identity.current_actor(self._settings, request.runtime)
        if refusal := await budget_refusal(store, actor, self._settings):
            if self._consolidating:
                raise TokenBudgetError(refusal[0])
            return ModelResponse([AIMessage(refusal[0])])
        response = await handler(request)
        took = sum((getattr(message, "usage_metadata", None) or {}).get("total_tokens", 0) for message in response.result)
        if took:
            today = datetime.now(UTC).date().isoformat()
            run_id = identity.current_run_id()
            await count(store, namespaces.usage(actor), today, {TOKENS: took}, keep=today, writer=run_id)
        return response
