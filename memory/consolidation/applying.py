"""Applying an accepted change to its file: a three-way merge, made once however often it is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item

from memory import identity, journal, namespaces
from memory.consolidation.drafts import files_of
from memory.consolidation.guard import Changed
from memory.consolidation.kept import UnchangedError
from memory.journal import NOTHING, Change, MovedError, Revision, file_lock
from memory.validation import before_write, check_room, stored_file


@dataclass(frozen=True, slots=True)
class Applicable:
    """Something accepted.

    Args:
        id: unique; the ids of its revisions begin with it.
        at: ISO time in UTC of the acceptance.
        author: the author of its revisions.
    """

    id: str
    at: str
    author: identity.Author


async def refusal(
    store: BaseStore, files: namespaces.Namespace, changes: Sequence[Changed], author: identity.Author
) -> str | None:
    """The reason why the present files cannot take these changes, or None."""
    items = await files_of(store, files)
    try:
        for change in sorted(changes, key=growth):
            item = items.pop(change.key, None)
            file = change.applied_to(stored_file(item) if item else None)
            before_write(change.path, file and file["content"], author)
            if file is None:
                continue
            check_room([*items.values(), *([item] if item else [])], change.key, len(file["content"].encode()))
            now = datetime.now(UTC)
            items[change.key] = Item(value={**file}, key=change.key, namespace=files, created_at=now, updated_at=now)
    except ValueError as error:
        return str(error)
    return None


async def apply_change(
    store: BaseStore, files: namespaces.Namespace, accepted: Applicable, change: Changed, epoch: journal.Epoch | None
) -> str | None:
    """Apply one change, unless it is applied already. Returns the reason of a refusal, or None."""
    refused = None
    async with file_lock(files, change.key):
        while True:
            history = await journal.history(store, files, change.key)
            if any(each.id.startswith(accepted.id) and each.author == accepted.author for each in history):
                await journal.settle(store, files, change.key)  # it may be in the journal only
                return None
            if refused or _is_cut(history, accepted.at):
                return refused or "others have changed it so often that its history does not say whether this is in it."
            head = history[0] if history else NOTHING
            try:
                await journal.change(
                    store,
                    files,
                    change.key,
                    _made(change, accepted.author),
                    accepted.author,
                    expect=head.id,
                    epoch=epoch,
                    new_id=lambda: f"{accepted.id}-{uuid4().hex}",
                )
            except UnchangedError:
                return None
            except MovedError:
                continue
            except ValueError as error:
                refused = str(error)
            else:
                return None


def _made(change: Changed, author: identity.Author) -> Change:
    """The change as the journal takes it, without a quota: accepting checked it, and a batch is applied whole."""

    def made(file: FileData | None) -> FileData | None:
        after = change.applied_to(file)
        if (after and after["content"]) == (file and file["content"]):
            raise UnchangedError
        before_write(change.path, after and after["content"], author)
        return after

    return made


def _is_cut(history: Sequence[Revision], since: str) -> bool:
    """Whether a history no longer has all revisions since then."""
    return bool(history) and history[-1].number > 1 and history[-1].at > since


def growth(change: Changed) -> int:
    """The characters that a change adds. Additions are applied before removals, and checked after them."""
    return len(change.after) - len(change.before)
