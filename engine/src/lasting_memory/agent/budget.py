"""A person's tokens of a day (`DAILY_TOKENS`): how many are used, and whether there are more.

Each run has an item of its own in the store, with the key `<day>/<run>-<process>` and its tokens:
no two processes write one item. The sum of a day's items is what the person used. A day is one of
UTC.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from functools import cache, lru_cache
from uuid import uuid4

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory.deployment import Deployment
from lasting_memory.memory.journal import all_items
from lasting_memory.people import namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor

# Runs whose tokens a process remembers: more than it can run at once.
_RUNS_KNOWN = 10_000
# With a run's id, the one writer of an item of tokens.
_PROCESS = uuid4().hex


logger = logging.getLogger(__name__)


class TokenBudgetError(RuntimeError):
    """A person's tokens of the day are used up."""


async def budget_refusal(
    store: BaseStore, actor: Actor, deployment: Deployment
) -> tuple[str, int] | None:
    """Why this person may make no further model call today, and the seconds until the next budget.

    None if they may, and where tokens are not limited. Items of earlier days are deleted.
    """
    budget = deployment.settings.daily_tokens
    if not budget:
        return None
    now = datetime.now(UTC)
    today = now.date()
    used_tokens = await _used_tokens(store, actor, today.isoformat())
    if used_tokens < budget:
        return None
    tomorrow = today + timedelta(days=1)
    renewal = datetime.combine(tomorrow, time.min, UTC)
    wait = renewal - now
    seconds = max(1, round(wait.total_seconds()))
    refusal = (
        f"Today's {budget:,} tokens are used up ({used_tokens:,}); "
        f"there are more from {renewal:%Y-%m-%dT%H:%MZ}."
    )
    return refusal, seconds


async def _used_tokens(store: BaseStore, actor: Actor, today: str) -> int:
    """A person's tokens of today, a day such as 2026-11-28. Deletes the items of earlier days."""
    namespace = namespaces.usage(actor)
    deletions = list[PutOp]()
    used_tokens = 0
    for item in await all_items(store, namespace):
        is_of_earlier_day = item.key < today
        if is_of_earlier_day:
            deletion = PutOp(item.namespace, item.key, None)
            deletions.append(deletion)
        else:
            used_tokens += _tokens_in(item)
    if deletions:
        await store.abatch(deletions)
    return used_tokens


def _tokens_in(item: Item) -> int:
    """The tokens of one run; 0 of an item that has no number of them."""
    tokens = item.value.get("tokens")
    return tokens if isinstance(tokens, int) else 0


@lru_cache(maxsize=_RUNS_KNOWN)
def _value_of(key: str) -> Counter[str]:
    """The value of the item with this key, as this process, which alone writes it, wrote it last.

    A new one is empty. The caller changes it in place.
    """
    return Counter()


def _estimated_tokens(messages: Sequence[BaseMessage]) -> int:
    """Roughly the tokens of messages. Says once that nothing better is known."""
    _warn_of_estimates()
    return count_tokens_approximately(messages)


@cache
def _warn_of_estimates() -> None:
    """Warns in the first of its calls only."""
    logger.warning(
        "The model's provider says no tokens of its answers: DAILY_TOKENS counts an estimate."
    )


async def count_tokens(
    store: BaseStore,
    caller: Caller,
    answer: Sequence[BaseMessage],
    sent_messages: Sequence[AnyMessage],
) -> None:
    """Adds the tokens of a model call to what the caller used today.

    They are those that the answer says; of a provider that says none an estimate by the characters
    of what was sent and answered.
    """
    today = datetime.now(UTC).date().isoformat()
    run = caller.run_id or uuid4()
    key = f"{today}/{run}-{_PROCESS}"
    tokens = 0
    for message in answer:
        usage = getattr(message, "usage_metadata", None) or {}
        tokens += usage.get("total_tokens", 0)
    if not tokens:
        tokens = _estimated_tokens([*sent_messages, *answer])
    value = _value_of(key)
    value["tokens"] += tokens
    namespace = namespaces.usage(caller.actor)
    await store.aput(namespace, key, dict(value), index=False)
