"""How answers of models end, by the integration: the reasons that providers give, and what they mean.

A provider gives the reason why its answer ended, such as `max_tokens`, in the answer's metadata.
What the reason means is the ending. People are told of an ending in a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True)
class Endings:
    """How an integration's answers end.

    `keys` are where their metadata have the reason, `whole_reasons` the reasons of whole answers.
    After another reason, such as a limit of tokens, the last tool call may be cut. Of an integration
    that is not known (`is_known`) the reasons of whole answers are not known either.
    """

    keys: tuple[str, ...]
    whole_reasons: frozenset[str]
    is_known: bool = True


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
    ("finish_reason", "stop_reason", "done_reason", "status"), frozenset(), is_known=False
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
# By ending, with a place for the reason.
CUT_SENTENCES: Mapping[Ending, str] = {
    "limit": "This was cut at the model's limit of tokens ({}).",
    "filter": "This was cut by the filter of the model's provider ({}).",
    "refusal": "The model refused to answer, or to go on ({}).",
    "pause": "The model paused before it had finished ({}); ask it to go on.",
    "other": "The model's provider ended this early ({}).",
}
SILENT_SENTENCES: Mapping[Ending, str] = {
    "limit": "The model reached its limit of tokens before it said anything ({}); ask for less at once.",
    "filter": "The model's provider filtered this answer ({}); say it in other words, or begin a new conversation.",
    "refusal": "The model refused to answer ({}); say it in other words, or begin a new conversation.",
    "pause": "The model paused before it said anything ({}); ask it to go on.",
    "other": "The model's provider ended this answer before it said anything ({}); try again, or say it in other words.",
}
SILENT = "The model ended its answer without a word; try again, or ask for what is missing."


def endings_of(model_class: type[BaseChatModel]) -> Endings:
    """How the answers of this class of models end, by its package or that of a class above it."""
    for base in model_class.__mro__:
        package = base.__module__.partition(".")[0]
        if package in ENDINGS:
            return ENDINGS[package]
    return _UNKNOWN


def ending_of(reason: str) -> Ending | None:
    """What a provider's reason means; None for one that is not known here."""
    return _ENDING_BY_REASON.get(reason.casefold())
