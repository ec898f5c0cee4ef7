"""Recall in languages that nobody tunes for: hand-made conversations and questions in `evals/recall`, with a floor for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from langgraph.store.memory import InMemoryStore

from memory.identity import Actor
from memory.recall import results_text, search
from settings import PROJECT
from testing.platform import Platform

ALICE = Actor("alice", "acme")
NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)
SETS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted((PROJECT / "evals" / "recall").glob("*.yaml"))}
# Of 30 questions: those whose conversation comes first, and those whose turn an answer of three conversations quotes.
FLOORS = {"de": (24, 24), "es": (28, 29), "ja": (27, 29), "zh": (28, 29)}


def spoken(said: list[str]) -> list[dict[str, Any]]:
    return [{"type": "ai" if n % 2 else "human", "id": str(n), "content": text} for n, text in enumerate(said)]


@pytest.mark.parametrize("language", FLOORS)
async def test_the_right_conversation_and_turn_are_found_in_this_language(language: str) -> None:
    threads, store, first, quoted = Platform(), InMemoryStore(), 0, 0
    conversations, questions = SETS[language]["conversations"], SETS[language]["questions"]
    for number, said in enumerate(conversations, 1):
        threads.put(ALICE, str(number), (NOW - timedelta(number)).isoformat(), spoken(said))
    missed = []
    for question, conversation, turn in questions:
        results = await search(store, threads, ALICE, question, 3, today=NOW.date())
        is_first = bool(results.matches) and results.matches[0].conversation.thread_id == str(conversation)
        is_quoted = conversations[conversation - 1][turn - 1] in results_text(question, results)
        first, quoted = first + is_first, quoted + is_quoted
        missed += [] if is_first and is_quoted else [question]
    assert len(questions) == 30
    assert first >= FLOORS[language][0], missed
    assert quoted >= FLOORS[language][1], missed
