"""Applying an accepted change to its file: a three-way merge, so that others' changes stay.

The revision's id begins with the id of what was accepted, and it may follow only a revision whose history was seen to lack it:
repeated, or done by two processes, it is applied once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from memory import identity, journal, namespaces
from memory.consolidation.drafts import files_of
from memory.consolidation.guard import Changed
from memory.journal import NOTHING, MovedError
from memory.validation import before_write, check_room


@dataclass(frozen=True, slots=True)
class Applicable:
    """Changes to apply together, for revisions of this author. `id` is a UUID, `at` the ISO time in UTC of the acceptance."""

    id: str
    at: str
    author: identity.Author
    changes: list[Changed]


async def refusal(
    store: BaseStore, files: namespaces.Namespace, changes: Sequence[Changed], author: identity.Author
) -> str | None:
    """The reason why the present files cannot take these changes, or None."""
    items = await files_of(store, files)
    try:
        for change in sorted(changes, key=growth):
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


async def apply_change(
    store: BaseStore, files: namespaces.Namespace, accepted: Applicable, change: Changed, began: journal.Began | None
) -> str | None:
    """Apply one change, unless it is applied already. Returns the reason of a refusal, or None.

    There is no quota: accepting checked it, and a batch is applied whole.
    """

    def changed(file: FileData | None) -> FileData | None:
        after = change.applied_to(file)
        before_write(change.path, after and after["content"], accepted.author)
        return after

    refused = None
    while True:
        history = await journal.history(store, files, change.key)
        if any(each.id.startswith(accepted.id) and each.author == accepted.author for each in history):
            return None
        if not refused and history and history[-1].number > 1 and history[-1].at > accepted.at:
            refused = "others have changed it so often that its history does not say whether this is in it."
        if refused:
            return refused
        try:
            await journal.change(
                store,
                files,
                change.key,
                changed,
                accepted.author,
                expect=(history[0] if history else NOTHING).id,
                began=began,
                new_id=lambda: f"{accepted.id}-{uuid4().hex}",
            )
        except MovedError:
            continue
        except ValueError as error:
            refused = str(error)
        else:
            return None


def growth(change: Changed) -> int:
    """The characters that a change adds. Additions are applied before removals, and checked after them."""
    return len(change.after) - len(change.before)
