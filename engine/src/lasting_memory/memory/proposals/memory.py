"""A person's memory files, and the proposals that wait for them to decide.

To apply changes is to make them at once, as revisions of the files. To propose them is to have them
wait until their person accepts or declines them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory import platform
from lasting_memory.deployment import Deployment, Limits, Source
from lasting_memory.memory import journal, line_times
from lasting_memory.memory.folder import Folder, check_write, vouch_of
from lasting_memory.memory.journal import Change, Writer
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals.changes import Changed, Sources, added_sources
from lasting_memory.memory.proposals.proposal import Proposal, ShownProposal, WholeChange
from lasting_memory.memory.proposals.stored_proposals import (
    all_proposals,
    existing_proposal,
    put_proposal,
    with_id,
)
from lasting_memory.memory.stored_files import read_file, stored_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch, vouch_new_by
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

# Undecided proposals of a person, at which nothing more is proposed; and proposals whose decision
# is known.
MAX_PROPOSALS = 20
_DECIDED_KEPT = 200
_TOO_MANY = "The person has too many undecided proposals; nothing is added before they decide. Tell them so."


def files_in(items: Iterable[Item]) -> dict[str, FileData]:
    """The files in items of the store, by key. What is no file is left out."""
    files = dict[str, FileData]()
    for item in items:
        with suppress(RefusedWrite):
            files[item.key] = stored_file(item)
    return files


class _Acceptance(NamedTuple):
    """What became of changes that were accepted, by path: the texts, and why some were not made."""

    texts: dict[str, str]
    refusals: dict[str, ValueError]


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory files of a person, and the proposals to change them.

    `writer` is the run or the request that uses it: it writes nothing if its person was
    forgotten since then. None: nobody can be forgotten meanwhile.
    """

    store: BaseStore
    actor: Actor
    files: Namespace
    deployment: Deployment
    writer: Writer | None = None

    async def read(self) -> dict[str, FileData]:
        """All files, by key."""
        items = await journal.all_items(self.store, self.files)
        return files_in(items)

    def applied(
        self,
        files: Mapping[str, FileData],
        changes: Iterable[Changed],
        author: Author,
        *,
        skip: bool = False,
        sources: Sources | None = None,
    ) -> dict[str, FileData]:
        """The files with these changes. Nothing is stored. Raises `ValueError` for a change that
        cannot be made; with `skip` leaves it out. Blocks.
        """
        result = dict(files)
        for change in changes:
            key = change.key
            old_file = result.get(key)
            try:
                new_file = self._checked(change, old_file, author, sources)
            except ValueError:
                if skip:
                    continue
                raise
            result.pop(key, None)
            if new_file is not None:
                result[key] = new_file
        return result

    def _checked(
        self,
        change: Changed,
        old_file: FileData | None,
        author: Author,
        sources: Sources | None,
    ) -> FileData | None:
        """A file with a change; None if it is deleted. Raises `ValueError` if the change cannot be
        made. Blocks.
        """
        new_file = change.merged(old_file)
        vouch = _vouch_for(change, author, sources)
        check_write(self.deployment, change.path, old_file, new_file, author, vouch=vouch)
        return new_file

    async def check(
        self,
        changes: Sequence[Changed],
        author: Author,
        files: Mapping[str, FileData] | None = None,
        sources: Sources | None = None,
    ) -> None:
        """Raise `ValueError` if the present files cannot take these changes.

        `files` are the present ones. None: they are read. `sources` say who vouches for what is
        new.
        """
        if files is None:
            files = await self.read()
        changed_files = await platform.in_thread(
            self.applied, files, changes, author, sources=sources
        )
        limits = self.deployment.limits
        _check_room(files, changed_files, limits)

    async def apply(
        self,
        changes: Iterable[Changed],
        author: Author,
        sources: Sources | None = None,
        written_at: str = "",
    ) -> dict[str, ValueError]:
        """Make one revision of each file, additions first, for a fact that moves. Returns by path
        why some were not made.

        `sources` say who vouches for what is new. `written_at` is when the changes were written, in
        ISO format; "" for now.
        """
        folder = Folder(self.deployment, self.store, self.files, "/memories", author, self.writer)
        refusals = dict[str, ValueError]()
        for change in _additions_first(changes):
            times: Mapping[str, str] = {}
            try:
                if written_at:
                    times = line_times.times_at(change.after, written_at)
                vouch = _vouch_for(change, author, sources)
                await folder.change(
                    change.key, change.merged, is_bounded=False, times=times, vouch=vouch
                )
            except ValueError as error:
                refusals[change.path] = error
        return refusals

    @property
    def _place(self) -> Namespace:
        return namespaces.proposals(self.actor)

    async def proposals(self) -> list[Proposal]:
        """The proposals with those that were decided, oldest first. A damaged one is left out."""
        all_own_proposals = await all_proposals(self.store, self.actor)
        return self.own_proposals(all_own_proposals)

    def own_proposals(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Those of a person's proposals that are of this memory."""
        memory = self.files[-1]
        own_proposals = list[Proposal]()
        for proposal in proposals:
            if proposal.memory == memory:
                own_proposals.append(proposal)
        return own_proposals

    async def shown_proposals(
        self, most_work: int | None = None
    ) -> tuple[list[ShownProposal], int]:
        """The undecided ones as their person sees them, oldest first, and the number of further
        ones, which are left out.

        `most_work` is how much is compared at most, as `journal.comparison_cost` counts it. The
        first one is always shown. Without `most_work` none is left out.
        """
        undecided_proposals = await self._undecided()
        shown_proposals = list[ShownProposal]()
        spent = 0
        for proposal in undecided_proposals:
            if most_work is not None:
                spent += await platform.in_thread(proposal.work)
                is_too_much = spent > most_work
                if shown_proposals and is_too_much:
                    break
            shown_proposal = await platform.in_thread(proposal.shown)
            shown_proposals.append(shown_proposal)
        left_out = len(undecided_proposals) - len(shown_proposals)
        return shown_proposals, left_out

    async def _undecided(self) -> list[Proposal]:
        undecided_proposals = list[Proposal]()
        for proposal in await self.proposals():
            if proposal.changes:
                undecided_proposals.append(proposal)
        return undecided_proposals

    async def exported_proposals(
        self,
    ) -> tuple[list[ShownProposal], dict[str, list[WholeChange]]]:
        """The undecided ones as their person sees them; and by their ids the whole changes, which
        make them again.
        """
        undecided_proposals = await self._undecided()
        shown_proposals = list[ShownProposal]()
        changes_of = dict[str, list[WholeChange]]()
        for proposal in undecided_proposals:
            shown_proposal = await platform.in_thread(proposal.shown)
            shown_proposals.append(shown_proposal)
            changes = map(_exported, proposal.changes)
            changes_of[proposal.id] = list(changes)
        return shown_proposals, changes_of

    async def propose(self, proposal: Proposal) -> None:
        """Keep a proposal. Raises `RefusedWrite` if its person was forgotten since this began, or a
        fact deleted for good.
        """
        op = await put_proposal(self._place, proposal)
        await self._put([op])

    async def _put(self, ops: Sequence[PutOp]) -> None:
        """Raises `RefusedWrite` if the person was forgotten since this began, or a fact deleted."""
        await journal.put_or_refuse(self.store, ops, self.writer)

    async def erase(self, fact: Fact, *, dry_run: bool = False) -> int:
        """Take a fact out of the proposals and of what was declined. Returns how many had it. With
        `dry_run` it only counts.
        """
        count = 0
        for candidate in await self.proposals():
            proposal_id = candidate.id
            async with lock_of("deciding", proposal_id):
                has_fact = await self._erase_in(proposal_id, fact, dry_run=dry_run)
            if has_fact:
                count += 1
        return count

    async def _erase_in(self, proposal_id: str, fact: Fact, *, dry_run: bool) -> bool:
        """Take a fact out of one proposal. Returns whether it had the fact."""
        proposals = await self.proposals()
        proposal = with_id(proposals, proposal_id)
        if proposal is None:
            return False
        clean_proposal = await platform.in_thread(proposal.without, fact)
        if clean_proposal == proposal:
            return False
        if not dry_run:
            op = await put_proposal(self._place, clean_proposal)
            await journal.put_unless_forgotten(self.store, [op], self.writer)
        return True

    async def propose_instead(
        self, proposal: Proposal, older: Collection[str], base: Proposal | None = None
    ) -> None:
        """Keep a proposal in place of what is undecided of older ones, given by their ids, in one
        step. Of these only what was declined stays known.

        `base` is the proposal of the same id that this one goes on from. Where the person decided
        about that meanwhile, this one is kept beside it, with what it changes beyond that. Raises
        `RefusedWrite` as `propose`.
        """
        ids = {*older, proposal.id}
        async with AsyncExitStack() as locks:
            # In one order, so that two runs do not wait for each other.
            for proposal_id in sorted(ids):
                lock = lock_of("deciding", proposal_id)
                await locks.enter_async_context(lock)
            proposals = await self.proposals()
            present_proposal = with_id(proposals, proposal.id)
            present_changes = present_proposal.changes if present_proposal else None
            base_changes = base.changes if base else None
            was_decided = present_changes != base_changes
            if was_decided:
                proposal = proposal.after_decisions(base, _present_time())
            op = await put_proposal(self._place, proposal)
            ops = [op]
            for old_id in older:
                old_proposal = with_id(proposals, old_id)
                if old_proposal is not None and old_proposal.changes:
                    op = await _close(self._place, old_proposal)
                    ops.append(op)
            await self._put(ops)

    async def propose_write(
        self, key: str, change: Change, author: Author, vouch: Vouch | None = None
    ) -> None:
        """Have a change of a text wait for its person, on top of what this run has proposed before.
        `vouch` says who vouches for what is new; None: as `vouch_of` for the author.

        Raises `ValueError` if `change` refuses it, or too much waits already. Nothing was proposed.
        """
        run_id = author.run_id or uuid4().hex
        proposal_id = f"{run_id}-{author.kind}"
        limits = self.deployment.limits
        async with lock_of("deciding", proposal_id):
            proposals = await self.proposals()
            proposal = with_id(proposals, proposal_id)
            if proposal is None:
                proposal = self._new_proposal(proposal_id, author)
            _check_number(proposals, proposal)
            effective_vouch = vouch or vouch_of(author)
            proposal = await self._with_write(proposal, key, change, author, effective_vouch)
            if not proposal.fits(limits):
                raise RefusedWrite(
                    f"More than {limits.max_files} files or {limits.max_bytes:,} bytes would wait."
                )
            await self.propose(proposal)

    async def _with_write(
        self, proposal: Proposal, key: str, change: Change, author: Author, vouch: Vouch
    ) -> Proposal:
        """A proposal whose change of a text makes this `change`, too; without one if the text stays
        as it is then. Raises `RefusedWrite` for what is no text, and as `change`.
        """
        waiting_changes = list[Changed]()
        for earlier_change in proposal.changes:
            if earlier_change.key == key:
                waiting_changes.append(earlier_change)
        new_change = await self._changed(key, waiting_changes, change, author)
        if new_change is None:
            return proposal.with_change(key, None, {})
        sources = proposal.sources.get(new_change.path, {})
        effective_vouch = vouch_new_by(sources, vouch)
        new_sources = await platform.in_thread(added_sources, new_change, effective_vouch)
        return proposal.with_change(key, new_change, new_sources)

    def _new_proposal(self, proposal_id: str, author: Author) -> Proposal:
        """An agent's proposal, still without changes."""
        threads = [author.thread_id] if author.thread_id else []
        return Proposal(
            id=proposal_id,
            at=_present_time(),
            memory=self.files[-1],
            author=author,
            changes=[],
            threads=threads,
            kind="agent",
        )

    async def _changed(
        self, key: str, waiting_changes: Sequence[Changed], change: Change, author: Author
    ) -> Changed | None:
        """What becomes of a present file by the changes that wait already, and then by another one;
        None if it stays as it is.

        Raises `RefusedWrite` for what is no text, and as `change`.
        """
        present_file = await read_file(self.store, self.files, key)
        files = {key: present_file} if present_file else {}
        with_waiting = await platform.in_thread(self.applied, files, waiting_changes, author)
        file = with_waiting.get(key)
        new_file = change(file)
        for file_or_none in (present_file, new_file):
            if file_or_none and file_or_none["encoding"] != "utf-8":
                raise RefusedWrite(
                    f"{key} is not text, so a change of it cannot wait for the person."
                )
        # None where there is no file: an empty one is another text.
        before_text = present_file["content"] if present_file else None
        after_text = new_file["content"] if new_file else None
        if before_text == after_text:
            return None
        is_deleted = new_file is None
        return Changed(key, before_text or "", after_text or "", is_deleted)

    def _now(self) -> str:
        """When the request came, or the present time, in ISO format, UTC."""
        if self.writer is not None:
            return self.writer.at
        return _present_time()

    async def decide(
        self,
        proposal_id: str,
        *,
        accept: bool,
        paths: Sequence[str] | None = None,
        lines: Mapping[str, Mapping[int, str | None]] = MappingProxyType({}),
    ) -> dict[str, ValueError]:
        """Accept or decline all undecided files of a proposal, or some. Returns, by path, why some
        accepted ones wait again.

        `paths` are these files. `lines` are those to accept of a file, by its path and their
        numbers, with the text that the person writes instead or None; the file's other lines are
        declined. A revision of the person's own puts in what they wrote. Without `paths` the files
        with `lines` are decided, if there are any. What is not named goes on waiting.

        Raises `UnknownProposalError`, `DecidedError`, or, if the present files cannot take the
        changes, `RefusedWrite`.
        """
        # Two tabs of one person, or a run that proposes more.
        async with lock_of("deciding", proposal_id):
            proposals = await self.proposals()
            proposal = existing_proposal(proposals, proposal_id)
            with_lines = lines.keys()
            paths_to_decide = with_lines if paths is None else paths
            changes_to_decide = proposal.changes_to_decide(paths_to_decide, with_lines)
            acceptance = _Acceptance({}, {})
            if accept:
                acceptance = await self._accept(proposal, changes_to_decide, lines)
            settled_changes = _not_refused(changes_to_decide, acceptance.refusals)
            at = self._now()
            decided_proposal = proposal.decided_about(
                settled_changes, acceptance.texts, at, is_accepted=accept
            )
            await self.propose(decided_proposal)
            await self._drop_decided(proposals)
            return acceptance.refusals

    async def _accept(
        self,
        proposal: Proposal,
        changes: Sequence[Changed],
        lines: Mapping[str, Mapping[int, str | None]],
    ) -> _Acceptance:
        """Make these changes of a proposal, of some files only these lines. What the person edited
        is a revision of their own. Raises `RefusedWrite` if the present files cannot take them all.
        """
        proposed_changes = list[Changed]()
        all_edits = list[Changed]()
        changes_with_edits = list[Changed]()
        accepted_texts = dict[str, str]()
        for change in changes:
            chosen_lines = lines.get(change.path)
            proposed_change, edits = change.only(chosen_lines)
            proposed_changes.append(proposed_change)
            all_edits.append(edits)
            text = edits.after
            change_with_edits = replace(proposed_change, after=text)
            changes_with_edits.append(change_with_edits)
            accepted_texts[change.path] = text
        await self.check(changes_with_edits, proposal.author)
        refusals = await self.apply(
            proposed_changes, proposal.author, proposal.sources, written_at=proposal.at
        )
        person = Author("person", self.actor.user_id)
        edits_of_made = _not_refused(all_edits, refusals)
        edit_refusals = await self.apply(edits_of_made, person)
        return _Acceptance(accepted_texts, refusals | edit_refusals)

    async def _drop_decided(self, proposals: Sequence[Proposal]) -> None:
        """Delete the oldest of these that were decided before."""
        decided_proposals = list[Proposal]()
        for proposal in proposals:
            if not proposal.changes:
                decided_proposals.append(proposal)
        oldest = decided_proposals[:-_DECIDED_KEPT]
        place = self._place
        deletions = [PutOp(place, proposal.id, None) for proposal in oldest]
        await self.store.abatch(deletions)


def _present_time() -> str:
    time = datetime.now(UTC)
    return time.isoformat()


def _check_room(
    files_before: Mapping[str, FileData], files_after: Mapping[str, FileData], limits: Limits
) -> None:
    """Raises `RefusedWrite` if a memory would hold too much. What was too much before may stay, and
    not grow.
    """
    size = _size(files_after)
    count = len(files_after)
    size_before = _size(files_before)
    count_before = len(files_before)
    most_bytes = max(limits.max_bytes, size_before)
    most_files = max(limits.max_files, count_before)
    if size <= most_bytes and count <= most_files:
        return
    files = f"{count} files of {limits.max_files}"
    max_bytes = limits.max_bytes
    room = f"{size:,} bytes of {max_bytes:,}"
    raise RefusedWrite(f"{files}, {room}; shorten it.", kind="memory_full")


def _check_number(proposals: Iterable[Proposal], proposal: Proposal) -> None:
    """Raises `RefusedWrite` if too many others of these proposals are undecided: have changes."""
    count = 0
    for further_proposal in proposals:
        is_other = further_proposal.id != proposal.id
        if is_other and further_proposal.changes:
            count += 1
    if count >= MAX_PROPOSALS:
        raise RefusedWrite(_TOO_MANY)


def _vouch_for(change: Changed, author: Author, sources: Sources | None) -> Vouch:
    """Who vouches for what a change adds, by these sources; else as `vouch_of` for its author."""
    sources_of_path: Mapping[str, Source] = {}
    if sources is not None:
        sources_of_path = sources.get(change.path, {})
    otherwise = vouch_of(author)
    return vouch_new_by(sources_of_path, otherwise)


def _not_refused(changes: Iterable[Changed], refused_paths: Collection[str]) -> list[Changed]:
    """Those of these changes whose path is not among the refused ones."""
    changes_made = list[Changed]()
    for change in changes:
        if change.path not in refused_paths:
            changes_made.append(change)
    return changes_made


def _additions_first(changes: Iterable[Changed]) -> list[Changed]:
    """The changes that change something, sorted by how much shorter they make their file."""
    effective_changes = list[Changed]()
    for change in changes:
        if change.changes_something():
            effective_changes.append(change)
    effective_changes.sort(key=_removed_chars)
    return effective_changes


def _removed_chars(change: Changed) -> int:
    """How much shorter a change makes its text; below 0 if it makes it longer."""
    return len(change.before) - len(change.after)


def _exported(change: Changed) -> WholeChange:
    """The whole change, as an export has it."""
    return {
        "path": change.path,
        "before": change.before,
        "after": change.after,
        "deleted": change.deleted,
    }


async def _close(place: Namespace, proposal: Proposal) -> PutOp:
    """The operation that leaves of a proposal only what was decided about it, or deletes one about
    which nothing was.
    """
    if proposal.decided or proposal.declined:
        return await put_proposal(place, replace(proposal, changes=[]))
    return PutOp(place, proposal.id, None)


def _size(files: Mapping[str, FileData]) -> int:
    """The bytes of all files together."""
    size = 0
    for file in files.values():
        content = file["content"].encode()
        size += len(content)
    return size
