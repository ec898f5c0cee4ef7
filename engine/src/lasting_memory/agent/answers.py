"""One answer of a model, as its chunks come: whether it is whole, and what it says.

A text that was cut is kept, and its metadata say so. An answer without text and tool calls is an
error that says why.
"""

import json
import re
from collections.abc import Mapping
from typing import NoReturn

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from pydantic_core import from_json

from lasting_memory.agent.answer_endings import (
    CUT,
    CUT_SENTENCES,
    SILENT_SENTENCES,
    Ending,
    Endings,
    ending_of,
)
from lasting_memory.agent.answer_errors import (
    BadAnswerError,
    CutAnswerError,
    EmptyAnswerError,
    FilteredAnswerError,
)
from lasting_memory.agent.visible_content import has_media, has_words

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
        if has_media(message):
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
        lacks_reason = self._endings.is_known and not self._reason
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
        sentence = SILENT_SENTENCES[ending].format(reason)
        if ending in {"filter", "refusal"}:
            raise FilteredAnswerError(sentence)
        raise EmptyAnswerError(sentence)

    def partial_message(self) -> AIMessage | None:
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
            for invalid_call in message.invalid_tool_calls:
                arguments = invalid_call["args"] or ""
                self._add_arguments(self._new_key(), arguments)

    def _new_key(self) -> int:
        """The key of a call that has no index."""
        return len(self._calls)

    def _add_arguments(self, key: object, text: str) -> None:
        """Adds a piece of the arguments of the call with this key."""
        earlier_text = self._calls.get(key, "")
        self._calls[key] = earlier_text + text
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
        if ending not in CUT_SENTENCES or self._will_fail():
            return
        self._cut_is_noted = True
        reason = self._shown_reason()
        message.response_metadata[CUT] = CUT_SENTENCES[ending].format(reason)

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
        if not self._endings.is_known or not self._reason:
            return False
        return self._reason not in self._endings.whole_reasons

    def _ending(self) -> Ending:
        """How the answer ended, as far as it is known now."""
        reason = self._reason_detail or self._reason
        ending = ending_of(reason)
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
                parsed_arguments = from_json(text or "{}", allow_inf_nan=False)
                arguments.append(parsed_arguments)
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
    refusal_beside_content = message.additional_kwargs.get("refusal")
    if isinstance(message.content, str):
        if refusal_beside_content:
            message.content += str(refusal_beside_content)
        return bool(refusal_beside_content)
    blocks = list[str | dict[str, object]]()
    is_refused = False
    for block in message.content:
        refusal = _refusal_of(block)
        if refusal:
            is_refused = True
            blocks.append({"type": "text", "text": refusal})
        else:
            blocks.append(block)
    if refusal_beside_content and not is_refused:
        is_refused = True
        blocks.append({"type": "text", "text": str(refusal_beside_content)})
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
