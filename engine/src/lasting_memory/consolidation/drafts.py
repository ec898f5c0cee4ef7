"""A draft: one run's *batch*, which the model reads, and the private copy of the person's files on
which it works.

A batch is mostly conversations, by the `kind` of the run's record also a part of a text that was
brought ("bring"), or all of memory ("tidy"). A dream's run ("dream") works on the dream's files
instead of memory's. The draft is in the memory of this process, so a run that dies or is taken back
has written nothing.
"""

import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

from deepagents.backends.protocol import FileData
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.base import BaseStore, Item, Op, PutOp, Result, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import ThreadsClient
from langgraph_sdk.schema import ThreadSelectField

from lasting_memory import platform
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.brought import Part
from lasting_memory.consolidation.changed_ends import DatedKey, end_differences
from lasting_memory.consolidation.dream_threads import LoadedDream
from lasting_memory.consolidation.expired_lines import ExpiredLines
from lasting_memory.consolidation.facts import Key, TextFile, differences, text_files
from lasting_memory.consolidation.no_batch import NothingToDoError
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.positions import Position, position_ops
from lasting_memory.consolidation.record import Record, note, record_in
from lasting_memory.consolidation.schedule import Trigger
from lasting_memory.consolidation.stored_memory import StoredMemory
from lasting_memory.consolidation.taken_back import (
    Dated,
    Differences,
    LineKey,
    shown_lines,
    taken_back_by,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, control_ops, controls_of
from lasting_memory.memory.line_times import TIMES_FIELD
from lasting_memory.memory.proposals import Changed, Declined, Memory, rules_of, texts
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import owned_by, rank, threads_by_id
from lasting_memory.vouching import Evidence

logger = logging.getLogger(__name__)

# The model is given its batch as the answer to a call of this tool.
READ_TOOL = "search_recent_conversations"
_TOPICS = "/memories/topics/"
_INDEX = "/memories/topics/index.md"
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
# More than a file has.
_ALL_REVISIONS = 1_000_000
# Records that are read to delete those beyond `records_kept`.
_RECORDS_READ = 1_000


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
    expired: ExpiredLines = field(default_factory=ExpiredLines)  # which of their lines are over
    shown: Sequence[Due] = ()  # the batch's conversations
    # Operations that note how far conversations are read; they are kept with the record.
    reading_ops: Sequence[PutOp] = ()
    more: bool = False  # whether other conversations are due
    # What the person said in these conversations since they first took something back.
    said: Sequence[Dated] = ()
    text: str = ""  # the conversations as the model reads them, with the files about them
    # All that its new lines may say; None: anything.
    source: Sequence[TextFile] | None = None
    reading: Reading | None = None  # where the batch is part of a text that was brought
    dream: LoadedDream | None = None  # where the run is a dream's
    # What the person said in these conversations, and what texts from elsewhere said.
    evidence: Evidence = field(default_factory=Evidence)
    steps: int = 0  # model calls of this attempt
    # Lines that the model gives up in this attempt: why, by path and line.
    given_up: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    # Those of them, as path and line, that something newer contradicts.
    contradicted: set[tuple[str, str]] = field(default_factory=set)
    copy: BaseStore = field(default_factory=InMemoryStore)

    # --- The batch

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
        return [item.thread_id for item in self.shown]

    @property
    def owned(self) -> list[dict[str, str]]:
        """The metadata of the owner's threads, of which each has one: one for each agent."""
        return owned_by(self.owner.actor, self.deployment.agents)

    async def is_any_deleted(self, threads: ThreadsClient) -> bool:
        """Whether a conversation of the batch was deleted since it was read, also where another one
        has its id now. False for a batch without conversations.
        """
        if not self.shown:
            return False
        created_when_read = dict[str, str]()
        for item in self.shown:
            created_when_read[item.thread_id] = item.conversation.created_at
        fields: list[ThreadSelectField] = ["thread_id", "created_at"]
        present = await threads_by_id(threads, self.thread_ids, self.owned, fields)
        created_now = dict[str, str]()
        for thread in present:
            thread_id = str(thread["thread_id"])
            created_now[thread_id] = str(thread["created_at"])
        return created_now != created_when_read

    @property
    def messages_shown(self) -> int:
        """How many messages the model reads."""
        messages = 0
        for item in self.shown:
            messages += len(item.conversation.turns)
        return messages

    def base_files(self) -> list[TextFile]:
        """The copied files that are texts, as they are before the model works."""
        return text_files(texts(self.base))

    def current_files(self) -> list[TextFile]:
        """As `base_files`, without the lines that are over. Blocks."""
        current_texts = dict[str, str]()
        for key, text in texts(self.base).items():
            current_texts[key] = self.expired.current_text(key, text)
        return text_files(current_texts)

    # --- What happened beside the run

    async def taken_back(self, stored: StoredMemory) -> dict[Key, Dated]:
        """The lines that were taken back up to now (`taken_back.py`): in the files' histories, and
        in proposals.
        """
        return await self._taken_back_by(differences, stored)

    async def ends_taken_back(self, stored: StoredMemory) -> dict[DatedKey, Dated]:
        """The lines with an end that the person took back or gave another end (`changed_ends.py`);
        none where the deployment has no ends.
        """
        if not self.deployment.ends:
            return {}
        return await self._taken_back_by(end_differences, stored)

    async def _taken_back_by(
        self, compare: Differences[LineKey], stored: StoredMemory
    ) -> dict[LineKey, Dated]:
        """As `taken_back`, with one of the comparisons of lines."""
        declined = list[Declined]()
        for proposal in stored.proposals:
            declined += proposal.declined
        # Also revisions that only wait to be deleted: what they took back is kept with that.
        limits = replace(self.deployment.limits, revisions_kept=_ALL_REVISIONS)
        histories = await platform.in_thread(journal.histories_in, stored.revisions, limits)
        dropped = journal.taken_back_in(stored.dropped)
        return await platform.in_thread(taken_back_by, compare, histories, declined, dropped)

    async def since_it_began(self) -> tuple[journal.Deleted, Controls]:
        """What was deleted since the run began, and the person's present controls."""
        reads = control_ops(self.memory.actor)
        since, results = await self.since_it_began_and(reads)
        controls = controls_of(results, self.deployment)
        return since, controls

    async def since_it_began_and(self, ops: Sequence[Op]) -> tuple[journal.Deleted, list[Result]]:
        """What was deleted since the run began, and the results of these operations: all are carried
        out at once.
        """
        began = self.memory.began
        ended_ops = journal.deleted_ops(began)
        all_ops = [*ended_ops, *ops]
        all_results = await self.memory.store.abatch(all_ops)
        number = len(ended_ops)
        since = journal.deleted_in(all_results[:number], began)
        results = all_results[number:]
        return since, results

    # --- What the model reads, and works on

    def show(self, talk: str, taken_lines: Sequence[Dated]) -> None:
        """Have the model read a batch, which is given as text: it becomes the draft's `text`. Blocks.

        With it come the topic files that have most words in common, and the lines that were taken
        back.
        """
        sections_shown = [talk]
        files = list[TextFile]()
        if rules_of(self.record.kind).shows_topics:
            files = self._topics_about(talk)
        if files:
            max_bytes = self.deployment.limits.memory_block_bytes
            block, _ = sections(files, max_bytes)
            sections_shown.append(f"# Files about the same\n\n{block}")
        if taken_lines:
            lines = shown_lines(taken_lines, self.said)
            sections_shown.append(f"# Taken back\n\n{lines}")
        self.text = "\n\n".join(sections_shown)

    def _topics_about(self, talk: str) -> list[TextFile]:
        """The topic files that have most words in common with a text, best first. Blocks."""
        topics = list[TextFile]()
        searchable = list[str]()
        for path, text in self.current_files():
            is_topic = path.startswith(_TOPICS) and path != _INDEX
            if not is_topic:
                continue
            topic = (path, text)
            topics.append(topic)
            searchable.append(f"{path} {text}")
        most = self.rules.topic_files_shown
        best_first = rank(talk, searchable)
        return [topics[number] for number, _ in best_first[:most]]

    async def begin(self, refused: str = "") -> list[AnyMessage]:
        """Begin an attempt with a new copy of the files. Returns the messages with which the model
        begins: its task, and the batch as the answer to a call of `READ_TOOL`.

        `refused` says why the attempt before was.
        """
        self.steps = 0
        self.given_up.clear()
        self.contradicted.clear()
        self.copy = self._new_copy()
        task = await self._task(refused)
        call_id = f"batch-{self.record.run_id}"
        call = {"name": READ_TOOL, "args": {}, "id": call_id}
        return [
            HumanMessage(task),
            AIMessage("", tool_calls=[call]),
            ToolMessage(self.text, name=READ_TOOL, tool_call_id=call_id),
        ]

    def _new_copy(self) -> BaseStore:
        """A store that has the files, and when their lines were written."""
        ops = list[PutOp]()
        for key, file in self.base.items():
            value: dict[str, object] = {**file}
            written = self.expired.written.get(key)
            if written is not None:
                value[TIMES_FIELD] = dict(written)
            op = PutOp(self.memory.files, key, value)
            ops.append(op)
        copy = InMemoryStore()
        # Nothing is waited for: the copy is in this process, and has no index.
        copy.batch(ops)
        return copy

    async def _task(self, refused: str) -> str:
        """What the model is asked to do. `refused` as in `begin`."""
        task_prompt = rules_of(self.record.kind).task_prompt
        prompt = await self._prompt(f"{task_prompt}.md")
        number_shown = len(self.shown)
        task = prompt.replace("{count}", str(number_shown))
        if not refused:
            return task
        retry = await self._prompt("consolidation_retry.md")
        reason = retry.replace("{reason}", refused)
        return f"{task}\n{reason}"

    async def _prompt(self, name: str) -> str:
        """The deployment's prompt in a file with this name."""
        return await platform.in_thread(self.deployment.prompt, name)

    # --- What becomes of it

    def with_earlier_parts(self, changed: Sequence[Changed]) -> list[Changed]:
        """These changes; of a text that was brought with what its earlier parts change."""
        if self.reading is None:
            return list(changed)
        return self.reading.with_earlier_parts(changed)

    def answer(self, record: Record) -> str:
        """The run's answer: as JSON where a request waits for it, else a sentence."""
        if self.reading:
            told = self.reading.told(record)
            return json.dumps(told)
        if record.dry_run:
            return json.dumps(asdict(record))
        if record.status == "failed":
            return f"Nothing was consolidated: {record.reason}"
        return f"{record.conversations} conversations were consolidated."

    # --- The record

    async def keep(
        self,
        record: Record,
        positions: Mapping[str, Position] = MappingProxyType({}),
        *,
        quotes_facts: bool = True,
    ) -> None:
        """Log a record of the run, and keep it with its positions.

        Nothing is kept of a dry run, nor of who was forgotten meanwhile; nor, where the record
        `quotes_facts`, if a fact was deleted for good since the run began.
        """
        record.log()
        if self.reading:
            # Nothing is kept of a text but what is proposed.
            without_notes = replace(record, notes=[])
            record = await self._with_earlier_record(without_notes, self.reading.part)
        if record.dry_run:
            return
        memory = self.memory
        place = namespaces.run_records(memory.actor)
        search = SearchOp(place, limit=_RECORDS_READ)
        since, (older,) = await self.since_it_began_and([search])
        if since.everything or since.conversation:
            return
        if quotes_facts and since.fact:
            return
        key = f"{record.started_at}-{record.run_id}"
        ops = [
            *self.reading_ops,
            *position_ops(memory.actor, positions),
            PutOp(place, key, asdict(record), index=False),
        ]
        too_old = self._too_old(older, key)
        ops += [PutOp(place, old_key, None) for old_key in too_old]
        await journal.put_unless_forgotten(
            memory.store, ops, memory.began, quotes_facts=quotes_facts, is_checked=True
        )

    def _too_old(self, records: Result, new_key: str) -> list[str]:
        """The keys of the stored records for which the new one leaves no room. `records` is what a
        search has found.
        """
        if not isinstance(records, list):
            return []
        other_keys = list[str]()
        for item in records:
            if isinstance(item, Item) and item.key != new_key:
                other_keys.append(item.key)
        other_keys.sort()  # a key begins with a time
        number = len(other_keys) + 1
        too_many = max(0, number - self.rules.records_kept)
        return other_keys[:too_many]

    async def _with_earlier_record(self, record: Record, part: Part) -> Record:
        """The one record of all runs that have read parts of a text up to now; this one is of the
        last.
        """
        record = replace(record, run_id=part.text_id, started_at=part.began)
        place = namespaces.run_records(self.memory.actor)
        key = f"{part.began}-{part.text_id}"
        item = await self.memory.store.aget(place, key)
        if item is None:
            return record
        earlier = record_in(item)
        status = record.status
        if earlier["status"] == "proposed":
            status = "proposed"
        return replace(
            record,
            status=status,
            files={**earlier["files"], **record.files},
            model_calls=earlier["model_calls"] + record.model_calls,
            input_tokens=earlier["input_tokens"] + record.input_tokens,
            output_tokens=earlier["output_tokens"] + record.output_tokens,
            found=earlier["found"] + record.found,
            proposed=earlier["proposed"] + record.proposed,
        )

    @asynccontextmanager
    async def failure_recorded(self) -> AsyncIterator[None]:
        """If an error or a cancellation ends the run within, this keeps a record that it failed. The
        error is raised in any case.
        """
        try:
            yield
        except NothingToDoError:
            raise
        except BaseException as error:
            await platform.to_the_end(self._record_failure(error))
            raise

    async def _record_failure(self, error: BaseException) -> None:
        """Keep a record of a run that failed. Logs an error instead of raising it."""
        reason = _why_failed(error)
        failed = self.record.ended("failed", reason, notes=[note("failed")])
        try:
            await self.keep(failed)
        # A store raises what its driver raises. The run's own error counts.
        except Exception as failure:
            logger.warning(
                "The record of consolidation %s could not be kept: %r.",
                failed.run_id,
                failure,
                exc_info=True,
            )


def _why_failed(error: BaseException) -> str:
    """Why a run ended, in a sentence for people.

    The message of an error that is not this library's may be of no use to them.
    """
    if not isinstance(error, Exception):
        return "It was cancelled."
    kind = type(error)
    package_of_error, *_ = kind.__module__.split(".")
    this_package, *_ = __name__.split(".")
    is_ours = package_of_error == this_package
    message = str(error)
    if is_ours and message:
        return message
    return f"The run failed: {kind.__name__}; see the server's log."


# --- The draft of the current run

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
