"""What people use up, and what bounds it: a day's tokens (`DAILY_TOKENS`), the time of a run, what
tools are given.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from time import monotonic
from typing import Any, cast
from uuid import uuid4

from langchain.agents.middleware import ModelRetryMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_store
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.base import BaseStore, PutOp

from lasting_memory.agent import checks, models
from lasting_memory.agent.answers import CutAnswerError, check_said
from lasting_memory.agent.sent_messages import (
    is_refused_request,
    requests_without_media,
    sent_messages,
)
from lasting_memory.controls import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.journal import all_items
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.validation import RefusedWrite, check_text

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Any]]

# Runs whose begin a process knows: more than it can run at once.
_RUNS_KNOWN = 10_000
# With a run's id, the one writer of an item of tokens.
_PROCESS = uuid4().hex
# Tools that temporary conversations do not have.
_REMEMBERING = {
    "append_memory",
    "save_profile",
    "search_memories",
    "search_past_conversations",
    "read_conversation",
}
# deepagents tries a pattern as a regular expression on every path. Each `**` multiplies the time by
# the path's depth, and the whole process waits. So bounded are characters; `**` and groups such as
# {md,txt}, together; commas in groups.
MAX_PATTERN_CHARS, MAX_MULTIPLIERS, MAX_COMMAS = 200, 2, 20


class TokenBudgetError(RuntimeError):
    """A person's tokens of the day are used up."""


class RunTooLongError(RuntimeError):
    """A run took longer than its limit."""


@lru_cache(maxsize=_RUNS_KNOWN)
def _taken(_: str) -> Counter[str]:
    """The tokens of one item so far."""
    return Counter()


async def budget_refusal(
    store: BaseStore, actor: identity.Actor, deployment: Deployment
) -> tuple[str, int] | None:
    """Why this person may make no further model call today, and the seconds until the next budget;
    None if they may.

    Each run has an item of its own, `<day>/<run>-<process>`: their sum is what a person used. Those
    of earlier days go.
    """
    if not deployment.settings.daily_tokens:
        return None
    now = datetime.now(UTC)
    items, today = await all_items(store, namespaces.usage(actor)), now.date().isoformat()
    if earlier := [PutOp(item.namespace, item.key, None) for item in items if item.key < today]:
        await store.abatch(earlier)
    counts = [item.value.get("tokens") for item in items if item.key >= today]
    used = sum(tokens for tokens in counts if isinstance(tokens, int))
    if used < deployment.settings.daily_tokens:
        return None
    more, budget = (
        datetime.combine(now.date() + timedelta(days=1), time.min, UTC),
        deployment.settings.daily_tokens,
    )
    said = f"Today's {budget:,} tokens are used up ({used:,}); there are more from {more:%Y-%m-%dT%H:%MZ}."
    return said, max(1, round((more - now).total_seconds()))


class Bounds(ModelRetryMiddleware):
    """Bounds around the calls of models and tools, innermost in every agent and subagent.

    - Another attempt after an answer that broke off. It is no middleware of its own: each costs a
      turn half a millisecond.
    - The media of a turn that the provider refuses stay out of what it gets, then and later, and a
      note says so to the person.
    - An answer with neither text nor tool calls is an `EmptyAnswerError`, but for a consolidation:
      that may end so.
    - No model call for a person whose tokens of the day are used up. A conversation gets the
      refusal as its answer; a
      consolidation fails with `TokenBudgetError`, and stays due.
    - Calls that take longer than `seconds` from the run's first one on end it: `RunTooLongError`. A
      subagent's count with the
      call that began it.
    - No tool call that would fail the run or block the process; in a temporary conversation none of
      memory.
    - No call of an agent on other files than the deployment's, nor of a subagent without policies:
      `SettingsError`.
    """

    state_schema = checks.LimitedState
    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(
        self, deployment: Deployment, seconds: float | None = None, *, consolidating: bool = False
    ) -> None:
        retries, delay = deployment.limits.model_retries, models.RETRY_DELAY_SECONDS
        cut = (CutAnswerError,)
        super().__init__(max_retries=retries, initial_delay=delay, retry_on=cut, on_failure="error")
        self._deployment, self._seconds, self._consolidating = deployment, seconds, consolidating
        self._model: tuple[BaseChatModel, BaseChatModel] | None = None
        self._is_checked = False
        self._began = lru_cache(maxsize=_RUNS_KNOWN)(lambda _: monotonic())

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any]:
        if not self._is_checked:
            checks.check_files(request.tools)
            self._is_checked = True
        caller = Caller.of_run(self._deployment, request.runtime)
        if refusal := await budget_refusal(get_store(), caller.actor, self._deployment):
            if self._consolidating:
                raise TokenBudgetError(refusal[0])
            return ModelResponse([AIMessage(refusal[0])])
        if in_temporary_conversation():
            tools = [
                tool for tool in request.tools if getattr(tool, "name", None) not in _REMEMBERING
            ]
            request = request.override(tools=tools)
        async with self._in_time():
            messages = sent_messages(request.messages, request.state.get("messages") or [])
            given = request.override(model=self._held(request.model), messages=messages)
            response = await self._answered(given, handler)
        if self._deployment.settings.daily_tokens:
            took = sum(
                (getattr(message, "usage_metadata", None) or {}).get("total_tokens", 0)
                for message in response.result
            )
            key = f"{datetime.now(UTC).date().isoformat()}/{caller.run_id or uuid4()}-{_PROCESS}"
            taken = _taken(key)
            taken["tokens"] += took
            await get_store().aput(namespaces.usage(caller.actor), key, dict(taken), index=False)
        if not self._consolidating:
            check_said(response.result[-1])
        return response

    async def _answered(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """The answer to a request, or to the same without the media for which the provider refuses
        it, with a note of that.
        """
        try:
            return cast("ModelResponse[Any]", await super().awrap_model_call(request, handler))
        except Exception as error:
            if not is_refused_request(error):
                raise
            refusal = error
        for messages, note in requests_without_media(request.messages):
            try:
                response = await super().awrap_model_call(
                    request.override(messages=messages), handler
                )
            except Exception as error:
                if not is_refused_request(error):
                    raise
                continue
            logger.warning(
                "A model's provider refused media in a conversation, which are left out from now on: %r",
                refusal,
            )
            return replace(
                cast("ModelResponse[Any]", response), result=[note, *cast("Any", response).result]
            )
        raise refusal

    def _held(self, model: BaseChatModel) -> BaseChatModel:
        """The model, held to whole answers, and naming the scope in the traces of its calls.

        Here it does not matter who gave it: the deployment, a fork, a subagent, or another
        middleware for this call.
        """
        if (
            self._model is None or self._model[0] is not model
        ):  # a copy makes clients of its own: not one for each call
            scope = {"memory_scope": self._deployment.settings.memory_scope}
            held = models.whole_answers(model, self._deployment.limits)
            self._model = (
                model,
                held.model_copy(update={"metadata": {**(held.metadata or {}), **scope}}),
            )
        return self._model[1]

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Any:
        call = request.tool_call
        try:
            check_call(call["name"], call["args"])
        except RefusedWrite as error:
            return ToolMessage(
                f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error"
            )
        if "subagent_type" in call["args"]:
            checks.check_subagent(request.tool, call["args"]["subagent_type"])
        async with self._in_time():
            return await handler(request)

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        run_id = identity.current_run_id()
        left = (
            self._began(run_id) + self._seconds - monotonic() if run_id and self._seconds else None
        )
        try:
            async with asyncio.timeout(left) as bound:
                yield
        except TimeoutError as error:
            if bound.expired():
                raise RunTooLongError(
                    f"The run took longer than {self._seconds:g} seconds."
                ) from error
            raise


def check_call(name: str, args: dict[str, Any]) -> None:
    """Raise `RefusedWrite` for a tool's call that must not be made."""
    check_text(args)
    if name in _REMEMBERING and in_temporary_conversation():
        raise RefusedWrite(
            "this is a temporary conversation, without memory and past conversations."
        )
    pattern = str({"glob": args.get("pattern"), "grep": args.get("glob")}.get(name) or "")
    multipliers = pattern.count("**") + pattern.count("{")
    if (
        multipliers > MAX_MULTIPLIERS
        or pattern.count(",") > MAX_COMMAS
        or len(pattern) > MAX_PATTERN_CHARS
        or ".." in pattern
    ):
        most = f"{MAX_PATTERN_CHARS} characters and {MAX_MULTIPLIERS} of ** and {{...}} together, and no '..'"
        raise RefusedWrite(
            f"the pattern {pattern[:80]!r} is too complex; use at most {most}, or ls."
        )
