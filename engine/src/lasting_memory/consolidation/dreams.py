"""Dreams: a person's memory that is built anew from all of their conversations, by many runs.

A person has one dream. What it has built so far are the *dream's files*, which are like those of
memory. `dream_store.py` stores it, `dream_files.py` changes its files, `dream_threads.py` finds the
conversations to read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from lasting_memory.consolidation.positions import Position
from lasting_memory.deployment import Source

# "reading": its runs read conversations. "paused" and "failed": it waits for its person to go on
# with it. "proposed" and "ended": it is over, and has no files any more.
Status = Literal["reading", "paused", "proposed", "ended", "failed"]
# Why it is over, or waits, in a word for which the page has a sentence.
Reason = Literal[
    "",
    "paused",  # the person paused consolidation
    "cap",  # its tokens are used
    "same",  # nothing would change
    "stopped",  # the person stopped it
    "no_answer",  # the model gave none, again and again
    "undecided",  # too many proposals wait for the person
    "refused",  # memory does not take its proposal
    "decided",  # the person decided about its proposal
    "deleted",  # its proposal is gone, as its conversations are
]


@dataclass(frozen=True, slots=True)
class Dream:
    """How far a dream is. `tokens` are those that it used, of at most `cap`.

    Of its conversations it counts all (`conversations`), those that are read whole (`read`), and
    those that are given up, because no batch could be kept (`left_out`); and the `messages` that it
    has read.
    """

    id: str
    began: str  # in ISO format, UTC
    memory: str  # the last part of the namespace of the files that it is about
    cap: int
    assistant_id: str = ""  # whose conversations it reads; "": all
    tokens: int = 0
    conversations: int = 0
    read: int = 0
    left_out: int = 0
    messages: int = 0
    status: Status = "reading"
    reason: Reason = ""
    failures: int = 0  # runs that failed, one after another

    @property
    def proposal_id(self) -> str:
        """The id of its proposal, and of its record."""
        return f"dream-{self.id}"

    @property
    def may_go_on(self) -> bool:
        """Whether it is not over, and has files."""
        return self.status in {"reading", "paused", "failed"}


@dataclass(frozen=True, slots=True)
class DreamFile:
    """A file of a dream.

    `origins` has the ids of the conversations that an entry (`memory.entries.entries`) is from; it
    has no entry that the person wrote by hand. `sources` says who vouches for an entry.
    """

    content: str
    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadThread:
    """How far a dream has read a conversation. `replaced` are the ids of other conversations whose
    lines its batches took out of the dream's files.
    """

    position: Position = Position()  # noqa: RUF009  # frozen
    replaced: Sequence[str] = ()


# Files of a dream are given by key, what is read of conversations by id.
DreamFiles = dict[str, DreamFile]
ReadThreads = dict[str, ReadThread]
# None deletes what is stored of one.
FileUpdates = dict[str, DreamFile | None]
ThreadUpdates = dict[str, ReadThread | None]


@dataclass(frozen=True, slots=True)
class DreamUpdate:
    """What changes of a dream: some of its files, and how far some conversations are read."""

    files: FileUpdates = field(default_factory=FileUpdates)
    threads: ThreadUpdates = field(default_factory=ThreadUpdates)


@dataclass(frozen=True, slots=True)
class StoredDream:
    """What the store has of a person's dream: how far it is, its files, and what it has read of
    conversations. `dream` is None if there was none, or it is damaged.
    """

    dream: Dream | None
    files: DreamFiles
    threads: ReadThreads

    def thread(self, thread_id: str) -> ReadThread:
        """What is read of a conversation; of an unknown one nothing is."""
        thread = self.threads.get(thread_id)
        return thread or ReadThread()

    def updated(self, update: DreamUpdate) -> "StoredDream":
        """What is stored once this update is."""
        files = _updated(self.files, update.files)
        threads = _updated(self.threads, update.threads)
        return StoredDream(self.dream, files, threads)

    def deletion(self) -> DreamUpdate:
        """The update that deletes all files, and what is read."""
        files = FileUpdates.fromkeys(self.files)
        threads = ThreadUpdates.fromkeys(self.threads)
        return DreamUpdate(files, threads)


_Value = TypeVar("_Value")


def _updated(
    values: Mapping[str, _Value], updates: Mapping[str, _Value | None]
) -> dict[str, _Value]:
    """The values once these updates are carried out. None deletes one."""
    updated_values = dict(values)
    for key, value in updates.items():
        if value is None:
            updated_values.pop(key, None)
        else:
            updated_values[key] = value
    return updated_values
