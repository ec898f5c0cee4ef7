"""Changes that wait for their person: of consolidation, and, if the person wants that, of the agent in a conversation.

A proposal is an item of its own, which also keeps what was declined of it. The agent's writes of one run are one proposal.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore
from pydantic import TypeAdapter, ValidationError

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.journal import Began, Change
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of
from lasting_memory.validation import RefusedWrite, before_write, stored_file

# Undecided proposals of a person, at which nothing more is proposed.
MAX_PROPOSALS = 20
_ALL = 1_000


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
        """The lines that it takes out ("-") and puts in ("+"), in order, without blank ones. None of JSON, which has fields."""
        is_json = self.key.endswith(".json")
        return [] if is_json else [(sign, text) for sign, text, _ in self._walk() if sign != " " and text.strip()]

    def only(self, chosen: Mapping[int, str | None]) -> tuple["Changed", "Changed"]:
        """This change with some of its `lines`, by number, and the change that follows it with those that have another text.

        Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        lines = self.lines()
        for number, text in chosen.items():
            if number >= len(lines):
                raise RefusedWrite(f"{self.path} has {len(lines)} changed lines to choose from, and no number {number}.")
            if text is not None and lines[number][0] == "-":
                raise RefusedWrite(f"Line {number} of {self.path} is taken out; it has no other text.")
        before, after = list[str](), list[str]()
        for sign, text, number in self._walk():
            if sign == " " or (sign == "+") == (number in chosen or (number < 0 and bool(chosen))):
                given = chosen.get(number) if sign == "+" and text.strip() else None
                before += [text] if given is None else []
                after.append(given or text)
        texts = "\n".join(before), "\n".join(after)
        first = replace(self, after=texts[0], deleted=self.deleted and not texts[0])
        return first, Changed(self.key, *texts)

    def _walk(self) -> Iterator[tuple[str, str, int]]:
        """All lines of both texts in order: kept (" "), taken out and put in; and the number of the changed line that each goes
        with: a blank line's is that of the next line that changes with it, or of the last one.
        """
        old, new, at, number = self.before.split("\n"), self.after.split("\n"), 0, 0
        for i, i_end, j, j_end in [*journal.edits(old, new), (len(old), len(old), 0, 0)]:
            yield from ((" ", line, -1) for line in old[at:i])
            for sign, lines in (("-", old[i:i_end]), ("+", new[j:j_end])):
                last = number + sum(bool(line.strip()) for line in lines) - 1
                for line in lines:
                    yield sign, line, min(number, last)
                    number += bool(line.strip())
            at = i_end

    def merged(self, file: FileData | None, author: Author, deployment: Deployment) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWrite` as `before_write`."""
        if file and file["encoding"] != "utf-8":
            raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
        text = journal.merge(self.key, self.before, file["content"] if file else "", self.after) or ""
        gone = not text and (self.deleted or file is None)
        if file or not gone:
            before_write(deployment, self.path, None if gone else text, author)
        return None if gone else FileData(content=text, encoding="utf-8")


def changes(before: Mapping[str, FileData], after: Mapping[str, FileData]) -> list[Changed]:
    """The differences between two states of the same files, by key. What is not text stays as it is."""
    old, new, changed = texts(before), texts(after), list[Changed]()
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


class Dated(NamedTuple):
    """A line that was taken back, or what the person said; and when, in ISO format, UTC."""

    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that wait for their person, for revisions of this author."""

    id: str
    at: str
    memory: str  # the last part of the files' namespace
    author: Author
    changes: list[Changed]  # the undecided ones
    threads: list[str]
    decided: list[str] = field(default_factory=list)  # paths
    declined: list[Dated] = field(default_factory=list)
    kind: str = "conversations"  # what it was made of (conversations, tidy or bring), or "agent": the agent wrote it
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)  # why a line goes, by path and line


_PROPOSALS = TypeAdapter(Proposal)


async def propose(store: BaseStore, actor: Actor, proposal: Proposal, began: Began | None) -> None:
    """Keep a proposal. Raises `RefusedWrite` if its person was forgotten since then."""
    place = namespaces.proposals(actor)
    value = await asyncio.to_thread(_PROPOSALS.dump_python, proposal, mode="json")
    await store.aput(place, proposal.id, value, index=False)
    if await journal.is_forgotten(store, began):
        await store.adelete(place, proposal.id)
        raise RefusedWrite("What is remembered of this person was deleted meanwhile.")


async def proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[Proposal]:
    """A memory's proposals with those that were decided, oldest first. A damaged one is left out."""
    known = list[Proposal]()
    for item in await store.asearch(namespaces.proposals(actor), limit=_ALL):
        with suppress(ValidationError):
            known.append(await asyncio.to_thread(_PROPOSALS.validate_python, item.value))
    return sorted((each for each in known if each.memory == files[-1]), key=lambda each: each.at)


async def propose_write(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    *,
    key: str,
    change: Change,
    author: Author,
    deployment: Deployment,
    began: Began | None,
) -> None:
    """Have a change of a text wait for its person, on top of what this run has proposed before.

    Raises `ValueError` if `change` refuses it, or too much waits already. Nothing was proposed.
    """
    proposal_id, limits = f"{author.run_id or uuid4().hex}-{author.kind}", deployment.limits
    async with lock_of("deciding", proposal_id):
        known = {each.id: each for each in await proposals(store, actor, files)}
        at, thread_ids = datetime.now(UTC).isoformat(), [author.thread_id] if author.thread_id else []
        new = Proposal(proposal_id, at, files[-1], author, [], thread_ids, kind="agent")
        proposal = known.pop(proposal_id, new)
        if sum(bool(each.changes) for each in known.values()) >= MAX_PROPOSALS:
            raise RefusedWrite(
                "The person has too many undecided proposals; nothing is added before they decide. Tell them so."
            )
        item = await store.aget(files, key)
        present = stored_file(item) if item else None
        waiting = next((each for each in proposal.changes if each.key == key), None)
        file = await asyncio.to_thread(waiting.merged, present, author, deployment) if waiting else present
        after = change(file)
        if any(file and file["encoding"] != "utf-8" for file in (present, after)):
            raise RefusedWrite(f"{key} is not text, so a change of it cannot wait for the person.")
        before, then = (file["content"] if file else None for file in (present, after))
        changes = [each for each in proposal.changes if each.key != key]
        changes += [Changed(key, before or "", then or "", deleted=then is None)] if before != then else []
        if len(changes) > limits.max_files or sum(len(each.after.encode()) for each in changes) > limits.max_bytes:
            raise RefusedWrite(f"More than {limits.max_files} files or {limits.max_bytes:,} bytes would wait for the person.")
        decided = [path for path in proposal.decided if path != f"/memories{key}"]
        await propose(store, actor, replace(proposal, changes=changes, decided=decided), began)
