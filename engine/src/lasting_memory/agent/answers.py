"""One answer of a model: how its provider ends it, and the errors for what is no answer.

A provider gives the reason why its answer ended, such as `max_tokens`, in the answer's metadata.
What the reason means is the ending. A text that was cut is kept, and its metadata say so. An answer
without text and tool calls is an error that says why.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

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
# How an answer ended. "malformed": its provider could not read what its own model had said. "other":
# for a reason that is not known here, and that no whole answer has.
Ending = Literal["whole", "malformed", "limit", "filter", "refusal", "pause", "other"]
_ENDING_BY_REASON: Mapping[str, Ending] = {
    **dict.fromkeys(_MALFORMED, "malformed"),
    **dict.fromkeys(_LIMITS, "limit"),
    **dict.fromkeys(_FILTERS, "filter"),
    **dict.fromkeys(_REFUSALS, "refusal"),
    **dict.fromkeys(_PAUSES, "pause"),
}
# In the `response_metadata` of a text that is not whole: a sentence that says why, for people.
CUT = "cut"
_CUT_BY: Mapping[Ending, str] = {
    "limit": "This was cut at the model's limit of tokens ({}).",
    "filter": "This was cut by the filter of the model's provider ({}).",
    "refusal": "The model refused to answer, or to go on ({}).",
    "pause": "The model paused before it had finished ({}); ask it to go on.",
    "other": "The model's provider ended this early ({}).",
}
_SILENT_BY: Mapping[Ending, str] = {
    "limit": "The model reached its limit of tokens before it said anything ({}); ask for less at once.",
    "filter": "The model's provider filtered this answer ({}); say it in other words, or begin a new conversation.",
    "refusal": "The model refused to answer ({}); say it in other words, or begin a new conversation.",
    "pause": "The model paused before it said anything ({}); ask it to go on.",
    "other": "The model's provider ended this answer before it said anything ({}); try again, or say it in other words.",
}
SILENT = "The model ended its answer without a word; try again, or ask for what is missing."
# Blocks of an answer that a person can see or hear, though they are no text.
_MEDIA = {"image", "image_url", "image_generation_call", "audio", "video", "file"}
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


def endings_of(model_class: type[BaseChatModel]) -> Endings:
    """How the answers of this class of models end, by its package or that of a class above it."""
    for base in model_class.__mro__:
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
        self._reason_detail = ""  # where its provider says more
        self._question_is_blocked = False  # before there was an answer
        self._is_refused = False
        self._texts = list[str]()
        self._has_media = False
        self._cut_is_noted = False
        # The arguments of each tool call, as JSON, which may come in pieces.
        self._calls = dict[object, str]()
        self._chars = 0
        self._usage: UsageMetadata | None = None

    def add(self, message: BaseMessage, info: Mapping[str, object] | None) -> None:
        """Takes in a chunk, or a whole answer that was not streamed. It may change the message.

        A refusal becomes text. Where the ending says that the answer was cut, the metadata say so,
        too (`CUT`). `info` is what the integration says of the chunk beside the message. Raises
        `BadAnswerError` if the answer is too long.
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
        if _has_media(message):
            self._has_media = True
        metadata = {**(info or {}), **message.response_metadata}
        self._add_ending(metadata, has_content=bool(message.content))
        # Once, because langchain joins the metadata's texts of all chunks.
        if self._reason and not self._cut_is_noted:
            self._note_cut(message)

    def check_end(self, *, needs_reason: bool = True) -> None:
        """Raises `AnswerError` unless the answer is whole, and says or calls something.

        `needs_reason` says that an answer without a reason is not whole. One that was cut passes,
        if it has a text, and no tool calls, which may be half.
        """
        lacks_reason = self._endings.known and not self._reason
        if needs_reason and lacks_reason:
            keys = " or ".join(self._endings.keys)
            raise CutAnswerError(f"The model's answer broke off: it ended without {keys}.")
        ending = self._ending()
        if ending == "malformed":
            raise CutAnswerError(
                f"The model's answer broke off: its provider cannot read it ({self._shown_reason()})."
            )
        if self._calls:
            self._check_calls()
        elif ending != "whole" and not self._says_something():
            self._raise_silent(ending)

    def _raise_silent(self, ending: Ending) -> NoReturn:
        """Raises the error for an answer that ended so before it said anything."""
        reason = self._shown_reason()
        sentence = _SILENT_BY[ending].format(reason)
        if ending in {"filter", "refusal"}:
            raise FilteredAnswerError(sentence)
        raise EmptyAnswerError(sentence)

    def thrown_away(self) -> AIMessage | None:
        """What came of an answer that cannot be used, for counting; None: nothing."""
        if not self.has_begun:
            return None
        parts = [*self._texts, *self._calls.values()]
        text = "".join(parts)
        return AIMessage(text, usage_metadata=self._usage)

    def _says_something(self) -> bool:
        """Whether the answer has something that a person can see or hear."""
        if self._has_media:
            return True
        text = "".join(self._texts)
        return has_words(text)

    def _add_calls(self, message: BaseMessage) -> None:
        """Takes in the tool calls of a chunk, or of a whole answer."""
        if isinstance(message, AIMessageChunk):
            for chunk in message.tool_call_chunks:
                index = chunk["index"]
                # Pieces of one call have its index. A call without one is whole.
                key = self._new_key() if index is None else (index,)
                arguments = chunk["args"] or ""
                self._add_arguments(key, arguments)
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
        """Adds a piece of the arguments of the call with this key."""
        before = self._calls.get(key, "")
        self._calls[key] = before + text
        self._chars += len(text)

    def _add_ending(self, metadata: Mapping[str, object], *, has_content: bool) -> None:
        """Notes why the answer ended, where a chunk's metadata say so."""
        reason = self._reason_in(metadata)
        if reason:
            self._reason = reason
            # Of OpenAI's Responses.
            self._reason_detail = _text_of(metadata.get("incomplete_details"), "reason")
        elif has_content:
            # The answer goes on, so it had not ended.
            self._reason = ""
        block_reason = _text_of(metadata.get("prompt_feedback"), "block_reason")  # of Gemini
        if block_reason:
            self._question_is_blocked = True
            self._reason = block_reason

    def _reason_in(self, metadata: Mapping[str, object]) -> str:
        """Why an answer ended, where its metadata say so; "" otherwise."""
        for key in self._endings.keys:
            reason = metadata.get(key)
            if reason:
                return str(reason)
        return ""

    def _note_cut(self, message: BaseMessage) -> None:
        """Puts into a message's metadata that the answer was cut, if it was and is kept."""
        ending = self._ending()
        if ending not in _CUT_BY or self._will_fail():
            return
        self._cut_is_noted = True
        reason = self._shown_reason()
        message.response_metadata[CUT] = _CUT_BY[ending].format(reason)

    def _will_fail(self) -> bool:
        """Whether `check_end` raises for the ending that is known now.

        Then its error says why, and the metadata do not.
        """
        if self._calls:
            # The last call may be cut.
            return self._has_unknown_reason()
        return not self._says_something()

    def _has_unknown_reason(self) -> bool:
        """Whether the answer ended for a reason that whole answers do not have.

        False without a reason, and where those of whole answers are not known.
        """
        if not self._endings.known or not self._reason:
            return False
        return self._reason not in self._endings.whole

    def _ending(self) -> Ending:
        """How the answer ended, as far as it is known now."""
        reason = self._reason_detail or self._reason
        ending = _ENDING_BY_REASON.get(reason.casefold())
        if ending in {"malformed", "limit"}:
            return ending
        if self._question_is_blocked:
            return "filter"
        if ending is not None:
            return ending
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
        detail = _words_of(self._reason_detail)
        if reason and detail:
            return f"{reason}: {detail}"
        return reason or detail

    def _check_calls(self) -> None:
        """Raises `BadAnswerError` if the arguments of a tool call may be half, or are no object."""
        if self._has_unknown_reason():
            advice = _SHORTER if self._ending() == "limit" else ""
            raise BadAnswerError(
                f"The model's answer ended with {self._shown_reason()}, in which a tool call may be half.",
                advice,
            )
        arguments = list[object]()
        try:
            # langchain would complete a half. A thread with NaN, long integers or deep nesting can
            # never be read again.
            for text in self._calls.values():
                parsed = from_json(text or "{}", allow_inf_nan=False)
                arguments.append(parsed)
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
    if _has_media(message):
        return True
    return has_words(str(message.text))


def has_words(text: str) -> bool:
    """Whether a person can see something in a model's whole text, beside its thoughts."""
    shown = without_thoughts(text)
    return any(map(_is_visible, shown))


def _is_visible(character: str) -> bool:
    """Whether a person sees a character: it is no space, no control character and no blank."""
    if character in _BLANK:
        return False
    category = unicodedata.category(character)
    # Separators and spaces (Z), and control characters (C).
    return category[0] not in "ZC"


def _has_media(message: BaseMessage) -> bool:
    """Whether a message has something other than text that a person can see or hear."""
    if "audio" in message.additional_kwargs:
        return True
    blocks = [block for block in message.content if isinstance(block, dict)]
    return any(block.get("type") in _MEDIA for block in blocks)


def check_said(message: BaseMessage) -> None:
    """Raises `EmptyAnswerError` for a whole answer without text and without calls."""
    if isinstance(message, AIMessage):
        calls = message.tool_calls or message.invalid_tool_calls
        if calls:
            return
    if not says_something(message):
        raise EmptyAnswerError(SILENT)


def _text_of(mapping: object, key: str) -> str:
    """The text of a key in a mapping of a provider; "" if there is none."""
    if not isinstance(mapping, Mapping):
        return ""
    value = mapping.get(key)
    # Some clients make an enumeration of the text.
    text = getattr(value, "value", value)
    return str(text or "")


def _refusal_to_text(message: BaseMessage) -> bool:
    """Makes text of a refusal, wherever the integration has put it. Returns whether there was one."""
    beside_content = message.additional_kwargs.get("refusal")
    if isinstance(message.content, str):
        if beside_content:
            message.content += str(beside_content)
        return bool(beside_content)
    blocks = list[str | dict[str, object]]()
    is_refused = False
    for block in message.content:
        refusal = _refusal_of(block)
        if refusal:
            is_refused = True
            blocks.append({"type": "text", "text": refusal})
        else:
            blocks.append(block)
    if beside_content and not is_refused:
        is_refused = True
        blocks.append({"type": "text", "text": str(beside_content)})
    message.content = blocks
    return is_refused


def _refusal_of(block: object) -> str:
    """The text of a block with a refusal; "" for another block."""
    if not isinstance(block, Mapping):
        return ""
    block_type = block.get("type")
    if block_type == "non_standard":  # langchain's own form
        return _refusal_of(block.get("value"))
    if block_type == "refusal":
        return _text_of(block, "refusal")
    return ""
