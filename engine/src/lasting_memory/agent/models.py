"""The chat model that the settings name, with complete answers in bounded time.

An integration takes any stream that ends as a complete answer, tool calls included. Here an answer
must end as its provider's protocol ends. Another one is retried, and then fails the run: its tool
calls are never executed, and no message is stored. An answer without text and tool calls is an
error that says why. A text that was cut is kept, and its metadata say so.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from importlib import import_module
from traceback import walk_tb
from typing import Any

import httpx
from langchain.chat_models import init_chat_model
from langchain_core.exceptions import ModelConnectionError
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ValidationError

from lasting_memory.agent.answers import (
    MAX_ANSWER_CHARS,
    Answer,
    BadAnswerError,
    CutAnswerError,
    EmptyAnswerError,
    Endings,
    FilteredAnswerError,
    SilentModelError,
    endings_of,
)
from lasting_memory.agent.offline_model import OfflineModel
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.settings import SettingsError, adopt_local_environ

__all__ = [
    "MAX_ANSWER_CHARS", "BadAnswerError", "CutAnswerError", "EmptyAnswerError", "FilteredAnswerError", "SilentModelError",
    "build_model", "whole_answers",
]  # fmt: skip

# Before the first retry; each further one waits twice as long.
RETRY_DELAY_SECONDS = 1.0
_REPORTED = "its provider reported an error in the middle of it"
# The status of an answer that had begun, by the clients of Anthropic, and of Ollama.
_BEGUN = {200, -1}
# Where langchain_openai raises a `ValueError` for an event of Responses that is an error.
_OF_RESPONSES = "_convert_responses_chunk_to_generation_chunk"


def build_model(d: Deployment, *, consolidating: bool = False) -> BaseChatModel:
    """The chat model that `AGENT_MODEL` names, or, `consolidating`, `CONSOLIDATION_MODEL`; its
    answers are whole and in time.

    Without a name it is the offline one, on `langgraph dev`. Raises `SettingsError` if there is no
    model, the provider is unknown, or its package or key is missing.
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
        reason = " ".join(
            str(error.errors()[0]["msg"] if isinstance(error, ValidationError) else error).split()
        )[:200]
        if isinstance(error, ImportError):
            extra = name.partition(":")[0]
            fix = f"install it (make install EXTRA={extra}), and for a deployment name it in dependencies of pyproject.toml."
        raise SettingsError(
            f"{variable} is {name!r}, which cannot be used: {reason.rstrip('.')}; {fix}"
        ) from None


@cache
def takes_pictures(name: str | None) -> bool:
    """Whether the model of this name (`AGENT_MODEL`) looks at pictures, as langchain's profile of
    it says.
    """
    try:
        profile = init_chat_model(name).profile if name else None
    except Exception:  # noqa: BLE001  # as above: `build_model` says what is missing
        profile = None
    return bool(profile and profile.get("image_inputs"))


def whole_answers(model: BaseChatModel, limits: Limits) -> BaseChatModel:
    """Wraps a model: an asynchronous answer that breaks off raises `CutAnswerError`, or another of
    the errors above.

    Every call streams, to tell silence from a long answer. Of a model that does not stream only the
    ending is looked at: `Bounds` limits its calls. A wrapped one is returned as it is.
    """
    if "_agenerate" in vars(model):
        return model
    endings = endings_of(type(model))
    copy = model.model_copy()
    if _streams(model):
        _keep_refusals(copy)
        _wrap_streamed(copy, endings, limits)
    else:
        _wrap_unstreamed(copy, endings)
    return copy


def _streams(model: BaseChatModel) -> bool:
    kind = type(model)
    has_stream = (
        kind._astream is not BaseChatModel._astream or kind._stream is not BaseChatModel._stream  # noqa: SLF001
    )
    return has_stream and model.disable_streaming is not True


def _wrap_streamed(copy: BaseChatModel, endings: Endings, limits: Limits) -> None:
    streamed = copy._astream  # noqa: SLF001  # what an integration implements

    async def astream(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer = Answer(endings)
        async with aclosing(streamed(messages, stop, run_manager, **kwargs)) as chunks:  # type: ignore[type-var]
            while chunk := await _following(
                chunks, limits.model_silence_seconds, began=answer.has_begun
            ):
                answer.add(chunk.message, chunk.generation_info)
                yield chunk
                await asyncio.sleep(0)  # buffered chunks must not block other tasks
        answer.check_end()

    async def agenerate(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = await agenerate_from_stream(astream(messages, stop, run_manager, **kwargs))
        match (message := result.generations[0].message).content:
            case [{"type": "text", "text": str(text), **others}] if others.keys() <= {"index"}:
                message.content = text  # the integration's form without streaming
        return result

    vars(copy).update(_astream=astream, _agenerate=agenerate)


def _wrap_unstreamed(copy: BaseChatModel, endings: Endings) -> None:
    generate = copy._agenerate  # noqa: SLF001

    async def agenerate(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = (await generate(messages, stop, run_manager, **kwargs)).model_copy(deep=True)
        for generation in result.generations:
            answer = Answer(endings)
            answer.add(generation.message, generation.generation_info)
            answer.check_end(needs_reason=False)
        return result

    vars(copy).update(_agenerate=agenerate)


def _keep_refusals(copy: BaseChatModel) -> None:
    """Has langchain_openai read the refusals of Chat Completions, which come beside the content, in
    pieces too.
    """
    convert = getattr(copy, "_convert_chunk_to_generation_chunk", None)
    if convert is None:
        return

    def converted(chunk: dict[str, Any], *args: Any, **kwargs: Any) -> ChatGenerationChunk | None:
        generation: ChatGenerationChunk | None = convert(chunk, *args, **kwargs)
        choices = chunk.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        if generation is not None and delta.get("refusal"):
            generation.message.additional_kwargs["refusal"] = delta["refusal"]
        return generation

    vars(copy).update(_convert_chunk_to_generation_chunk=converted)


async def _following(
    chunks: AsyncIterator[ChatGenerationChunk], silence_seconds: float, *, began: bool
) -> ChatGenerationChunk | None:
    """The next chunk, None after the last. The provider's client has already retried errors before
    the first one.
    """
    try:
        async with asyncio.timeout(silence_seconds) as silence:
            return await anext(chunks, None)
    except Exception as error:
        if silence.expired():
            raise SilentModelError(
                f"The model said nothing for {silence_seconds:g} seconds."
            ) from error
        if began:
            raise CutAnswerError(f"The model's answer broke off: {_why_cut(error)}.") from error
        if _came_in_stream(error):
            raise CutAnswerError(f"The model's answer broke off: {_REPORTED}.") from error
        raise


def _why_cut(error: Exception) -> str:
    """What ended an answer that had begun, for people. The classes are their client's or Python's."""
    if isinstance(error, (httpx.TransportError, ModelConnectionError, OSError)):
        return "the connection to its provider was lost"
    if isinstance(
        error, (json.JSONDecodeError, ValidationError, LookupError, TypeError, AttributeError)
    ):
        return "its provider sent what cannot be read"
    return _REPORTED


def _came_in_stream(error: Exception) -> bool:
    """Whether a provider reported an error as the first event of an answer: its client makes no
    other attempt then.
    """
    status = getattr(error, "status_code", None)
    if status is not None:
        return status in _BEGUN
    if (
        type(error).__name__ == "APIError"
    ):  # of OpenAI's client; its errors before a stream have other names
        return True
    frames = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
    return isinstance(error, ValueError) and frames[-1:] == [_OF_RESPONSES]


if (
    __name__ == "__main__"
):  # `make dev` checks the deployment of the current directory before it starts a server
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
