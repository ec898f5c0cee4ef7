"""Whose conversations are due: what is new in them since their last consolidation, and how far each is consolidated.

A position holds the hashes of a thread's consolidated messages: a message without its hash there is new, whatever was edited or
deleted. The item in `namespaces.reading` holds the time before which nothing is due, so that a run reads no further back.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph_sdk.client import ThreadsClient

from lasting_memory.controls import stays_out
from lasting_memory.deployment import Deployment
from lasting_memory.limits import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import Conversation, Turn, conversation, owned_by, threads_by_id

_PAGE = 100
# Conversations that are read at once with all their messages.
_READ_AT_ONCE = 20
# Turns commit late, and clocks differ.
_MARGIN = timedelta(minutes=10)
CHARS_PER_TOKEN = 4
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_FIELDS: list[Any] = ["thread_id", "updated_at", "metadata"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: a person, under `MEMORY_SCOPE=user+assistant` with an assistant."""

    actor: identity.Actor
    assistant_id: str | None = None

    @property
    def key(self) -> str:
        return self.assistant_id or "all"

    def context(self) -> dict[str, str]:
        """A context that names this owner. It counts in operators' runs; other people's runs are always their own."""
        return asdict(self.actor) | ({"assistant_id": self.assistant_id} if self.assistant_id else {})


@dataclass(frozen=True, slots=True)
class Position:
    """How far one thread is consolidated."""

    updated_at: str = ""  # its time stamp when it was read; without one it is due in any case
    seen: frozenset[str] = frozenset()  # hashes of all consolidated messages
    undone: int = 0  # runs whose changes from its new messages were refused


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation, beyond its position. `whole`: no new turn is left out."""

    conversation: Conversation
    position: Position = Position()
    whole: bool = True

    def advanced(self) -> Position:
        """The position once these turns are consolidated."""
        seen = self.position.seen.union(map(_hash, self.conversation.turns))
        return Position(self.conversation.updated_at if self.whole else "", seen)

    def transcript(self, rules: Consolidation = DEFAULT_CONSOLIDATION) -> str:
        """The turns as the model reads them, a line each, under the conversation's date and thread."""
        most, lines = (
            rules.batch_tokens * CHARS_PER_TOKEN,
            [f"{self.conversation.date} thread_id={self.conversation.thread_id}"],
        )
        for turn in self.conversation.turns:
            left_out = f" [{len(turn.text) - most:,} more characters are left out]" if len(turn.text) > most else ""
            lines.append(f"{turn.speaker}: {' '.join(turn.text[:most].split())}{left_out}")
        return "\n".join(lines)


def _hash(turn: Turn) -> str:
    return hashlib.sha256(f"{turn.message_id}\0{turn.speaker}\0{turn.text}".encode(errors="replace")).hexdigest()[:12]


def batch(due: Sequence[Due], tokens: int) -> list[Due]:
    """The oldest conversations that fit into a batch, of the last one perhaps only its first turns. At least one turn. Blocks.

    A conversation that was undone comes last and alone, so that its refusal does not block others.
    """
    taken: list[Due] = []
    for item in sorted(due, key=lambda item: (item.position.undone, item.conversation.updated_at)):
        if taken and item.position.undone:
            break
        turns, fitting = item.conversation.turns, 0
        for turn in turns:
            tokens -= len(turn.text) // CHARS_PER_TOKEN
            if tokens < 0 and (taken or fitting):
                break
            fitting += 1
        if fitting:
            part = replace(item.conversation, turns=turns[:fitting])
            taken.append(replace(item, conversation=part, whole=item.whole and fitting == len(turns)))
        if tokens < 0:
            break
    return taken


async def find_due(deployment: Deployment, threads: ThreadsClient, store: BaseStore, owner: Owner) -> list[Due]:
    """An owner's conversations with new turns; more than a batch holds, if there are more.

    It reads conversations that changed since all were consolidated, newest first, and stops there. What has no new turns is
    noted as read.
    """
    noted, rules = (namespaces.reading(owner.actor), owner.key), deployment.consolidation or DEFAULT_CONSOLIDATION
    item = await store.aget(*noted)
    read_to, changed = time_of(item.value.get("read_to") if item else None), list[Any]()
    newest, metadata = read_to.isoformat(), owned_by(owner.actor, deployment.agents)
    for owned in metadata:
        async for page in changed_since(threads, owned, read_to):
            newest = max([newest, *(str(thread["updated_at"]) for thread in page)])
            changed += [each for each in await changed_in(page, deployment, store) if each[0] == owner]
    changed.sort(key=lambda each: (each[2].undone, str(each[1]["updated_at"])))
    due, left, read = list[Due](), changed, 0
    while left and (read <= rules.batch_tokens or len(due) < 2):  # noqa: PLR2004  # one more says that there is more
        known, left = {str(thread["thread_id"]): at for _, thread, at in left[:_READ_AT_ONCE]}, left[_READ_AT_ONCE:]
        found = await threads_by_id(threads, [*known], metadata, ["thread_id", "updated_at", "values"])
        new, old = await asyncio.to_thread(_new_turns, found, known)
        await put_positions(store, owner.actor, old)
        due += new
        read += sum(len(turn.text) // CHARS_PER_TOKEN for item in new for turn in item.conversation.turns)
    if changed:
        oldest = min(str(thread["updated_at"]) for _, thread, _ in changed) if due or left else newest
        await store.aput(*noted, {"read_to": (time_of(oldest) - _MARGIN).isoformat()}, index=False)
    return due


def _new_turns(threads: Sequence[Mapping[str, Any]], known: Mapping[str, Position]) -> tuple[list[Due], dict[str, Position]]:
    """The new turns of these threads, and the positions of threads without any. Blocks."""
    due, old = list[Due](), dict[str, Position]()
    for thread in threads:
        talk = conversation(thread, speakers=("user", "assistant"))
        position = known[talk.thread_id]
        if new := tuple(turn for turn in talk.turns if _hash(turn) not in position.seen):
            due.append(Due(replace(talk, turns=new), position))
        else:
            old[talk.thread_id] = replace(position, updated_at=talk.updated_at, undone=0)
    return due, old


async def changed_in(threads: Sequence[Any], deployment: Deployment, store: BaseStore) -> list[tuple[Owner, Any, Position]]:
    """Those of these threads that changed since they were consolidated, with their owners and positions."""
    owned = [(owner, thread) for thread in threads if not stays_out(thread) and (owner := owner_of(thread, deployment))]
    items = await store.abatch([GetOp(namespaces.positions(owner.actor), thread["thread_id"]) for owner, thread in owned])
    read = [(owner, thread, _position(item)) for (owner, thread), item in zip(owned, items, strict=True)]
    return [each for each in read if each[2].updated_at != str(each[1]["updated_at"])]


def owner_of(thread: Any, deployment: Deployment) -> Owner | None:
    """The owner that `auth.py` and the platform stamped on a conversation; None if no run could act for them."""
    user_id, org_id, assistant_id = ((thread["metadata"] or {}).get(key) for key in ("user_id", "org_id", "assistant_id"))
    if not (isinstance(user_id, str) and isinstance(org_id, str) and isinstance(assistant_id, str)):
        return None
    try:
        identity.check_person(actor := identity.Actor(user_id, org_id))
    except identity.IdentityError:
        return None
    return Owner(actor, assistant_id if deployment.memory.per_assistant else None)


async def changed_since(
    threads: ThreadsClient, metadata: Mapping[str, Any], since: datetime, page_size: int = _PAGE
) -> AsyncIterator[list[Any]]:
    """Pages of the threads with this metadata that changed since then, newest first, without their messages."""
    offset, newer = 0, list[Any]()
    while not offset or len(newer) == page_size:
        page: list[Any] = await threads.search(
            metadata=dict(metadata), limit=page_size, offset=offset, sort_by="updated_at", sort_order="desc", select=_FIELDS
        )
        newer = [thread for thread in page if time_of(thread["updated_at"]) >= since]
        yield newer
        offset += page_size


def time_of(stamp: object) -> datetime:
    """A time stamp; the earliest time for anything else."""
    try:
        at = datetime.fromisoformat(str(stamp))
    except ValueError:
        return EARLIEST
    return at if at.tzinfo else at.replace(tzinfo=UTC)


async def positions_of(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> dict[str, Position]:
    """The positions of these threads, by thread id."""
    items = await store.abatch([GetOp(namespaces.positions(actor), thread_id) for thread_id in thread_ids])
    return dict(zip(thread_ids, map(_position, items), strict=True))


async def put_positions(store: BaseStore, actor: identity.Actor, positions: Mapping[str, Position]) -> None:
    namespace = namespaces.positions(actor)
    await store.abatch(
        [
            PutOp(namespace, thread_id, {**asdict(at), "seen": sorted(at.seen)}, index=False)
            for thread_id, at in positions.items()
        ]
    )


def _position(item: Any) -> Position:
    value = item.value if item else {}
    seen, undone = value.get("seen"), value.get("undone")
    known = frozenset(map(str, seen)) if isinstance(seen, list | tuple) else frozenset[str]()
    return Position(str(value.get("updated_at") or ""), known, undone if isinstance(undone, int) else 0)
