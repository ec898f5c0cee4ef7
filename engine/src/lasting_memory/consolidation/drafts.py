"""Drafts and records: each run works on a private copy of the person's memory files, which is committed at its end.

It is in the memory of this process, so a run that dies or is taken back has written nothing. A run also holds one of the
process's slots until it ends, however it ends: there are few workers, and a conversation must always find one.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TypedDict, cast

from deepagents.backends.protocol import FileData
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import journal, platform
from lasting_memory.agent.prompt import sections
from lasting_memory.consolidation.brought import Entry, Part, counted, proposal_id
from lasting_memory.consolidation.guard import Dated, Key, shown_lines
from lasting_memory.consolidation.planning import Due, Owner
from lasting_memory.consolidation.positions import Position, put_positions
from lasting_memory.consolidation.turns import Turns
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation
from lasting_memory.files.one_fact import Fact
from lasting_memory.files.proposals import Memory, Proposal, all_proposals, texts
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import rank
from lasting_memory.validation import RefusedWrite

logger = logging.getLogger(__name__)

_LOGGED = ("run_id", "conversations", "model_calls", "input_tokens", "output_tokens", "undone")
# Of a record, what adds up over the parts of a text.
_COUNTS = ("model_calls", "input_tokens", "output_tokens", "found", "proposed")
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
_REASON_CHARS = 200
# Lines of the model's that the text does not say, as the person is told.
_LINES_TOLD = 5
# How long what a person asked for waits for its turn.
TURN_SECONDS = 60.0
# Lines that a note names, and characters of each.
_NOTED_LINES, _NOTE_CHARS = 5, 120
REHEARSING = "Another dry run is at work; try again when it has ended."
READING = "Another consolidation is at work; try again when it has ended."


class Note(TypedDict):
    """Why something was left out or did not happen: one word, for which the page has a sentence, and the lines it is about."""

    kind: str
    texts: list[str]


def note(kind: str, *lines: str) -> Note:
    return {"kind": kind, "texts": [line[:_NOTE_CHARS] for line in lines[:_NOTED_LINES]]}


@dataclass
class Record:
    """One run's work, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are diffs by path.

    `status` is running, done, proposed (the person decides), undone (its changes were refused) or failed; `reason` says why, as
    the model was told, and `notes` say it for people.
    """

    run_id: str
    started_at: str
    ended_at: str = ""
    status: str = "running"
    reason: str = ""
    conversations: int = 0
    messages: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    undone: int = 0
    dry_run: bool = False
    kind: str = "conversations"  # or "tidy", "bring"
    files: dict[str, str] = field(default_factory=dict)
    found: int = 0  # facts and messages in a text that was brought, and those of them that are proposed
    proposed: int = 0
    notes: list[Note] = field(default_factory=list)

    def ended(self, status: str, reason: str = "", **more: Any) -> "Record":
        return replace(self, status=status, reason=reason, ended_at=now(), undone=int(status == "undone"), **more)

    def log(self) -> None:
        """Log `consolidation` and a JSON object, for log pipelines."""
        seconds = (datetime.now(UTC) - datetime.fromisoformat(self.started_at)).total_seconds()
        status = "dry_run" if self.dry_run and self.status == "done" else self.status
        told = {"status": status, "people": 1, **{name: getattr(self, name) for name in _LOGGED}, "seconds": round(seconds, 1)}
        logger.info("consolidation %s", json.dumps(told))


def now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass(slots=True)
class Reading:
    """What a run reads of a text that its person brought, and what becomes of it."""

    part: Part
    base: Mapping[str, FileData]  # the files without what was proposed of this text before
    earlier: Proposal | None  # what was proposed of this text before
    older: Sequence[str]  # ids of undecided proposals of other texts, which this one's takes the place of
    entries: Sequence[Entry] = ()  # those that the model reads
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # the others, by reason
    returning: Mapping[Key, str] = field(default_factory=dict)  # lines of the model's that bring back what was taken back
    invented: Sequence[str] = ()  # lines of the model's that the text does not say
    beyond: str = ""  # what the deployment lets no consolidation do (`Consolidation.may`)

    def told(self, report: Record) -> dict[str, Any]:
        """The report for the request that waits: it alone is told what was left out."""
        left_out = {reason: [*texts] for reason, texts in self.left_out.items()}
        if report.status in {"failed", "undone"}:
            left_out["failed"] = [entry.text for entry in self.entries]
        invented = [line[:_REASON_CHARS] for line in self.invented[:_LINES_TOLD]]
        reason = " ".join(filter(None, [report.reason, self.beyond]))
        return {**asdict(report), "reason": reason, "left_out": counted(left_out), "invented": invented}


@dataclass(slots=True)
class Draft:
    """One run's batch: the conversations that the model works on at once, and its copy of the files."""

    owner: Owner
    report: Record
    memory: Memory  # in the real store
    base: Mapping[str, FileData] = field(default_factory=dict)  # the copied files, by key
    shown: Sequence[Due] = ()
    more: bool = False  # whether other conversations are due
    said: Sequence[Dated] = ()  # what the person said in these conversations since they first took something back
    text: str = ""  # the conversations as the model reads them, with the files about them; "" before the batch has begun
    source: Sequence[tuple[str, str]] | None = None  # path and text of all that its new lines may say; None: anything
    reading: Reading | None = None  # of a text that was brought
    refused: str = ""  # why the first attempt was refused; "" in that
    steps: int = 0  # model calls of this attempt
    failure: str = ""  # why the model's last answer is none
    given_up: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # why, by path and line
    copy: BaseStore = field(default_factory=InMemoryStore)

    @property
    def rules(self) -> Consolidation:
        return self.memory.deployment.consolidation or DEFAULT_CONSOLIDATION

    @property
    def author(self) -> identity.Author:
        """The sources of a line, for a person who asks; the run's record counts all conversations."""
        said_in = " ".join(sorted(item.conversation.thread_id for item in self.shown)[:_THREADS_NOTED])
        return identity.Author("consolidation", self.owner.actor.user_id, self.report.run_id, said_in)

    async def begin(self, refused: str = "") -> list[AnyMessage]:
        """Fill the copy, also again after a refusal, and return the first messages: the batch is the answer to a tool call."""
        self.copy, self.refused, self.steps = InMemoryStore(), refused, 0
        self.given_up.clear()
        for key, file in self.base.items():
            await self.copy.aput(self.memory.files, key, {**file})
        prompt, kind = self.memory.deployment.prompt, "task" if self.report.kind == "conversations" else self.report.kind
        task = (await platform.in_thread(prompt, f"consolidation_{kind}.md")).replace("{count}", str(len(self.shown)))
        if refused:
            task += "\n" + (await platform.in_thread(prompt, "consolidation_retry.md")).replace("{reason}", refused)
        name, call_id = search_recent_conversations.name, f"batch-{self.report.run_id}"
        call = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": call_id}])
        return [HumanMessage(task), call, ToolMessage(self.text, name=name, tool_call_id=call_id)]

    def show(self, talk: str, taken: Sequence[Dated]) -> None:
        """Have the model read this, with the topic files that have most words in common, and what was taken back. Blocks."""
        self.text = talk
        if self.report.kind != "tidy":
            topics = [(f"/memories{key}", text) for key, text in texts(self.base).items() if key.startswith("/topics/")]
            topics = [(path, text) for path, text in topics if path != "/memories/topics/index.md"]
            best = [topics[i] for i, _ in rank(talk, [" ".join(each) for each in topics])[: self.rules.topic_files_shown]]
            block, _ = sections(best, self.memory.deployment.limits.memory_block_bytes)
            self.text += f"\n\n# Files about the same\n\n{block}" if best else ""
        if taken:
            self.text += f"\n\n# Taken back\n\n{shown_lines(taken, self.said)}"

    async def keep(
        self, record: Record, positions: Mapping[str, Position] = MappingProxyType({}), *, quotes_facts: bool = True
    ) -> None:
        """Log a record of the run, and keep it with its positions; not of a dry run, nor of who was forgotten meanwhile.

        Nor, where it `quotes_facts`, if one was deleted for good since the run began.
        """
        record.log()
        store, actor, namespace = self.memory.store, self.memory.actor, namespaces.run_records(self.memory.actor)
        if self.reading:
            record = replace(record, notes=[])  # nothing is kept of a text but what is proposed
            record = await self._with_earlier_parts(record, self.reading.part)
        if record.dry_run or not await put_positions(store, actor, positions, self.memory.began):
            return
        op = PutOp(namespace, f"{record.started_at}-{record.run_id}", asdict(record), index=False)
        if await journal.put_unless_forgotten(store, [op], self.memory.began, quotes_facts=quotes_facts):
            old = (await journal.all_items(store, namespace))[: -self.rules.records_kept]
            await store.abatch([PutOp(namespace, item.key, None) for item in old])

    async def _with_earlier_parts(self, record: Record, part: Part) -> Record:
        """The record of a text so far: of all runs that read parts of it there is one."""
        record = replace(record, run_id=part.text_id, started_at=part.began)
        item = await self.memory.store.aget(namespaces.run_records(self.memory.actor), f"{part.began}-{part.text_id}")
        if item is None:
            return record
        earlier = {**asdict(Record("", "")), **item.value}
        counts = {name: getattr(record, name) + earlier[name] for name in _COUNTS}
        status = "proposed" if earlier["status"] == "proposed" else record.status
        return replace(record, status=status, files={**earlier["files"], **record.files}, **counts)

    async def fail(self, error: BaseException) -> None:
        """Leave a record of the run that an error or a cancellation ended."""
        failed = self.report.ended("failed", _why_failed(error), notes=[note("failed")])
        try:
            await self.keep(failed)
        except Exception as failure:  # a store raises what its driver raises; the run's own error counts
            logger.warning("The record of consolidation %s could not be kept: %r.", failed.run_id, failure, exc_info=True)


def _why_failed(error: BaseException) -> str:
    """Why a run ended, in a sentence. Of an error that is not this library's, its message may be of no use to a person."""
    if not isinstance(error, Exception):
        return "It was cancelled."
    is_own = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    if is_own and str(error):
        return str(error)
    return f"The run failed: {type(error).__name__}; see the server's log."


async def records(store: BaseStore, actor: identity.Actor) -> list[dict[str, Any]]:
    """A person's last records, newest first. The status of what was proposed is what became of the proposal."""
    known = await journal.all_items(store, namespaces.run_records(actor))
    shown = [{**asdict(Record("", "")), **item.value} for item in reversed(known)]
    proposals = await all_proposals(store, actor)
    for record in shown:
        if record["status"] == "proposed":
            begins = (record["run_id"], proposal_id(record["run_id"]))
            made = [each for each in proposals if each.id.startswith(begins)]
            record["status"] = made[-1].status() if made else "replaced"
    return shown


async def erase_from_records(
    store: BaseStore, actor: identity.Actor, fact: Fact, began: journal.Began, *, dry_run: bool = False
) -> int:
    """Take a fact out of a person's records. Returns how many had it. With `dry_run` it only counts."""
    ops = list[PutOp]()
    for item in await journal.all_items(store, namespaces.run_records(actor)):
        value = await platform.in_thread(_without, item.value, fact)
        if value != item.value:
            ops.append(PutOp(item.namespace, item.key, value, index=False))
    if not dry_run:
        await journal.put_unless_forgotten(store, ops, began)
    return len(ops)


def _without(record: Mapping[str, Any], fact: Fact) -> dict[str, Any]:
    """A stored record without a fact. Blocks."""
    files = record.get("files")
    if isinstance(files, Mapping):
        cleaned = {path: fact.cleaned_diff(str(diff)) if fact.is_quoted(str(diff)) else diff for path, diff in files.items()}
        files = {path: diff for path, diff in cleaned.items() if diff}
    reason = record.get("reason")
    quoted = isinstance(reason, str) and fact.is_quoted(reason)
    notes = [_note_without(note, fact) for note in record.get("notes") or []]
    return {**record, "files": files, "reason": "" if quoted else reason, "notes": notes}


def _note_without(note: Note, fact: Fact) -> Note:
    """A note of a stored record without the lines that quote a fact."""
    return {"kind": note["kind"], "texts": [text for text in note["texts"] if not fact.is_quoted(text)]}


# --- The runs of this process, each with its slot

_DRAFTS: dict[str, Draft] = {}  # by run id
# A run that waits is one more that a worker has: few enough that with those that work, and with one person's conversations,
# they are fewer than the workers (N_JOBS_PER_WORKER).
_TURNS = Turns(most_waiting=1)


async def take_slot(draft: Draft, *, asked: bool, seconds: float = 0) -> bool:
    """Take a slot for the current run, if one is free: a person leaves one to others, dry and asked runs have one more.

    Waits so long for the person's turn. A free slot goes to whoever had one longest ago.
    """
    actor, dry, most = draft.owner.actor, draft.report.dry_run, draft.rules.at_once

    def take() -> bool:
        alike = [other.owner.actor for other in _DRAFTS.values() if other.report.dry_run == dry]
        free = len(alike) < (1 if dry else most + asked) and alike.count(actor) < max(1, most - 1)
        if free:
            _DRAFTS[draft.report.run_id] = draft
        return free

    return await _TURNS.take(actor, take, seconds)


def free_slot(run_id: str) -> Draft | None:
    """Free the slot of a run that has one, for whoever waits. Returns its draft."""
    draft = _DRAFTS.pop(run_id, None)
    if draft:
        _TURNS.ended(draft.owner.actor)
    return draft


def current_draft() -> Draft | None:
    """The current run's draft; None if it has none to work on, and in a process to which it came from another."""
    draft = _DRAFTS.get(identity.current_run_id() or "")
    return draft if draft and draft.text else None


def draft_store() -> BaseStore | None:
    """The store of the current run's files; None for the real one, which only scripts use."""
    if not identity.on_server():
        return None
    if draft := current_draft():
        return draft.copy
    raise RefusedWrite("This consolidation was interrupted; it begins again.")


class EndedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose runs free their slots however they end. After an error, a limit or a cancellation no node runs any more."""

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Run the graph. Everything that a server runs or streams it with calls this."""
        run_id = str((config or {}).get("configurable", {}).get("run_id") or "")
        try:
            async with aclosing(cast("Any", super().astream(input, config, **options))) as parts:
                async for part in parts:
                    yield part
        except BaseException as error:
            if draft := free_slot(run_id):
                # A task of its own: whoever cancels the run once more does not cancel this.
                await asyncio.shield(asyncio.create_task(draft.fail(error)))
            raise
        finally:
            free_slot(run_id)


# --- The model's tools


@tool
async def search_recent_conversations() -> str:
    """Read again what is new in this person's conversations since the last consolidation, oldest first; or, where your
    task is about another text, that text.
    """
    draft = current_draft()
    return draft.text if draft else "Nothing is new since the last consolidation."


@tool
async def forget_lines(path: str, lines: list[str], reason: Literal["outdated", "contradicted"], because: str = "") -> str:
    """Say which lines of a memory file are no longer true, before you remove or replace them. This changes no file itself.

    Args:
        path: the file, e.g. /memories/topics/cooking.md.
        lines: each line as it stands there.
        reason: outdated, where time has passed over them; contradicted, where something newer says otherwise.
        because: why, in a few words for the person, e.g. "the launch was in May".
    """
    if not path.startswith("/memories/") or ".." in path:
        return f"Error: '{path}' is not memory; use a path under /memories/."
    if draft := current_draft():
        draft.given_up[path] |= {line.strip(): because[:_REASON_CHARS] or reason for line in lines}
    return f"Noted {len(lines)} lines; now change {path}."
