"""The chat model that the settings name, with complete answers in bounded time.

An integration takes any stream that ends as a complete answer, tool calls included. Here an answer must end as its provider's
protocol ends. Another one is retried, and then fails the run: its tool calls are never executed, and no message is stored.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from dataclasses import replace
from importlib import import_module
from typing import Any

import orjson
from langchain.chat_models import init_chat_model
from langchain_core.exceptions import ModelConnectionError, ModelError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ValidationError
from pydantic_core import from_json

from lasting_memory.agent.offline_model import OfflineModel
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.settings import SettingsError, adopt_local_environ

# By package: the keys under which a chunk has the reason why the answer ended, and the reasons that mean complete tool calls.
# After another reason, such as a token limit, the last tool call may be cut. A text is kept, with the reason in its metadata.
ENDINGS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "langchain_anthropic": (("stop_reason",), frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn"})),
    "langchain_openai": (("finish_reason", "status"), frozenset({"stop", "tool_calls", "function_call", "completed"})),
    "langchain_google_genai": (("finish_reason",), frozenset({"STOP"})),
    "langchain_ollama": (("done_reason",), frozenset({"stop"})),
}
# Of one answer with its calls, which some integrations repeat in the content: a stream without an end would fill the memory.
MAX_ANSWER_CHARS = 2_000_000
# Before the first retry; each further one waits twice as long.
RETRY_DELAY_SECONDS = 1.0


# Each is a `RuntimeError`, too: of these the platform shows people the message.
class CutAnswerError(ModelConnectionError, RuntimeError):
    """An answer broke off. The same call may succeed."""


class BadAnswerError(ModelError, RuntimeError):
    """An answer is too long, or a tool call of it is cut, e.g. at a token limit, or of no use. A retry would not help."""


class SilentModelError(ModelTimeoutError, RuntimeError):
    """A model sent nothing for too long. There is no automatic retry: the person has waited long enough to decide."""

    is_retryable = False


def build_model(d: Deployment, *, consolidating: bool = False) -> BaseChatModel:
    """The chat model that `AGENT_MODEL` names, or, `consolidating`, `CONSOLIDATION_MODEL`; its answers are whole and in time.

    Without a name it is the offline one, on `langgraph dev`. Raises `SettingsError` if there is no model, the provider is
    unknown, or its package or key is missing.
    """
    name, variable = d.settings.agent_model, "AGENT_MODEL"
    if consolidating and d.settings.consolidation_model:
        name, variable = d.settings.consolidation_model, "CONSOLIDATION_MODEL"
    if name is None and d.offline_model and d.settings.local_dev:
        return whole_answers(OfflineModel(), d.limits)
    fix = "use provider:model, e.g. anthropic:claude-sonnet-4-6, with the provider's key in .env."
    if name is None:
        raise SettingsError(f"{variable} is empty; {fix}")
    try:
        return whole_answers(init_chat_model(name), d.limits)
    except Exception as error:  # noqa: BLE001  # a provider's client raises any error if its key is missing
        reason = " ".join(str(error.errors()[0]["msg"] if isinstance(error, ValidationError) else error).split())[:200]
        if isinstance(error, ImportError):
            extra = name.partition(":")[0]
            fix = f"install it (make install EXTRA={extra}), and for a deployment name it in dependencies of pyproject.toml."
        raise SettingsError(f"{variable} is {name!r}, which cannot be used: {reason.rstrip('.')}; {fix}") from None


def whole_answers(model: BaseChatModel, limits: Limits) -> BaseChatModel:
    """Wraps a model: an asynchronous answer that breaks off raises `CutAnswerError`, or another of the errors above.

    Every call streams, to tell silence from a long answer. A model that does not stream is returned as it is: `Bounds` limits
    its calls. So is a wrapped one.
    """
    kind = type(model)
    if "_astream" in vars(model):
        return model
    streams = kind._astream is not BaseChatModel._astream or kind._stream is not BaseChatModel._stream  # noqa: SLF001
    if not streams or model.disable_streaming is True:
        return model
    packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
    keys, whole = next((ENDINGS[package] for package in packages if package in ENDINGS), ((), frozenset[str]()))
    copy = model.model_copy()
    streamed = copy._astream  # noqa: SLF001  # what an integration implements

    async def astream(
        messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        began, reason, calls, chars = False, "", defaultdict[object, str](str), 0
        async with aclosing(streamed(messages, stop, run_manager, **kwargs)) as chunks:  # type: ignore[type-var]
            while chunk := await _following(chunks, limits.model_silence_seconds, began=began):
                began, message = True, chunk.message
                ending = {**(chunk.generation_info or {}), **message.response_metadata}
                reason = next((str(ending[key]) for key in keys if ending.get(key)), "" if message.content else reason)
                for call in message.tool_call_chunks if isinstance(message, AIMessageChunk) else ():
                    calls[len(calls) if call["index"] is None else (call["index"],)] += call["args"] or ""
                    chars += len(call["args"] or "")
                if (chars := chars + len(str(message.content))) > MAX_ANSWER_CHARS:
                    raise BadAnswerError(f"The model's answer has more than {MAX_ANSWER_CHARS:,} characters.")
                yield chunk
                await asyncio.sleep(0)  # buffered chunks must not block other tasks
        _check_end(keys, whole, reason, calls.values())

    async def agenerate(
        messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        result = await agenerate_from_stream(astream(messages, stop, run_manager, **kwargs))
        match (message := result.generations[0].message).content:
            case [{"type": "text", "text": str(text), **others}] if others.keys() <= {"index"}:
                message.content = text  # the integration's form without streaming
        return result

    vars(copy).update(_astream=astream, _agenerate=agenerate)
    return copy


async def _following(
    chunks: AsyncIterator[ChatGenerationChunk], silence_seconds: float, *, began: bool
) -> ChatGenerationChunk | None:
    """The next chunk, None after the last. The provider's client has already retried errors before the first one."""
    try:
        async with asyncio.timeout(silence_seconds) as silence:
            return await anext(chunks, None)
    except Exception as error:
        if silence.expired():
            raise SilentModelError(f"The model said nothing for {silence_seconds:g} seconds.") from error
        if began:
            raise CutAnswerError(f"The model's answer broke off: {type(error).__name__}.") from error
        raise


def _check_end(keys: tuple[str, ...], whole: frozenset[str], reason: str, calls: Collection[str]) -> None:
    if keys and not reason:
        raise CutAnswerError(f"The model's answer broke off: it ended without {' or '.join(keys)}.")
    if keys and calls and reason not in whole:
        raise BadAnswerError(f"The model's answer ended with {reason}, in which a tool call may be half.")
    try:
        # langchain would complete a half. A thread with NaN, long integers or deep nesting can never be read again.
        for text in calls:
            orjson.dumps(from_json(text or "{}", allow_inf_nan=False))
    except (ValueError, TypeError):
        raise BadAnswerError("The model called a tool with arguments that are no JSON, or that no thread can keep.") from None


if __name__ == "__main__":  # `make dev` checks the deployment of the current directory before it starts a server
    try:
        adopt_local_environ()
        own: Deployment = import_module("deployment").DEPLOYMENT
        checked = replace(own, settings=replace(own.settings, local_dev=True))
        _ = checked.agents  # raises, if a graph is missing
        build_model(checked)
        if checked.consolidation:
            build_model(checked, consolidating=True)
    except SettingsError as error:
        sys.exit(str(error))
