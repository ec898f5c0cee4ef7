"""One consolidation run: its batches, and its reads and writes of the store between model calls."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from langgraph.config import get_store
from langgraph.runtime import Runtime
from langgraph.store.base import Item
from langgraph_sdk import get_client

from memory import identity, journal, namespaces
from memory.consolidation import acceptance, guard
from memory.consolidation.acceptance import Acceptance
from memory.consolidation.applying import refusal
from memory.consolidation.decisions import proposals
from memory.consolidation.drafts import Draft, Drafts, files_of
from memory.consolidation.due import Due, batch, find_due
from memory.consolidation.positions import Position, put_off
from memory.consolidation.proposals import with_proposals
from memory.consolidation.run_records import Record, kept_record, record, shortened, tell
from memory.consolidation.tasks import shown_text, task
from memory.controls import controls
from memory.recall import catch_up
from memory.validation import RefusedWriteError
from settings import BATCH_TOKENS, Settings

logger = logging.getLogger(__name__)

TOOL = "search_recent_conversations"
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
# Restarts of a run's batches after a lost draft or a faster run.
MAX_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Batch:
    """The conversations that the model works on at once.

    Args:
        id: unique; it identifies the draft.
        attempt: 1, or 2 after a refusal.
        task: the first message.
        text: the conversations, and the files about the same topics.
        positions: the threads' positions after the batch, by thread id.
        messages: number of turns.
        skipped: threads that the rest of this run leaves out, because their batch was refused twice.
        undone: number of such batches.
        restarts: number of restarted batches in this run.
        more: whether other conversations are due.
    """

    id: str
    attempt: int
    task: str
    text: str
    positions: dict[str, dict[str, Any]]
    messages: int
    skipped: list[str]
    undone: int
    restarts: int
    more: bool

    def moved(self) -> dict[str, Position]:
        """The positions, which the thread's state holds as JSON."""
        return {thread_id: Position(**position) for thread_id, position in self.positions.items()}


class ConsolidationRun:
    """One run. If `begin` gave no batch, `is_full` says whether undecided proposals were the reason.

    Raises:
        IdentityError: the run names no person.
    """

    def __init__(self, settings: Settings, runtime: Runtime[Any], drafts: Drafts) -> None:
        self.actor = identity.current_actor(settings, runtime)
        self._assistant = identity.current_assistant(runtime)
        self._files = namespaces.memories(self.actor, self._assistant, settings)
        self.run_id = identity.current_run_id() or ""
        self.dry = identity.run_context(runtime).dry_run
        self._settings, self._drafts, self._store = settings, drafts, get_store()
        self.is_full = False

    def draft(self, given: Batch) -> Draft | None:
        """The draft of a batch; None if its process is gone."""
        return self._drafts.of(self.run_id, given.id)

    async def begin(
        self,
        after: Batch | None = None,
        reason: str | None = None,
        files: Mapping[str, Item] | None = None,
        consolidated: Mapping[str, Position] | None = None,
    ) -> Batch | None:
        """The next batch, on a draft of its own. None if nothing is due.

        Args:
            after: the batch before it.
            reason: the reason of that batch's refusal; the model then tries again.
            files: a dry run's files with its accepted changes; other runs read them.
            consolidated: a dry run's positions.
        """
        follows = await acceptance.finish_accepted(self._store, self.actor, self._files)
        waiting = await proposals(self._store, self.actor, self._files, await journal.run_epoch(self._store, self.actor))
        self.is_full = waiting.is_full
        if self.is_full:
            return None
        skipped = after.skipped if after else []
        due = await self.find_due(skipped, consolidated or {})
        shown = await asyncio.to_thread(batch, due, BATCH_TOKENS)
        if not shown:
            return None
        if files is None:
            files = await asyncio.to_thread(with_proposals, await files_of(self._store, self._files), waiting.waiting)
        draft = Draft(uuid4().hex, self._files, files, follows, consolidated or {})
        await self._drafts.begin(self.run_id, draft, journal.read_epoch(self.actor), self._store)
        return Batch(
            id=draft.batch,
            attempt=2 if reason else 1,
            task=await asyncio.to_thread(task, len(shown), files, reason),
            text=await asyncio.to_thread(shown_text, shown, draft.base),
            positions={item.conversation.thread_id: asdict(item.position()) for item in shown},
            messages=sum(len(item.conversation.turns) for item in shown),
            skipped=skipped,
            undone=after.undone if after else 0,
            restarts=after.restarts if after else 0,
            more=len(due) > sum(item.whole for item in shown),
        )

    async def find_due(self, skipped: Sequence[str], tried: Mapping[str, Position]) -> list[Due]:
        """The conversations with new turns."""
        assistant = self._assistant if self._settings.memory_scope == "user+assistant" else None
        return await find_due(self._store, self.actor, assistant, BATCH_TOKENS, skipped=skipped, tried=tried, dry=self.dry)

    async def follow(self, done: Batch, draft: Draft, reason: str | None = None) -> Batch | None:
        """The batch after a refused one. A dry run restores its draft."""
        return await (self.begin(done, reason, draft.base, draft.consolidated) if self.dry else self.begin(done, reason))

    async def follow_accepted(self, done: Batch, draft: Draft) -> Batch | None:
        """The batch after an accepted one. A dry run keeps its draft."""
        if not self.dry:
            return await self.begin(done)
        known = dict(draft.consolidated)
        for thread_id, position in done.moved().items():
            seen = known.get(thread_id, Position()).seen
            known[thread_id] = replace(position, seen=(*seen, *position.seen))
        return await self.begin(done, None, await draft.now(), known)

    async def accept(
        self, done: Batch, draft: Draft, given_up: Sequence[dict[str, Any]], report: Record
    ) -> tuple[Record, str | None]:
        """Apply a draft's changes unless the guard objects to them, given the model's calls of `forget_lines`.

        A dry run leaves them in its draft.

        Returns:
            The report with the batch; or the old report, and the reason of the refusal.

        Raises:
            OvertakenError: another run was faster, and nothing was changed.
        """
        changes = guard.changes(draft.base, await draft.now())
        lines = defaultdict[str, list[str]](list)
        for given in given_up:
            lines[given["path"]] += given["lines"]
        # The sources of a line, for a person who asks; the run's record counts all conversations.
        said_in = " ".join(sorted(done.positions)[:_THREADS_NOTED])
        author = identity.Author("consolidation", self.actor.user_id, self.run_id, said_in)
        problem = await asyncio.to_thread(guard.objections, changes, lines)
        if problem := problem or (None if self.dry else await refusal(self._store, self._files, changes, author)):
            return report, problem
        diffs = await asyncio.to_thread(lambda: {each.path: each.diff() for each in changes})
        report = replace(
            report,
            conversations=report.conversations + len(done.positions),
            messages=report.messages + done.messages,
            files=guard.merged(report.files, diffs),
        )
        if self.dry:
            return report, None
        review = bool(changes) and (await controls(self._store, self.actor, self._settings)).review
        accepted = Acceptance(
            id=done.id,
            at=datetime.now(UTC).isoformat(),
            author=author,
            changes=changes,
            positions=done.moved(),
            report=shortened(report),
            proposed=review,
        )
        return await acceptance.accept(self._store, self.actor, self._files, accepted, draft.follows), None

    async def skip(self, undone: Batch) -> Batch:
        """Leave a batch's conversations to the next run, which tries each of them alone."""
        if not self.dry:
            await put_off(self._store, self.actor, list(undone.positions))
        return replace(undone, skipped=[*undone.skipped, *undone.positions], undone=undone.undone + 1)

    async def begin_again(self, lost: Batch, report: Record) -> tuple[Record, Batch | None]:
        """A batch in place of one whose draft is gone. None if nothing is due, or the run had ended already.

        Raises:
            RefusedWriteError: too many restarts.
        """
        if lost.restarts >= MAX_RESTARTS:
            raise RefusedWriteError("This consolidation was interrupted; start it again.")
        await journal.begin_epoch(self._store, self.actor)
        report = await kept_record(self._store, self.actor, report)
        if self.dry or report.run_id != self.run_id:
            report = Record(self.run_id, datetime.now(UTC).isoformat(), dry_run=self.dry)
        if report.status in {"done", "undone"}:
            return report, None
        report = replace(report, status="running", ended_at="")
        return report, await self.begin(replace(lost, restarts=lost.restarts + 1))

    async def finish(self, report: Record) -> Record:
        """Drop the run's draft, and keep its record if it had something to do. Returns the record."""
        self._drafts.end(self.run_id)
        status = "done" if report.status == "running" else report.status
        report = replace(report, status=status, ended_at=report.ended_at or datetime.now(UTC).isoformat())
        await tell(self._store, report)
        if self.dry or await journal.epoch_is_over(self._store, self.actor):
            return report
        kept = await kept_record(self._store, self.actor, report)  # another run may have finished a batch of this one
        report = replace(report, conversations=kept.conversations, messages=kept.messages, files=kept.files)
        if report.conversations or report.model_calls or report.reason:
            await record(self._store, self.actor, report)
        if report.conversations:
            await self.index()
        return report

    async def index(self) -> None:
        """Index quiet conversations for recall. A failure is logged, because the next search indexes them too."""
        try:
            await catch_up(self._store, get_client().threads, self.actor)
        except Exception as error:  # whatever it is, memory is consolidated
            logger.warning("Conversations were not indexed for recall: %r. The next search does it.", error, exc_info=True)
