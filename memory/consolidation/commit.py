"""Committing a batch: its changes become revisions of files, or a proposal that waits for the person.

A batch is put as an item of its own before it is applied, and deleted after. If the process dies in between, the person's next
run applies the rest. Each file is merged: others' changes since the batch began stay. A proposal is an item of its own, too,
which also keeps what was declined of it. Its conversations count as consolidated: after a refusal they are not read again. A
newer proposal assumes that the older ones are accepted.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from memory import journal, namespaces
from memory.consolidation.due import Position, put_positions
from memory.consolidation.guard import Changed
from memory.consolidation.run_records import Record, keep, now
from memory.consolidation.taken_back import Declined, added_lines
from memory.identity import Actor, Author
from memory.journal import Began
from memory.namespaces import Namespace
from memory.validation import RefusedWriteError, before_write, check_room
from settings import MAX_MEMORY_BYTES, MAX_MEMORY_FILES

# Undecided proposals of a person, at which consolidation stops proposing.
MAX_PROPOSALS = 20
# Proposals whose decision is known, and characters of all that was declined in them.
_DECIDED_KEPT, _DECLINED_CHARS = 200, 200_000
_ALL = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes to apply together, for revisions of this author: accepted ones, or a proposal.

    Args:
        memory: the last part of the files' namespace.
        changes: of a proposal, the undecided ones.
        positions: those of the conversations once it is applied, by thread id.
        report: the run's record with it.
        decided: the paths that the person decided about.
        declined: what they declined.
    """

    id: str
    at: str
    memory: str
    author: Author
    changes: list[Changed]
    positions: dict[str, Position]
    report: Record
    decided: list[str] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """The proposal for its person. Blocks; call it in a thread."""
        files = {change.path: change.diff() for change in self.changes}
        return {"id": self.id, "at": self.at, "files": files, "threads": list(self.positions)}


_DECIDING: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
_BATCHES = TypeAdapter(Batch)


class UnknownProposalError(RefusedWriteError):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWriteError):
    """The person decided about this before."""


async def files_of(store: BaseStore, files: Namespace) -> dict[str, Item]:
    """All files of a namespace, by key."""
    return {item.key: item for item in await store.asearch(files, limit=MAX_MEMORY_FILES + 1)}


async def commit(store: BaseStore, actor: Actor, files: Namespace, batch: Batch, began: Began | None) -> Record:
    """Apply a batch. Returns its report, which names changes that were refused after all.

    Raises:
        RefusedWriteError: the person was forgotten.
    """
    place = namespaces.accepted(actor)
    await _put(store, place, batch)
    if await journal.is_forgotten(store, began):
        await store.adelete(place, batch.id)
        raise RefusedWriteError("The person was forgotten; nothing is kept.")
    return await _complete(store, actor, files, batch, began)


async def finish_accepted(store: BaseStore, actor: Actor, files: Namespace, began: Began | None) -> None:
    """Apply the rest of what dead runs had accepted."""
    for item in await store.asearch(namespaces.accepted(actor), limit=_ALL):
        batch = await asyncio.to_thread(_read, item)
        if batch is None:  # a damaged one: its conversations are still due
            await store.adelete(item.namespace, item.key)
        elif batch.memory == files[-1]:
            rest = [change for change in batch.changes if not await _is_applied(store, files, batch, change)]
            report = batch.report.ended("interrupted", "The run's process died; a later run finished it.")
            await _complete(store, actor, files, replace(batch, changes=rest, report=report), began)


async def _is_applied(store: BaseStore, files: Namespace, batch: Batch, change: Changed) -> bool:
    return any(each.id.startswith(batch.id) for each in await journal.history(store, files, change.key))


async def _complete(store: BaseStore, actor: Actor, files: Namespace, batch: Batch, began: Began | None) -> Record:
    report, refused = (
        batch.report,
        await _apply(store, files, batch.changes, batch_id=batch.id, author=batch.author, began=began),
    )
    if refused:
        reason = "; ".join(f"{path}: {why}" for path, why in refused.items())
        shown = {path: text for path, text in report.files.items() if path not in refused}
        report = replace(report.ended("undone", f"Not applied: {reason}"), files=shown)
    if not await journal.is_forgotten(store, began):
        await put_positions(store, actor, batch.positions)
        await keep(store, actor, report)
    await store.adelete(namespaces.accepted(actor), batch.id)
    return report


async def _apply(
    store: BaseStore, files: Namespace, changes: Iterable[Changed], *, batch_id: str, author: Author, began: Began | None
) -> dict[str, str]:
    """Make one revision of each file, additions first: a fact that moves is never nowhere. Returns why, by path, some were not.

    There is no quota: accepting checked it, and a batch is applied whole.
    """
    refused = dict[str, str]()
    for change in sorted(changes, key=lambda change: change.growth, reverse=True):
        make, new_id = partial(_merged, change, author), partial(_revision_id, batch_id)
        try:
            await journal.change(store, files, change.key, make, author, began=began, new_id=new_id)
        except ValueError as error:
            refused[change.path] = str(error)
    return refused


def _merged(change: Changed, author: Author, file: FileData | None) -> FileData | None:
    after = change.applied_to(file)
    before_write(change.path, after and after["content"], author)
    return after


def _revision_id(batch_id: str) -> str:
    return f"{batch_id}-{uuid4().hex}"


async def refusal(store: BaseStore, files: Namespace, changes: Sequence[Changed], author: Author) -> str | None:
    """The reason why the present files cannot take these changes, or None."""
    items = await files_of(store, files)
    try:
        for change in sorted(changes, key=lambda change: change.growth):
            after = change.item(items.get(change.key))
            content = after.value["content"] if after else None
            before_write(change.path, content, author)
            if after and content is not None:
                check_room([*items.values()], change.key, len(content.encode()))
                items[change.key] = after
            else:
                items.pop(change.key, None)
    except ValueError as error:
        return str(error)
    return None


async def propose(store: BaseStore, actor: Actor, batch: Batch, began: Began | None) -> Record:
    """Keep a batch's changes until the person decides about them. Returns its report."""
    report = batch.report.ended("proposed")
    await _put(store, namespaces.proposals(actor), batch)
    if await journal.is_forgotten(store, began):
        await store.adelete(namespaces.proposals(actor), batch.id)
        raise RefusedWriteError("The person was forgotten; nothing is kept.")
    await put_positions(store, actor, batch.positions)
    await keep(store, actor, report)
    return report


async def _put(store: BaseStore, place: Namespace, batch: Batch) -> None:
    await store.aput(place, batch.id, await asyncio.to_thread(_BATCHES.dump_python, batch, mode="json"), index=False)


async def proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[Batch]:
    """A memory's proposals with those that were decided, oldest first. A damaged one is left out."""
    items = await store.asearch(namespaces.proposals(actor), limit=_ALL)
    known = [each for item in items if (each := await asyncio.to_thread(_read, item)) and each.memory == files[-1]]
    return sorted(known, key=lambda each: each.at)


def _read(item: Item) -> Batch | None:
    try:
        return _BATCHES.validate_python(item.value)
    except ValidationError:
        return None


def is_full(known: Sequence[Batch]) -> bool:
    """Whether consolidation stops proposing until the person decides."""
    waiting = [each for each in known if each.changes]
    size = sum(len(change.before) + len(change.after) for each in waiting for change in each.changes)
    return len(waiting) >= MAX_PROPOSALS or size > MAX_MEMORY_BYTES


def with_proposals(base: Mapping[str, Item], known: Iterable[Batch]) -> dict[str, Item]:
    """The files with all proposals accepted, without changes that cannot be merged. Blocks; call it in a thread."""
    items = dict(base)
    for change in (change for proposal in known for change in proposal.changes):
        try:
            after = change.item(items.get(change.key))
        except ValueError:
            continue
        items.pop(change.key, None)
        if after:
            items[change.key] = after
    return items


async def shown_proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[dict[str, Any]]:
    """The undecided proposals as their person sees them, oldest first."""
    waiting = [each for each in await proposals(store, actor, files) if each.changes]
    return await asyncio.to_thread(lambda: [each.shown() for each in waiting])


async def decide(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    began: Began,
) -> dict[str, str]:
    """Accept or decline a proposal, or some of its files; without `paths` all undecided ones.

    Returns:
        By path, the reason why an accepted change was not applied after all. It waits again.

    Raises:
        UnknownProposalError: there is no such proposal, or it has no such file.
        DecidedError: the proposal, or one of the files, was decided before.
        RefusedWriteError: the accepted changes cannot be merged with the present files. Nothing was decided.
    """
    lock = _DECIDING.setdefault(f"{id(asyncio.get_running_loop())} {proposal_id}", asyncio.Lock())
    async with lock:  # two tabs of one person
        return await _decide(store, actor, files, proposal_id, accept=accept, paths=paths, began=began)


async def _decide(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    began: Began,
) -> dict[str, str]:
    item = await store.aget(namespaces.proposals(actor), proposal_id)
    proposal = await asyncio.to_thread(_read, item) if item else None
    if proposal is None or proposal.memory != files[-1]:
        raise UnknownProposalError(f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them.")
    if not proposal.changes or set(paths or ()) & set(proposal.decided):
        raise DecidedError(f"Proposal {proposal_id}, or one of these files, was decided already.")
    if unknown := set(paths or ()) - {change.path for change in proposal.changes}:
        raise UnknownProposalError(f"Proposal {proposal_id} changes no file {min(unknown)[:80]!r}.")
    wanted = [change for change in proposal.changes if paths is None or change.path in paths]
    refused, declined = dict[str, str](), list[Declined]()
    if accept:
        if reason := await refusal(store, files, wanted, proposal.author):
            raise RefusedWriteError(reason)
        refused = await _apply(store, files, wanted, batch_id=proposal.id, author=proposal.author, began=began)
    else:
        lines = await asyncio.to_thread(lambda: [line for change in wanted for line in added_lines(change)])
        declined = [Declined(now(), lines)]
    over = {change.path for change in wanted} - refused.keys()
    left = [change for change in proposal.changes if change.path not in over]
    decided = sorted({*proposal.decided, *over})
    proposal = replace(proposal, changes=left, decided=decided, declined=[*proposal.declined, *declined])
    await _put(store, namespaces.proposals(actor), proposal)
    if await journal.is_forgotten(store, began):
        await store.adelete(namespaces.proposals(actor), proposal_id)
        raise RefusedWriteError("What is remembered of you was deleted meanwhile.")
    await _drop_old(store, actor, files)
    return refused


async def _drop_old(store: BaseStore, actor: Actor, files: Namespace) -> None:
    """Delete the oldest decided proposals beyond their bounds."""
    decided, room = [each for each in await proposals(store, actor, files) if not each.changes], _DECLINED_CHARS
    gone = []
    for age, each in enumerate(reversed(decided)):
        room -= sum(len(line) for declined in each.declined for line in declined.lines)
        if age and (age >= _DECIDED_KEPT or room < 0):
            gone.append(PutOp(namespaces.proposals(actor), each.id, None))
    await store.abatch(gone)
