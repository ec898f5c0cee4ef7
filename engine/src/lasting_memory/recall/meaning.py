"""What the store's semantic index finds of past conversations: passages of a few turns, embedded by
their field `text`.
"""

import statistics
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem, SearchOp

from lasting_memory.people import identity, namespaces
from lasting_memory.recall.format import TELLS, key_of, name_of
from lasting_memory.recall.threads import Conversation, Turn, weighed

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

# A passage with its score, and whether it is near at all.
Nearest = tuple[SearchItem, bool]


async def text_ops(
    store: BaseStore, actor: identity.Actor, key: int, talk: Conversation | None
) -> list[PutOp]:
    """The operations that replace the passages of a conversation in the index. `key` is its number.
    If `talk` is None, its passages are removed. The key of a passage is a hash of its text, so one
    that stays the same is not put again.
    """
    namespace = namespaces.recall(actor, "texts")
    listed = f"{name_of(key)}/passages"
    item = await store.aget(namespace, listed)
    before = set[str]()
    if item:
        before.update(item.value["passages"])
    made = _passage_items(key, talk) if talk else {}
    ops = list[PutOp]()
    for name in before - made.keys():
        ops.append(PutOp(namespace, name, None))
    for name in made.keys() - before:
        passage = made[name]
        ops.append(PutOp(namespace, name, passage, index=["text"]))
    if talk:
        names = {"passages": sorted(made)}
        ops.append(PutOp(namespace, listed, names, index=False))
    elif item:
        ops.append(PutOp(namespace, listed, None))
    return ops


def _passage_items(key: int, talk: Conversation) -> dict[str, dict[str, Any]]:
    """The items of a conversation's passages, by key; of an endless conversation the end.

    A repeated text counts once, with its first turn: langgraph's in-memory store embeds no text
    twice.
    """
    conversation = name_of(key)
    turns = dict[str, int]()
    last_first = reversed(list(passages(talk)))
    for turn, text in last_first:
        turns[text] = turn
    items = dict[str, dict[str, Any]]()
    for text, turn in islice(turns.items(), MAX_PASSAGES):
        passage = {"text": text, "turn": turn}
        number = key_of(str(passage))
        name = name_of(number)
        items[f"{conversation}/{name}"] = passage
    return items


def conversation_of_passage(item: Item) -> int:
    """The number of the conversation of an item of `texts`."""
    name, _, _ = item.key.partition("/")
    return int(name, 16)


async def similar(store: BaseStore, actor: identity.Actor, query: str) -> dict[int, Nearest]:
    """For each conversation, by number, that is near to the query its nearest passage, and whether
    that is near at all.
    """
    best = dict[int, Nearest]()
    if not query.strip():
        return best
    texts = namespaces.recall(actor, "texts")
    for item, is_clear in await nearest(store, texts, query, FOUND):
        conversation = conversation_of_passage(item)
        best.setdefault(conversation, (item, is_clear))
    return best


async def nearest(
    store: BaseStore, namespace: namespaces.Namespace, query: str, most: int
) -> list[Nearest]:
    """The nearest items of a namespace, each with its score, and whether it is near at all:
    nonsense is near to nothing.
    """
    ops = [
        SearchOp(namespace, query=query, limit=most),
        SearchOp(namespace, query=_MEANINGLESS, limit=_MEANINGLESS_ITEMS),
    ]
    results = await store.abatch(ops)
    found, meaningless = cast("list[list[SearchItem]]", results)
    scores = [item.score for item in meaningless if item.score is not None]
    none = statistics.median(scores) if scores else 0.0
    least = none + _CLEARLY * (1 - none)
    near = list[Nearest]()
    for item in found:
        if item.score is not None:
            is_clear = item.score > least
            near.append((item, is_clear))
    return near


def passages(talk: Conversation) -> Iterator[tuple[int, str]]:
    """Passages: index of the first turn, and text. The end of a long turn is left to the search by
    words.

    A question about the past is nearest to itself: what asks or repeats is left to the search by
    words, too.
    """
    first = 0
    lines = list[str]()
    size = 0
    for number, turn in enumerate(talk.turns):
        told = _told_in(turn)
        if not told:
            continue
        speaker = turn.name or turn.speaker
        whole = f"{speaker}: {told}"
        line = _storable(whole[:PASSAGE_CHARS])
        if lines and size + len(line) > PASSAGE_CHARS:
            yield first, "\n".join(lines)
            lines = []
            size = 0
        if not lines:
            first = number
        lines.append(line)
        size += len(line)
    if lines:
        yield first, "\n".join(lines)


def _told_in(turn: Turn) -> str:
    """What of a turn tells something."""
    told = ""
    for text, kind in weighed(turn):
        if kind == TELLS:
            told += text
    return told


def _storable(text: str) -> str:
    """A text without what Postgres does not hold: NUL, and half a character."""
    without_nul = text.replace("\0", " ")
    encoded = without_nul.encode(errors="replace")
    return encoded.decode()
