"""The new turns of a person's conversations since their last consolidation.

No lookback window has to match a schedule: missed runs drop nothing, and a conversation that changes while it is read is due
again.
"""

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.client import ThreadsClient
from langgraph_sdk.schema import ThreadSelectField

from memory import identity
from memory.consolidation.positions import Position, commit, drop_positions, positions, positions_of, turn_hash
from memory.controls import stays_out
from memory.recall import Conversation, Turn, conversation, owned_by, threads_by_id
from settings import BATCH_TOKENS

_PAGE = 100
# Conversations that are read at once with all their messages.
_READ = 20
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation.

    `whole`: no new turn is left out. `undone`: number of runs whose changes from this conversation were refused.
    """

    conversation: Conversation
    whole: bool = True
    undone: int = 0

    def position(self) -> Position:
        """The addition to the thread's position once these turns are consolidated."""
        talk = self.conversation
        return Position(talk.updated_at if self.whole else "", talk.turns[-1].message_id, tuple(map(turn_hash, talk.turns)))


def new_part(talk: Conversation, position: Position) -> Conversation:
    """The turns without those already consolidated."""
    seen = set(position.seen)
    return replace(talk, turns=tuple(turn for turn in talk.turns if turn_hash(turn) not in seen))


def batch(due: Sequence[Due], tokens: int) -> list[Due]:
    """The oldest conversations that fit into a batch, of the last one perhaps only its first turns. At least one turn.

    A conversation that was undone comes last and alone, so that its refusal does not block others.
    """
    taken: list[Due] = []
    for item in sorted(due, key=lambda item: (item.undone, item.conversation.updated_at)):
        if taken and item.undone:
            break
        turns, fitting = item.conversation.turns, 0
        for turn in turns:
            tokens -= _tokens(turn)
            if tokens < 0 and (taken or fitting):
                break
            fitting += 1
        if fitting:
            part = replace(item.conversation, turns=turns[:fitting])
            taken.append(replace(item, conversation=part, whole=item.whole and fitting == len(turns)))
        if tokens < 0:
            break
    return taken


def transcript(item: Due) -> str:
    """The turns as the model reads them, a line each, under the conversation's date and thread."""
    lines = [f"{turn.speaker}: {_on_one_line(turn.text)}" for turn in item.conversation.turns]
    return "\n".join([f"{item.conversation.date} thread_id={item.conversation.thread_id}", *lines])


def _on_one_line(text: str) -> str:
    longest = BATCH_TOKENS * _CHARS_PER_TOKEN
    shown = " ".join(text[:longest].split())
    return shown if len(text) <= longest else f"{shown} [{len(text) - longest:,} more characters are left out]"


def _tokens(turn: Turn) -> int:
    return count_tokens_approximately([turn.text])


async def find_due(
    store: BaseStore,
    actor: identity.Actor,
    assistant_id: str | None,
    skipped: Collection[str] = (),
    platform: ThreadsClient | None = None,
) -> list[Due]:
    """A person's conversations with new turns, the longest unchanged first; more than fit into a batch, if there are more.

    A conversation without new turns is noted as read. Reading stops beyond the size of a batch, so that a backlog is read once
    in all, not once a batch.

    Args:
        assistant_id: only conversations with this assistant.
        skipped: ids of threads to ignore.
        platform: the platform's threads; None for `get_client`'s.
    """
    platform, known = platform or get_client().threads, await positions(store, actor)
    with_it = {"assistant_id": assistant_id} if assistant_id else {}
    owned = [{**metadata, **with_it} for metadata in owned_by(actor)]
    stamps = {thread_id: at for metadata in owned for thread_id, at in await _threads(platform, metadata)}
    await drop_positions(store, actor, await _gone(platform, actor, known.keys() - stamps.keys()))
    changed = [key for key, at in stamps.items() if key not in skipped and known.get(key, Position()).updated_at != at]
    changed.sort(key=lambda thread_id: (known.get(thread_id, Position()).undone, stamps[thread_id]))
    due, read = list[Due](), 0
    for start in range(0, len(changed), _READ):
        ids = changed[start : start + _READ]
        threads = await threads_by_id(platform, ids, owned, ["thread_id", "updated_at", "values"])
        # Read again by key: while pages of a listing are read, another run's notes can move items from one page to the next.
        exact = await positions_of(store, actor, ids)
        new, old = await asyncio.to_thread(_new_parts, threads, exact)
        due += new
        await commit(store, actor, old)
        read += await asyncio.to_thread(sum, (_tokens(turn) for item in new for turn in item.conversation.turns))
        if read > BATCH_TOKENS and len(due) > 1:
            break
    return due


def _new_parts(threads: Sequence[Mapping[str, Any]], known: Mapping[str, Position]) -> tuple[list[Due], dict[str, Position]]:
    """The new turns of these threads, and the positions of threads without any."""
    due, old = list[Due](), dict[str, Position]()
    for thread in threads:
        talk = conversation(thread, speakers=("user", "assistant"))
        position = known.get(talk.thread_id, Position())
        new = new_part(talk, position)
        if new.turns:
            due.append(Due(new, undone=position.undone))
        else:
            old[talk.thread_id] = Position(talk.updated_at)
    return due, old


async def _gone(platform: ThreadsClient, actor: identity.Actor, thread_ids: Collection[str]) -> list[str]:
    """The threads, of a random sample, that no longer belong to the person."""
    ids = random.sample(sorted(thread_ids), min(len(thread_ids), _PAGE))  # others are there, with another assistant
    threads = await threads_by_id(platform, ids, owned_by(actor), ["thread_id"]) if ids else []
    return [*set(ids).difference(str(thread["thread_id"]) for thread in threads)]


async def _threads(platform: ThreadsClient, metadata: dict[str, str]) -> list[tuple[str, str]]:
    """Id and time stamp of all conversations with this metadata that may be consolidated."""
    stamps: list[tuple[str, str]] = []
    fields: list[ThreadSelectField] = ["thread_id", "updated_at", "metadata"]
    read = 0
    while True:
        page: Any = await platform.search(metadata=metadata, limit=_PAGE, offset=read, sort_by="thread_id", select=fields)
        stamps += [(str(thread["thread_id"]), str(thread["updated_at"])) for thread in page if not stays_out(thread)]
        read += len(page)
        if len(page) < _PAGE:
            return stamps
