"""Conversations and questions in many languages, as a history of one person, and what a search and
plain BM25 find in it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import yaml
from langgraph.store.memory import InMemoryStore

from lasting_memory.recall import language, results_text, search, search_stems
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, NOW

_TESTS = Path(__file__).parents[1]
# Every worker reads 30 files for the names of its tests. The C parser in PyYAML's wheels is ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _sets(folder: str) -> dict[str, Any]:
    """The sets of a folder, by the code of their language."""
    sets = dict[str, Any]()
    for path in sorted((_TESTS / folder).glob("*.yaml")):
        sets[path.stem] = yaml.load(path.read_text("utf-8"), Loader=_LOADER)  # noqa: S506  # a safe one
    return sets


SETS = _sets("languages")
# By somebody who had not seen how search ranks: with long turns, and with paragraphs of everyday
# talk from which further conversations are made.
STRANGERS_SETS = _sets("histories")
# Conversations of a long history, and sentences around what is said in each of their turns.
MANY, AROUND = 100, 12


@dataclass
class Found:
    """Of so many questions: those whose conversation comes first, is among the first three, among
    the first five, and those whose turn is quoted whole.
    """

    questions: int
    first: int = 0
    first_three: int = 0
    first_five: int = 0
    quoted: int = 0
    missed: list[str] = field(default_factory=list)

    def add(
        self, question: str, ranked: Sequence[str], expected: str, *, is_quoted: bool = False
    ) -> None:
        self.first += ranked[:1] == [expected]
        self.first_three += expected in ranked[:3]
        self.first_five += expected in ranked[:5]
        self.quoted += is_quoted
        if ranked[:1] != [expected] or not is_quoted:
            self.missed.append(question)


def long_history(name: str) -> list[list[str]]:
    """The conversations of a set, with long turns, and others of everyday talk: 100 in all."""
    everyday, chance = SETS[name]["more"], random.Random(7)

    def wordy(text: str) -> str:
        sentences = chance.choices(everyday, k=AROUND)
        sentences.insert(chance.randrange(AROUND), text)
        return " ".join(sentences)

    told = [[wordy(turn) for turn in turns] for turns in SETS[name]["conversations"]]
    others = [[wordy(chance.choice(everyday)) for _ in range(3)] for _ in range(MANY - len(told))]
    return [*told, *others]


def strangers_history(name: str) -> list[list[str]]:
    """The conversations of a stranger's set, and others of everyday talk: 100 in all."""
    of_set = STRANGERS_SETS[name]
    chance = random.Random(7)
    history: list[list[str]] = list(of_set["conversations"])
    while len(history) < MANY:
        talk = list[str]()
        for paragraphs in (of_set["daily"], of_set["replies"], of_set["daily"]):
            paragraph = chance.choice(paragraphs)
            talk.append(
                paragraph.format(
                    name=chance.choice(of_set["names"]),
                    place=chance.choice(of_set["places"]),
                    thing=chance.choice(of_set["things"]),
                    number=chance.randrange(9, 21),
                )
            )
        history.append(talk)
    return history


async def found_by_us(of_set: Any, history: Sequence[Sequence[str]], *, named: int = 3) -> Found:
    """What a search that names so many conversations finds of a set's questions in this history."""
    threads, store, questions = Platform(), InMemoryStore(), of_set["questions"]
    for number, said in enumerate(history, 1):
        spoken = [
            {"type": "ai" if n % 2 else "human", "id": str(n), "content": text}
            for n, text in enumerate(said)
        ]
        threads.put(ALICE, str(number), (NOW - timedelta(number)).isoformat(), spoken)
    found = Found(len(questions))
    for question, expected, turn in questions:
        results = await search(
            store, threads, ALICE, question, named, agents=["agent"], today=NOW.date()
        )
        ranked = [match.conversation.thread_id for match in results.matches]
        said = of_set["conversations"][expected - 1][turn - 1]
        found.add(
            question, ranked, str(expected), is_quoted=said in results_text(question, results)
        )
    return found


def found_by_bm25(of_set: Any, history: Sequence[Sequence[str]]) -> Found:
    """What BM25 finds over whole conversations, with the same terms."""
    questions, corpus = of_set["questions"], list[list[str]]()
    spoken = language(" ".join(history[0]))
    for said in history:
        corpus.append([term.text for term in search_stems(" ".join(said), spoken)])
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    found = Found(len(questions))
    for question, expected, _ in questions:
        words = [term.text for term in search_stems(question, spoken)]
        scores = index.get_scores(words)
        ranked = [
            str(1 + place) for place in np.argsort(-scores, kind="stable")[:5] if scores[place] > 0
        ]
        found.add(question, ranked, str(expected))
    return found
