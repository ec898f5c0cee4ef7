"""Wraps a chat model, so that its answers are complete and come in bounded time.

An integration, langchain's package for a provider, takes any stream that ends as a complete answer,
tool calls included. Here an answer must end as its provider's protocol ends. Another one is retried,
and then fails the run: its tool calls are never executed, and no message is stored. An answer
without text and tool calls is an error that says why. A text that was cut is kept, and its metadata
say so.

A wrapped model is a copy, in which functions of this module stand in place of the integration's
`_astream` and `_agenerate`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from traceback import walk_tb

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ValidationError

from lasting_memory.agent.answer_endings import Endings, endings_of
from lasting_memory.agent.answer_errors import AnswerError, CutAnswerError, SilentModelError
from lasting_memory.agent.answers import Answer
from lasting_memory.agent.provider_errors import is_lost_connection
from lasting_memory.deployment import Limits

logger = logging.getLogger(__name__)

_REPORTED = "its provider reported an error in the middle of it"
# The status of an answer that had begun: by the client of Anthropic, and by that of Ollama.
_BEGUN = {200, -1}
# Where langchain_openai raises a `ValueError` for an event of Responses that is an error.
_OF_RESPONSES = "_convert_responses_chunk_to_generation_chunk"


def whole_answers(model: BaseChatModel, limits: Limits) -> BaseChatModel:
    """A copy of a model whose asynchronous answers are whole; a wrapped model itself.

    An answer that is not whole raises one of the errors of `agent/answer_errors.py`. Every call streams,
    so that silence is told from a long answer. Of a model that cannot stream only the ending is
    checked: `Bounds` limits the time of its calls.
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
    """Whether a model's integration can stream, and it may."""
    if model.disable_streaming is True:
        return False
    model_class = type(model)
    if model_class._astream is not BaseChatModel._astream:  # noqa: SLF001
        return True
    return model_class._stream is not BaseChatModel._stream  # noqa: SLF001


@contextmanager
def _kept_on_error(answer: Answer) -> Iterator[None]:
    """Gives an `AnswerError` that is raised what came of the answer: its tokens were used."""
    try:
        yield
    except AnswerError as error:
        error.unusable_answer = answer.partial_message()
        raise


def _wrap_streamed(copy: BaseChatModel, endings: Endings, limits: Limits) -> None:
    """Has a copy of a model stream each answer, and check it as it comes and ends."""
    original_stream = copy._astream  # noqa: SLF001  # what an integration implements

    async def astream(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> AsyncIterator[ChatGenerationChunk]:
        """The chunks of an answer. Raises `AnswerError` as soon as it is no whole one."""
        answer = Answer(endings)
        with _kept_on_error(answer):
            async with aclosing(original_stream(messages, stop, run_manager, **kwargs)) as chunks:  # type: ignore[type-var]
                while True:
                    chunk = await _next_chunk(
                        chunks, limits.model_silence_seconds, has_begun=answer.has_begun
                    )
                    if chunk is None:
                        break
                    answer.add(chunk.message, chunk.generation_info)
                    yield chunk
                    await asyncio.sleep(0)  # buffered chunks must not block other tasks
            answer.check_end()

    async def agenerate(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        """The answer as a whole, made of its chunks."""
        result = await agenerate_from_stream(astream(messages, stop, run_manager, **kwargs))
        message = result.generations[0].message
        match message.content:
            case [{"type": "text", "text": str(text), **extra}] if extra.keys() <= {"index"}:
                message.content = text  # the integration's form without streaming
        return result

    vars(copy).update(_astream=astream, _agenerate=agenerate)


def _wrap_unstreamed(copy: BaseChatModel, endings: Endings) -> None:
    """Has a copy of a model that cannot stream check each answer when it has come."""
    generate = copy._agenerate  # noqa: SLF001

    async def agenerate(
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        """The answer as the model gives it. Raises `AnswerError` if it is no whole one."""
        try:
            original_result = await generate(messages, stop, run_manager, **kwargs)
        except ValidationError as error:
            raise CutAnswerError(f"The model's answer broke off: {_why_cut(error)}.") from error
        result = original_result.model_copy(deep=True)
        for generation in result.generations:
            answer = Answer(endings)
            with _kept_on_error(answer):
                answer.add(generation.message, generation.generation_info)
                answer.check_end(needs_reason=False)
        return result

    vars(copy).update(_agenerate=agenerate)


def _keep_refusals(copy: BaseChatModel) -> None:
    """Has langchain_openai keep refusals of Chat Completions, which stand beside the content.

    Streams have them in pieces.
    """
    convert = getattr(copy, "_convert_chunk_to_generation_chunk", None)
    if convert is None:
        return

    def converted(
        chunk: Mapping[str, object], *args: object, **kwargs: object
    ) -> ChatGenerationChunk | None:
        """The chunk as the integration converts it, with the refusal that it has."""
        generation: ChatGenerationChunk | None = convert(chunk, *args, **kwargs)
        refusal = _refusal_in(chunk)
        if generation is not None and refusal:
            generation.message.additional_kwargs["refusal"] = refusal
        return generation

    vars(copy).update(_convert_chunk_to_generation_chunk=converted)


def _refusal_in(chunk: Mapping[str, object]) -> str:
    """The piece of a refusal in a chunk of Chat Completions; "" if there is none."""
    match chunk:
        case {"choices": [{"delta": {"refusal": str(refusal)}}, *_]}:
            return refusal
    return ""


async def _next_chunk(
    chunks: AsyncIterator[ChatGenerationChunk], silence_seconds: float, *, has_begun: bool
) -> ChatGenerationChunk | None:
    """The next chunk; None after the last.

    Raises `SilentModelError` and `CutAnswerError`. An error before the first chunk is raised as it
    is: the provider's client has retried that already.
    """
    try:
        async with asyncio.timeout(silence_seconds) as silence:
            return await anext(chunks, None)
    except Exception as error:
        if silence.expired():
            logger.warning(
                "A model said nothing for %g seconds. Limits(model_silence_seconds=...) in "
                "deployment.py allows more, e.g. where a local model is loaded first.",
                silence_seconds,
            )
            raise SilentModelError(
                f"The model said nothing for {silence_seconds:g} seconds."
            ) from error
        if has_begun:
            raise CutAnswerError(f"The model's answer broke off: {_why_cut(error)}.") from error
        if _came_in_stream(error):
            raise CutAnswerError(f"The model's answer broke off: {_REPORTED}.") from error
        raise


def _why_cut(error: Exception) -> str:
    """What ended an answer that had begun, for people.

    The errors are those of its provider's client, or Python's.
    """
    if isinstance(error, OSError) or is_lost_connection(error):
        return "the connection to its provider was lost"
    if isinstance(
        error, (json.JSONDecodeError, ValidationError, LookupError, TypeError, AttributeError)
    ):
        return "its provider sent what cannot be read"
    return _REPORTED


def _came_in_stream(error: Exception) -> bool:
    """Whether a provider reported an error as the first event of an answer.

    Its client makes no other attempt then.
    """
    status = getattr(error, "status_code", None)
    if status is not None:
        return status in _BEGUN
    # Of OpenAI's client, whose errors before a stream have other names.
    if type(error).__name__ == "APIError":
        return True
    if not isinstance(error, ValueError):
        return False
    function_name = ""
    for frame, _ in walk_tb(error.__traceback__):
        function_name = frame.f_code.co_name
    return function_name == _OF_RESPONSES
