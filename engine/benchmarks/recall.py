"""How often the right past conversations are found and the right turns quoted: python -m
benchmarks.recall --set ... --data ...

    --set locomo|realtalk|beam|realmem     the format of the data
    --data PATH                    `locomo10.json`; REALTALK's folder `data`; a size of BEAM, such
    as `chats/100K`
    --only 6-10                    which conversations, counted from 1 (LoCoMo) or by the number in
    their name; all if left out
    --alternatives FILE            JSON lines {"id": "6-10", "alternatives": [...]}: other words for
    each question
    --mixed SET=PATH               also put this set's conversations into the history that is
    searched; may be given again
    --embed MODULE:FUNCTION        the store has a semantic index, by this function from texts to
    vectors
    --vectors FILE                 keeps the vectors (default: vectors.sqlite in the working folder)
    --ablate                       also leave out each part of the ranking: what it gains, with a
    95% interval
    --try NAME=VALUE               also with another value of a constant, such as DENSE_WEIGHT=0.35:
    what it gains; repeatable

The data are public and not part of the project (`benchmarks/recall_sets.py` names them). Every
question is asked through the function that the tool calls. `session_all@5`: all conversations that
hold evidence are among the first five; `session_all@answer`: they are named in the tool's default
answer; `turn@answer` and `turn@5`: share of the evidence turns that the default answer, and one of
five conversations, quotes: 200 characters of it, or all. The same for other numbers of characters
is printed too, so that no figure hangs on how many the answer gives a turn. Beside it BM25 over
whole conversations, by bm25s with the same words, and what is gained over it, with a 95% interval
(paired bootstrap). The last line is JSON, in percent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import bm25s
import numpy as np
from langgraph.store.base import IndexConfig
from langgraph.store.memory import InMemoryStore

from benchmarks.embedding_file import KeptVectors
from benchmarks.recall_sets import SETS, Person, Question, together
from lasting_memory.recall import (
    bm25,
    candidates,
    catch_up,
    conversation,
    corpus,
    question,
    ranking,
    results_text,
    retrieval,
    search,
    search_stems,
)
from lasting_memory.recall.tools import DEFAULT_LIMIT

AGENTS = ("agent",)
CUTS = (1, 3, 5, 10)
MOST = 20
# Characters of a turn that are enough to count as quoted; the first number is the measure's own.
QUOTED = (200, 50, 100, 400)
# Characters of a token, roughly.
_TOKEN_CHARS = 4
_RESAMPLES = 2_000
# Each part of the ranking, and what leaves it out.
PARTS: dict[str, dict[str, Any]] = {
    "neighbours in quotes": {"NEIGHBOURS": ()},
    "explained counts less": {"EXPLAINED_WEIGHT": 1.0},
    "neighbouring words": {"PAIR_WEIGHT": 0.0},
    "whole conversation": {"WHOLE_WEIGHT": 0.0},
    "answers that are asked for": {"ASKED_EXPLAINED_WEIGHT": 0.3, "ASKED_WHOLE_WEIGHT": 0.5},
    "the newest that is asked for": {"NEAR_BEST_FOR_NEWEST": 0.01},
    "times": {"TIME_WEIGHT": 0.0},
    "speakers": {"SPEAKER_BONUS": 0.0},
    "alternatives": {"ALTERNATIVE_WEIGHT": 0.0},
    "meaning": {"DENSE_WEIGHT": 0.0},
}


@dataclass(frozen=True)
class Answered:
    """A question's result: rank of each evidence conversation (from 0), whether all are named,
    quoted turns by `QUOTED`.
    """

    question: Question
    ranks: list[int]
    named: bool = False
    turns_answer: tuple[float, ...] = (0.0,) * len(QUOTED)
    turns_5: float = 0.0
    chars: int = 0
    seconds: float = 0.0


class History:
    """What is searched: a person's threads, with their index."""

    def __init__(self, person: Person, vectors: KeptVectors | None = None) -> None:
        self.person, self.store = person, InMemoryStore()
        talks = [conversation(thread) for thread in person.threads.kept.values()]
        if vectors:
            self.store = InMemoryStore(
                index=IndexConfig(embed=vectors.embed, dims=vectors.dims, fields=["text"])
            )
        self._ids = [talk.thread_id for talk in talks]
        self._bm25 = bm25s.BM25()
        corpus = [_stems(" ".join(turn.text for turn in talk.turns)) for talk in talks]
        self._bm25.index(corpus, show_progress=False)

    async def build(self) -> None:
        """Make the index."""
        await catch_up(self.store, self.person.threads, self.person.actor, agents=AGENTS)

    def baseline(self, asker: Person, question: Question) -> Answered:
        """BM25 over whole conversations."""
        start = time.perf_counter()
        words = _stems(question.text)
        scores = self._bm25.get_scores(words) if words else np.zeros(len(self._ids))
        ranked = [
            self._ids[place]
            for place in np.argsort(-scores, kind="stable")[:MOST]
            if scores[place] > 0
        ]
        return Answered(
            question, _ranks(asker, question, ranked), seconds=time.perf_counter() - start
        )

    async def ours(
        self, asker: Person, question: Question, alternatives: Sequence[str]
    ) -> Answered:
        """The function that the tool calls."""
        start, where = time.perf_counter(), self.person
        results = await search(
            self.store,
            where.threads,
            where.actor,
            question.text,
            MOST,
            agents=AGENTS,
            alternatives=alternatives,
            today=asker.last,
        )
        seconds = time.perf_counter() - start
        ranked = [item.conversation.thread_id for item in results.matches]
        answer, five = (
            results_text(
                question.text, replace(results, matches=results.matches[:limit]), alternatives
            )
            for limit in (DEFAULT_LIMIT, 5)
        )
        threads = {asker.turns[turn][0] for turn in question.evidence}
        return Answered(
            question,
            _ranks(asker, question, ranked),
            all(f"thread_id={thread}" in answer for thread in threads),
            tuple(
                statistics.mean(_quoted(asker, turn, answer, chars) for turn in question.evidence)
                for chars in QUOTED
            ),
            statistics.mean(_quoted(asker, turn, five, QUOTED[0]) for turn in question.evidence),
            len(answer),
            seconds,
        )


def _stems(text: str) -> list[str]:
    return [term.text for term in search_stems(text, "english")]


def _ranks(asker: Person, question: Question, ranked: list[str]) -> list[int]:
    threads = sorted({asker.turns[turn][0] for turn in question.evidence})
    return [ranked.index(thread) if thread in ranked else MOST for thread in threads]


def _quoted(asker: Person, turn: str, answer: str, chars: int) -> bool:
    """Whether an answer shows so many characters of the turn, or all of it, below its thread."""
    thread_id, text = asker.turns[turn]
    part = next((part for part in answer.split("\n\n") if f"thread_id={thread_id}" in part), "")
    return any(
        text[start : start + chars] in part for start in range(0, max(1, len(text) - chars + 1), 20)
    )


def share(values: Sequence[float]) -> float:
    """A mean in percent."""
    return round(100 * statistics.mean(values), 1) if values else 0.0


def figures(every: Sequence[Answered]) -> dict[str, float]:
    """The measures of some questions, in percent."""
    shares = {
        f"session_all@{cut}": share([float(max(item.ranks) < cut) for item in every])
        for cut in CUTS
    }
    shares["session_all@answer"] = share([float(item.named) for item in every])
    shares["turn@answer"] = share([item.turns_answer[0] for item in every])
    shares["turn@5"] = share([item.turns_5 for item in every])
    shares["mrr"] = share(
        [0.0 if min(item.ranks) >= MOST else 1 / (1 + min(item.ranks)) for item in every]
    )
    return shares


def print_row(name: str, every: Sequence[Answered], *, quotes: bool = True) -> None:
    """A line of the table."""
    measures = figures(every)
    cells = [
        f"{value:7.1f}" if quotes or not ("turn" in measure or "answer" in measure) else "      -"
        for measure, value in measures.items()
    ]
    milliseconds = 1_000 * statistics.mean(item.seconds for item in every)
    print(f"{name:26} {len(every):5} {''.join(cells)} {milliseconds:7.1f}", flush=True)


def print_table(baseline: Sequence[Answered], ours: Sequence[Answered]) -> None:
    """Both rankings, and ours by kind of question and by number of conversations with evidence."""
    heads = ["@1", "@3", "@5", "@10", "@answer", "turn@a", "turn@5", "mrr", "ms"]
    print(f"{'all conversations in':26} {'n':>5} {''.join(f'{head:>7}' for head in heads)}")
    print_row("BM25, whole conversations", baseline, quotes=False)
    print_row("ours", ours)
    for kind in dict.fromkeys(item.question.kind for item in ours):
        print_row(f"  {kind}", [item for item in ours if item.question.kind == kind])
    for least, most, name in ((1, 1, "one conversation"), (2, 2, "two"), (3, 99, "three or more")):
        if some := [item for item in ours if least <= len(item.ranks) <= most]:
            print_row(f"  evidence in {name}", some)


def interval(gains: Sequence[float]) -> tuple[float, float, float]:
    """Mean of paired differences in points of 100, and the 95% interval by bootstrap."""
    values = 100 * np.array(gains)
    drawn = np.random.default_rng(7).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def owner_of(name: str) -> ModuleType | None:
    """The module of the ranking that has a constant."""
    modules = (question, bm25, corpus, ranking, candidates, retrieval)
    return next((module for module in modules if name in vars(module)), None)


@contextmanager
def changed(settings: Mapping[str, Any]) -> Iterator[None]:
    """With these settings of the ranking."""
    owners = {name: owner_of(name) for name in settings}
    before = {name: getattr(owner, name) for name, owner in owners.items()}
    try:
        for name, value in settings.items():
            setattr(owners[name], name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owners[name], name, value)


MEASURES: dict[str, Callable[[Answered], float]] = {
    "session_all@5": lambda item: float(max(item.ranks) < CUTS[2]),
    "session_all@answer": lambda item: float(item.named),
    "turn@answer": lambda item: item.turns_answer[0],
}


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Median, and the value that 95 of 100 are below."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]


def print_more(baseline: Sequence[Answered], ours: Sequence[Answered]) -> dict[str, Any]:
    """What is gained over BM25, how much of a turn is quoted, tokens and milliseconds of an answer;
    for the JSON, too.
    """
    found = MEASURES["session_all@5"]
    mean, low, high = interval([found(a) - found(b) for a, b in zip(ours, baseline, strict=True)])
    print(f"\nsession_all@5 over BM25: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")
    intervals = {
        name: interval([value(item) for item in ours])[1:] for name, value in MEASURES.items()
    }
    print(
        "95% intervals:",
        ", ".join(f"{name} [{low:.1f}, {high:.1f}]" for name, (low, high) in intervals.items()),
    )
    shares = {
        chars: share([item.turns_answer[place] for item in ours])
        for place, chars in enumerate(QUOTED)
    }
    print(
        "turns quoted by characters:",
        ", ".join(f"{chars}: {shares[chars]}" for chars in sorted(shares)),
    )
    tokens = spread([item.chars / _TOKEN_CHARS for item in ours])
    milliseconds = spread([1_000 * item.seconds for item in ours])
    print(
        f"an answer: {tokens[0]:.0f} tokens (p95 {tokens[1]:.0f}), {milliseconds[0]:.1f} ms (p95 {milliseconds[1]:.1f})"
    )
    gain = [round(value, 1) for value in (mean, low, high)]
    return {
        "bm25": share(list(map(found, baseline))),
        "gain": gain,
        "intervals": {name: [round(end, 1) for end in ends] for name, ends in intervals.items()},
        "tokens": tokens,
        "ms": [round(ms, 1) for ms in milliseconds],
    }


async def print_changed(
    changes: Mapping[str, Mapping[str, Any]],
    asked: Sequence[tuple[Person, History]],
    alternatives: Mapping[str, list[str]],
    ours: Sequence[Answered],
    *,
    left_out: bool,
) -> None:
    """What other settings of the ranking gain over the given ones or, where they leave something
    out, what that gains.
    """
    print(
        f"\n{'a part gains' if left_out else 'a setting gains':26}"
        + "".join(f"{measure:>26}" for measure in MEASURES)
    )
    for name, settings in changes.items():
        with changed(settings):
            other = await measure(asked, alternatives)
        more, less = (ours, other) if left_out else (other, ours)
        gains = [
            interval([value(a) - value(b) for a, b in zip(more, less, strict=True)])
            for value in MEASURES.values()
        ]
        cells = [f"{mean:+10.1f} [{low:+5.1f}, {high:+5.1f}]" for mean, low, high in gains]
        print(f"{name:26}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


async def measure(
    asked: Sequence[tuple[Person, History]], alternatives: Mapping[str, list[str]]
) -> list[Answered]:
    """Every question of everybody, through the function that the tool calls."""
    return [
        await history.ours(person, question, alternatives.get(question.id, []))
        for person, history in asked
        for question in person.questions
    ]


def read_alternatives(path: Path | None) -> dict[str, list[str]]:
    """Other words by the question's id."""
    lines = path.read_text("utf-8").splitlines() if path else []
    return {
        str(line["id"]): [str(word) for word in line["alternatives"]]
        for line in map(json.loads, filter(None, lines))
    }


def span(text: str) -> range:
    """1-5, or a single number."""
    if not (match := re.fullmatch(r"(\d+)(?:-(\d+))?", text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range; use for example 6-10")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def setting(text: str) -> tuple[str, float]:
    """NAME=VALUE, of a constant of the ranking."""
    name, _, value = text.partition("=")
    if not isinstance(getattr(owner_of(name), name, None), int | float):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=VALUE with a number of the ranking in lasting_memory/recall"
        )
    return name, float(value)


def other_set(text: str) -> list[Person]:
    """SET=PATH."""
    name, _, path = text.partition("=")
    if name not in SETS or not path:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not SET=PATH with SET one of {', '.join(SETS)}"
        )
    return list(SETS[name](Path(path), None))


async def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", type=span)
    parser.add_argument("--alternatives", type=Path)
    parser.add_argument("--mixed", type=other_set, action="append", metavar="SET=PATH")
    parser.add_argument("--embed", metavar="MODULE:FUNCTION")
    parser.add_argument("--vectors", type=Path, default=Path("vectors.sqlite"))
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument(
        "--try", dest="tried", type=setting, action="append", default=[], metavar="NAME=VALUE"
    )
    args = parser.parse_args()
    people = list(SETS[args.set](args.data, args.only))
    if not any(person.questions for person in people):
        parser.error(
            f"{args.data} has no questions of set {args.set}; --data and --only name other conversations."
        )
    vectors = KeptVectors(args.embed, args.vectors) if args.embed else None
    if args.mixed:
        one = History(
            together([*people, *(person for group in args.mixed for person in group)]), vectors
        )
        asked = [(person, one) for person in people]
    else:
        asked = [(person, History(person, vectors)) for person in people]
    histories = list(dict.fromkeys(history for _, history in asked))
    for history in histories:
        await history.build()
    conversations = sum(len(history.person.threads.kept) for history in histories)
    print(
        f"{args.set}: {conversations} conversations in {len(histories)} histories; default answer {DEFAULT_LIMIT}"
    )
    baseline = [
        history.baseline(person, question)
        for person, history in asked
        for question in person.questions
    ]
    alternatives = read_alternatives(args.alternatives)
    ours = await measure(asked, alternatives)
    print_table(baseline, ours)
    more = print_more(baseline, ours)
    if args.ablate:
        given = {"alternatives": bool(alternatives), "meaning": bool(vectors)}
        parts = {name: settings for name, settings in PARTS.items() if given.get(name, True)}
        await print_changed(parts, asked, alternatives, ours, left_out=True)
    if args.tried:
        tried = {f"{name}={value:g}": {name: value} for name, value in args.tried}
        await print_changed(tried, asked, alternatives, ours, left_out=False)
    measures = figures(ours)
    names = ("session_all@5", "session_all@answer", "turn@answer", "turn@5", "mrr")
    chars = sorted(item.chars for item in ours)[int(0.95 * (len(ours) - 1))]
    given_too = [
        name for name, given in (("alternatives", alternatives), ("meaning", vectors)) if given
    ]
    told = {
        "set": args.set,
        "with": ["words", *given_too],
        **{name: measures[name] for name in names},
        **more,
    }
    print(json.dumps({**told, "chars_p95": chars, "questions": len(ours)}))


if __name__ == "__main__":
    asyncio.run(main())
