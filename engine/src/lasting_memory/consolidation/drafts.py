"""A draft: one run's *batch*, which the model reads, and the private copy of the person's files on
which it works.

A batch is mostly conversations, by the `kind` of the run's record also a part of a text that was
brought ("bring"), or all of memory ("tidy"). A dream's run ("dream") works on the dream's files
instead of memory's. The draft is in the memory of this process, so a run that dies or is taken back
has written nothing.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import ThreadsClient
from langgraph_sdk.schema import ThreadSelectField

from lasting_memory import platform
from lasting_memory.consolidation.batch import DueConversation
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.changed_ends import DatedWords, end_differences
from lasting_memory.consolidation.dream_threads import LoadedDream
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import LineWords, TextFile, differences, text_files
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.schedule import Trigger
from lasting_memory.consolidation.stored_memory import StoredMemory
from lasting_memory.consolidation.taken_back import (
    DatedText,
    Differences,
    LineIdentity,
    taken_back_by,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, control_ops, controls_of
from lasting_memory.memory.proposals import Changed, Declined, Memory, texts
from lasting_memory.people import identity
from lasting_memory.recall import owned_by, threads_by_id
from lasting_memory.vouching import Evidence

# The model is given its batch as the answer to a call of this tool.
READ_TOOL = "search_recent_conversations"
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
# More than a file has.
_ALL_REVISIONS = 1_000_000


@dataclass(slots=True)
class Draft:
    """One run's batch: the conversations that the model works on, and its copy of the files."""

    owner: Owner
    record: Record
    memory: Memory  # in the real store
    # Why the run was planned; None: somebody began it over the platform's API.
    trigger: Trigger | None = None
    # The files that are copied, by key, as they are before the model works.
    base: Mapping[str, FileData] = field(default_factory=dict)
    # Which of their lines are over.
    expired_lines: ExpiredLines = field(default_factory=ExpiredLines)
    shown_conversations: Sequence[DueConversation] = ()  # the batch's conversations
    # Operations that note how far conversations are read; they are kept with the record.
    reading_ops: Sequence[PutOp] = ()
    is_more_due: bool = False  # whether other conversations are due
    # What the person said in these conversations since they first took something back.
    messages_since: Sequence[DatedText] = ()
    text: str = ""  # the conversations as the model reads them, with the files about them
    # All that its new lines may say; None: anything.
    usable_texts: Sequence[TextFile] | None = None
    reading: Reading | None = None  # where the batch is part of a text that was brought
    dream: LoadedDream | None = None  # where the run is a dream's
    # What the person said in these conversations, and what texts from elsewhere said.
    evidence: Evidence = field(default_factory=Evidence)
    steps: int = 0  # model calls of this attempt
    # Lines that the model gives up in this attempt: why, by path and line.
    given_up_lines: defaultdict[str, dict[str, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    # Those of them, as path and line, that something newer contradicts.
    contradicted_lines: set[tuple[str, str]] = field(default_factory=set)
    copy: BaseStore = field(default_factory=InMemoryStore)

    @property
    def deployment(self) -> Deployment:
        return self.memory.deployment

    @property
    def rules(self) -> Consolidation:
        rules = self.deployment.consolidation
        return rules or DEFAULT_CONSOLIDATION

    @property
    def assistant(self) -> str:
        """The id of the assistant whose memory this is."""
        return self.owner.assistant_id or self.deployment.default_assistant

    @property
    def author(self) -> identity.Author:
        """The author of the revisions that the run makes. They name the first `_THREADS_NOTED`
        conversations, for a person who asks where a line is from.
        """
        thread_ids = sorted(self.thread_ids)
        first_ids = thread_ids[:_THREADS_NOTED]
        return identity.Author(
            "consolidation",
            self.owner.actor.user_id,
            run_id=self.record.run_id,
            thread_id=" ".join(first_ids),
        )

    @property
    def thread_ids(self) -> list[str]:
        """The ids of the batch's conversations."""
        return [item.thread_id for item in self.shown_conversations]

    @property
    def owner_metadata(self) -> list[dict[str, str]]:
        """The metadata of the owner's threads, of which each has one: one for each agent."""
        return owned_by(self.owner.actor, self.deployment.agents)

    async def is_any_deleted(self, threads: ThreadsClient) -> bool:
        """Whether a conversation of the batch was deleted since it was read, also where another one
        has its id now. False for a batch without conversations.
        """
        if not self.shown_conversations:
            return False
        created_at_when_read = dict[str, str]()
        for item in self.shown_conversations:
            created_at_when_read[item.thread_id] = item.conversation.created_at
        fields: list[ThreadSelectField] = ["thread_id", "created_at"]
        present_threads = await threads_by_id(threads, self.thread_ids, self.owner_metadata, fields)
        created_at_now = dict[str, str]()
        for thread in present_threads:
            thread_id = str(thread["thread_id"])
            created_at_now[thread_id] = str(thread["created_at"])
        return created_at_now != created_at_when_read

    @property
    def messages_shown(self) -> int:
        """How many messages the model reads."""
        messages = 0
        for item in self.shown_conversations:
            messages += len(item.conversation.turns)
        return messages

    def base_files(self) -> list[TextFile]:
        """The copied files that are texts, as they are before the model works."""
        return text_files(texts(self.base))

    def current_files(self) -> list[TextFile]:
        """As `base_files`, without the lines that are over. Blocks."""
        current_texts = dict[str, str]()
        for key, text in texts(self.base).items():
            current_texts[key] = self.expired_lines.current_text(key, text)
        return text_files(current_texts)

    async def taken_back(self, stored_memory: StoredMemory) -> dict[LineWords, DatedText]:
        """The lines that were taken back up to now (`taken_back.py`): in the files' histories, and
        in proposals.
        """
        return await self._taken_back_by(differences, stored_memory)

    async def ends_taken_back(self, stored_memory: StoredMemory) -> dict[DatedWords, DatedText]:
        """The lines with an end that the person took back or gave another end (`changed_ends.py`);
        none where the deployment has no ends.
        """
        if not self.deployment.ends:
            return {}
        return await self._taken_back_by(end_differences, stored_memory)

    async def _taken_back_by(
        self, compare: Differences[LineIdentity], stored_memory: StoredMemory
    ) -> dict[LineIdentity, DatedText]:
        """As `taken_back`, with one of the comparisons of lines."""
        declined_changes = list[Declined]()
        for proposal in stored_memory.proposals:
            declined_changes += proposal.declined
        # Also revisions that only wait to be deleted: what they took back is kept with that.
        limits = replace(self.deployment.limits, revisions_kept=_ALL_REVISIONS)
        histories = await platform.in_thread(journal.histories_in, stored_memory.revisions, limits)
        dropped_lines = journal.taken_back_in(stored_memory.dropped_items)
        return await platform.in_thread(
            taken_back_by, compare, histories, declined_changes, dropped_lines
        )

    async def since_it_began(self) -> tuple[journal.Deleted, Controls]:
        """What was deleted since the run began, and the person's present controls."""
        ops = control_ops(self.memory.actor)
        deletions, results = await self.since_it_began_and(ops)
        controls = controls_of(results, self.deployment)
        return deletions, controls

    async def since_it_began_and(self, ops: Sequence[Op]) -> tuple[journal.Deleted, list[Result]]:
        """What was deleted since the run began, and the results of these operations: all are carried
        out at once.
        """
        writer = self.memory.writer
        deletion_ops = journal.deleted_ops(writer)
        all_ops = [*deletion_ops, *ops]
        all_results = await self.memory.store.abatch(all_ops)
        number = len(deletion_ops)
        deletions = journal.deleted_in(all_results[:number], writer)
        results = all_results[number:]
        return deletions, results

    def with_earlier_parts(self, batch_changes: Sequence[Changed]) -> list[Changed]:
        """These changes; of a text that was brought with what its earlier parts change."""
        if self.reading is None:
            return list(batch_changes)
        return self.reading.with_earlier_parts(batch_changes)

    def answer(self, record: Record) -> str:
        """The run's answer: as JSON where a request waits for it, else a sentence."""
        if self.reading:
            answer = self.reading.answer(record)
            return json.dumps(answer)
        if record.dry_run:
            return json.dumps(asdict(record))
        if record.status == "failed":
            return f"Nothing was consolidated: {record.reason}"
        return f"{record.conversations} conversations were consolidated."


# It is set where a run begins an attempt, for what the model's tools, files and prompt call. None:
# a script without drafts.
CURRENT_DRAFT: ContextVar[Draft | None] = ContextVar("draft")


def draft_store() -> BaseStore | None:
    """The store of the current run's files; None for the real one, which only scripts use.

    Raises `LookupError` outside of a run of graph 2, so that nothing ever writes memory past a
    draft.
    """
    draft = CURRENT_DRAFT.get()
    if draft is None:
        return None
    return draft.copy
