"""What a person's conversations have had that is new since their last consolidation.

There is no lookback window to keep in step with a schedule: a missed run, or a thousand of them, drops nothing, and a
conversation that changed while it was being read is due again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.schema import ThreadSelectField

from memory import scopes
from memory.episodes import Conversation, Turn, conversation, owned_by
from memory.progress import Position, commit, drop_positions, positions, positions_of, turn_hash
from settings import BATCH_TOKENS

_PAGE = 100
# Conversations that are read at once, with all that was said in them.
_READ = 20
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation, and the thread's time stamp when they were read.

    `whole`: none are left out. `undone`: how many runs have undone what they made of them.
    """

    conversation: Conversation
    updated_at: str
    whole: bool = True
    undone: int = 0

    def position(self) -> Position:
        """What is new in the thread's position once these turns are consolidated."""
        turns = self.conversation.turns
        return Position(self.updated_at if self.whole else "", turns[-1].message_id, tuple(map(turn_hash, turns)))


def new_part(talk: Conversation, position: Position) -> Conversation:
    """The turns that were not consolidated yet."""
    seen = set(position.seen)
    turns = tuple(turn for turn in talk.turns if turn_hash(turn) not in seen)
    return Conversation(talk.thread_id, talk.date, turns)


def batch(due: Sequence[Due], tokens: int) -> list[Due]:
    """As many conversations as fit, oldest first. Of the last one only the turns that fit may be in it; at least one is.

    One that was undone comes last, and alone: it must not take others with it for ever.
    """
    taken: list[Due] = []
    for item in sorted(due, key=lambda item: (item.undone, item.updated_at)):
        if taken and item.undone:
            break
        talk, fitting = item.conversation, 0
        for turn in talk.turns:
            tokens -= _tokens(turn)
            if tokens < 0 and (taken or fitting):
                break
            fitting += 1
        if fitting:
            part = Conversation(talk.thread_id, talk.date, talk.turns[:fitting])
            taken.append(replace(item, conversation=part, whole=item.whole and fitting == len(talk.turns)))
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
    actor: scopes.Actor,
    assistant_id: str | None,
    tokens: int,
    *,
    skipped: Collection[str] = (),
    rehearsed: BaseStore | None = None,
    dry: bool = False,
) -> list[Due]:
    """A person's conversations with something new, the longest unchanged first: more than fit into a batch, if there are.

    A conversation without anything new is noted as read: it was touched, or nothing was said in it yet.

    Args:
        store: the real one.
        actor: the person.
        assistant_id: only conversations with this assistant.
        tokens: how much fits into a batch. What is beyond it is not read: a backlog is read once, not once a batch.
        skipped: ids of threads that do not count.
        rehearsed: where a dry run has noted what it did.
        dry: note nothing.
    """
    known = await positions(store, actor)
    tried = await positions(rehearsed, actor) if rehearsed else {}
    metadata = {**owned_by(actor), **({"assistant_id": assistant_id} if assistant_id else {})}
    listed = dict(await _threads(metadata))
    if not dry:
        await drop_positions(store, actor, await _gone(actor, known.keys() - listed.keys()))
    stamps = {thread_id: at for thread_id, at in listed.items() if thread_id not in skipped}
    changed = [key for key, at in stamps.items() if key not in known or known[key].updated_at != at]
    changed.sort(key=lambda thread_id: (known.get(thread_id, Position()).undone, stamps[thread_id]))
    due, read = list[Due](), 0
    for start in range(0, len(changed), _READ):
        ids = changed[start : start + _READ]
        threads: Any = await get_client().threads.search(
            ids=ids, metadata=metadata, limit=_READ, select=["thread_id", "updated_at", "values"]
        )
        # Read again, by their keys: while pages of a listing are read, what another run notes can move from one to the next.
        exact = await positions_of(store, actor, ids)
        found, touched = await asyncio.to_thread(_new_parts, threads, exact, tried)
        due += found
        if not dry:
            await commit(store, actor, touched)
        read += await asyncio.to_thread(sum, (_tokens(turn) for item in found for turn in item.conversation.turns))
        if read > tokens and len(due) > 1:
            break
    return due


def _new_parts(
    threads: Sequence[Mapping[str, Any]], known: Mapping[str, Position], tried: Mapping[str, Position]
) -> tuple[list[Due], dict[str, Position]]:
    """What is new in these threads; and the positions of those in which nothing is."""
    due, touched = list[Due](), dict[str, Position]()
    for thread in threads:
        thread_id, updated_at = str(thread["thread_id"]), str(thread["updated_at"])
        position = known.get(thread_id, Position())
        talk = new_part(conversation(thread, speakers=("user", "assistant")), position)
        new = new_part(talk, tried.get(thread_id, Position()))
        if new.turns:
            due.append(Due(new, updated_at, undone=position.undone))
        elif not talk.turns:
            touched[thread_id] = Position(updated_at)
    return due, touched


def still_due(found: Sequence[Due], known: Mapping[str, Position]) -> list[Due]:
    """What is left of what was found due, after somebody else may have consolidated some of it."""
    left = []
    for item in found:
        position = known.get(item.conversation.thread_id, Position())
        new = new_part(item.conversation, position)
        if new.turns:
            left.append(replace(item, conversation=new, undone=max(item.undone, position.undone)))
    return left


async def _gone(actor: scopes.Actor, thread_ids: Collection[str]) -> list[str]:
    """Of some of the threads, those that are not a person's any more."""
    ids = random.sample(sorted(thread_ids), min(len(thread_ids), _PAGE))  # others are there, with another assistant
    if not ids:
        return []
    page: Any = await get_client().threads.search(ids=ids, metadata=owned_by(actor), limit=_PAGE, select=["thread_id"])
    there = {str(thread["thread_id"]) for thread in page}
    return [thread_id for thread_id in ids if thread_id not in there]


async def _threads(metadata: dict[str, str]) -> list[tuple[str, str]]:
    """Id and time stamp of all conversations with this metadata."""
    found: list[tuple[str, str]] = []
    fields: list[ThreadSelectField] = ["thread_id", "updated_at"]
    while True:
        page: Any = await get_client().threads.search(
            metadata=metadata, limit=_PAGE, offset=len(found), sort_by="thread_id", select=fields
        )
        found += [(str(thread["thread_id"]), str(thread["updated_at"])) for thread in page]
        if len(page) < _PAGE:
            return found
