"""What bounds the calls of models and tools in every agent: time, tokens, retries, refusals.

The answer to a request comes through layers, each a method of `Bounds`, from the outermost to the
innermost: a refusal of the provider gets a sentence for people; refused media are left out; a call
that cannot be used is asked for once more, with advice; an answer that broke off is retried.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache, partial
from time import monotonic
from typing import cast

from langchain.agents.middleware import ModelRetryMiddleware
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.config import get_store
from langgraph.prebuilt.tool_node import ToolCallRequest

from lasting_memory.agent import checks
from lasting_memory.agent.answer_errors import AnswerError, BadAnswerError, CutAnswerError
from lasting_memory.agent.budget import TokenBudgetError, budget_refusal, count_tokens
from lasting_memory.agent.file_notes import FileNotes
from lasting_memory.agent.file_tools import ShownTools, with_known_arguments
from lasting_memory.agent.graph_parts import LimitedState
from lasting_memory.agent.omissions import OmissionNotes
from lasting_memory.agent.provider_errors import provider_error
from lasting_memory.agent.readable_messages import readable_messages
from lasting_memory.agent.route_files import StoreOverride
from lasting_memory.agent.sent_messages import (
    is_refused_request,
    requests_without_media,
    sent_messages,
    with_advice,
)
from lasting_memory.agent.tool_calls import ToolResult, allowed_tools, check_call
from lasting_memory.agent.visible_content import check_said
from lasting_memory.agent.whole_answers import whole_answers
from lasting_memory.deployment import Deployment
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Context
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.vouching import noting_shown_messages

logger = logging.getLogger(__name__)

# What answers a request: a model, or the middleware around it.
Handler = Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]]
# What executes a call of a tool.
ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolResult]]

# Before the first retry; each further one waits twice as long.
RETRY_DELAY_SECONDS = 1.0
# Runs whose begin a process knows: more than it can run at once.
_RUNS_KNOWN = 10_000


class RunTooLongError(RuntimeError):
    """A run took longer than its limit."""


class CalledByBounds(AgentMiddleware[AgentState[object], Context, object]):
    """A middleware whose `awrap_model_call` `Bounds` calls around its own.

    A middleware of its own would cost each call of the model half a millisecond. Where there are
    no `Bounds` it is one of its own.
    """

    trace_policy = SPANS_WITHOUT_PAYLOAD

    async def awrap_model_call(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request, as `handler` gives it. Subclasses do their own around it."""
        return await handler(request)


class Bounds(ModelRetryMiddleware[object, Context]):
    """Bounds around the calls of models and tools, innermost in every agent and subagent.

    - deepagents' own tools are shown with descriptions that are true here (`file_tools.py`).
    - What a provider refuses is a `ProviderError`, with a sentence for people.
    - An answer that broke off is retried. This is no middleware of its own, because each of them
      costs a turn half a millisecond.
    - An answer with a tool call that cannot be used is asked for once more, with the reason.
    - Media of a turn that the provider refuses are left out, then and later, and a note says so to
      the person.
    - An answer with neither text nor tool calls is an `EmptyAnswerError`. A consolidation may end
      so.
    - A person whose tokens of the day are used up gets no model call. A conversation gets the
      refusal as its answer. A consolidation fails with `TokenBudgetError`, and stays due.
    - Calls that take longer than `seconds`, counted from the run's first call, end the run with
      `RunTooLongError`. A subagent's calls count as part of the call that began it.
    - A tool call that would fail the run or block the process is refused; in a temporary
      conversation each of memory is, too.
    - An agent with other files than the deployment's, or a subagent without policies, is a
      `SettingsError`.
    - What is read of a file says which of its lines prompts leave out, or show apart.

    `drafts` gives the store of a consolidation's draft; None in a conversation. `outer_middleware`
    are called around the calls of models, the first outermost.
    """

    state_schema = LimitedState
    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(
        self,
        deployment: Deployment,
        seconds: float | None = None,
        *,
        drafts: StoreOverride | None = None,
        outer_middleware: Sequence[CalledByBounds] = (),
    ) -> None:
        super().__init__(
            max_retries=deployment.limits.model_retries,
            initial_delay=RETRY_DELAY_SECONDS,
            retry_on=(CutAnswerError,),
            on_failure="error",
        )
        self._deployment = deployment
        self._seconds = seconds
        self._consolidating = drafts is not None
        self._outer_middleware = tuple(outer_middleware)
        self._model_and_copy: tuple[BaseChatModel, BaseChatModel] | None = None
        self._files_are_checked = False
        self._shown_tools = ShownTools(deployment)
        self._file_notes = FileNotes(deployment, drafts)
        self._omission_notes = OmissionNotes(deployment)
        # The time of a run's first call, in the seconds of `monotonic`, by the run's id.
        self._first_call_at = lru_cache(maxsize=_RUNS_KNOWN)(lambda _: monotonic())

    async def awrap_model_call(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request, through the middleware that is called by bounds."""
        call: Handler = partial(self._answer, handler)
        for part in reversed(self._outer_middleware):
            call = partial(part.awrap_model_call, handler=call)
        return await call(request)

    async def _answer(
        self, handler: Handler, request: ModelRequest[Context]
    ) -> ModelResponse[object]:
        """The answer to a request, with all bounds. Raises what the class says."""
        if not self._files_are_checked:
            checks.check_files(request.tools)
            self._files_are_checked = True
        d = self._deployment
        store = get_store()
        caller = Caller.of_run(d, request.runtime)
        refusal = await budget_refusal(store, caller.actor, d)
        if refusal is not None:
            sentence, _ = refusal
            return self._budget_answer(sentence)
        async with self._within_time():
            sent_request = self._request_to_send(request)
            response = await self._explain_refusals(sent_request, handler)
        messages = [with_known_arguments(message, request.tools) for message in response.result]
        response = replace(response, result=messages)
        if d.settings.daily_tokens:
            await count_tokens(store, caller, response.result, request.messages)
        if not self._consolidating:
            last_message = response.result[-1]
            check_said(last_message)
        return response

    def _request_to_send(self, request: ModelRequest[Context]) -> ModelRequest[Context]:
        """A request for whole answers, with the messages and the tools that its model is shown."""
        tools = allowed_tools(request.tools)
        shown_tools = self._shown_tools.of(tools)
        return request.override(
            model=self._model_to_call(request.model),
            messages=self._messages_to_send(request),
            tools=shown_tools,
        )

    def _messages_to_send(self, request: ModelRequest[Context]) -> list[AnyMessage]:
        """The messages of a request that its model can read."""
        thread = request.state.get("messages") or []
        messages = sent_messages(request.messages, thread)
        return readable_messages(messages, type(request.model))

    def _budget_answer(self, refusal: str) -> ModelResponse[object]:
        """The refusal of the budget as an answer. Raises `TokenBudgetError` in a consolidation."""
        if self._consolidating:
            raise TokenBudgetError(refusal)
        return ModelResponse([AIMessage(refusal)])

    async def _explain_refusals(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request. Raises `ProviderError` for what its provider refuses."""
        try:
            return await self._answer_without_refused_media(request, handler)
        except Exception as error:
            explained_error = provider_error(error)
            if explained_error is None:
                raise
            raise explained_error from error

    async def _answer_without_refused_media(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request, or to the same one without media that the provider refuses.

        In the second case a note to the person comes before the answer.
        """
        try:
            return await self._answer_with_advice(request, handler)
        except Exception as error:
            if not is_refused_request(error):
                raise
            first_refusal = error
        for messages, note in requests_without_media(request.messages):
            smaller_request = request.override(messages=messages)
            try:
                response = await self._answer_with_advice(smaller_request, handler)
            except Exception as error:
                if not is_refused_request(error):
                    raise
                continue
            logger.warning(
                "A model's provider refused media in a conversation, which are left out from now on: %r",
                first_refusal,
            )
            return replace(response, result=[note, *response.result])
        raise first_refusal

    async def _answer_with_advice(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request. After a tool call that cannot be used the model is told why.

        Then it answers once more. Raises `BadAnswerError` if it cannot be told what to do, or if
        the second answer is no better.
        """
        try:
            return await self._answer_with_retries(request, handler)
        except BadAnswerError as error:
            if not error.advice:
                raise
            logger.warning("%s It is asked for once more.", error)
            messages = with_advice(request.messages, error.advice)
        request_with_advice = request.override(messages=messages)
        return await self._answer_with_retries(request_with_advice, handler)

    async def _answer_with_retries(
        self, request: ModelRequest[Context], handler: Handler
    ) -> ModelResponse[object]:
        """The answer to a request. One that broke off is retried, as langchain's middleware does."""

        async def call_and_count(attempt: ModelRequest[Context]) -> ModelResponse[object]:
            try:
                return await handler(attempt)
            except AnswerError as error:
                await self._count_unusable(attempt, error)
                raise

        response = await super().awrap_model_call(request, call_and_count)
        return cast("ModelResponse[object]", response)

    async def _count_unusable(self, request: ModelRequest[Context], error: AnswerError) -> None:
        """Adds the tokens of an answer that cannot be used: its provider has counted them, too."""
        answer = error.unusable_answer
        is_limited = bool(self._deployment.settings.daily_tokens)
        if answer is None or not is_limited:
            return
        caller = Caller.of_run(self._deployment, request.runtime)
        await count_tokens(get_store(), caller, [answer], request.messages)

    def _model_to_call(self, model: BaseChatModel) -> BaseChatModel:
        """A copy of a model with whole answers, and with the scope of memory in its calls' traces.

        It does not matter who gave the model: the deployment, a fork, a subagent, or another
        middleware for this call. The last copy is kept, because each makes clients of its own.
        """
        if self._model_and_copy is not None:
            original, copy = self._model_and_copy
            if original is model:
                return copy
        whole_model = whole_answers(model, self._deployment.limits)
        metadata = dict(whole_model.metadata or {})
        metadata["memory_scope"] = self._deployment.settings.memory_scope
        traced_model = whole_model.model_copy(update={"metadata": metadata})
        self._model_and_copy = (model, traced_model)
        return traced_model

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        """The result of a tool's call, with notes on the file that it names.

        A call that must not be made is a result with an error, which the model sees.
        """
        call = request.tool_call
        name = call["name"]
        args = call["args"]
        try:
            check_call(name, args)
        except RefusedWrite as error:
            return ToolMessage(
                f"Error: {error}", tool_call_id=call["id"], name=name, status="error"
            )
        if "subagent_type" in args:
            checks.check_subagent(request.tool, args["subagent_type"])
        async with self._within_time():
            with noting_shown_messages(_messages_of(request.state)):
                result = await handler(request)
            if not self._consolidating:
                result = await self._omission_notes.added(name, args, result)
            return await self._file_notes.added(name, args, result)

    @asynccontextmanager
    async def _within_time(self) -> AsyncIterator[None]:
        """Raises `RunTooLongError` when the seconds of the run are over."""
        try:
            async with asyncio.timeout(self._seconds_left()) as timeout:
                yield
        except TimeoutError as error:
            if timeout.expired():
                raise RunTooLongError(
                    f"The run took longer than {self._seconds:g} seconds."
                ) from error
            raise

    def _seconds_left(self) -> float | None:
        """Seconds that are left of the run; None without a limit, or without a run id."""
        run_id = identity.current_run_id()
        if not run_id or not self._seconds:
            return None
        end = self._first_call_at(run_id) + self._seconds
        return end - monotonic()


def _messages_of(state: object) -> Sequence[object]:
    """The messages in the state of the agent that calls a tool."""
    if isinstance(state, Mapping):
        return list(state.get("messages") or [])
    return list(getattr(state, "messages", None) or [])
