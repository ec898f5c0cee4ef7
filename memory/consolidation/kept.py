"""A typed value in the store that the journal changes, so that each change is one atomic step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item
from pydantic import TypeAdapter

from memory import journal
from memory.identity import Author
from memory.journal import Epoch, file_lock
from memory.namespaces import Namespace
from memory.validation import NotAFileError, stored_file

_AUTHOR = Author("consolidation")
# The item holds whole files, and no page shows its history.
_REVISIONS_KEPT = 3
Value = TypeVar("Value")


class UnchangedError(ValueError):
    """The change would leave everything as it is."""


class KeptValue(Generic[Value]):
    """One value for each memory, as JSON. A malformed item counts as `empty`.

    Args:
        adapter: its type.
        empty: the value of a memory without an item.
        exclude_defaults: leave fields with default values out of the JSON.
    """

    def __init__(self, adapter: TypeAdapter[Value], empty: Value, *, exclude_defaults: bool = False) -> None:
        self._adapter, self._empty, self._exclude_defaults = adapter, empty, exclude_defaults

    @staticmethod
    def key(files: Namespace) -> str:
        """The item's key, for the memory with these files."""
        return f"/{files[-1]}"

    def of_item(self, item: object) -> Value:
        """The value of an item as the store gave it. Blocks for large ones."""
        try:
            return self._parsed(stored_file(item) if isinstance(item, Item) else None)
        except NotAFileError:
            return self._empty

    async def change(
        self,
        store: BaseStore,
        namespace: Namespace,
        files: Namespace,
        change: Callable[[Value], Value | None],
        epoch: Epoch | None,
    ) -> Value:
        """Change the value, and return the result; a `change` to None leaves it as it is.

        Raises:
            ValueError: `change` raised it, or the journal refused the write or cannot know its outcome.
        """
        key, before = self.key(files), self._empty
        problem: ValueError | None = None

        def changed(file: FileData | None) -> FileData:
            nonlocal before, problem
            before, problem = self._parsed(file), None
            try:
                if (after := change(before)) is None:
                    raise UnchangedError
            except ValueError as error:
                problem = error
                raise
            content = self._adapter.dump_json(after, exclude_defaults=self._exclude_defaults).decode()
            return FileData(content=content, encoding="utf-8")

        async with file_lock(namespace, key):
            try:
                made = await journal.change(store, namespace, key, changed, _AUTHOR, epoch=epoch, revisions=_REVISIONS_KEPT)
            except NotAFileError:
                await store.adelete(namespace, key)
            except ValueError:
                if problem is None:
                    raise
                if not isinstance(problem, UnchangedError):  # the journal raises one of its own where another writer was faster
                    raise problem from None
                await journal.settle(store, namespace, key)  # the value may be in the journal only
                return before
            else:
                return self._parsed(made.file())
        return await self.change(store, namespace, files, change, epoch)

    def _parsed(self, file: FileData | None) -> Value:
        try:
            return self._adapter.validate_json(file["content"]) if file else self._empty
        except ValueError:
            return self._empty
