"""A typed value in the store that the journal changes, so that each change is one atomic step."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore
from pydantic import TypeAdapter

from memory import journal
from memory.identity import Actor, Author
from memory.journal import Began
from memory.namespaces import Namespace
from memory.validation import NotAFileError, stored_file

_AUTHOR = Author("consolidation")
Value = TypeVar("Value")


class KeptValue(Generic[Value]):
    """One value for each memory, as JSON without its defaults. A malformed item counts as `empty`.

    Args:
        kind: its type.
        empty: the value of a memory without an item.
        namespace: gives a person's namespace for these items. Their keys are the last parts of the memories' own.
    """

    def __init__(self, kind: type[Value], empty: Value, namespace: Callable[[Actor], Namespace]) -> None:
        self._adapter, self._empty, self._namespace = TypeAdapter(kind), empty, namespace

    async def read(self, store: BaseStore, actor: Actor, files: Namespace) -> Value:
        """The value for the memory with these files."""
        item = await store.aget(self._namespace(actor), f"/{files[-1]}")
        try:
            return await asyncio.to_thread(self._parsed, stored_file(item)) if item else self._empty
        except NotAFileError:
            return self._empty

    async def change(
        self, store: BaseStore, actor: Actor, files: Namespace, change: Callable[[Value], Value], began: Began | None
    ) -> Value:
        """Change the value, and return it. `change` raises nothing, and is called again whenever another writer was faster.

        Raises:
            RefusedWriteError: the person was forgotten, or the outcome cannot be known.
        """
        namespace, key = self._namespace(actor), f"/{files[-1]}"

        def changed(file: FileData | None) -> FileData:
            content = self._adapter.dump_json(change(self._parsed(file)), exclude_defaults=True).decode()
            return FileData(content=content, encoding="utf-8")

        try:
            made = await journal.change(store, namespace, key, changed, _AUTHOR, began=began)
        except NotAFileError:
            await store.adelete(namespace, key)
            made = await journal.change(store, namespace, key, changed, _AUTHOR, began=began)
        return self._parsed(made.file())

    def _parsed(self, file: FileData | None) -> Value:
        try:
            return self._adapter.validate_json(file["content"]) if file else self._empty
        except ValueError:
            return self._empty
