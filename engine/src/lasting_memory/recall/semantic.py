"""Past conversations in the platform's semantic index, where the deployment has one (`store.index` in langgraph.json).

Without one nothing is stored for it. Items are passages of a few turns, embedded by their field `text`.
"""

from collections.abc import Iterator, Mapping

from langgraph.store.base import BaseStore, GetOp, PutOp

from lasting_memory import platform
from lasting_memory.people import identity, namespaces
from lasting_memory.recall.conversations import Conversation

# Characters of a passage (a few turns, well within the limits of embedding models), and passages of one conversation.
PASSAGE_CHARS, MAX_PASSAGES = 800, 200
# Passages that a search asks for.
FOUND = 50


async def text_ops(store: BaseStore, actor: identity.Actor, talks: Mapping[int, Conversation | None]) -> list[PutOp]:
    """The operations that replace the passages of conversations, by number, in the index; None removes a conversation's."""
    if any(talks.values()) and not platform.has_index(store):
        return []
    namespace, ops = namespaces.recall(actor, "texts"), list[PutOp]()
    items = await store.abatch([GetOp(namespace, f"{key:016x}/passages") for key in talks])
    for (key, talk), item in zip(talks.items(), items, strict=True):
        # A repeated text counts once.
        first = {text: turn for turn, text in reversed(list(passages(talk)))} if talk else {}
        texts = list(first.items())[:MAX_PASSAGES]
        for number, (text, turn) in enumerate(texts):
            ops.append(PutOp(namespace, f"{key:016x}/{number}", {"text": text, "turn": turn, "key": str(key)}, index=["text"]))
        before = _number(getattr(item, "value", {}).get("count"))
        ops += [PutOp(namespace, f"{key:016x}/{number}", None) for number in range(len(texts), before)]
        ops.append(PutOp(namespace, f"{key:016x}/passages", {"count": len(texts)} if talk else None, index=False))
    return ops


async def similar(store: BaseStore, actor: identity.Actor, query: str) -> dict[int, tuple[float, int]]:
    """Conversations near in meaning, by number: similarity and first turn of the best passage."""
    best: dict[int, tuple[float, int]] = {}
    if not query.strip() or not platform.has_index(store):
        return best
    for item in await store.asearch(namespaces.recall(actor, "texts"), query=query, limit=FOUND):
        if item.score is not None and item.key.split("/")[-1].isdigit():
            key, hit = int(item.key.split("/")[0], 16), (float(item.score), _number(item.value.get("turn")))
            best[key] = max(best.get(key, hit), hit)
    return best


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def passages(talk: Conversation) -> Iterator[tuple[int, str]]:
    """Passages: index of the first turn, and text. The end of a long turn is left to the search by words."""
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
