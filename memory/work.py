"""The work of one consolidation run: for whom, on which files, and what it does with the store between model calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from langgraph.config import get_store
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client

from memory import epochs, guard, scopes
from memory.due import Due, batch, find_due, still_due, transcript
from memory.files import acarry_out
from memory.lexical import rank
from memory.progress import (
    Lease,
    Record,
    commit,
    holds_lease,
    interrupted,
    positions_of,
    put_off,
    record,
    release_lease,
    take_lease,
)
from memory.prompt import file_text, within_budget
from memory.recall import catch_up
from memory.rehearsal import Rehearsals
from settings import BATCH_TOKENS, LEASE_SECONDS, MAX_MEMORY_FILES, MEMORY_BUDGET_BYTES, PROJECT, TOPIC_FILES_SHOWN, Settings

logger = logging.getLogger(__name__)

TASK = (PROJECT / "prompts" / "consolidation_task.md").read_text("utf-8")
RETRY = (PROJECT / "prompts" / "consolidation_retry.md").read_text("utf-8")
TOOL = "search_recent_conversations"
TOPICS, INDEX = "/topics/", "/topics/index.md"


@dataclass(frozen=True, slots=True)
class Batch:
    """What the model is given at once.

    Args:
        number: from 1; a second attempt at the same conversations has a number of its own.
        attempt: 1, or 2 after the first was undone.
        task: the message it begins with.
        text: the conversations, and the files about the same topics.
        positions: where the threads stand once it is done, by thread id.
        base: where the memory files stood.
        messages: how many turns there are.
        skipped: threads that are left out in the rest of this run, because what was made of them was undone twice.
        undone: how many times that has happened.
        more: whether other conversations are due.
    """

    number: int
    attempt: int
    task: str
    text: str
    positions: dict[str, dict[str, Any]]
    base: guard.Base
    messages: int
    skipped: list[str]
    undone: int
    more: bool


class Work:
    """One run's work.

    Args:
        settings: whose memory it is.
        runtime: the run's.
        rehearsals: the copies that dry runs write to.

    Raises:
        IdentityError: nobody is named.
    """

    def __init__(self, settings: Settings, runtime: Runtime[Any], rehearsals: Rehearsals) -> None:
        self.actor = scopes.current_actor(settings, runtime)
        self._assistant = scopes.current_assistant(runtime)
        self.files = scopes.memories(self.actor, self._assistant, settings)
        self.run_id = scopes.current_run_id() or ""
        self.dry = isinstance(runtime.context, scopes.Context) and runtime.context.dry_run
        self._apart, self._rehearsals, self._store = settings.memory_scope == "user+assistant", rehearsals, get_store()
        self._key = f"/{self.files[-1]}"

    async def find(self, after: Batch | None = None) -> list[Due]:
        """What is new in the person's conversations, after a batch of this run."""
        return await find_due(
            self._store,
            self.actor,
            self._assistant if self._apart else None,
            BATCH_TOKENS,
            skipped=after.skipped if after else [],
            rehearsed=self._rehearsals.store() if after else None,
            dry=self.dry,
        )

    async def take_over(self, found: Sequence[Due]) -> list[Due]:
        """Take the lease, and undo what a dead run left half done; what is due then. For a dry run, copy the files.

        Raises:
            LeaseHeldError: another run is at work.
        """
        if self.dry:
            await self._rehearsals.begin(self.run_id, self._store, self.files)
            return list(found)
        before = await self._take()
        if before.worker and before.base is not None:
            await interrupted(self._store, self.actor, before.worker)
        if before.moved is not None:
            await commit(self._store, self.actor, before.positions())
        elif before.base is not None:
            await self._undo(before.base, before.worker)
        known = await positions_of(self._store, self.actor, [item.conversation.thread_id for item in found])
        return await asyncio.to_thread(still_due, found, known) or await self.find()

    async def renew(self) -> None:
        """Give a sign of life.

        Raises:
            LeaseHeldError: too late: another run has taken over.
        """
        if not self.dry:
            await self._renew()

    async def holds(self) -> bool:
        """Whether this run may write."""
        return self.dry or await holds_lease(self._store, self.actor, self._key, self.run_id)

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Gives signs of life while something takes long, such as a model call.

        Raises:
            LeaseHeldError: too late: another run has taken over.
        """
        await self.renew()
        signs = asyncio.create_task(self._signs())
        try:
            yield
        finally:
            signs.cancel()

    async def _signs(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 5)
            with contextlib.suppress(Exception):  # whatever it is, who needs the lease next finds out
                await self.renew()

    async def begin(self, found: Sequence[Due], after: Batch | None = None, reason: str | None = None) -> Batch | None:
        """The next batch, noted in the lease. None where nothing is due.

        Args:
            found: what is due.
            after: the batch before it.
            reason: why that was undone, and is to be done again.

        Raises:
            LeaseHeldError: another run has taken over.
        """
        shown = await asyncio.to_thread(batch, found, BATCH_TOKENS)
        if not shown:
            return None
        base = await guard.base(self._files_store(), self.files)
        if not self.dry:
            await self._renew(worker=self.run_id, base=base, moved=None, **({} if after else {"decided": None}))
        task = TASK.replace("{count}", str(len(shown)))
        return Batch(
            number=after.number + 1 if after else 1,
            attempt=2 if reason else 1,
            task=f"{task}\n{RETRY.replace('{reason}', reason)}" if reason else task,
            text=await self._text(shown),
            positions={item.conversation.thread_id: asdict(item.position()) for item in shown},
            base=base,
            messages=sum(len(item.conversation.turns) for item in shown),
            skipped=after.skipped if after else [],
            undone=after.undone if after else 0,
            more=len(found) > sum(item.whole for item in shown),
        )

    async def accept(self, done: Batch, given_up: Sequence[dict[str, Any]], report: Record, problem: str | None) -> str | None:
        """Move the positions, if what was written may stand; otherwise the reason why not.

        What is decided is noted in the lease first: a run that is interrupted here decides the same when it goes on.

        Args:
            done: the batch.
            given_up: what the model gave to `forget_lines`.
            report: where what was done is added.
            problem: a reason why not that is known already.

        Raises:
            LeaseHeldError: another run has taken over.
        """
        changed = await guard.changes(self._files_store(), self.files, done.base, self.run_id)
        lines = defaultdict[str, list[str]](list)
        for given in given_up:
            lines[given["path"]] += given["lines"]
        problem = problem or await asyncio.to_thread(guard.objections, changed, lines)
        if not self.dry:
            before = await self._renew()
            if before.decided and before.decided["batch"] == done.number:
                problem = before.decided["reason"]
            decided = {"batch": done.number, "reason": problem}
            await self._renew(decided=decided, moved=None if problem else done.positions)
        if problem:
            return problem
        await commit(self._files_store(), self.actor, Lease(moved=done.positions).positions())
        report.conversations += len(done.positions)
        report.messages += done.messages
        report.files = guard.merged(report.files, await asyncio.to_thread(guard.diffs, changed))
        if not self.dry:
            await record(self._store, self.actor, report)
        return None

    async def undo(self, undone: Batch) -> None:
        """Take back what was written in a batch."""
        await self._undo(undone.base, self.run_id)

    async def skip(self, undone: Batch) -> Batch:
        """Leave the conversations of a batch for the next run, which tries each of them alone."""
        if not self.dry:
            await put_off(self._store, self.actor, list(undone.positions))
        return replace(undone, skipped=[*undone.skipped, *undone.positions], undone=undone.undone + 1)

    async def finish(self, report: Record) -> None:
        """Keep the record of a run that had something to do, and give the lease back."""
        report.ended_at = datetime.now(UTC).isoformat()
        report.status = "done" if report.status == "running" else report.status
        if self.dry:
            self._rehearsals.end(self.run_id)
            return
        if await epochs.is_over(self._store, self.actor):
            return
        if report.conversations or report.model_calls or report.reason:
            await record(self._store, self.actor, report)
        if report.conversations:
            await self._index()
        await release_lease(self._store, self.actor, self._key, self.run_id)

    async def _index(self) -> None:
        """Have what went quiet indexed for recall, which is not worth failing for: a search does it too."""
        try:
            await catch_up(self._store, get_client().threads, self.actor)
        except Exception as error:  # whatever it is, memory is consolidated
            logger.warning("Conversations were not indexed for recall: %r. The next search does it.", error, exc_info=True)

    async def _undo(self, base: guard.Base, run_id: str) -> None:
        store = self._files_store()
        author = scopes.Author("consolidation", self.actor.user_id, run_id)
        for change in await guard.changes(store, self.files, base, run_id):
            await guard.undo(store, self.files, change, author)

    async def _text(self, shown: Sequence[Due]) -> str:
        """The conversations, and the topic files that share most words with them."""
        said = await asyncio.to_thread(lambda: "\n\n".join(map(transcript, shown)))
        items = await self._files_store().asearch(self.files, limit=MAX_MEMORY_FILES)
        topics = [item for item in items if item.key.startswith(TOPICS) and item.key != INDEX]
        files = [(f"/memories{item.key}", file_text(f"/memories{item.key}", item)) for item in topics]
        best = (await asyncio.to_thread(rank, said, [f"{path} {text}" for path, text in files]))[:TOPIC_FILES_SHOWN]
        known = [files[i] for i, _ in best]
        return f"{said}\n\n# Files about the same\n\n{within_budget(known, MEMORY_BUDGET_BYTES)}" if known else said

    async def _take(self, **options: Any) -> Lease:
        epoch = await acarry_out(self._store, epochs.of_run(self.actor))
        return await take_lease(self._store, self.actor, self._key, self.run_id, epoch, **options)

    async def _renew(self, **noted: Any) -> Lease:
        return await self._take(renewing=True, **noted)

    def _files_store(self) -> BaseStore:
        return self._rehearsals.store() or self._store
