"""One consolidation run: its batches, and its reads and writes of the store between model calls."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langgraph.config import get_store
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client

from memory import identity, journal, namespaces
from memory.consolidation import acceptance, guard
from memory.consolidation.acceptance import Acceptance
from memory.consolidation.applying import refusal
from memory.consolidation.drafts import Draft, Drafts, files_of, rehearsal
from memory.consolidation.due import Due, batch, find_due
from memory.consolidation.facts import Key
from memory.consolidation.positions import put_off
from memory.consolidation.proposals import PROPOSALS, Proposals, proposals, with_proposals
from memory.consolidation.run_records import Record, kept_record, record, shortened, tell
from memory.consolidation.taken_back import Said, TakenBack, objection, returning, said_since, taken_back, without
from memory.consolidation.tasks import shown_text
from memory.controls import controls
from memory.recall import catch_up
from settings import BATCH_TOKENS, Settings

logger = logging.getLogger(__name__)

# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
# Seconds before each attempt to leave the record of a run that failed; the store may be away.
_ATTEMPTS = (0, 1, 2, 4, 8, 16)


class ConsolidationRun:
    """One run. If `begin` gave no batch, `is_full` says whether undecided proposals were the reason.

    Raises:
        IdentityError: the run names no person.
    """

    def __init__(self, settings: Settings, runtime: Runtime[Any], drafts: Drafts) -> None:
        self.actor = identity.current_actor(settings, runtime)
        self._assistant = identity.current_assistant(runtime)
        self._files = namespaces.memories(self.actor, self._assistant, settings)
        self._run_id = identity.current_run_id() or ""
        self.dry = identity.run_context(runtime).dry_run
        self._settings, self._drafts, self._store = settings, drafts, get_store()
        self.is_full = False

    def new_record(self) -> Record:
        return Record(self._run_id, _now(), dry_run=self.dry)

    async def begin(self, report: Record, after: Draft | None = None, reason: str = "") -> Draft | None:
        """The next batch, on a draft of its own. None if nothing is due.

        Args:
            report: the run's record so far.
            after: the batch before it.
            reason: why that batch was refused, if it is tried once more.
        """
        store = self._store
        if self.dry:
            store = after.origin if after else await rehearsal(store, self.actor, self._files)
        follows = await acceptance.finish_accepted(store, self.actor, self._files)
        waiting = await proposals(store, self.actor, self._files, journal.began(self.actor))
        self.is_full = waiting.is_full
        if self.is_full:
            return None
        files = await asyncio.to_thread(with_proposals, await files_of(store, self._files), waiting.waiting)
        skipped = after.skipped if after else ()
        due = await self.find_due(store, skipped)
        shown = await asyncio.to_thread(batch, due, BATCH_TOKENS)
        if not shown:
            return None
        taken = await self._taken_back(waiting)
        said = await self.said(shown, min(each.at for each in taken.values())) if taken else []
        draft = Draft(
            origin=store,
            files=self._files,
            base=files,
            follows=follows,
            shown=shown,
            text=await asyncio.to_thread(shown_text, shown, files, taken, said),
            said=said,
            more=len(due) > sum(item.whole for item in shown),
            reason=reason,
            skipped=skipped,
            report=report,
        )
        await draft.copy()
        self._drafts.begin(draft)
        return draft

    async def find_due(self, store: BaseStore, skipped: Sequence[str]) -> list[Due]:
        """The conversations with new turns."""
        assistant = self._assistant if self._settings.memory_scope == "user+assistant" else None
        return await find_due(store, self.actor, assistant, skipped=skipped)

    async def said(self, shown: Sequence[Due], since: str) -> list[Said]:
        """What the person said in these conversations after a time."""
        return await said_since(get_client().runs, [item.conversation.thread_id for item in shown], since)

    async def _taken_back(self, decided: Proposals) -> dict[Key, TakenBack]:
        histories = await journal.histories(self._store, self._files)
        return await asyncio.to_thread(taken_back, histories, decided.declined)

    async def accept(self, draft: Draft) -> str | None:
        """Apply a draft's changes unless the guard objects to them, or there is no room.

        A batch that brings back what the person took back is refused. The second time it goes without those lines.

        Returns:
            The reason of a refusal, or None: then the draft's report has the batch.

        Raises:
            OvertakenError: another run was faster, and nothing was changed.
        """
        changes = guard.changes(draft.base, await draft.now())
        positions = draft.positions()
        # The sources of a line, for a person who asks; the run's record counts all conversations.
        said_in = " ".join(sorted(positions)[:_THREADS_NOTED])
        author = identity.Author("consolidation", self.actor.user_id, self._run_id, said_in)
        taken = await self._taken_back(await PROPOSALS.read(draft.origin, self.actor, self._files)) if changes else {}
        present = guard.texts(await files_of(draft.origin, self._files)) if taken else []
        talk = [turn.text for item in draft.shown for turn in item.conversation.turns]
        brought = await asyncio.to_thread(returning, changes, present, taken, draft.said, talk)
        if brought and not draft.reason:
            return objection(brought)
        changes = await asyncio.to_thread(without, changes, brought)
        problem = await asyncio.to_thread(guard.objections, changes, draft.given_up)
        if problem := problem or await refusal(draft.origin, self._files, changes, author):
            return problem
        diffs = await asyncio.to_thread(lambda: {each.path: each.diff() for each in changes})
        report = replace(
            draft.report,
            reason=f"Left out: {objection(brought)}" if brought else draft.report.reason,
            conversations=draft.report.conversations + len(positions),
            messages=draft.report.messages + sum(len(item.conversation.turns) for item in draft.shown),
            files=guard.merged(draft.report.files, diffs),
        )
        review = bool(changes) and not self.dry and (await controls(self._store, self.actor, self._settings)).review
        accepted = Acceptance(draft.id, _now(), author, changes, positions, shortened(report), proposed=review)
        draft.report = await acceptance.accept(draft.origin, self.actor, self._files, accepted, draft.follows)
        return None

    async def skip(self, refused: Draft, reason: str) -> None:
        """Leave a batch's conversations to the next run, which tries each of them alone."""
        thread_ids = list(refused.positions())
        await put_off(refused.origin, self.actor, thread_ids)
        refused.skipped = [*refused.skipped, *thread_ids]
        refused.report = replace(refused.report, status="undone", reason=reason, undone=refused.report.undone + 1)

    async def begin_again(self, report: Record) -> tuple[Record, Draft | None]:
        """A batch in place of one whose draft is gone. None if nothing is due, or the run had ended already."""
        report = await kept_record(self._store, self.actor, report)
        if self.dry or report.run_id != self._run_id:
            report = self.new_record()
        if report.status in {"done", "undone"}:
            return report, None
        report = replace(report, status="running", ended_at="")
        return report, await self.begin(report)

    async def finish(self, report: Record) -> Record:
        """Drop the run's draft, and keep its record if it had something to do. Returns the record."""
        self._drafts.end()
        status = "done" if report.status == "running" else report.status
        report = replace(report, status=status, ended_at=report.ended_at or _now())
        over = self.dry or await journal.is_forgotten(self._store, journal.began(self.actor))
        if not over:
            kept = await kept_record(self._store, self.actor, report)  # another run may have finished a batch of this one
            report = replace(report, conversations=kept.conversations, messages=kept.messages, files=kept.files)
            if report.conversations or report.model_calls or report.reason:
                await record(self._store, self.actor, report)
        await tell(self._store, report)
        if report.conversations and not over:
            await self.index()
        return report

    async def fail(self, error: BaseException, report: Record) -> None:
        """Leave the record of a run that ended so. While the store is away, try again for half a minute."""
        draft = self._drafts.last()
        reason = type(error).__name__ if isinstance(error, Exception) else "It was cancelled."
        report = replace(draft.report if draft else report, status="failed", reason=reason)
        for seconds in _ATTEMPTS:
            await asyncio.sleep(seconds)
            try:
                await self.finish(report)
            except Exception as failure:  # a store raises what its driver raises
                logger.warning("The record of consolidation %s could not be kept: %r.", self._run_id, failure, exc_info=True)
            else:
                return

    async def index(self) -> None:
        """Index quiet conversations for recall. A failure is logged, because the next search indexes them too."""
        try:
            await catch_up(self._store, get_client().threads, self.actor)
        except Exception as error:  # whatever it is, memory is consolidated
            logger.warning("Conversations were not indexed for recall: %r. The next search does it.", error, exc_info=True)


def _now() -> str:
    return datetime.now(UTC).isoformat()
