"""The conversations that a dream (`dreams.py`) reads: which there are, what of them is unread, and
what it takes to read all of them.

A conversation is read whole if its `Position` has its present time stamp. One with `MOST_SETBACKS`
batches that brought nothing is given up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deepagents.backends.protocol import FileData
from langgraph_sdk.client import ThreadsClient

from lasting_memory.consolidation.dreams import Dream, StoredDream, ThreadUpdates
from lasting_memory.consolidation.kept_out import KeptOut
from lasting_memory.consolidation.new_turns import NewTurns, Positions, read_new_turns
from lasting_memory.consolidation.owners import Owner, owner_of
from lasting_memory.consolidation.positions import Position
from lasting_memory.conversations.marks import stays_out
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Deployment, Source
from lasting_memory.recall import changed_since, owned_by

# Conversations that one batch shows at most: what it reads is kept in one step.
MOST_SHOWN = 100
# Batches that bring nothing, after which a conversation is given up.
MOST_SETBACKS = 3
# Conversations whose messages are read at once.
_READ_AT_ONCE = 20
# For the estimate: model calls of a batch, and tokens that each sends beside the conversations
# (instructions, tools and files).
_CALLS = 4
CALL_TOKENS = 6_000
# When conversations changed last, by id.
TimeStamps = dict[str, str]


async def readable(deployment: Deployment, threads: ThreadsClient, owner: Owner) -> TimeStamps:
    """The owner's conversations that may be read: when each changed last, by id. Temporary and
    marked ones are left out.
    """
    changed_at = TimeStamps()
    for metadata in owned_by(owner.actor, deployment.agents):
        async for page in changed_since(threads, metadata, 0):
            for thread in page:
                if stays_out(thread):
                    continue
                if owner_of(thread, deployment) != owner:
                    continue
                thread_id = str(thread["thread_id"])
                changed_at[thread_id] = str(thread["updated_at"])
    return changed_at


async def unread_turns(
    deployment: Deployment,
    threads: ThreadsClient,
    owner: Owner,
    positions: Mapping[str, Position],
    kept_out: KeptOut,
) -> NewTurns:
    """What the owner's conversations with these positions, by id, have that is new."""
    new_turns = NewTurns()
    owner_metadata = owned_by(owner.actor, deployment.agents)
    for page in _pages(positions):
        new_turns_of_page = await read_new_turns(threads, owner_metadata, page, kept_out)
        new_turns.due_conversations.extend(new_turns_of_page.due_conversations)
        new_turns.without_new_turns.update(new_turns_of_page.without_new_turns)
    return new_turns


def _pages(positions: Mapping[str, Position]) -> Iterator[Positions]:
    """These positions in parts of conversations that are read at once: so few messages are in
    memory at a time.
    """
    items = list(positions.items())
    for start in range(0, len(items), _READ_AT_ONCE):
        end = start + _READ_AT_ONCE
        page = items[start:end]
        yield dict(page)


@dataclass(slots=True)
class LoadedDream:
    """A dream as a run of it has loaded it, with its files, and the conversations that there are."""

    stored_dream: StoredDream
    dream: Dream
    changed_at: Mapping[str, str]  # of each conversation, by id, as `readable`
    # Conversations that turned out to have no new turns. That is stored with the batch.
    without_new_turns: Positions = field(default_factory=dict)

    def unread(self) -> Positions:
        """The positions of the conversations that are neither read whole nor given up, by id: those
        without setbacks first, and of them the oldest.
        """
        positions = Positions()
        for thread_id in sorted(self.changed_at, key=self._order):
            position = self._position_of(thread_id)
            is_read_whole = position.updated_at == self.changed_at[thread_id]
            if is_read_whole or _is_given_up(position):
                continue
            positions[thread_id] = position
        return positions

    def _order(self, thread_id: str) -> tuple[int, str]:
        """What says which conversation is read first: the one with the least."""
        position = self._position_of(thread_id)
        changed_at = self.changed_at[thread_id]
        return position.setbacks, changed_at

    def _position_of(self, thread_id: str) -> Position:
        """How far a conversation is read."""
        thread = self.stored_dream.thread(thread_id)
        return thread.position

    def read_whole(self) -> set[str]:
        """The ids of the conversations that are read whole."""
        ids_read_whole = set[str]()
        for thread_id in self.stored_dream.threads:
            position = self._position_of(thread_id)
            changed_at = self.changed_at.get(thread_id)
            if changed_at == position.updated_at:
                ids_read_whole.add(thread_id)
        return ids_read_whole

    def counted(self, dream: Dream) -> Dream:
        """A dream with the present numbers of conversations: all, read whole, and given up."""
        ids_read_whole = self.read_whole()
        number_given_up = 0
        for thread in self.stored_dream.threads.values():
            if _is_given_up(thread.position):
                number_given_up += 1
        return replace(
            dream,
            conversations=len(self.changed_at),
            read=len(ids_read_whole),
            left_out=number_given_up,
        )

    def updates_without_new_turns(self) -> ThreadUpdates:
        """The updates of the conversations without new turns: what they replaced before stays."""
        updates = ThreadUpdates()
        for thread_id, position in self.without_new_turns.items():
            thread = self.stored_dream.thread(thread_id)
            updates[thread_id] = replace(thread, position=position)
        return updates

    def sources(self) -> dict[str, Source]:
        """Who vouches for the entries of the dream's files, by entry."""
        sources = dict[str, Source]()
        for file in self.stored_dream.files.values():
            sources.update(file.sources)
        return sources

    def files(self) -> dict[str, FileData]:
        """The dream's files, by key, as memory has files."""
        files = dict[str, FileData]()
        for key, file in self.stored_dream.files.items():
            files[key] = FileData(content=file.content, encoding="utf-8")
        return files


def _is_given_up(position: Position) -> bool:
    """Whether a conversation with this position is no longer read."""
    return position.setbacks >= MOST_SETBACKS


class Estimate(NamedTuple):
    """What a dream would read, and about how many tokens that takes."""

    tokens: int
    conversations: int
    messages: int


async def estimate(
    deployment: Deployment, threads: ThreadsClient, owner: Owner, kept_out: KeptOut
) -> Estimate:
    """What it would take to read all of the owner's conversations."""
    changed_at = await readable(deployment, threads, owner)
    unread_positions = dict.fromkeys(changed_at, Position())
    owner_metadata = owned_by(owner.actor, deployment.agents)
    tokens_said = 0
    messages = 0
    for page in _pages(unread_positions):
        new_turns = await read_new_turns(threads, owner_metadata, page, kept_out)
        for item in new_turns.due_conversations:
            tokens_said += item.tokens
            messages += len(item.conversation.turns)
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    conversations = len(changed_at)
    # A batch is full by its tokens, or by its number of conversations.
    batches = _batches(tokens_said, rules.batch_tokens)
    batches += _batches(conversations, MOST_SHOWN)
    tokens_beside = batches * CALL_TOKENS
    tokens = _CALLS * (tokens_beside + tokens_said)
    return Estimate(tokens, conversations, messages)


def _batches(total: int, batch_size: int) -> int:
    """How many batches so many make."""
    full_batches, remainder = divmod(total, batch_size)
    if remainder:
        return full_batches + 1
    return full_batches
