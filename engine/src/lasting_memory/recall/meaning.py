"""What the store's semantic index finds of past conversations: passages of a few turns, embedded by
their field `text`.
"""

import statistics
from collections.abc import Iterator
from typing import Any, cast

from langgraph.store.base import BaseStore, PutOp, SearchItem, SearchOp

from lasting_memory.people import identity, namespaces
from lasting_memory.recall.format import TELLS, key_of
from lasting_memory.recall.threads import Conversation, weighed

# Characters of a passage (a few turns, well within the limits of embedding models), passages of one
# conversation, and of those that a search asks for.
PASSAGE_CHARS = 800
MAX_PASSAGES = 200
FOUND = 50
# How similar something meaningless is to a person's passages (the median of so many) tells what
# similarity is none: models differ too much for one number. It must be exceeded by so much of the
# rest up to 1. With all-MiniLM-L6-v2 on LoCoMo 1-5, one of 80 questions about something else then
# finds anything, and 10 of 760 real ones nothing.
_MEANINGLESS = "zzz"
_MEANINGLESS_ITEMS = 10
_CLEARLY = 0.15


async def text_ops(
    store: BaseStore, actor: identity.Actor, key: int, talk: Conversation | None
) -> list[PutOp]:
    """The operations that replace the passages of a conversation, by its number, in the index; None
    removes them.
    """
    namespace = namespaces.recall(actor, "texts")
    listed = f"{key:016x}/passages"
    item = await store.aget(namespace, listed)
    before = set(item.value["passages"]) if item else set[str]()
    made = _passage_items(key, talk) if talk else {}
    ops = list[PutOp]()
    for name in before - made.keys():
        ops.append(PutOp(namespace, name, None))
    for name in made.keys() - before:
        ops.append(PutOp(namespace, name, made[name], index=["text"]))
    if talk:
        ops.append(PutOp(namespace, listed, {"passages": sorted(made)}, index=False))
    elif item:
        ops.append(PutOp(namespace, listed, None))
    return ops


def _passage_items(key: int, talk: Conversation) -> dict[str, dict[str, Any]]:
    """The items of a conversation's passages, by key; of an endless conversation the end.

    A repeated text counts once, with its first turn: langgraph's in-memory store embeds no text
    twice.
    """
    turns = dict[str, int]()
    for turn, text in reversed(list(passages(talk))):
        turns[text] = turn
    items = dict[str, dict[str, Any]]()
    for text, turn in list(turns.items())[:MAX_PASSAGES]:
        passage = {"text": text, "turn": turn}
        items[f"{key:016x}/{key_of(str(passage)):016x}"] = passage
    return items


async def similar(
    store: BaseStore, actor: identity.Actor, query: str
) -> dict[int, tuple[SearchItem, bool]]:
    """For each conversation, by number, that is near to the query its nearest passage, and whether
    that is near at all.
    """
    if not query.strip():
        return {}
    best = dict[int, tuple[SearchItem, bool]]()
    for item, is_clear in await nearest(store, namespaces.recall(actor, "texts"), query, FOUND):
        best.setdefault(int(item.key[:16], 16), (item, is_clear))
    return best


async def nearest(
    store: BaseStore, namespace: namespaces.Namespace, query: str, most: int
) -> list[tuple[SearchItem, bool]]:
    """The nearest items of a namespace, each with its score, and whether it is near at all:
    nonsense is near to nothing.
    """
    ops = [
        SearchOp(namespace, query=query, limit=most),
        SearchOp(namespace, query=_MEANINGLESS, limit=_MEANINGLESS_ITEMS),
    ]
    found, meaningless = cast("list[list[SearchItem]]", await store.abatch(ops))
    scores = [item.score for item in meaningless if item.score is not None]
    none = statistics.median(scores) if scores else 0.0
    return [
        (item, item.score > none + _CLEARLY * (1 - none))
        for item in found
        if item.score is not None
    ]


def passages(talk: Conversation) -> Iterator[tuple[int, str]]:
    """Passages: index of the first turn, and text. The end of a long turn is left to the search by
    words.

    A question about the past is nearest to itself: what asks or repeats is left to the search by
    words, too.
    """
    first = 0
    lines = list[str]()
    for number, turn in enumerate(talk.turns):
        told = "".join(text for text, kind in weighed(turn) if kind == TELLS)
        if not told:
            continue
        line = f"{turn.name or turn.speaker}: {told}"[:PASSAGE_CHARS]
        # Postgres holds neither NUL nor half a character.
        line = line.replace("\0", " ").encode(errors="replace").decode()
        if lines and sum(map(len, lines)) + len(line) > PASSAGE_CHARS:
            yield first, "\n".join(lines)
            lines = []
        if not lines:
            first = number
        lines.append(line)
    if lines:
        yield first, "\n".join(lines)
