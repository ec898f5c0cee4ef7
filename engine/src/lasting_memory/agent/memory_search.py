"""Search of memory files: for tools, code and people alike.

Files are found by words and, where the store has a semantic index, by meaning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from langgraph.config import get_store
from langgraph.store.base import BaseStore, Item

from lasting_memory import platform
from lasting_memory.agent.unconfirmed import unconfirmed_in, unconfirmed_lines
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory.ends import ends_of, over_in, present_day, without_lines
from lasting_memory.memory.facts import without_comments
from lasting_memory.memory.sources import signs_in
from lasting_memory.memory.stored_files import text_of
from lasting_memory.people.caller import Caller
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import fused, nearest, rank

# Files of an answer unless more are asked for, and at most.
DEFAULT_FOUND = 5
MAX_FOUND = 20
# Of each file: characters of its text, lines, and characters of each line.
_TEXT_CHARS = 600
_LINES = 10
_LINE_CHARS = 400
# Passages of all files, and lines of one, that are ranked each for itself: a file of 256 KiB has
# room for 100,000 of them, and each costs time and memory, however short it is.
_MOST_PASSAGES = 20_000
_MOST_LINES = 2_000
_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
# Files to ask a semantic index for: some may not be text.
_NEAR = 100


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory file that a search found.

    Attributes:
        path: as the agent sees it, such as /memories/topics/cooking.md.
        text: at most 600 characters of it: the passage that matches best, or the beginning where
            it is found by meaning alone.
        lines: at most ten of its lines with words of the query, the best first, each with its
            number, from 0. None of JSON.
        unconfirmed: what lines of `text` say that nobody vouches for, or fields of JSON.
    """

    path: str
    text: str
    lines: tuple[tuple[int, str], ...] = ()
    unconfirmed: tuple[str, ...] = ()


class _Passage(NamedTuple):
    """A paragraph of a file."""

    key: str
    text: str


class _Similar(NamedTuple):
    """A file that the semantic index found. `is_near`: alike enough to count by meaning alone."""

    key: str
    score: float
    is_near: bool


async def find_memories(
    d: Deployment, query: str, *, limit: int = DEFAULT_FOUND
) -> list[FoundMemory]:
    """What is remembered about a query; the best file first.

    It searches the memory of the current run's person, or shared memory. For a tool or a node of
    your own: it finds what the tool `search_memories` finds, and nothing in a temporary
    conversation.

    Args:
        d: the deployment.
        query: in plain words.
        limit: how many files, from 1 to 20.

    Raises `SettingsError` where there is no memory, and `IdentityError` where the run is nobody's.
    """
    caller = Caller.of_run(d)
    namespace = d.memory.namespace(caller.actor, caller.assistant)
    if in_temporary_conversation():
        return []
    return await search_files(get_store(), namespace, query, d, limit)


async def search_files(
    store: BaseStore, namespace: Namespace, query: str, d: Deployment, limit: int = DEFAULT_FOUND
) -> list[FoundMemory]:
    """The best files of a namespace, by the words of their passages (BM25).

    Where the store has a semantic index, their meaning counts, too.
    """
    similar = list[_Similar]()
    if platform.embedding_model(store):
        for item, is_near in await nearest(store, namespace, query, _NEAR):
            similar.append(_Similar(item.key, item.score or 0.0, is_near))
    items = await store.asearch(namespace, limit=d.limits.max_files)
    most = min(max(limit, 1), MAX_FOUND)
    return await platform.in_thread(_search, d, query, items, similar, most)


def _search(
    d: Deployment,
    query: str,
    items: Sequence[Item],
    similar: Sequence[_Similar],
    limit: int,
) -> list[FoundMemory]:
    """The best of these files, without their lines that are over. Blocks."""
    texts = {item.key: text_of(item) or "" for item in items}
    day = present_day(d, texts.get(_PROFILE_KEY))
    over = dict[str, frozenset[int]]()
    for item in items:
        over[item.key] = over_in(ends_of(item, day))
    signs = {item.key: signs_in(item.value) for item in items}
    best = list[FoundMemory]()
    for found in _best(query, texts, similar, limit, over):
        key = found.path.removeprefix("/memories")
        doubtful = unconfirmed_lines(key, texts[key], signs[key])
        best.append(replace(found, unconfirmed=unconfirmed_in(found.text, doubtful)))
    return best


def _best(
    query: str,
    texts: Mapping[str, str],
    similar: Sequence[_Similar],
    limit: int,
    over: Mapping[str, frozenset[int]],
) -> list[FoundMemory]:
    """The best of these texts of files, which are given by key, without their lines that are
    `over`. Blocks.
    """
    current = {key: without_lines(text, over[key]) for key, text in texts.items()}
    passages = _passages(current)
    by_words = dict(rank(query, [f"{key} {text}" for key, text in passages]))
    by_meaning = _scores_by_meaning(similar, _best_passages(passages, by_words), by_words)
    scores = fused(by_words, by_meaning)
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    results = dict[str, FoundMemory]()
    for number in ranked:
        key, passage = passages[number]
        if key in results:
            # A file is found once, by its best passage.
            continue
        # Which part of a file is alike in meaning is not known: its beginning is shown.
        best_part = _shown(query, passage) if number in by_words else current[key][:_TEXT_CHARS]
        lines = _lines(query, key, texts[key], over[key])
        results[key] = FoundMemory(f"/memories{key}", best_part, lines)
        if len(results) == limit:
            break
    return list(results.values())


def _best_passages(passages: Sequence[_Passage], by_words: Mapping[int, float]) -> dict[str, int]:
    """The number of each file's best passage, by key; of equal ones the first."""
    best = dict[str, int]()
    for number, passage in enumerate(passages):
        score = by_words.get(number, 0.0)
        if passage.key not in best or score > by_words.get(best[passage.key], 0.0):
            best[passage.key] = number
    return best


def _scores_by_meaning(
    similar: Sequence[_Similar], best: Mapping[str, int], by_words: Mapping[int, float]
) -> dict[int, float]:
    """Scores by meaning: a file's counts for its best passage, by that passage's number.

    Of a file that is not near they count only where it shares words with the query.
    """
    scores = dict[int, float]()
    for file in similar:
        number = best.get(file.key)
        if number is not None and (file.is_near or number in by_words):
            scores[number] = file.score
    return scores


def _passages(texts: Mapping[str, str]) -> list[_Passage]:
    """The paragraphs of files. Where there are very many, the last ones of each file are one."""
    paragraphs = sum(text.count("\n\n") + 1 for text in texts.values())
    splits = -1  # at every blank line
    if paragraphs > _MOST_PASSAGES:
        splits = max(_MOST_PASSAGES // len(texts) - 1, 1)
    passages = list[_Passage]()
    for key, text in texts.items():
        for part in text.split("\n\n", splits):
            if part.strip():
                passages.append(_Passage(key, part))
    return passages


def _ranked_lines(query: str, lines: Sequence[str]) -> list[int]:
    """The numbers of the lines that share a word with the query, the best first.

    Of very many, only those in the best blocks of neighbouring lines are ranked.
    """
    block_size = math.ceil(len(lines) / _MOST_LINES)
    if block_size <= 1:
        return [number for number, _ in rank(query, lines)]
    starts = range(0, len(lines), block_size)
    blocks = list[str]()
    for start in starts:
        block = lines[start : start + block_size]
        blocks.append("\n".join(block))
    numbers = list[int]()
    for place, _ in rank(query, blocks)[:_LINES]:
        start = starts[place]
        end = min(start + block_size, len(lines))
        numbers += range(start, end)
    near = [lines[number] for number in numbers]
    return [numbers[place] for place, _ in rank(query, near)]


def _shown(query: str, passage: str) -> str:
    """The beginning of a passage, or the part from its best line on where that is further down."""
    passage = passage.strip("\n")
    if len(passage) <= _TEXT_CHARS:
        return passage
    lines = passage.split("\n")
    ranked = _ranked_lines(query, lines)
    start = len("\n".join(lines[: ranked[0]])) if ranked else 0
    if start <= _TEXT_CHARS // 2:
        start = 0
    return passage[start : start + _TEXT_CHARS].strip("\n")


def _lines(query: str, key: str, text: str, over: frozenset[int]) -> tuple[tuple[int, str], ...]:
    """The best lines of a file with words of the query, each with its number in it; none that is
    over.
    """
    if key.endswith(".json"):
        return ()
    numbers = list[int]()
    facts = list[str]()
    for number, line in enumerate(without_comments(text, line_breaks=True).split("\n")):
        fact = line.strip()
        if fact and not fact.startswith("#") and number not in over:
            numbers.append(number)
            facts.append(fact)
    best = _ranked_lines(query, facts)[:_LINES]
    return tuple((numbers[place], facts[place][:_LINE_CHARS]) for place in best)
