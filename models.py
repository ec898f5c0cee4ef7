"""The chat model that the settings name, with complete answers in bounded time.

An integration takes any stream that ends as a complete answer, tool calls included. Here an answer must end as its provider's
protocol ends. Another one is retried, and then fails the run: its tool calls are never executed, and no message is stored.
"""

import asyncio
import math
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from typing import Any

import orjson
from langchain.agents.middleware import ModelRetryMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.exceptions import ModelConnectionError, ModelError, ModelRateLimitError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ValidationError
from pydantic_core import from_json

from offline_model import OfflineModel
from settings import MAX_RUN_SECONDS, MODEL_RETRIES, MODEL_SILENCE_SECONDS, SettingsError, adopt_local_environ, load_settings

# The model of `langgraph dev` without AGENT_MODEL. To remove it, delete offline_model.py and its test, and put None here.
OFFLINE: type[BaseChatModel] | None = OfflineModel
# By package: the keys under which a chunk has the reason why the answer ended, and the reasons that mean complete tool calls.
# After another reason, such as a token limit, the last tool call may be cut. A text is kept, with the reason in its metadata.
ENDINGS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "langchain_anthropic": (("stop_reason",), frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn"})),
    "langchain_openai": (("finish_reason", "status"), frozenset({"stop", "tool_calls", "function_call", "completed"})),
    "langchain_google_genai": (("finish_reason",), frozenset({"STOP"})),
    "langchain_ollama": (("done_reason",), frozenset({"stop"})),
}
MAX_ANSWER_CHARS = 1_000_000
# The longest `Retry-After` that is waited for. Anthropic's client would sleep for any, and pass for a silent model.
MAX_RETRY_AFTER_SECONDS, _LONGEST_SECONDS, _MINUTES = MODEL_SILENCE_SECONDS / 2, 1e9, 120


# Each is a `RuntimeError`, too: of these the platform shows people the message.
class BusyModelError(ModelRateLimitError, RuntimeError):
    """A provider asks to wait before the next call."""

    is_retryable = False


class CutAnswerError(ModelConnectionError, RuntimeError):
    """An answer broke off. The same call may succeed."""


class BadAnswerError(ModelError, RuntimeError):
    """An answer is too long, or its tool call is cut, e.g. at a token limit, or of no use. A retry would not help."""


class SilentModelError(ModelTimeoutError, RuntimeError):
    """A model sent nothing for too long. There is no automatic retry: the person has waited long enough to decide."""

    is_retryable = False


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of model calls."""

    silence_seconds: float = MODEL_SILENCE_SECONDS  # until the first chunk of an answer, and between two
    retries: int = MODEL_RETRIES  # further attempts after an incomplete answer
    retry_delay_seconds: float = 1.0  # before the first retry; each further one waits twice as long
    run_seconds: float = MAX_RUN_SECONDS  # for all model and tool calls of one run

    def retry(self) -> ModelRetryMiddleware:
        """The innermost middleware of every agent and subagent."""
        retries, delay = self.retries, self.retry_delay_seconds
        return ModelRetryMiddleware(max_retries=retries, initial_delay=delay, retry_on=(CutAnswerError,), on_failure="error")


LIMITS = CallLimits()


def build_model(name: str | None, variable: str = "AGENT_MODEL", *, local_dev: bool = False) -> BaseChatModel:
    """The chat model `name` (`provider:model`) that the setting `variable` gave; without a name the offline one, on `langgraph
    dev`. Raises `SettingsError` if there is no model, the provider is unknown, or its package or key is missing.
    """
    if name is None and OFFLINE and local_dev:
        return OFFLINE()
    fix = "use provider:model, e.g. anthropic:claude-sonnet-4-6, with the provider's key in .env."
    if name is None:
        raise SettingsError(f"{variable} is empty; {fix}")
    try:
        model: BaseChatModel = init_chat_model(name)
    except Exception as error:  # noqa: BLE001  # a provider's client raises any error if its key is missing
        reason = " ".join((error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)).split())[:200]
        if isinstance(error, ImportError):
            extra = name.partition(":")[0]
            fix = f"install it (make install EXTRA={extra}), and for a deployment name it in dependencies of pyproject.toml."
        raise SettingsError(f"{variable} is {name!r}, which cannot be used: {reason.rstrip('.')}; {fix}") from None
    return model


def check_models() -> None:
    """Build both models that the environment names for `langgraph dev`. Raises as `build_model`."""
    settings = load_settings()
    build_model(settings.agent_model, local_dev=True)
    if settings.consolidation_model:
        build_model(settings.consolidation_model, "CONSOLIDATION_MODEL")


def whole_answers(model: BaseChatModel, limits: CallLimits) -> BaseChatModel:
    """Wraps a model: an asynchronous answer that breaks off raises `CutAnswerError`, or another of the errors above.

    Every call streams, to tell silence from a long answer. A model that does not stream is returned as it is: `RunBound` limits
    its calls.
    """
    kind = type(model)
    streams = kind._astream is not BaseChatModel._astream or kind._stream is not BaseChatModel._stream  # noqa: SLF001
    if not streams or model.disable_streaming is True:
        return model
    if any(base.__module__.startswith("langchain_anthropic") for base in kind.__mro__):
        hooks = model._async_client._client.event_hooks["response"]  # type: ignore[attr-defined]  # noqa: SLF001  # no other way
        hooks += [] if _no_long_wait in hooks else [_no_long_wait]
    packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
    endings = next((ENDINGS[package] for package in packages if package in ENDINGS), ((), frozenset[str]()))
    copy = model.model_copy()
    streamed = copy._astream  # noqa: SLF001  # what an integration implements

    async def astream(
        messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer = _Answer(*endings)
        async with aclosing(streamed(messages, stop, run_manager, **kwargs)) as chunks:  # type: ignore[type-var]
            while chunk := await _following(chunks, limits.silence_seconds, began=answer.began):
                answer.add(chunk)
                yield chunk
                await asyncio.sleep(0)  # buffered chunks must not block other tasks
        answer.check()

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
        response = getattr(error, "response", None)
        if (seconds := _retry_after(response)) > 0:
            wait = f"{math.ceil(seconds / 60)} minutes" if seconds >= _MINUTES else f"{math.ceil(seconds)} seconds"
            said = f"it answers {response.status_code}, and asks to wait {wait}"  # type: ignore[union-attr]
            raise BusyModelError(f"The model's provider is busy: {said}. Try again then.") from error
        raise


@dataclass(slots=True)
class _Answer:
    """An answer so far: whether it began, why it ended, and the arguments of its tool calls."""

    keys: tuple[str, ...]
    whole: frozenset[str]
    began: bool = False
    calls: bool = False
    reason: str | None = None
    chars: int = 0
    arguments: defaultdict[object, str] = field(default_factory=lambda: defaultdict(str))

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Take another part. Raises `BadAnswerError` if it is too long."""
        message = chunk.message if isinstance(chunk.message, AIMessageChunk) else AIMessageChunk(content="")
        calling = bool(message.tool_call_chunks or message.tool_calls or message.invalid_tool_calls)
        self.began, self.calls = True, self.calls or calling
        # A reason counts only at the end: more content after it cancels it.
        before = None if calling or message.content else self.reason
        said = {**(chunk.generation_info or {}), **message.response_metadata}
        self.reason = next((str(said[key]) for key in self.keys if said.get(key)), before)
        for call in message.tool_call_chunks:
            self.arguments[len(self.arguments) if call["index"] is None else (call["index"],)] += call["args"] or ""
        # Some providers' content repeats the arguments.
        self.chars += sum(len(call["args"] or "") for call in message.tool_call_chunks) or len(str(message.content))
        if self.chars > MAX_ANSWER_CHARS:
            raise BadAnswerError(f"The model's answer has more than {MAX_ANSWER_CHARS:,} characters.")

    def check(self) -> None:
        """Raise an error unless the answer ended as its provider's protocol ends, with tool calls that are whole: JSON that the
        platform can keep, without NaN or integers of more than 64 bits, and not too deep. langchain would complete a half, in
        quadratic time; a thread with others can never be read again.
        """
        if self.keys and self.reason is None:
            raise CutAnswerError(f"The model's answer broke off: it ended without {' or '.join(self.keys)}.")
        if self.keys and self.calls and self.reason not in self.whole:
            raise BadAnswerError(f"The model's answer ended with {self.reason}, in which a tool call may be half.")
        try:
            for text in self.arguments.values():
                orjson.dumps(from_json(text or "{}", allow_inf_nan=False))
        except (ValueError, TypeError):
            said = "The model called a tool with arguments that are no JSON, or that no thread can keep."
            raise BadAnswerError(said) from None


async def _no_long_wait(response: Any) -> None:
    """Tell a provider's client not to try again after a wait that is too long."""
    if _retry_after(response) > MAX_RETRY_AFTER_SECONDS:
        response.headers["x-should-retry"] = "false"


def _retry_after(response: Any) -> float:
    """The seconds that a response asks to wait, as a number or until a date, read as leniently as clients do; 0 if none."""
    asked = str(getattr(response, "headers", {}).get("retry-after", ""))
    try:
        seconds = float(asked)
    except ValueError:
        parsed = parsedate_tz(asked)
        seconds = mktime_tz(parsed) - time.time() if parsed else 0
    return min(seconds, _LONGEST_SECONDS) if seconds > 0 else 0


if __name__ == "__main__":  # `make dev` checks the settings before it starts a server
    try:
        adopt_local_environ()
        check_models()
    except SettingsError as error:
        sys.exit(str(error))
