"""Search of memory files, by words and, where the store has a semantic index, by meaning: for
tools, code and people alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from lasting_memory import platform
from lasting_memory.agent.shown_text import without_comments
from lasting_memory.controls import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.people.caller import Caller
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import fused, nearest, rank
from lasting_memory.validation import text_of

# Files of an answer unless more are asked for, and at most; characters and lines of each.
DEFAULT_FOUND, MAX_FOUND = 5, 20
_TEXT_CHARS, _LINES, _LINE_CHARS = 600, 10, 400
# Passages of all files, and lines of one, that are ranked each for itself: a file of 256 KiB has
# room for 100,000 of them, and each costs time and memory, however short it is.
_MOST_PASSAGES, _MOST_LINES = 20_000, 2_000
# Files to ask a semantic index for: some may not be text.
_NEAR = 100


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory file that a search found.

    Attributes:
        path: as the agent sees it, such as /memories/topics/cooking.md. text: at most 600
        characters of it: the passage that matches best, or the beginning where it is found by
        meaning alone. lines: at most ten of its lines with words of the query, the best first, each
        with its number, from 0. None of JSON.
    """

    path: str
    text: str
    lines: tuple[tuple[int, str], ...] = ()


async def find_memories(
    d: Deployment, query: str, *, limit: int = DEFAULT_FOUND
) -> list[FoundMemory]:
    """What is remembered of the person of the current run, or in shared memory, about a query; the
    best file first.

    For a tool or a node of your own: it finds what the tool `search_memories` finds, and nothing in
    a temporary conversation.

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
    """The best files of a namespace: by BM25 over their passages, and by the semantic index where
    there is one.
    """
    near = await nearest(store, namespace, query, _NEAR) if platform.embedding_model(store) else []
    items = await store.asearch(namespace, limit=d.limits.max_files)
    texts = {item.key: text_of(item) or "" for item in items}
    meant = [(item.key, item.score or 0.0, clear) for item, clear in near]
    return await platform.in_thread(_best, query, texts, meant, min(max(limit, 1), MAX_FOUND))


def _best(
    query: str, texts: Mapping[str, str], meant: Sequence[tuple[str, float, bool]], limit: int
) -> list[FoundMemory]:
    """The best of these files, given by key. `meant`: keys by meaning, with scores, and whether
    they are near. Blocks.
    """
    passages = _passages(texts)
    words = dict(rank(query, [f"{key} {part}" for key, part in passages]))
    # A file's meaning counts for its best passage.
    order = sorted(range(len(passages)), key=lambda place: (words.get(place, 0.0), -place))
    best = {passages[place][0]: place for place in order}
    places = [(best[key], score, clear) for key, score, clear in meant if key in best]
    scores = fused(
        words, {place: score for place, score, clear in places if clear or place in words}
    )
    ranked = sorted(scores, key=lambda place: -scores[place])[:limit]
    found = list[FoundMemory]()
    for place in ranked:
        key, part = passages[place]
        # Which part of a file is alike in meaning is not known: its beginning is shown.
        text = _shown(query, part) if place in words else texts[key][:_TEXT_CHARS]
        found.append(FoundMemory(f"/memories{key}", text, _lines(query, key, texts[key])))
    return found


def _passages(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The paragraphs of files, by key. Where there are very many, the last of each file are one."""
    many = sum(text.count("\n\n") + 1 for text in texts.values()) > _MOST_PASSAGES
    most = max(_MOST_PASSAGES // len(texts) - 1, 1) if many else -1
    return [
        (key, part)
        for key, text in texts.items()
        for part in text.split("\n\n", most)
        if part.strip()
    ]


def _ranked_lines(query: str, lines: Sequence[str]) -> list[int]:
    """The numbers of the lines that share a word with the query, the best first; of very many those
    at the best places.
    """
    size = -(-len(lines) // _MOST_LINES)
    if size <= 1:
        return [number for number, _ in rank(query, lines)]
    blocks = ["\n".join(lines[start : start + size]) for start in range(0, len(lines), size)]
    near = list[int]()
    for block, _ in rank(query, blocks)[:_LINES]:
        near += range(block * size, min((block + 1) * size, len(lines)))
    return [near[place] for place, _ in rank(query, [lines[number] for number in near])]


def _shown(query: str, passage: str) -> str:
    """The beginning of a passage; of a long one the part from its best line on, where that is
    further down.
    """
    passage = passage.strip("\n")
    if len(passage) <= _TEXT_CHARS:
        return passage
    lines = passage.split("\n")
    ranked = _ranked_lines(query, lines)
    start = len("\n".join(lines[: ranked[0]])) if ranked else 0
    begins = start if start > _TEXT_CHARS // 2 else 0
    return passage[begins : begins + _TEXT_CHARS].strip("\n")


def _lines(query: str, key: str, text: str) -> tuple[tuple[int, str], ...]:
    if key.endswith(".json"):
        return ()
    lines = [line.strip() for line in without_comments(text, line_breaks=True).split("\n")]
    facts = [
        (number, line) for number, line in enumerate(lines) if line and not line.startswith("#")
    ]
    best = _ranked_lines(query, [line for _, line in facts])[:_LINES]
    return tuple((facts[place][0], facts[place][1][:_LINE_CHARS]) for place in best)
