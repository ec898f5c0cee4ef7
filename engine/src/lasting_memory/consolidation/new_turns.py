"""What is new in conversations: the turns that their positions do not have (`positions.py`), without
those that are kept out (`kept_out.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from langgraph_sdk.client import ThreadsClient
from langgraph_sdk.schema import Thread, ThreadSelectField

from lasting_memory import platform
from lasting_memory.consolidation.batch import DueConversation
from lasting_memory.consolidation.kept_out import KeptOut
from lasting_memory.consolidation.positions import Position, hash_of
from lasting_memory.recall import Turn, conversation, threads_by_id

# How far conversations are consolidated, by id.
Positions = dict[str, Position]


@dataclass(frozen=True, slots=True)
class NewTurns:
    """What threads have that is new: their new turns, and the present positions of those without
    any, by id.
    """

    due_conversations: list[DueConversation] = field(default_factory=list)
    without_new_turns: Positions = field(default_factory=Positions)


async def read_new_turns(
    threads: ThreadsClient,
    owner_metadata: Sequence[dict[str, str]],
    positions: Mapping[str, Position],
    kept_out: KeptOut,
) -> NewTurns:
    """What the threads with these positions, by id, have that is new. `owner_metadata` are those
    of their owner's threads, of which each has one.
    """
    thread_ids = list(positions)
    fields: list[ThreadSelectField] = ["thread_id", "created_at", "updated_at", "values"]
    listed_threads = await threads_by_id(threads, thread_ids, owner_metadata, fields)
    return await platform.in_thread(_new_turns, listed_threads, positions, kept_out)


def _new_turns(
    threads: Sequence[Thread], positions: Mapping[str, Position], kept_out: KeptOut
) -> NewTurns:
    """What these threads, which the platform has given, have that is new. Blocks."""
    new_turns = NewTurns()
    for thread in threads:
        talk = conversation(thread, speakers=("user", "assistant"))
        position = positions[talk.thread_id]
        turns = list[Turn]()
        for turn in kept_out.without(talk):
            if hash_of(turn) not in position.seen:
                turns.append(turn)
        if not turns:
            position = replace(position, updated_at=talk.updated_at, undone=0, failed=0)
            new_turns.without_new_turns[talk.thread_id] = position
            continue
        part = replace(talk, turns=tuple(turns))
        messages = _messages_of(thread)
        item = DueConversation(part, position, messages=messages)
        new_turns.due_conversations.append(item)
    return new_turns


def _messages_of(thread: Thread) -> list[object]:
    """The messages of a thread as the platform gives them; none where it has no list of them."""
    values = thread.get("values")
    if not isinstance(values, Mapping):
        return []
    messages = values.get("messages")
    return messages if isinstance(messages, list) else []
