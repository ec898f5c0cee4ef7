"""A folder of files in the store, and the only code of this library that puts a file there.

A change passes, in this order: the path, the gate (`before_write`), the quota, whether its person
was forgotten meanwhile, and the journal, which looks again after it put.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item

from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal, validation
from lasting_memory.memory.ends import Written
from lasting_memory.memory.journal import Began, Change, Revision
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a namespace, for an author who writes since a time.

    `route` is the folder as the agent sees it, without the last slash. `began` is None where nobody
    can be forgotten.
    """

    deployment: Deployment
    store: BaseStore
    namespace: Namespace
    route: str
    author: Author
    began: Began | None = None

    async def change(
        self,
        path: str,
        make: Change,
        *,
        expect: str | None = None,
        bounded: bool = True,
        written: Written = MappingProxyType({}),
    ) -> Revision:
        """Change a file. Returns the newest revision, in which the change is.

        `make` gives the new file for the present one, None for a deletion; it may be asked several
        times. `expect` is the id of the only revision that the change may follow, "" for no file
        yet. With `bounded` the limits of the deployment hold for all files together; without,
        whoever calls has held several changes to them. `written` are the times of new lines with an
        end that were written before now (`memory/ends.py`).

        Raises `MovedError` if the file is at another revision, and `ValueError` if `make`, the
        path, the gate or the quota refuses it, or the person was forgotten. Nothing was changed
        then.
        """
        validation.check_path(path, f"{self.route}{path}")
        return await journal.change(
            self.store, self.namespace, path, self.gated(path, make), self.author,
            bounded=bounded, expect=expect, began=self.began, limits=self.deployment.limits,
            written=written,
        )  # fmt: skip

    def gated(self, path: str, make: Change) -> Change:
        """The change, which raises as `before_write` for what it makes."""

        def made(before: FileData | None) -> FileData | None:
            # Plain before the checks: they see what is kept.
            after = _plain(make(before))
            check_write(self.deployment, f"{self.route}{path}", before, after, self.author)
            return after

        return made

    async def remove_other(self, item: Item) -> None:
        """Delete an item that is no file, and has no history. Raises as `before_write`."""
        validation.before_write(self.deployment, f"{self.route}{item.key}", None, self.author)
        await self.store.adelete(item.namespace, item.key)


def _plain(file: FileData | None) -> FileData | None:
    """A file with plain text."""
    if file is None or file["encoding"] != "utf-8":
        return file
    file = file.copy()
    file["content"] = plain(file["content"])
    return file


def check_write(
    deployment: Deployment,
    path: str,
    before: FileData | None,
    after: FileData | None,
    author: Author,
) -> None:
    """Raise `RefusedWrite` as `before_write` for what becomes of a file at a path (as the agent
    sees it).
    """
    if before is None and after is None:
        return
    content, encoding = (after["content"], after["encoding"]) if after else (None, None)
    there = before["content"] if before else None
    validation.before_write(deployment, path, content, author, encoding, before=there)
