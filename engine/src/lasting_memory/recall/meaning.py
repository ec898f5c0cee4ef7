"""What the store's semantic index finds of past conversations: passages of a few turns, embedded by
their field `text`.

A passage is an item of the namespace `texts`, with its text and the number of its first turn. One
more item for each conversation lists the keys of its passages. A conversation has a number, its key
(`format.key_of`).
"""

import statistics
from collections.abc import Iterator
from itertools import islice
from typing import cast

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem, SearchOp

from lasting_memory.people import identity, namespaces
from lasting_memory.recall.format import TELLS, key_of, name_of
from lasting_memory.recall.threads import Conversation, Turn, weighted_pieces

# Characters of a passage that is embedded (a few turns, well within the limits of embedding models),
# embedded passages of one conversation, and of those that a search asks for.
EMBEDDED_CHARS = 800
MAX_EMBEDDED = 200
NEAREST_LIMIT = 50
# How similar something meaningless is to a person's passages (the median of so many) tells what
# similarity is none: models differ too much for one number. It must be exceeded by so much of the
# rest up to 1. With all-MiniLM-L6-v2 on LoCoMo 1-5, one of 80 questions about something else then
# finds anything, and 10 of 760 real ones nothing.
_MEANINGLESS = "zzz"
_MEANINGLESS_ITEMS = 10
_CLEARLY = 0.15

# The value of a passage's item: its `text`, and `turn`, the number of its first turn.
_PassageValue = dict[str, str | int]
# An item with its score, and whether it is clearly nearer to the query than to nonsense.
Nearest = tuple[SearchItem, bool]


async def text_ops(
    store: BaseStore, actor: identity.Actor, key: int, talk: Conversation | None
) -> list[PutOp]:
    """The operations that replace the passages of a conversation in the index, by its key. Writes
    nothing itself.

    If `talk` is None, the passages are removed. The key of a passage is a hash of its text, so one
    that stays the same is not put again.
    """
    namespace = namespaces.recall(actor, "texts")
    list_name = f"{name_of(key)}/passages"
    list_item = await store.aget(namespace, list_name)
    stored_names = set[str]()
    if list_item:
        names = list_item.value["passages"]
        stored_names.update(names)
    items = dict[str, _PassageValue]()
    if talk:
        items = _passage_items(key, talk)
    ops = list[PutOp]()
    for name in stored_names - items.keys():
        deletion = PutOp(namespace, name, None)
        ops.append(deletion)
    for name in items.keys() - stored_names:
        passage = items[name]
        put_passage = PutOp(namespace, name, passage, index=["text"])
        ops.append(put_passage)
    if talk:
        value = {"passages": sorted(items)}
        put_list = PutOp(namespace, list_name, value, index=False)
        ops.append(put_list)
    elif list_item:
        deletion = PutOp(namespace, list_name, None)
        ops.append(deletion)
    return ops


def _passage_items(key: int, talk: Conversation) -> dict[str, _PassageValue]:
    """The values of a conversation's passages, by the items' keys; of a long conversation the last
    `MAX_EMBEDDED`.

    A repeated text counts once, with its first turn: langgraph's in-memory store embeds no text
    twice.
    """
    conversation = name_of(key)
    in_order = list(passages(talk))
    first_turns = dict[str, int]()
    for turn, text in reversed(in_order):
        first_turns[text] = turn
    items = dict[str, _PassageValue]()
    last_passages = islice(first_turns.items(), MAX_EMBEDDED)
    for text, turn in last_passages:
        passage: _PassageValue = {"text": text, "turn": turn}
        number = key_of(str(passage))
        name = name_of(number)
        items[f"{conversation}/{name}"] = passage
    return items


def conversation_of_passage(item: Item) -> int:
    """The key of the conversation that an item of `texts` belongs to."""
    name, *_ = item.key.split("/")
    return int(name, 16)


async def similar(store: BaseStore, actor: identity.Actor, query: str) -> dict[int, Nearest]:
    """The nearest passage of each conversation that has one among the `NEAREST_LIMIT` nearest to the
    query, by the conversation's key. Nothing is near to an empty query.
    """
    nearest_passages = dict[int, Nearest]()
    if not query.strip():
        return nearest_passages
    texts = namespaces.recall(actor, "texts")
    nearest_first = await nearest(store, texts, query, NEAREST_LIMIT)
    for item_and_clearness in nearest_first:
        item, _ = item_and_clearness
        key = conversation_of_passage(item)
        nearest_passages.setdefault(key, item_and_clearness)
    return nearest_passages


async def nearest(
    store: BaseStore, namespace: namespaces.Namespace, query: str, limit: int
) -> list[Nearest]:
    """The items of a namespace that are nearest to a query, at most so many, nearest first.

    Each comes with whether it is near at all: clearly nearer than items are to nonsense.
    """
    search = SearchOp(namespace, query=query, limit=limit)
    meaningless_search = SearchOp(namespace, query=_MEANINGLESS, limit=_MEANINGLESS_ITEMS)
    results = await store.abatch([search, meaningless_search])
    items, meaningless_items = cast("list[list[SearchItem]]", results)
    meaningless_scores = list[float]()
    for item in meaningless_items:
        if item.score is not None:
            meaningless_scores.append(item.score)
    no_similarity = 0.0
    if meaningless_scores:
        no_similarity = statistics.median(meaningless_scores)
    similarity_range = 1 - no_similarity
    least_score = no_similarity + _CLEARLY * similarity_range
    near_items = list[Nearest]()
    for item in items:
        if item.score is None:
            continue
        is_clear = item.score > least_score
        near_items.append((item, is_clear))
    return near_items


def passages(talk: Conversation) -> Iterator[tuple[int, str]]:
    """The passages of a conversation: the number of the first turn from 0, and the text, of each.

    The end of a long turn is left to the search by words. A question about the past is nearest to
    itself: what asks or repeats is left to the search by words, too.
    """
    first_turn = 0
    lines = list[str]()
    size = 0
    for number, turn in enumerate(talk.turns):
        text = _telling_text(turn)
        if not text:
            continue
        speaker = turn.name or turn.speaker
        whole_line = f"{speaker}: {text}"
        line = _storable(whole_line[:EMBEDDED_CHARS])
        size += len(line)
        is_full = size > EMBEDDED_CHARS
        if lines and is_full:
            yield first_turn, "\n".join(lines)
            lines = []
            size = len(line)
        if not lines:
            first_turn = number
        lines.append(line)
    if lines:
        yield first_turn, "\n".join(lines)


def _telling_text(turn: Turn) -> str:
    """The text of a turn without the pieces that only ask for the past, stand beside a question
    about it, or repeat it.
    """
    telling = ""
    for text, kind in weighted_pieces(turn):
        if kind == TELLS:
            telling += text
    return telling


def _storable(text: str) -> str:
    """A text with something else in place of what Postgres does not hold: NUL, and half a
    character.
    """
    without_nul = text.replace("\0", " ")
    text_bytes = without_nul.encode(errors="replace")
    return text_bytes.decode()
