"""A draft: one run's batch, and the private copy of the person's files on which the model works.

It is in the memory of this process, so a run that dies or is taken back has written nothing.
"""

import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from deepagents.backends.protocol import FileData
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.base import BaseStore, Item, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import ThreadsClient

from lasting_memory import platform
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.brought import Part
from lasting_memory.consolidation.changed_ends import DatedKey, end_differences
from lasting_memory.consolidation.dream_threads import LoadedDream
from lasting_memory.consolidation.facts import Key, TextFile, differences, text_files
from lasting_memory.consolidation.lines_over import LinesOver
from lasting_memory.consolidation.no_batch import NothingToDoError
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.positions import Position, position_ops
from lasting_memory.consolidation.record import Record, note
from lasting_memory.consolidation.schedule import Trigger
from lasting_memory.consolidation.stored_memory import StoredMemory
from lasting_memory.consolidation.taken_back import (
    Dated,
    Differences,
    Name,
    shown_lines,
    taken_back_by,
)
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, controls_of, read_controls
from lasting_memory.memory.ends import WRITTEN
from lasting_memory.memory.proposals import Changed, Declined, Memory, texts
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import owned_by, rank, threads_by_id
from lasting_memory.vouching import Evidence

logger = logging.getLogger(__name__)

# The model is given its batch as the answer to a call of this tool.
READ_TOOL = "search_recent_conversations"
_TOPICS = "/memories/topics/"
_INDEX = "/memories/topics/index.md"
# Of a record, what adds up over the parts of a text.
_COUNTS = ("model_calls", "input_tokens", "output_tokens", "found", "proposed")
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
    base: Mapping[str, FileData] = field(default_factory=dict)  # the copied files, by key
    over: LinesOver = field(default_factory=LinesOver)  # which of their lines are over
    shown: Sequence[Due] = ()
    # Operations that note how far conversations are read; they are kept with the record.
    reading_ops: Sequence[PutOp] = ()
    more: bool = False  # whether other conversations are due
    # What the person said in these conversations since they first took something back.
    said: Sequence[Dated] = ()
    text: str = ""  # the conversations as the model reads them, with the files about them
    # All that its new lines may say; None: anything.
    source: Sequence[TextFile] | None = None
    reading: Reading | None = None  # of a text that was brought
    dream: LoadedDream | None = None  # of memory that is built anew
    # What the person said in these conversations, and what texts from elsewhere said.
    evidence: Evidence = field(default_factory=Evidence)
    steps: int = 0  # model calls of this attempt
    # Why lines are given up, by path and line.
    given_up: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    # Those of them, as path and line, that something newer contradicts.
    contradicted: set[tuple[str, str]] = field(default_factory=set)
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
        return self.owner.assistant_id or self.deployment.default_assistant

    @property
    def author(self) -> identity.Author:
        """The sources of a line, for a person who asks; the run's record counts all conversations."""
        thread_ids = sorted(self.thread_ids)
        said_in = " ".join(thread_ids[:_THREADS_NOTED])
        user_id = self.owner.actor.user_id
        return identity.Author("consolidation", user_id, self.record.run_id, said_in)

    @property
    def thread_ids(self) -> list[str]:
        """The ids of the batch's conversations."""
        return [item.thread_id for item in self.shown]

    @property
    def owned(self) -> list[dict[str, str]]:
        """The metadata of the owner's conversations, of which each has one."""
        return owned_by(self.owner.actor, self.deployment.agents)

    async def is_any_deleted(self, threads: ThreadsClient) -> bool:
        """Whether a conversation of the batch was deleted since it was read, also where another one has
        its id now.
        """
        created_when_read = dict[str, str]()
        for item in self.shown:
            talk = item.conversation
            created_when_read[talk.thread_id] = talk.created_at
        if not created_when_read:
            return False
        fields = ["thread_id", "created_at"]
        created = dict[str, str]()
        for thread in await threads_by_id(threads, self.thread_ids, self.owned, fields):
            thread_id = str(thread["thread_id"])
            created[thread_id] = str(thread["created_at"])
        return created != created_when_read

    @property
    def messages_shown(self) -> int:
        """How many messages the model reads."""
        messages = 0
        for item in self.shown:
            turns = item.conversation.turns
            messages += len(turns)
        return messages

    def base_files(self) -> list[TextFile]:
        """The copied files."""
        return text_files(texts(self.base))

    def current_files(self) -> list[TextFile]:
        """The copied files without their lines that are over. Blocks."""
        current = dict[str, str]()
        for key, text in texts(self.base).items():
            current[key] = self.over.current(key, text)
        return text_files(current)

    async def taken_back(self, stored: StoredMemory) -> dict[Key, Dated]:
        """What the person has taken back up to now: in the files' histories, and in proposals."""
        return await self._taken_back_by(differences, stored)

    async def ends_taken_back(self, stored: StoredMemory) -> dict[DatedKey, Dated]:
        """As `taken_back`: the ends that the person took from lines."""
        if not self.deployment.ends:
            return {}
        return await self._taken_back_by(end_differences, stored)

    async def _taken_back_by(
        self, compare: Differences[Name], stored: StoredMemory
    ) -> dict[Name, Dated]:
        declined = list[Declined]()
        for proposal in stored.proposals:
            declined += proposal.declined
        # Also revisions that only wait to be deleted: what they took back is kept with that.
        limits = replace(self.deployment.limits, revisions_kept=_ALL_REVISIONS)
        histories = await platform.in_thread(journal.histories_in, stored.revisions, limits)
        lines = journal.taken_back_in(stored.dropped)
        return await platform.in_thread(taken_back_by, compare, histories, declined, lines)

    async def since_it_began(self) -> tuple[journal.Ended, Controls]:
        """What was deleted since the run began, and the person's present controls."""
        reads = read_controls(self.memory.actor)
        since, stored = await self.since_it_began_and(reads)
        controls = controls_of(stored, self.deployment)
        return since, controls

    async def since_it_began_and(self, ops: Sequence[Op]) -> tuple[journal.Ended, list[Any]]:
        """What was deleted since the run began, and the results of other operations, all at once."""
        began = self.memory.began
        marks = journal.ended_ops(began)
        number_of_marks = len(marks)
        found = await self.memory.store.abatch([*marks, *ops])
        since = journal.ended_in(found[:number_of_marks], began)
        results = found[number_of_marks:]
        return since, results

    def show(self, talk: str, taken: Sequence[Dated]) -> None:
        """Have the model read this text. Blocks.

        With it come the topic files that have most words in common, and what was taken back.
        """
        self.text = talk
        files = list[TextFile]()
        if self.record.kind != "tidy":
            files = self._topics_about(talk)
        if files:
            max_bytes = self.deployment.limits.memory_block_bytes
            block, _ = sections(files, max_bytes)
            self.text += f"\n\n# Files about the same\n\n{block}"
        if taken:
            lines = shown_lines(taken, self.said)
            self.text += f"\n\n# Taken back\n\n{lines}"

    def _topics_about(self, talk: str) -> list[TextFile]:
        """The topic files that have most words in common with a text. Blocks."""
        topics = list[TextFile]()
        searchable = list[str]()
        for path, text in self.current_files():
            if path.startswith(_TOPICS) and path != _INDEX:
                topics.append((path, text))
                searchable.append(f"{path} {text}")
        most = self.rules.topic_files_shown
        best_first = rank(talk, searchable)
        shown = list[TextFile]()
        for number, _ in best_first[:most]:
            topic = topics[number]
            shown.append(topic)
        return shown

    async def begin(self, refused: str = "") -> list[AnyMessage]:
        """Make a new copy, and return the first messages of an attempt.

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
        puts = list[PutOp]()
        for key, file in self.base.items():
            value: dict[str, Any] = {**file}
            written = self.over.written.get(key)
            if written is not None:
                value[WRITTEN] = dict(written)
            puts.append(PutOp(self.memory.files, key, value))
        copy = InMemoryStore()
        # Nothing is waited for: the copy is in this process, and has no index.
        copy.batch(puts)
        return copy

    async def _task(self, refused: str) -> str:
        """What the model is asked to do."""
        reads_talk = self.record.kind in {"conversations", "dream"}
        kind = "task" if reads_talk else self.record.kind
        prompt = await self._prompt(f"consolidation_{kind}.md")
        number_shown = len(self.shown)
        task = prompt.replace("{count}", str(number_shown))
        if refused:
            retry = await self._prompt("consolidation_retry.md")
            reason = retry.replace("{reason}", refused)
            task = f"{task}\n{reason}"
        return task

    async def _prompt(self, name: str) -> str:
        return await platform.in_thread(self.deployment.prompt, name)

    def with_earlier_parts(self, changed: Sequence[Changed]) -> list[Changed]:
        """What a proposal changes: of a text that was brought also what its earlier parts change."""
        if self.reading is None:
            return list(changed)
        return self.reading.with_earlier_parts(changed)

    def answer(self, record: Record) -> str:
        """The run's answer: its record where a request waits for that, else a sentence."""
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
            record = replace(record, notes=[])
            record = await self._with_earlier_record(record, self.reading.part)
        if record.dry_run:
            return
        memory = self.memory
        place = namespaces.run_records(memory.actor)
        search = SearchOp(place, limit=_RECORDS_READ)
        since, (records,) = await self.since_it_began_and([search])
        if since.all_of_it or since.conversation:
            return
        if quotes_facts and since.fact:
            return
        key = f"{record.started_at}-{record.run_id}"
        too_old = self._too_old(records, key)
        ops = [
            *self.reading_ops,
            *position_ops(memory.actor, positions),
            PutOp(place, key, asdict(record), index=False),
            *[PutOp(place, old_key, None) for old_key in too_old],
        ]
        await journal.put_unless_forgotten(
            memory.store, ops, memory.began, quotes_facts=quotes_facts, is_checked=True
        )

    def _too_old(self, records: Sequence[Item], new_key: str) -> list[str]:
        """The keys of the records for which the new one leaves no room."""
        others = list[str]()
        for item in records:
            if item.key != new_key:
                others.append(item.key)
        others.sort()
        number_with_new = len(others) + 1
        too_many = max(0, number_with_new - self.rules.records_kept)
        return others[:too_many]

    async def _with_earlier_record(self, record: Record, part: Part) -> Record:
        """The record of a text so far: of all runs that read parts of it there is one."""
        record = replace(record, run_id=part.text_id, started_at=part.began)
        place = namespaces.run_records(self.memory.actor)
        key = f"{part.began}-{part.text_id}"
        item = await self.memory.store.aget(place, key)
        if item is None:
            return record
        empty = Record("", "")
        earlier = {**asdict(empty), **item.value}
        counts = dict[str, Any]()
        for name in _COUNTS:
            count = getattr(record, name)
            counts[name] = count + earlier[name]
        files = {**earlier["files"], **record.files}
        whole = replace(record, files=files, **counts)
        if earlier["status"] == "proposed":
            return replace(whole, status="proposed")
        return whole

    @asynccontextmanager
    async def failure_recorded(self) -> AsyncIterator[None]:
        """Leaves a record of a run that an error or a cancellation ends within."""
        try:
            yield
        except NothingToDoError:
            raise
        except BaseException as error:
            await platform.to_the_end(self._record_failure(error))
            raise

    async def _record_failure(self, error: BaseException) -> None:
        failed = self.record.ended("failed", _why_failed(error), notes=[note("failed")])
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
    """Why a run ended, in a sentence.

    The message of an error that is not this library's may be of no use to a person.
    """
    if not isinstance(error, Exception):
        return "It was cancelled."
    kind = type(error)
    package, *_ = kind.__module__.split(".")
    own_package, *_ = __name__.split(".")
    is_own = package == own_package
    if is_own and str(error):
        return str(error)
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
