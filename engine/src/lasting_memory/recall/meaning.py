"""What the store's semantic index finds of past conversations: passages of a few turns, embedded by
their field `text`.
"""

import statistics
from collections.abc import Iterator
from typing import cast

from langgraph.store.base import BaseStore, PutOp, SearchItem, SearchOp

from lasting_memory.people import identity, namespaces
from lasting_memory.recall.format import TELLS, key_of
from lasting_memory.recall.threads import Conversation, weighed

# Characters of a passage (a few turns, well within the limits of embedding models), passages of one
# conversation, and of those that a search asks for.
PASSAGE_CHARS, MAX_PASSAGES, FOUND = 800, 200, 50
# How similar something meaningless is to a person's passages (the median of so many) tells what
# similarity is none: models differ too much for one number. It must be exceeded by so much of the
# rest up to 1. With all-MiniLM-L6-v2 on LoCoMo 1-5, one of 80 questions about something else then
# finds anything, and 10 of 760 real ones nothing.
_MEANINGLESS, _MEANINGLESS_ITEMS, _CLEARLY = "zzz", 10, 0.15


async def text_ops(
    store: BaseStore, actor: identity.Actor, key: int, talk: Conversation | None
) -> list[PutOp]:
    """The operations that replace the passages of a conversation, by its number, in the index; None
    removes them.
    """
    namespace, listed = namespaces.recall(actor, "texts"), f"{key:016x}/passages"
    item = await store.aget(namespace, listed)
    # A repeated text counts once: langgraph's in-memory store embeds no text twice. Of an endless
    # conversation the end.
    first = {text: turn for turn, text in reversed(list(passages(talk)))} if talk else {}
    new = [{"text": text, "turn": turn} for text, turn in first.items()][:MAX_PASSAGES]
    made = {f"{key:016x}/{key_of(str(passage)):016x}": passage for passage in new}
    before = set(item.value["passages"]) if item else set[str]()
    ops = [PutOp(namespace, name, None) for name in before - made.keys()]
    ops += [PutOp(namespace, name, made[name], index=["text"]) for name in made.keys() - before]
    if talk or item:
        ops.append(
            PutOp(namespace, listed, {"passages": sorted(made)} if talk else None, index=False)
        )
    return ops


async def similar(
    store: BaseStore, actor: identity.Actor, query: str
) -> dict[int, tuple[SearchItem, bool]]:
    """For each conversation, by number, that is near to the query its nearest passage, and whether
    that is near at all.
    """
    found = (
        await nearest(store, namespaces.recall(actor, "texts"), query, FOUND)
        if query.strip()
        else []
    )
    # The best comes last, and stays.
    return {int(item.key[:16], 16): (item, clear) for item, clear in reversed(found)}


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
    first, lines = 0, list[str]()
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
