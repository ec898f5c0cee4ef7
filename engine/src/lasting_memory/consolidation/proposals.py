"""Applying a batch's changes to the files, at once or after their person has accepted them.

Others' changes since the batch began stay. The conversations of a proposal count as consolidated. A newer proposal assumes that
the older ones are accepted.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, PutOp

from lasting_memory import journal
from lasting_memory.consolidation.guard import added_facts
from lasting_memory.deployment import Deployment
from lasting_memory.files.proposals import Changed, Dated, Proposal, diffs, proposals, propose
from lasting_memory.journal import Began
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of
from lasting_memory.validation import RefusedWrite, stored_file

# Proposals whose decision is known.
_DECIDED_KEPT = 200


class UnknownProposalError(RefusedWrite):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWrite):
    """The person decided about this before."""


async def files_of(store: BaseStore, files: Namespace) -> dict[str, FileData]:
    """All files of a namespace, by key."""
    found = dict[str, FileData]()
    for item in await journal.all_items(store, files):
        with suppress(RefusedWrite):
            found[item.key] = stored_file(item)
    return found


def applied(
    files: Mapping[str, FileData], changes: Iterable[Changed], author: Author, deployment: Deployment, *, skip: bool = False
) -> dict[str, FileData]:
    """The files with these changes. Raises `ValueError` for one that cannot be made, or, with `skip`, leaves it out. Blocks."""
    result = dict(files)
    for change in changes:
        with suppress(*[ValueError] * skip):
            after = change.merged(result.get(change.key), author, deployment)
            result.pop(change.key, None)
            result |= {change.key: after} if after else {}
    return result


async def check(store: BaseStore, files: Namespace, changes: Sequence[Changed], author: Author, deployment: Deployment) -> None:
    """Raise `ValueError` if the present files cannot take these changes."""
    before, limits = await files_of(store, files), deployment.limits
    after = await asyncio.to_thread(applied, before, changes, author, deployment)
    old, new = (sum(len(file["content"].encode()) for file in of.values()) for of in (before, after))
    if new > max(old, limits.max_bytes) or len(after) > max(len(before), limits.max_files):
        raise RefusedWrite(f"{len(after)} files of {limits.max_files}, {new:,} bytes of {limits.max_bytes:,}; shorten it.")


async def apply(
    store: BaseStore,
    files: Namespace,
    changes: Iterable[Changed],
    author: Author,
    deployment: Deployment,
    *,
    began: Began | None,
) -> dict[str, str]:
    """Make one revision of each file, additions first, for a fact that moves. Returns by path why some were not made."""
    refused, made = dict[str, str](), (each for each in changes if each.deleted or each.before != each.after)
    for change in sorted(made, key=lambda change: len(change.before) - len(change.after)):
        try:
            merged = partial(change.merged, author=author, deployment=deployment)
            await journal.change(store, files, change.key, merged, author, began=began, limits=deployment.limits)
        except ValueError as error:
            refused[change.path] = str(error)
    return refused


async def shown_proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[dict[str, Any]]:
    """The undecided proposals as their person sees them, oldest first: changes as diffs, and as lines with their numbers."""
    return [await asyncio.to_thread(_shown, each) for each in await proposals(store, actor, files) if each.changes]


def _shown(proposal: Proposal) -> dict[str, Any]:
    lines = {
        change.path: [
            {"line": number, "sign": sign, "text": text, "reason": proposal.reasons.get(change.path, {}).get(text.strip(), "")}
            for number, (sign, text) in enumerate(change.lines())
        ]
        for change in proposal.changes
    }
    told = {"id": proposal.id, "at": proposal.at, "kind": proposal.kind, "threads": proposal.threads}
    return {**told, "files": diffs(proposal.changes), "lines": lines}


async def decide(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    lines: Mapping[str, Mapping[int, str | None]] = MappingProxyType({}),
    began: Began,
    deployment: Deployment,
) -> dict[str, str]:
    """Accept or decline all undecided files of a proposal, or some. Returns, by path, why some accepted ones wait again.

    `lines` are those to accept of these files, by number, with the text that the person writes instead or None; the file's
    other lines are declined. A revision of the person's own puts in what they wrote.

    Raises `UnknownProposalError`, `DecidedError`, or, if the present files cannot take the changes, `RefusedWrite`.
    """
    async with lock_of("deciding", proposal_id):  # two tabs of one person, or a run that proposes more
        known = await proposals(store, actor, files)
        proposal = next((each for each in known if each.id == proposal_id), None)
        if proposal is None:
            raise UnknownProposalError(f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them.")
        if not proposal.changes or {*(paths or ())} & {*proposal.decided}:
            raise DecidedError(f"Proposal {proposal_id}, or one of these files, was decided already.")
        wanted = [change for change in proposal.changes if paths is None or change.path in paths]
        if unknown := {*(paths or ()), *lines} - {change.path for change in wanted}:
            raise UnknownProposalError(f"Proposal {proposal_id} changes no file {min(unknown)[:80]!r}.")
        refused, taken = dict[str, str](), list[Changed]()
        if accept:
            whole = [(change, Changed(change.key, change.after, change.after)) for change in wanted if change.path not in lines]
            parts = [*whole, *(change.only(lines[change.path]) for change in wanted if change.path in lines)]
            taken = [replace(own, after=theirs.after) for own, theirs in parts]
            await check(store, files, taken, proposal.author, deployment)
            refused = await apply(store, files, (own for own, _ in parts), proposal.author, deployment, began=began)
            edited = [theirs for _, theirs in parts if theirs.path not in refused]
            refused |= await apply(store, files, edited, Author("person", actor.user_id), deployment, began=began)
        over = [change for change in wanted if change.path not in refused]
        declined = await asyncio.to_thread(_declined, over, taken, began.at)
        proposal = replace(
            proposal,
            changes=[change for change in proposal.changes if change not in over],
            decided=sorted({*proposal.decided, *(change.path for change in over)}),
            declined=[*proposal.declined, *declined],
        )
        await propose(store, actor, proposal, began)
        old = [each.id for each in known if not each.changes][:-_DECIDED_KEPT]
        await store.abatch([PutOp(namespaces.proposals(actor), each, None) for each in old])
        return refused


def _declined(changes: Iterable[Changed], taken: Iterable[Changed], at: str) -> list[Dated]:
    """The facts that these changes would have added, but for those that are taken. Blocks."""
    known = {key for change in taken for key in added_facts(change)}
    return [Dated(line, at) for change in changes for key, line in added_facts(change).items() if key not in known]
