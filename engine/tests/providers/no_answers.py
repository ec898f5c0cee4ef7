"""Answers of each provider that are none, or not whole: how they end, and what is said of them."""

from typing import Any

import pytest

from lasting_memory.agent.answer_errors import CutAnswerError, EmptyAnswerError, FilteredAnswerError
from lasting_memory.testing.scripted_provider import Said

WORDS = ("Plain ", "answer ", "about", " wombats", ".")
TEXT = "".join(WORDS)
REFUSAL = "I'm sorry, but I can't help with that."
# Of an answer without text: the ending in each protocol's own word, and what the error says of it.
FILTERED, REFUSED, EMPTY = "filtered this answer", "refused to answer", "without a word"
LIMIT = "limit of tokens before it said anything"
NOTHING = [
    ("anthropic", Said(ending="refusal"), FilteredAnswerError, f"{REFUSED} .refusal"),
    ("anthropic", Said(ending="max_tokens"), EmptyAnswerError, f"{LIMIT} .max_tokens"),
    ("anthropic", Said(), EmptyAnswerError, EMPTY),
    ("anthropic", Said(words=(" ", "\n")), EmptyAnswerError, EMPTY),
    (
        "anthropic",
        Said(ending="pause_turn"),
        EmptyAnswerError,
        "paused before it said anything .pause_turn",
    ),
    ("openai", Said(ending="content_filter"), FilteredAnswerError, f"{FILTERED} .content_filter"),
    ("openai", Said(ending="length"), EmptyAnswerError, f"{LIMIT} .length"),
    ("openai", Said(), EmptyAnswerError, EMPTY),
    (
        "openai unstreamed",
        Said(ending="content_filter"),
        FilteredAnswerError,
        f"{FILTERED} .content_filter",
    ),
    ("openai unstreamed", Said(), EmptyAnswerError, EMPTY),
    (
        "responses",
        Said(ending="content_filter"),
        FilteredAnswerError,
        f"{FILTERED} .incomplete: content_filter",
    ),
    (
        "responses",
        Said(ending="max_output_tokens"),
        EmptyAnswerError,
        f"{LIMIT} .incomplete: max_output_tokens",
    ),
    ("responses", Said(), EmptyAnswerError, EMPTY),
    ("google", Said(ending="SAFETY"), FilteredAnswerError, f"{FILTERED} .SAFETY"),
    (
        "google",
        Said(ending="PROHIBITED_CONTENT"),
        FilteredAnswerError,
        f"{FILTERED} .PROHIBITED_CONTENT",
    ),
    ("google", Said(ending="RECITATION"), FilteredAnswerError, f"{FILTERED} .RECITATION"),
    (
        "google",
        Said(blocked="PROHIBITED_CONTENT"),
        FilteredAnswerError,
        f"{FILTERED} .PROHIBITED_CONTENT",
    ),
    ("google", Said(blocked="OTHER"), FilteredAnswerError, f"{FILTERED} .OTHER"),
    (
        "google",
        Said(ending="MALFORMED_FUNCTION_CALL"),
        CutAnswerError,
        "cannot read it .MALFORMED_FUNCTION_CALL",
    ),
    ("google", Said(ending="MAX_TOKENS"), EmptyAnswerError, f"{LIMIT} .MAX_TOKENS"),
    (
        "google",
        Said(ending="OTHER"),
        EmptyAnswerError,
        "ended this answer before it said anything .OTHER",
    ),
    ("google", Said(), EmptyAnswerError, EMPTY),
    ("ollama", Said(ending="length"), EmptyAnswerError, f"{LIMIT} .length"),
    ("ollama", Said(), EmptyAnswerError, EMPTY),
]
# Of one with text: that, and what is said about it.
SOMETHING = [
    ("anthropic", Said(WORDS, ending="refusal"), TEXT, "refused to answer, or to go on (refusal)"),
    ("anthropic", Said(WORDS, ending="max_tokens"), TEXT, "limit of tokens (max_tokens)"),
    (
        "anthropic",
        Said(WORDS, ending="model_context_window_exceeded"),
        TEXT,
        "(model_context_window_exceeded)",
    ),
    (
        "anthropic",
        Said(("Let ", "me"), ending="pause_turn"),
        "Let me",
        "paused before it had finished (pause_turn)",
    ),
    (
        "openai",
        Said(WORDS, ending="content_filter"),
        TEXT,
        "by the filter of the model's provider (content_filter)",
    ),
    ("openai", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
    ("openai", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("openai", Said(WORDS, refusal=REFUSAL), TEXT + REFUSAL, "refused to answer"),
    ("openai unstreamed", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
    ("openai unstreamed", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("responses", Said(WORDS, ending="content_filter"), TEXT, "(incomplete: content_filter)"),
    (
        "responses",
        Said(WORDS, ending="max_output_tokens"),
        TEXT,
        "limit of tokens (incomplete: max_output_tokens)",
    ),
    ("responses", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("responses", Said(WORDS, refusal=REFUSAL), TEXT + REFUSAL, "refused to answer"),
    (
        "google",
        Said(WORDS, ending="SAFETY"),
        TEXT,
        "by the filter of the model's provider (SAFETY)",
    ),
    ("google", Said(WORDS, ending="MAX_TOKENS"), TEXT, "limit of tokens (MAX_TOKENS)"),
    ("google", Said(WORDS, ending="LANGUAGE"), TEXT, "ended this early (LANGUAGE)"),
    ("ollama", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
]


def named(cases: list[Any]) -> list[Any]:
    """Parameters with a name that says provider and answer."""
    params = []
    for name, said, *expected in cases:
        parts = [
            said.ending or said.blocked,
            "words" if any(word.strip() for word in said.words) else "",
        ]
        parts.append("refusal" if said.refusal else "")
        label = " ".join([name, *filter(None, parts)])
        params.append(
            pytest.param(name, said, *expected, id=label if label != name else f"{name} empty")
        )
    return params
