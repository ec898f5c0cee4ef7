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
from typing import Any, cast

from deepagents.backends.protocol import FileData
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.base import BaseStore, Item, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.bringing import Reading
from lasting_memory.consolidation.brought import Part
from lasting_memory.consolidation.dreams import DreamDraft
from lasting_memory.consolidation.facts import Key
from lasting_memory.consolidation.lines_over import LinesOver
from lasting_memory.consolidation.no_batch import NothingToDoError
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.positions import Position, position_ops
from lasting_memory.consolidation.record import Record, note
from lasting_memory.consolidation.schedule import Trigger
from lasting_memory.consolidation.taken_back import Dated, shown_lines, taken_back
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, controls_of, read_controls
from lasting_memory.memory.ends import WRITTEN
from lasting_memory.memory.proposals import Changed, Declined, Memory, Proposal, texts
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import rank
from lasting_memory.vouching import Evidence

logger = logging.getLogger(__name__)

# The model is given its batch as the answer to a call of this tool.
READ_TOOL = "search_recent_conversations"
_TOPICS = "/memories/topics/"
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
    # Path and text of all that its new lines may say; None: anything.
    source: Sequence[tuple[str, str]] | None = None
    reading: Reading | None = None  # of a text that was brought
    dream: DreamDraft | None = None  # of memory that is built anew
    # What the person said in these conversations, and what texts from elsewhere said.
    evidence: Evidence = field(default_factory=Evidence)
    steps: int = 0  # model calls of this attempt
    # Why lines are given up, by path and line.
    given_up: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    # Those of them, as path and line, that something newer contradicts.
    contradicted: set[tuple[str, str]] = field(default_factory=set)
    copy: BaseStore = field(default_factory=InMemoryStore)

    @property
    def rules(self) -> Consolidation:
        return self.memory.deployment.consolidation or DEFAULT_CONSOLIDATION

    @property
    def assistant(self) -> str:
        return self.owner.assistant_id or self.memory.deployment.default_assistant

    @property
    def author(self) -> identity.Author:
        """The sources of a line, for a person who asks; the run's record counts all conversations."""
        thread_ids = sorted(item.conversation.thread_id for item in self.shown)
        said_in = " ".join(thread_ids[:_THREADS_NOTED])
        user_id = self.owner.actor.user_id
        return identity.Author("consolidation", user_id, self.record.run_id, said_in)

    @property
    def messages_shown(self) -> int:
        """How many messages the model reads."""
        return sum(len(item.conversation.turns) for item in self.shown)

    def base_files(self) -> list[tuple[str, str]]:
        """The copied files, as path and text."""
        return [(f"/memories{key}", text) for key, text in texts(self.base).items()]

    def current_files(self) -> list[tuple[str, str]]:
        """The copied files, as path and text, without their lines that are over. Blocks."""
        files = list[tuple[str, str]]()
        for key, text in texts(self.base).items():
            files.append((f"/memories{key}", self.over.current(key, text)))
        return files

    async def taken_back(
        self, proposals: Sequence[Proposal], revisions: Sequence[Item], dropped: Sequence[Item]
    ) -> dict[Key, Dated]:
        """What the person has taken back up to now.

        By the items of their files' journals, the lines that revisions took back which are no
        longer kept, and these proposals of theirs.
        """
        declined = list[Declined]()
        for proposal in proposals:
            declined += proposal.declined
        # Also revisions that only wait to be deleted: what they took back is kept with that.
        limits = replace(self.memory.deployment.limits, revisions_kept=_ALL_REVISIONS)
        histories = await platform.in_thread(journal.histories_in, revisions, limits)
        lines = journal.taken_back_in(dropped)
        return await platform.in_thread(taken_back, histories, declined, lines)

    async def since_it_began(self) -> tuple[journal.Ended, Controls]:
        """What was deleted since the run began, and the person's present controls."""
        memory = self.memory
        marks = journal.ended_ops(memory.began)
        found = await memory.store.abatch([*marks, *read_controls(memory.actor)])
        since = journal.ended_in(found[: len(marks)], memory.began)
        return since, controls_of(found[len(marks) :], memory.deployment)

    def show(self, talk: str, taken: Sequence[Dated]) -> None:
        """Have the model read this text. Blocks.

        With it come the topic files that have most words in common, and what was taken back.
        """
        self.text = talk
        files = [] if self.record.kind == "tidy" else self._topics_about(talk)
        if files:
            block, _ = sections(files, self.memory.deployment.limits.memory_block_bytes)
            self.text += f"\n\n# Files about the same\n\n{block}"
        if taken:
            self.text += f"\n\n# Taken back\n\n{shown_lines(taken, self.said)}"

    def _topics_about(self, talk: str) -> list[tuple[str, str]]:
        """The topic files that have most words in common with a text. Blocks."""
        topics = list[tuple[str, str]]()
        for path, text in self.current_files():
            if path.startswith(_TOPICS) and path != f"{_TOPICS}index.md":
                topics.append((path, text))
        ranked = rank(talk, [f"{path} {text}" for path, text in topics])
        return [topics[number] for number, _ in ranked[: self.rules.topic_files_shown]]

    async def begin(self, refused: str = "") -> list[AnyMessage]:
        """Make a new copy, and return the first messages of an attempt.

        `refused` says why the attempt before was.
        """
        self.copy = InMemoryStore()
        self.steps = 0
        self.given_up.clear()
        self.contradicted.clear()
        puts = list[PutOp]()
        for key, file in self.base.items():
            value: dict[str, Any] = {**file}
            if key in self.over.written:
                value[WRITTEN] = dict(self.over.written[key])
            puts.append(PutOp(self.memory.files, key, value))
        # Nothing is waited for: the copy is in this process, and has no index.
        self.copy.batch(puts)
        reads_talk = self.record.kind in {"conversations", "dream"}
        kind = "task" if reads_talk else self.record.kind
        prompt = await self._prompt(f"consolidation_{kind}.md")
        task = prompt.replace("{count}", str(len(self.shown)))
        if refused:
            prompt = await self._prompt("consolidation_retry.md")
            task += "\n" + prompt.replace("{reason}", refused)
        call_id = f"batch-{self.record.run_id}"
        call = AIMessage("", tool_calls=[{"name": READ_TOOL, "args": {}, "id": call_id}])
        return [
            HumanMessage(task),
            call,
            ToolMessage(self.text, name=READ_TOOL, tool_call_id=call_id),
        ]

    async def _prompt(self, name: str) -> str:
        return await platform.in_thread(self.memory.deployment.prompt, name)

    def with_earlier_parts(self, changed: Sequence[Changed]) -> list[Changed]:
        """What a proposal changes: of a text that was brought also what its earlier parts change."""
        return self.reading.with_earlier_parts(changed) if self.reading else list(changed)

    def answer(self, record: Record) -> str:
        """The run's answer: its record where a request waits for that, else a sentence."""
        if self.reading:
            return json.dumps(self.reading.told(record))
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
        namespace = namespaces.run_records(memory.actor)
        key = f"{record.started_at}-{record.run_id}"
        marks = journal.ended_ops(memory.began)
        listed = SearchOp(namespace, limit=_RECORDS_READ)
        records, *found = cast("list[Any]", await memory.store.abatch([listed, *marks]))
        since = journal.ended_in(found, memory.began)
        if since.all_of_it or since.conversation or (quotes_facts and since.fact):
            return
        others = sorted(item.key for item in records if item.key != key)
        ops = [
            *self.reading_ops,
            *position_ops(memory.actor, positions),
            PutOp(namespace, key, asdict(record), index=False),
        ]
        too_many = max(0, len(others) + 1 - self.rules.records_kept)
        ops += [PutOp(namespace, old, None) for old in others[:too_many]]
        await journal.put_unless_forgotten(
            memory.store, ops, memory.began, quotes_facts=quotes_facts, is_checked=True
        )

    async def _with_earlier_record(self, record: Record, part: Part) -> Record:
        """The record of a text so far: of all runs that read parts of it there is one."""
        record = replace(record, run_id=part.text_id, started_at=part.began)
        namespace = namespaces.run_records(self.memory.actor)
        item = await self.memory.store.aget(namespace, f"{part.began}-{part.text_id}")
        if item is None:
            return record
        earlier = {**asdict(Record("", "")), **item.value}
        counts = {name: getattr(record, name) + earlier[name] for name in _COUNTS}
        status = record.status
        if earlier["status"] == "proposed":
            status = "proposed"
        files = {**earlier["files"], **record.files}
        return replace(record, status=status, files=files, **counts)

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
    is_own = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    if is_own and str(error):
        return str(error)
    return f"The run failed: {type(error).__name__}; see the server's log."


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
    return draft.copy if draft else None
