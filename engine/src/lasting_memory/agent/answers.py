"""One answer of a model: how its provider ends it, and the errors for what is no answer.

A text that was cut is kept, and its metadata say so. An answer without text and tool calls is an
error that says why.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from langchain_core.exceptions import ModelConnectionError, ModelError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from pydantic_core import from_json

from lasting_memory.attachments import without_thoughts


@dataclass(frozen=True)
class Endings:
    """How an integration's answers end.

    `keys` are where their metadata have the reason, `whole` the reasons of whole answers. After
    another reason, such as a limit of tokens, the last tool call may be cut. Of an integration that
    is not `known` the reasons of whole answers are not known either.
    """

    keys: tuple[str, ...]
    whole: frozenset[str]
    known: bool = True


# By package.
ENDINGS: dict[str, Endings] = {
    "langchain_anthropic": Endings(
        ("stop_reason",), frozenset({"end_turn", "tool_use", "stop_sequence"})
    ),
    "langchain_openai": Endings(
        ("finish_reason", "status"), frozenset({"stop", "tool_calls", "function_call", "completed"})
    ),
    "langchain_google_genai": Endings(("finish_reason",), frozenset({"STOP"})),
    "langchain_ollama": Endings(("done_reason",), frozenset({"stop"})),
}
_UNKNOWN = Endings(
    ("finish_reason", "stop_reason", "done_reason", "status"), frozenset(), known=False
)
# What all providers' other reasons mean, in small letters.
_LIMITS = {
    "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "continuation", "incomplete",
}  # fmt: skip
_MALFORMED = {"malformed_function_call", "malformed_response", "unexpected_tool_call"}
_FILTERS = {
    "content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "blocklist", "prohibited_content",
    "spii", "image_safety", "image_prohibited_content", "image_recitation", "model_armor", "jailbreak",
}  # fmt: skip
_REFUSALS = {"refusal"}
_PAUSES = {"pause_turn"}
_KINDS = {
    **dict.fromkeys(_MALFORMED, "malformed"),
    **dict.fromkeys(_LIMITS, "limit"),
    **dict.fromkeys(_FILTERS, "filter"),
    **dict.fromkeys(_REFUSALS, "refusal"),
    **dict.fromkeys(_PAUSES, "pause"),
}
# In the `response_metadata` of a text that is not whole: a sentence that says why, for people.
CUT = "cut"
_CUT_BY = {
    "limit": "This was cut at the model's limit of tokens ({}).",
    "filter": "This was cut by the filter of the model's provider ({}).",
    "refusal": "The model refused to answer, or to go on ({}).",
    "pause": "The model paused before it had finished ({}); ask it to go on.",
    "other": "The model's provider ended this early ({}).",
}
_SILENT_BY = {
    "limit": "The model reached its limit of tokens before it said anything ({}); ask for less at once.",
    "filter": "The model's provider filtered this answer ({}); say it in other words, or begin a new conversation.",
    "refusal": "The model refused to answer ({}); say it in other words, or begin a new conversation.",
    "pause": "The model paused before it said anything ({}); ask it to go on.",
    "other": "The model's provider ended this answer before it said anything ({}); try again, or say it in other words.",
}
SILENT = "The model ended its answer without a word; try again, or ask for what is missing."
# Blocks of an answer that a person can see or hear, though they are no text.
_SHOWN = {"image", "image_url", "image_generation_call", "audio", "video", "file"}
# Invisible, though Unicode calls them letters, marks or symbols: fillers, selectors of variants,
# Braille's blank.
_BLANK = "\u034f\u115f\u1160\u2800\u3164\uffa0\ufe0e\ufe0f"
_REASON_CHARS = 60
_NO_WORD = re.compile(r"[^\w.-]")
# What a model is told whose tool call could not be used.
_SHORTER = (
    "Your last answer reached its limit of tokens inside a tool call, so it was thrown away. "
    "Answer again, with shorter arguments; write a long text in several calls."
)
_VALID_JSON = (
    "The arguments of a tool call in your last answer were no valid JSON object, so it was thrown "
    "away. Answer again; the arguments of each call are one JSON object."
)
# Of one answer with its calls, which some integrations repeat in the content: a stream without an
# end would fill the memory.
MAX_ANSWER_CHARS = 2_000_000


class AnswerError(RuntimeError):
    """A model gave no answer that can be used. It is a `RuntimeError`, because of these the platform
    shows people the message.

    `thrown_away` is what came before, with its tokens where the provider said them; None: nothing.
    """

    thrown_away: AIMessage | None = None


class CutAnswerError(ModelConnectionError, AnswerError):
    """An answer broke off. The same call may succeed."""


class BadAnswerError(ModelError, AnswerError):
    """An answer is too long, or a tool call in it is cut or cannot be used.

    `advice` tells the model what to do otherwise, once. Without it a retry would not help.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class FilteredAnswerError(ModelError, AnswerError):
    """The provider filtered an answer, or the model refused to give one: there is no text.

    A retry would not help.
    """


class EmptyAnswerError(ModelError, AnswerError):
    """An answer ended with neither text nor tool calls."""


class SilentModelError(ModelTimeoutError, AnswerError):
    """A model sent nothing for too long.

    There is no automatic retry: the person has waited long enough to decide.
    """

    is_retryable = False


# A provider was there, and what it gave is no answer. The messages are for people.
NO_ANSWER = (CutAnswerError, BadAnswerError, FilteredAnswerError, EmptyAnswerError)


def endings_of(kind: type[BaseChatModel]) -> Endings:
    """How the answers of this class of models end, by its package or that of a class above it."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in ENDINGS:
            return ENDINGS[package]
    return _UNKNOWN


class Answer:
    """One answer as its chunks come: what it says, which tools it calls, and how it ends."""

    def __init__(self, endings: Endings) -> None:
        self.has_begun = False
        self._endings = endings
        self._reason = ""
        self._detail = ""  # of the reason, where its provider says more
        self._is_blocked = False  # the question, before there was an answer
        self._is_refused = False
        self._texts: list[str] = []
        self._shows_something = False  # beside the text
        self._is_noted = False  # that it was cut
        self._calls: dict[object, str] = {}  # the arguments, as JSON
        self._chars = 0
        self._usage: UsageMetadata | None = None

    def add(self, message: BaseMessage, info: Mapping[str, Any] | None) -> None:
        """Takes in a chunk, or a whole answer that was not streamed. It may change the message.

        A refusal becomes text. Where the ending says that the answer was cut, the metadata say so,
        too (`CUT`). Raises `BadAnswerError` if the answer is too long.
        """
        self.has_begun = True
        if _refusal_to_text(message):
            self._is_refused = True
        self._add_calls(message)
        self._chars += len(str(message.content))
        if self._chars > MAX_ANSWER_CHARS:
            raise BadAnswerError(
                f"The model's answer has more than {MAX_ANSWER_CHARS:,} characters."
            )
        if isinstance(message, AIMessage):
            self._usage = add_usage(self._usage, message.usage_metadata)
        self._texts.append(str(message.text))
        self._shows_something = self._shows_something or _shows_something(message)
        metadata = {**(info or {}), **message.response_metadata}
        self._add_ending(metadata, has_content=bool(message.content))
        # Once, because langchain joins the metadata's texts of all chunks.
        if self._reason and not self._is_noted:
            self._note_cut(message)

    def check_end(self, *, needs_reason: bool = True) -> None:
        """Raises one of the errors above unless the answer is whole, and says or calls something."""
        kind = self._kind()
        if needs_reason and self._endings.known and not self._reason:
            keys = " or ".join(self._endings.keys)
            raise CutAnswerError(f"The model's answer broke off: it ended without {keys}.")
        if kind == "malformed":
            raise CutAnswerError(
                f"The model's answer broke off: its provider cannot read it ({self._shown_reason()})."
            )
        if self._calls:
            self._check_calls()
        elif kind != "whole" and not self._says_something():
            error = FilteredAnswerError if kind in {"filter", "refusal"} else EmptyAnswerError
            raise error(_SILENT_BY[kind].format(self._shown_reason()))

    def thrown_away(self) -> AIMessage | None:
        """What came of an answer that cannot be used, for counting; None: nothing."""
        if not self.has_begun:
            return None
        text = "".join([*self._texts, *self._calls.values()])
        return AIMessage(text, usage_metadata=self._usage)

    def _says_something(self) -> bool:
        return self._shows_something or has_words("".join(self._texts))

    def _add_calls(self, message: BaseMessage) -> None:
        if isinstance(message, AIMessageChunk):
            for chunk in message.tool_call_chunks:
                index = chunk["index"]
                key = self._new_key() if index is None else (index,)
                self._add_arguments(key, chunk["args"] or "")
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                arguments = json.dumps(call["args"], default=str)
                self._add_arguments(self._new_key(), arguments)
            for invalid in message.invalid_tool_calls:
                arguments = invalid["args"] or ""
                self._add_arguments(self._new_key(), arguments)

    def _new_key(self) -> int:
        """The key of a call that has no index."""
        return len(self._calls)

    def _add_arguments(self, key: object, text: str) -> None:
        before = self._calls.get(key, "")
        self._calls[key] = before + text
        self._chars += len(text)

    def _add_ending(self, metadata: Mapping[str, Any], *, has_content: bool) -> None:
        reason = self._reason_in(metadata)
        if reason:
            self._reason = reason
            # Of OpenAI's Responses.
            self._detail = _text_of(metadata.get("incomplete_details"), "reason")
        elif has_content:
            self._reason = ""  # more after the end
        block_reason = _text_of(metadata.get("prompt_feedback"), "block_reason")  # of Gemini
        if block_reason:
            self._is_blocked = True
            self._reason = block_reason

    def _reason_in(self, metadata: Mapping[str, Any]) -> str:
        """Why an answer ended, where its metadata say so; "" otherwise."""
        for key in self._endings.keys:
            reason = metadata.get(key)
            if reason:
                return str(reason)
        return ""

    def _note_cut(self, message: BaseMessage) -> None:
        cut = _CUT_BY.get(self._kind())
        if cut and not self._will_fail():
            self._is_noted = True
            message.response_metadata[CUT] = cut.format(self._shown_reason())

    def _will_fail(self) -> bool:
        """Whether `check_end` raises for the ending that is known now.

        Then its error says why, and the metadata do not.
        """
        if self._calls:
            # The last call may be cut.
            return self._has_unknown_reason()
        return not self._says_something()

    def _has_unknown_reason(self) -> bool:
        """Whether the answer ended for a reason that is none of a whole one, as far as they are known."""
        if not self._endings.known or not self._reason:
            return False
        return self._reason not in self._endings.whole

    def _kind(self) -> str:
        """How it ended: whole, malformed, or as in `_CUT_BY`."""
        reason = self._detail or self._reason
        kind = _KINDS.get(reason.casefold(), "")
        if kind in {"malformed", "limit"}:
            return kind
        if self._is_blocked:
            return "filter"
        if kind:
            return kind
        if self._is_refused:
            return "refusal"
        if self._has_unknown_reason():
            return "other"
        return "whole"

    def _shown_reason(self) -> str:
        """The provider's own words, as far as they are words."""
        if self._is_refused:
            return "refusal"
        reason = _words_of(self._reason)
        detail = _words_of(self._detail)
        if reason and detail:
            return f"{reason}: {detail}"
        return reason or detail

    def _check_calls(self) -> None:
        if self._has_unknown_reason():
            raise BadAnswerError(
                f"The model's answer ended with {self._shown_reason()}, in which a tool call may be half.",
                _SHORTER if self._kind() == "limit" else "",
            )
        try:
            # langchain would complete a half. A thread with NaN, long integers or deep nesting can
            # never be read again.
            arguments = [
                from_json(text or "{}", allow_inf_nan=False) for text in self._calls.values()
            ]
            orjson.dumps(arguments)
        except (ValueError, TypeError):
            raise BadAnswerError(
                "The model called a tool with arguments that are no JSON, "
                "or that no thread can keep.",
                _VALID_JSON,
            ) from None
        # langchain leaves out such a call, and the turn would end without a word.
        are_objects = all(isinstance(values, dict) for values in arguments)
        if not are_objects:
            raise BadAnswerError(
                "The model called a tool with arguments that are no JSON object.", _VALID_JSON
            )


def _words_of(reason: str) -> str:
    """The beginning of a reason, without what is no word."""
    words = _NO_WORD.sub("", reason)
    return words[:_REASON_CHARS]


def says_something(message: BaseMessage) -> bool:
    """Whether a message has text, or something else that a person can see or hear."""
    return _shows_something(message) or has_words(str(message.text))


def has_words(text: str) -> bool:
    """Whether a person can see something in a model's whole text, beside its thoughts."""
    return any(_is_visible(character) for character in without_thoughts(text))


def _is_visible(character: str) -> bool:
    if character in _BLANK:
        return False
    category = unicodedata.category(character)
    return category[0] not in "ZC"


def _shows_something(message: BaseMessage) -> bool:
    """Whether a message has something other than text that a person can see or hear."""
    if "audio" in message.additional_kwargs:
        return True
    blocks = [block for block in message.content if isinstance(block, dict)]
    return any(block.get("type") in _SHOWN for block in blocks)


def check_said(message: BaseMessage) -> None:
    """Raises `EmptyAnswerError` for a whole answer without text and without calls."""
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        return
    if not says_something(message):
        raise EmptyAnswerError(SILENT)


def _text_of(mapping: object, key: str) -> str:
    """A text in a mapping of a provider, also where its client made an enumeration of it."""
    if not isinstance(mapping, Mapping):
        return ""
    value = mapping.get(key)
    text = getattr(value, "value", value)
    return str(text or "")


def _refusal_to_text(message: BaseMessage) -> bool:
    """Makes text of a refusal, wherever the integration has put it. Returns whether there was one."""
    beside = message.additional_kwargs.get("refusal")
    if isinstance(message.content, str):
        if beside:
            message.content += str(beside)
        return bool(beside)
    blocks: list[Any] = []
    is_refused = False
    for block in message.content:
        refusal = _refusal_of(block)
        if refusal:
            is_refused = True
            blocks.append({"type": "text", "text": refusal})
        else:
            blocks.append(block)
    if beside and not is_refused:
        is_refused = True
        blocks.append({"type": "text", "text": str(beside)})
    message.content = blocks
    return is_refused


def _refusal_of(block: object) -> str:
    if not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    if kind == "non_standard":  # langchain's own form
        return _refusal_of(block.get("value"))
    if kind == "refusal":
        return _text_of(block, "refusal")
    return ""
