"""Changes of a person's memory that are applied at once, or wait until their person has accepted
them: those of consolidation, and, if the person wants that, of the agent in a conversation.

A proposal is an item of its own, which also keeps what was declined of it. The agent's writes of
one run are one proposal. Others' changes since it was made stay. A newer one assumes that the older
ones are accepted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.deployment import Deployment, Limits, Source
from lasting_memory.memory import ends, journal
from lasting_memory.memory.folder import Folder, check_write, vouch_of
from lasting_memory.memory.journal import Began, Change
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.over_lines import with_lines
from lasting_memory.memory.sources import Vouch, entries, entry_of, noted, text_of
from lasting_memory.memory.stored_files import stored_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author, StoredAuthor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

# Undecided proposals of a person, at which nothing more is proposed; and proposals whose decision
# is known.
MAX_PROPOSALS = 20
_DECIDED_KEPT = 200
# Why a line goes that another one says in other words, in the word for which the page has a sentence.
REWORDED = "reworded"
_TOO_MANY = "The person has too many undecided proposals; nothing is added before they decide. Tell them so."


class UnknownProposalError(RefusedWrite):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWrite):
    """The person decided about this before."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch's change of one text. Its text is "" for no file."""

    key: str
    before: str
    after: str
    deleted: bool = False

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    def lines(self) -> list[tuple[str, str]]:
        """The lines that it takes out ("-") and puts in ("+"), in order, without blank ones. None
        of JSON, which has fields.
        """
        if self.key.endswith(".json"):
            return []
        return [(sign, text) for sign, text, _ in self._walk() if sign != " " and text.strip()]

    def only(self, chosen: Mapping[int, str | None] | None) -> tuple["Changed", "Changed"]:
        """This change with some of its `lines`, by number, and the change that follows it with
        those that have another text.

        None chooses all. Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        if chosen is None:
            return self, Changed(self.key, self.after, self.after)
        lines = self.lines()
        for number, text in chosen.items():
            if number >= len(lines):
                raise RefusedWrite(
                    f"{self.path} has {len(lines)} changed lines to choose from, and no number {number}."
                )
            if text is not None and lines[number][0] == "-":
                raise RefusedWrite(
                    f"Line {number} of {self.path} is taken out; it has no other text."
                )
        before = list[str]()
        after = list[str]()
        for sign, text, number in self._walk():
            if sign == " " or (sign == "+") == (number in chosen or (number < 0 and bool(chosen))):
                given = chosen.get(number) if sign == "+" and text.strip() else None
                before += [text] if given is None else []
                after.append(given or text)
        texts = "\n".join(before), "\n".join(after)
        first = replace(self, after=texts[0], deleted=self.deleted and not texts[0])
        return first, Changed(self.key, *texts)

    def _walk(self) -> Iterator[tuple[str, str, int]]:
        """All lines of both texts in order: kept (" "), taken out and put in; and the number of the
        changed line that each goes with: a blank line's is that of the next line that changes with
        it, or of the last one.
        """
        old = self.before.split("\n")
        new = self.after.split("\n")
        at = 0
        number = 0
        for edit in journal.edits(old, new):
            for line in old[at : edit.old_start]:
                yield " ", line, -1
            taken_out = old[edit.old_start : edit.old_end]
            put_in = new[edit.new_start : edit.new_end]
            for sign, lines in (("-", taken_out), ("+", put_in)):
                with_text = [line for line in lines if line.strip()]
                last = number + len(with_text) - 1
                for line in lines:
                    yield sign, line, min(number, last)
                    if line.strip():
                        number += 1
            at = edit.old_end
        for line in old[at:]:
            yield " ", line, -1

    def without(self, fact: Fact) -> "Changed":
        """This change without what it does to a fact that is deleted for good. Blocks."""
        return replace(
            self,
            before=fact.cleaned(self.key, self.before),
            after=fact.cleaned(self.key, self.after),
        )

    def without_entries(self, lost: Collection[str], reworded: Collection[str]) -> "Changed":
        """This change without the entries that it adds of these, and with the lines that it takes
        out of those that are only reworded. JSON stays as it is. Blocks.
        """
        if self.key.endswith(".json"):
            return replace(self, after=self.before, deleted=False) if lost else self
        new = self.after.split("\n")
        kept = "\n".join([line for line in new if entry_of(line) not in lost])
        if not self.before and all(
            line.lstrip().startswith("#") for line in _lines_with_text(kept)
        ):
            kept = ""
        old = self.before.split("\n")
        staying = [number for number, line in enumerate(old) if line.strip() in reworded]
        text = with_lines(self.before, kept, staying)
        return replace(self, after=text, deleted=self.deleted and not text)

    def beyond(self, taken: str) -> "Changed":
        """What this would change in a text that has a part of it, as the lines that differ; for
        JSON as the whole texts.
        """
        if self.key.endswith(".json"):
            if self.after == taken:
                return Changed(self.key, "", "")
            return Changed(self.key, taken, self.after)
        old = taken.split("\n")
        new = self.after.split("\n")
        known = {*old}
        now = {*new}
        gone = [line for line in old if line not in now]
        came = [line for line in new if line not in known]
        return Changed(self.key, "\n".join(gone), "\n".join(came))

    def merged(self, file: FileData | None) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWrite`
        for what is no text.
        """
        if file and file["encoding"] != "utf-8":
            raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
        text = (
            journal.merge(self.key, self.before, file["content"] if file else "", self.after) or ""
        )
        is_gone = not text and (self.deleted or file is None)
        return None if is_gone else FileData(content=text, encoding="utf-8")


def _lines_with_text(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def changes(before: Mapping[str, FileData], after: Mapping[str, FileData]) -> list[Changed]:
    """The differences between two states of the same files, by key. What is not text stays as it
    is.
    """
    old = texts(before)
    new = texts(after)
    changed = list[Changed]()
    for key in sorted(old | new):
        is_text = (key in old or key not in before) and (key in new or key not in after)
        if is_text and old.get(key) != new.get(key):
            changed.append(Changed(key, old.get(key, ""), new.get(key, ""), deleted=key not in new))
    return changed


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    return {each.path: journal.cut(journal.diff(each.before, each.after)) for each in changed}


def texts(files: Mapping[str, FileData]) -> dict[str, str]:
    """The text of each file that has text, by key."""
    return {key: file["content"] for key, file in files.items() if file["encoding"] == "utf-8"}


def _size(files: Mapping[str, FileData]) -> int:
    """The bytes of all files together."""
    return sum(len(file["content"].encode()) for file in files.values())


# Who vouches for what changes add, by path and entry.
Sources = Mapping[str, Mapping[str, Source]]


def added_sources(changed: Changed, vouch: Vouch) -> dict[str, Source]:
    """Who vouches for the entries that a change adds. Blocks."""
    before = {*entries(changed.key, changed.before)}
    new = [entry for entry in entries(changed.key, changed.after) if entry not in before]
    return {entry: vouch(entry, None) for entry in new}


class Declined(NamedTuple):
    """What was declined of a change, and when, in ISO format, UTC."""

    change: Changed
    at: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that wait for their person, for revisions of this author."""

    id: str
    at: str
    memory: str  # the last part of the files' namespace
    author: StoredAuthor
    changes: list[Changed]  # the undecided ones
    threads: list[str]
    decided: list[str] = field(default_factory=list)  # paths
    accepted: list[str] = field(
        default_factory=list
    )  # those of them of which the person took something
    declined: list[Declined] = field(default_factory=list)
    # What it was made of (conversations, tidy or bring), or "agent": the agent wrote it
    kind: str = "conversations"
    reasons: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # why a line goes, by path and line
    # Who vouches for what it adds, by path and entry. To accept it does not raise that.
    sources: dict[str, dict[str, Source]] = field(default_factory=dict)
    # Of a dream: the conversations that an entry is from, as their places in `threads`, by path and
    # entry.
    origins: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def fits(self, limits: Limits) -> bool:
        """Whether its changes are no more than a memory may hold."""
        size = 0
        for change in self.changes:
            size += len(change.after.encode())
        return len(self.changes) <= limits.max_files and size <= limits.max_bytes

    def work(self) -> int:
        """How much is compared to show it, as `journal.work` counts it. Blocks."""
        return sum(
            2 * journal.work(change.before, change.after) for change in self.changes
        )  # as a diff, and as lines

    def without(self, fact: Fact) -> "Proposal":
        """The proposal, and what was declined of it, without a fact. Blocks."""
        changes = [change.without(fact) for change in self.changes]
        declined = [each._replace(change=each.change.without(fact)) for each in self.declined]
        reasons = dict[str, dict[str, str]]()
        for path, by_line in self.reasons.items():
            kept = {line: why for line, why in by_line.items() if not fact.is_in(line)}
            reasons[path] = {line: "" if fact.is_quoted(why) else why for line, why in kept.items()}
        sources = dict[str, dict[str, Source]]()
        for path, by_entry in self.sources.items():
            sources[path] = {
                entry: source
                for entry, source in by_entry.items()
                if not fact.is_in(text_of(entry))
            }
        return replace(
            self,
            changes=[each for each in changes if each.deleted or each.before != each.after],
            declined=[each for each in declined if each.change.after],
            reasons=reasons,
            sources=sources,
            origins={
                path: {
                    entry: places
                    for entry, places in known.items()
                    if not fact.is_in(text_of(entry))
                }
                for path, known in self.origins.items()
            },
        )

    def without_threads(self, gone: AbstractSet[str]) -> "Proposal":
        """The proposal without what came of these conversations, which were deleted. Blocks.

        What a line in other words would take out stays: they may be gone with these.
        """
        staying = [thread_id for thread_id in self.threads if thread_id not in gone]
        if len(staying) == len(self.threads):
            return self
        numbers = {thread_id: number for number, thread_id in enumerate(staying)}
        lost = dict[str, set[str]]()
        origins = dict[str, dict[str, list[int]]]()
        for path, by_entry in self.origins.items():
            lost[path] = set()
            origins[path] = {}
            for entry, places in by_entry.items():
                of_entry = [self.threads[place] for place in places]
                if gone & {*of_entry}:
                    lost[path].add(entry)
                else:
                    origins[path][entry] = [numbers[thread_id] for thread_id in of_entry]
        changes = self.changes
        if any(lost.values()):
            changes = [self._change_without(change, lost) for change in self.changes]
        sources = dict[str, dict[str, Source]]()
        for path, known in self.sources.items():
            of_path = lost.get(path, set())
            sources[path] = {entry: known[entry] for entry in known if entry not in of_path}
        return replace(
            self,
            changes=[each for each in changes if each.deleted or each.before != each.after],
            threads=staying,
            sources=sources,
            origins=origins,
        )

    def _change_without(self, change: Changed, lost: Mapping[str, Collection[str]]) -> Changed:
        reasons = self.reasons.get(change.path, {})
        reworded = {line for line, why in reasons.items() if why == REWORDED}
        return change.without_entries(lost.get(change.path, ()), reworded)

    def wanted(self, paths: Collection[str], with_lines: Collection[str]) -> list[Changed]:
        """The undecided changes of these files, given by path; all, if none is named.

        `with_lines` are files of which lines were chosen. Raises `DecidedError` if one was decided
        already, and `UnknownProposalError` if this does not change one.
        """
        named = set(paths)
        if not self.changes or named & set(self.decided):
            raise DecidedError(f"Proposal {self.id}, or one of these files, was decided already.")
        wanted = [change for change in self.changes if not named or change.path in named]
        unknown = {*named, *with_lines} - {change.path for change in wanted}
        if unknown:
            raise UnknownProposalError(f"Proposal {self.id} changes no file {min(unknown)[:80]!r}.")
        return wanted

    def decided_about(
        self, changes: Sequence[Changed], taken: Mapping[str, str], at: str, *, accepted: bool
    ) -> "Proposal":
        """The proposal after a decision about some of its changes.

        `taken` is what became of accepted files, by path; what it lacks of a change was declined,
        at this time.
        """
        paths = [change.path for change in changes]
        declined = list(self.declined)
        for change in changes:
            rest = change.beyond(taken.get(change.path, change.before))
            if rest.after:
                declined.append(Declined(rest, at))
        return replace(
            self,
            changes=[change for change in self.changes if change not in changes],
            decided=sorted({*self.decided, *paths}),
            accepted=sorted({*self.accepted, *(paths if accepted else [])}),
            declined=declined,
        )

    def with_change(
        self, key: str, changed: Changed | None, added: Mapping[str, Source]
    ) -> "Proposal":
        """The proposal with another change of a file, or none; the file is undecided then. `added`
        says who vouches for its new entries.
        """
        path = f"/memories{key}"
        others = [change for change in self.changes if change.key != key]
        sources = {other: known for other, known in self.sources.items() if other != path}
        if changed and added:
            sources[path] = dict(added)
        return replace(
            self,
            sources=sources,
            changes=[*others, changed] if changed else others,
            decided=[decided for decided in self.decided if decided != path],
            accepted=[accepted for accepted in self.accepted if accepted != path],
        )

    def shown(self) -> dict[str, Any]:
        """As its person sees it: changes as diffs, and as lines with their numbers. Blocks."""
        lines = {
            change.path: [
                {
                    "line": number,
                    "sign": sign,
                    "text": text,
                    "reason": self.reasons.get(change.path, {}).get(text.strip(), ""),
                }
                for number, (sign, text) in enumerate(change.lines())
            ]
            for change in self.changes
        }
        told = {"id": self.id, "at": self.at, "kind": self.kind, "threads": self.threads}
        return {**told, "files": diffs(self.changes), "lines": lines}

    def outcome(self) -> dict[str, Any]:
        """What became of the files that are decided."""
        files = {path: "accepted" if path in self.accepted else "declined" for path in self.decided}
        return {"id": self.id, "at": self.at, "threads": self.threads, "files": files}

    def status(self) -> str:
        """Whether it waits ("proposed"), or else what its person said to it: "accepted" or
        "declined".
        """
        if self.changes:
            return "proposed"
        return "accepted" if self.accepted else "declined"


_PROPOSALS = TypeAdapter(Proposal)


async def _put(place: Namespace, proposal: Proposal) -> PutOp:
    value = await platform.in_thread(_PROPOSALS.dump_python, proposal, mode="json")
    return PutOp(place, proposal.id, value, index=False)


async def all_proposals(store: BaseStore, actor: Actor) -> list[Proposal]:
    """A person's proposals in all their memories, with those that were decided, oldest first. A
    damaged one is left out.
    """
    return await proposals_in(await journal.all_items(store, namespaces.proposals(actor)))


async def drop_threads(store: BaseStore, actor: Actor, gone: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of what a person's dreams
    propose.
    """
    place = namespaces.proposals(actor)
    began = Began(actor)
    touched = [each.id for each in await all_proposals(store, actor) if {*gone} & {*each.threads}]
    for proposal_id in touched:
        async with lock_of("deciding", proposal_id):
            known = {each.id: each for each in await all_proposals(store, actor)}
            proposal = known.get(proposal_id)
            if proposal is None or proposal.kind != "dream" or not proposal.changes:
                continue
            left = await platform.in_thread(proposal.without_threads, {*gone})
            is_known = bool(left.changes or left.decided or left.declined)
            op = await _put(place, left) if is_known else PutOp(place, proposal_id, None)
            await journal.put_unless_forgotten(store, [op], began)


async def proposals_in(items: Iterable[Item]) -> list[Proposal]:
    """The proposals in a person's items, oldest first. A damaged one is left out."""
    known = list[Proposal]()
    for item in items:
        with suppress(ValidationError):
            known.append(await platform.in_thread(_PROPOSALS.validate_python, item.value))
    return sorted(known, key=lambda each: each.at)


def _beyond(changes: Sequence[Changed], earlier: Sequence[Changed]) -> list[Changed]:
    """What these changes change beyond the earlier ones, which they contain."""
    known = {change.key: change.after for change in earlier}
    new = [replace(change, before=known.get(change.key, change.before)) for change in changes]
    return [change for change in new if change.before != change.after]


def files_in(items: Iterable[Item]) -> dict[str, FileData]:
    """The files in items of the store, by key. What is no file is left out."""
    files = dict[str, FileData]()
    for item in items:
        with suppress(RefusedWrite):
            files[item.key] = stored_file(item)
    return files


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory files of a person, for a run or a request that began at a time; None: nobody can
    be forgotten meanwhile.
    """

    store: BaseStore
    actor: Actor
    files: Namespace
    deployment: Deployment
    began: Began | None = None

    async def read(self) -> dict[str, FileData]:
        """All files, by key."""
        return files_in(await journal.all_items(self.store, self.files))

    def applied(
        self,
        files: Mapping[str, FileData],
        changes: Iterable[Changed],
        author: Author,
        *,
        skip: bool = False,
        sources: Sources | None = None,
    ) -> dict[str, FileData]:
        """The files with these changes. Raises `ValueError` for one that cannot be made; with
        `skip` leaves it out. Blocks.
        """
        result = dict(files)
        for change in changes:
            with suppress(*[ValueError] * skip):
                before = result.get(change.key)
                after = change.merged(before)
                vouch = noted((sources or {}).get(change.path, {}), vouch_of(author))
                check_write(self.deployment, change.path, before, after, author, vouch=vouch)
                result.pop(change.key, None)
                result |= {change.key: after} if after else {}
        return result

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
        before = files
        if before is None:
            before = await self.read()
        limits = self.deployment.limits
        after = await platform.in_thread(self.applied, before, changes, author, sources=sources)
        # What was too much before may stay, and not grow.
        most_bytes = max(_size(before), limits.max_bytes)
        most_files = max(len(before), limits.max_files)
        size = _size(after)
        if size > most_bytes or len(after) > most_files:
            count = f"{len(after)} files of {limits.max_files}"
            room = f"{size:,} bytes of {limits.max_bytes:,}"
            raise RefusedWrite(f"{count}, {room}; shorten it.", kind="memory_full")

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
        folder = Folder(self.deployment, self.store, self.files, "/memories", author, self.began)
        refused = dict[str, ValueError]()
        made = (each for each in changes if each.deleted or each.before != each.after)
        for change in sorted(made, key=lambda change: len(change.before) - len(change.after)):
            try:
                written = ends.written_at(change.after, written_at) if written_at else {}
                vouch = noted((sources or {}).get(change.path, {}), vouch_of(author))
                await folder.change(
                    change.key, change.merged, bounded=False, written=written, vouch=vouch
                )
            except ValueError as error:
                refused[change.path] = error
        return refused

    async def proposals(self) -> list[Proposal]:
        """The proposals with those that were decided, oldest first. A damaged one is left out."""
        return self.own_proposals(await all_proposals(self.store, self.actor))

    def own_proposals(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Those of a person's proposals that are of this memory."""
        return [proposal for proposal in proposals if proposal.memory == self.files[-1]]

    async def shown_proposals(
        self, most_work: int | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """The undecided ones as their person sees them, oldest first, and the number of further
        ones, which are left out.

        None is left out without `most_work`: what is compared for all but the first, as
        `journal.work` counts it.
        """
        undecided = [each for each in await self.proposals() if each.changes]
        shown = list[dict[str, Any]]()
        spent = 0
        for number, proposal in enumerate(undecided):
            if most_work is not None:
                spent += await platform.in_thread(proposal.work)
                if number and spent > most_work:
                    return shown, len(undecided) - number
            shown.append(await platform.in_thread(proposal.shown))
        return shown, 0

    async def exported_proposals(
        self,
    ) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
        """The undecided ones as their person sees them; and by their ids the whole changes, which
        make them again.
        """
        exported = list[dict[str, Any]]()
        changes_of = dict[str, list[dict[str, Any]]]()
        for proposal in await self.proposals():
            if proposal.changes:
                exported.append(await platform.in_thread(proposal.shown))
                changes_of[proposal.id] = [
                    {
                        "path": change.path,
                        "before": change.before,
                        "after": change.after,
                        "deleted": change.deleted,
                    }
                    for change in proposal.changes
                ]
        return exported, changes_of

    async def propose(self, proposal: Proposal) -> None:
        """Keep a proposal. Raises `RefusedWrite` if its person was forgotten since this began, or a
        fact deleted for good.
        """
        await self._carry_out([await _put(namespaces.proposals(self.actor), proposal)])

    async def _carry_out(self, ops: Sequence[PutOp]) -> None:
        """Raises `RefusedWrite` as `propose`."""
        if await journal.put_unless_forgotten(self.store, ops, self.began, quotes_facts=True):
            return
        erased = await journal.is_erased(self.store, self.began)
        raise RefusedWrite(
            journal.ERASED if erased else "What is remembered of this person was deleted meanwhile."
        )

    async def erase(self, fact: Fact, *, dry_run: bool = False) -> int:
        """Take a fact out of the proposals and of what was declined. Returns how many had it. With
        `dry_run` it only counts.
        """
        erased = 0
        for proposal_id in [each.id for each in await self.proposals()]:
            async with lock_of("deciding", proposal_id):
                proposal = next(
                    (each for each in await self.proposals() if each.id == proposal_id), None
                )
                cleaned = await platform.in_thread(proposal.without, fact) if proposal else None
                if cleaned and cleaned != proposal:
                    erased += 1
                    if not dry_run:
                        op = await _put(namespaces.proposals(self.actor), cleaned)
                        await journal.put_unless_forgotten(self.store, [op], self.began)
        return erased

    async def propose_instead(
        self, proposal: Proposal, older: Collection[str], seen: Proposal | None = None
    ) -> None:
        """Keep a proposal in place of what is undecided of older ones, given by their ids, in one
        step. Of these only what was declined stays known.

        `seen` is the proposal of the same id that this one goes on from. Where the person decided
        about that meanwhile, this one is kept beside it, with what it changes beyond that. Raises
        `RefusedWrite` as `propose`.
        """
        place = namespaces.proposals(self.actor)
        async with AsyncExitStack() as locks:
            for proposal_id in sorted(
                {*older, proposal.id}
            ):  # in one order, so that two runs do not wait for each other
                await locks.enter_async_context(lock_of("deciding", proposal_id))
            known = {each.id: each for each in await self.proposals()}
            present = known.get(proposal.id)
            if (present.changes if present else None) != (seen.changes if seen else None):
                new = _beyond(proposal.changes, seen.changes if seen else [])
                at = datetime.now(UTC).isoformat()
                proposal = replace(
                    proposal, id=f"{proposal.id}-{at}", at=at, changes=new, decided=[], declined=[]
                )
            ops = [await _put(place, proposal)]
            for old in (known[each] for each in older if each in known and known[each].changes):
                is_known = bool(old.decided or old.declined)
                ops.append(
                    await _put(place, replace(old, changes=[]))
                    if is_known
                    else PutOp(place, old.id, None)
                )
            await self._carry_out(ops)

    async def propose_write(
        self, key: str, change: Change, author: Author, vouch: Vouch | None = None
    ) -> None:
        """Have a change of a text wait for its person, on top of what this run has proposed before.
        `vouch` says who vouches for what is new; None: as `vouch_of` for the author.

        Raises `ValueError` if `change` refuses it, or too much waits already. Nothing was proposed.
        """
        proposal_id = f"{author.run_id or uuid4().hex}-{author.kind}"
        limits = self.deployment.limits
        async with lock_of("deciding", proposal_id):
            others = {proposal.id: proposal for proposal in await self.proposals()}
            proposal = others.pop(proposal_id, None)
            if proposal is None:
                proposal = self._new_proposal(proposal_id, author)
            undecided = [other for other in others.values() if other.changes]
            if len(undecided) >= MAX_PROPOSALS:
                raise RefusedWrite(_TOO_MANY)
            waiting = [earlier for earlier in proposal.changes if earlier.key == key]
            changed = await self._changed(key, waiting, change, author)
            added = dict[str, Source]()
            if changed:
                known = proposal.sources.get(f"/memories{key}", {})
                who_vouches = noted(known, vouch or vouch_of(author))
                added = await platform.in_thread(added_sources, changed, who_vouches)
            proposal = proposal.with_change(key, changed, added)
            if not proposal.fits(limits):
                raise RefusedWrite(
                    f"More than {limits.max_files} files or {limits.max_bytes:,} bytes would wait."
                )
            await self.propose(proposal)

    def _new_proposal(self, proposal_id: str, author: Author) -> Proposal:
        """An agent's proposal, still without changes."""
        at = datetime.now(UTC).isoformat()
        thread_ids = [author.thread_id] if author.thread_id else []
        return Proposal(proposal_id, at, self.files[-1], author, [], thread_ids, kind="agent")

    async def _changed(
        self, key: str, waiting: Sequence[Changed], change: Change, author: Author
    ) -> Changed | None:
        """What becomes of a present file by the changes that wait already, and then by another one;
        None if it stays as it is.

        Raises `RefusedWrite` for what is no text, and as `change`.
        """
        item = await self.store.aget(self.files, key)
        present = stored_file(item) if item else None
        files = {key: present} if present else {}
        then = await platform.in_thread(self.applied, files, waiting, author)
        after = change(then.get(key))
        for file in (present, after):
            if file and file["encoding"] != "utf-8":
                raise RefusedWrite(
                    f"{key} is not text, so a change of it cannot wait for the person."
                )
        before_text = present["content"] if present else None
        after_text = after["content"] if after else None
        if before_text == after_text:
            return None
        return Changed(key, before_text or "", after_text or "", deleted=after is None)

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
            known = await self.proposals()
            proposal = _found(proposal_id, known)
            wanted = proposal.wanted(lines.keys() if paths is None else paths, lines.keys())
            taken = dict[str, str]()
            refused = dict[str, ValueError]()
            if accept:
                parts = [change.only(lines.get(change.path)) for change in wanted]
                taken = {edited.path: edited.after for _, edited in parts}
                refused = await self._accept(parts, proposal)
            over = [change for change in wanted if change.path not in refused]
            at = self.began.at if self.began else datetime.now(UTC).isoformat()
            await self.propose(proposal.decided_about(over, taken, at, accepted=accept))
            await self._drop_decided(known)
            return refused

    async def _accept(
        self, parts: Sequence[tuple[Changed, Changed]], proposal: Proposal
    ) -> dict[str, ValueError]:
        """Make these changes of a proposal, each with what the person edited of it, which is a
        revision of their own. Returns by path why some were not made.

        Raises `RefusedWrite` if the present files cannot take them all.
        """
        whole = [replace(own, after=edited.after) for own, edited in parts]
        await self.check(whole, proposal.author)
        own_changes = [own for own, _ in parts]
        refused = await self.apply(
            own_changes, proposal.author, proposal.sources, written_at=proposal.at
        )
        edited = [change for _, change in parts if change.path not in refused]
        return refused | await self.apply(edited, Author("person", self.actor.user_id))

    async def _drop_decided(self, known: Sequence[Proposal]) -> None:
        """Delete the oldest of these that were decided before."""
        decided = [proposal.id for proposal in known if not proposal.changes]
        place = namespaces.proposals(self.actor)
        ops = [PutOp(place, proposal_id, None) for proposal_id in decided[:-_DECIDED_KEPT]]
        await self.store.abatch(ops)


def _found(proposal_id: str, known: Sequence[Proposal]) -> Proposal:
    """The proposal of this id. Raises `UnknownProposalError`."""
    for proposal in known:
        if proposal.id == proposal_id:
            return proposal
    raise UnknownProposalError(
        f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them."
    )
