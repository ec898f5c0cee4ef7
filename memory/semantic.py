"""Past conversations in the platform's semantic index, where the deployment has one (`store.index` in langgraph.json).

Without one nothing is stored for it. Items are passages of some turns, embedded by their field `text` whatever else the index
embeds.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

from langgraph.store.base import BaseStore, GetOp, PutOp

from memory import scopes
from memory.conversations import Conversation
from memory.documents import key_of

# Characters of a passage: a few turns, and well within what embedding models read.
PASSAGE_CHARS = 800
# Of one conversation.
MAX_PASSAGES = 200
# Passages that a search asks for.
FOUND = 50
_PROBE = "probe"
_COUNT = "passages"
_has_index: weakref.WeakKeyDictionary[BaseStore, bool] = weakref.WeakKeyDictionary()


async def has_index(store: BaseStore, actor: scopes.Actor) -> bool:
    """Whether the store ranks by meaning. No store says so, but one that does gives a score; asked once for each store."""
    if store not in _has_index:
        namespace = scopes.recall(actor, "texts")
        await store.aput(namespace, _PROBE, {"text": _PROBE}, index=["text"])
        found = await store.asearch(namespace, query=_PROBE, limit=1)
        _has_index[store] = bool(found) and found[0].score is not None
        await store.adelete(namespace, _PROBE)
    return _has_index[store]


async def text_ops(store: BaseStore, actor: scopes.Actor, talks: Sequence[Conversation]) -> list[PutOp]:
    """What puts the passages of conversations into the index, in place of earlier ones."""
    if not talks or not await has_index(store, actor):
        return []
    namespace, ops = scopes.recall(actor, "texts"), list[PutOp]()
    for talk, before in zip(talks, await _counts(store, actor, [key_of(talk.thread_id) for talk in talks]), strict=True):
        key = key_of(talk.thread_id)
        texts = list(_passages(talk))[-MAX_PASSAGES:]
        for number, (turn, text) in enumerate(texts):
            ops.append(PutOp(namespace, f"{key:016x}/{number}", {"text": text, "turn": turn, "key": str(key)}, index=["text"]))
        ops += [PutOp(namespace, f"{key:016x}/{number}", None) for number in range(len(texts), before)]
        ops.append(PutOp(namespace, f"{key:016x}/{_COUNT}", {"count": len(texts)}, index=False))
    return ops


async def drop_ops(store: BaseStore, actor: scopes.Actor, keys: Sequence[int]) -> list[PutOp]:
    """What takes the passages of conversations out of the index."""
    namespace, ops = scopes.recall(actor, "texts"), list[PutOp]()
    for key, count in zip(keys, await _counts(store, actor, keys), strict=True):
        if count:
            ops += [PutOp(namespace, f"{key:016x}/{name}", None) for name in (*range(count), _COUNT)]
    return ops


async def similar(store: BaseStore, actor: scopes.Actor, query: str) -> dict[int, tuple[float, int]]:
    """Conversations near in meaning: of each, by its number, the best passage's similarity and first turn."""
    best: dict[int, tuple[float, int]] = {}
    if not query.strip() or not await has_index(store, actor):
        return best
    for item in await store.asearch(scopes.recall(actor, "texts"), query=query, limit=FOUND):
        if item.score is not None and item.key.split("/")[-1].isdigit():
            key, hit = int(item.key.split("/")[0], 16), (float(item.score), int(item.value.get("turn", 0)))
            best[key] = max(best.get(key, hit), hit)
    return best


async def _counts(store: BaseStore, actor: scopes.Actor, keys: Sequence[int]) -> list[int]:
    namespace = scopes.recall(actor, "texts")
    items = await store.abatch([GetOp(namespace, f"{key:016x}/{_COUNT}") for key in keys])
    return [int(getattr(item, "value", {}).get("count", 0)) for item in items]


def _passages(talk: Conversation) -> Iterator[tuple[int, str]]:
    """Index of the first turn, and text, of runs of turns. The end of a long turn is left to the words."""
    first, lines = 0, list[str]()
    for number, turn in enumerate(talk.turns):
        line = f"{turn.name or turn.speaker}: {turn.text}"[:PASSAGE_CHARS]
        # Postgres holds neither NUL nor half a character.
        line = line.replace("\0", " ").encode(errors="replace").decode()
        if lines and sum(map(len, lines)) + len(line) > PASSAGE_CHARS:
            yield first, "\n".join(lines)
            first, lines = number, []
        lines.append(line)
    if lines:
        yield first, "\n".join(lines)
