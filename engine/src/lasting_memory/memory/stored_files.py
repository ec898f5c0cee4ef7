"""Items of the store as files: how one is read and deleted, its text, its bytes, and the room that
files take.
"""

import base64
from collections.abc import Iterable, Sequence

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp

from lasting_memory.deployment import Limits
from lasting_memory.memory.validation import UNKEPT, RefusedWrite
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain

# The used share from which a memory counts as nearly full.
NEARLY_FULL = 0.8


class NoFileError(RefusedWrite):
    """A path of the store holds a value that is no file."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"'{path}' holds a value that is not a file; delete it or write another path."
        )


def stored_file(item: Item) -> FileData:
    """A store item as a file, with plain text.

    Raises `NoFileError` for another value: anybody's code may put one there.
    """
    content = item.value.get("content")
    encoding = item.value.get("encoding", "utf-8")
    if not isinstance(content, str):
        raise NoFileError(item.key)
    if encoding not in ("utf-8", "base64"):
        raise NoFileError(item.key)
    if UNKEPT.search(content):
        raise NoFileError(item.key)
    if encoding == "utf-8":
        content = plain(content)
    file = FileData(content=content, encoding=encoding)
    for stamp in ("created_at", "modified_at"):
        if isinstance(item.value.get(stamp), str):
            file[stamp] = item.value[stamp]
    return file


async def read_file(store: BaseStore, files: Namespace, key: str) -> FileData | None:
    """The file with a key; None if there is none. Raises as `stored_file`."""
    item = await store.aget(files, key)
    return stored_file(item) if item else None


def deletions(items: Iterable[Item]) -> list[PutOp]:
    """The operations that delete these items."""
    ops = list[PutOp]()
    for item in items:
        op = PutOp(item.namespace, item.key, None)
        ops.append(op)
    return ops


def text_of(item: Item) -> str | None:
    """The text of a stored file; None for a file that is not text, and for what is no file."""
    try:
        file = stored_file(item)
    except NoFileError:
        return None
    if file["encoding"] != "utf-8":
        return None
    return file["content"]


def file_bytes(file: FileData) -> bytes:
    """The content of a file as bytes. Raises `ValueError` for invalid base64."""
    if file["encoding"] == "base64":
        return base64.b64decode(file["content"], validate=True)
    return file["content"].encode()


def content_size(item: Item) -> int:
    """UTF-8 bytes of a file's content."""
    content = str(item.value.get("content", ""))
    content_bytes = content.encode(errors="replace")
    return len(content_bytes)


def check_room(files: Sequence[Item], key: str, size: int, limits: Limits) -> None:
    """Raises `RefusedWrite` for a file for which a namespace has no room.

    `files` are all that are in it, `key` and `size` (bytes) those of the new version. A namespace
    has room for `max_files` and `max_bytes`. A file that shrinks always has room.
    """
    sizes = {item.key: content_size(item) for item in files}
    size_before = sizes.pop(key, None)
    is_new = size_before is None
    count = len(sizes)
    if is_new and count >= limits.max_files:
        raise RefusedWrite(
            f"There are {count} files, and {limits.max_files} is the limit; merge or delete some.",
            kind="memory_full",
        )
    total = size + sum(sizes.values())
    grows = size > (size_before or 0)
    if grows and total > limits.max_bytes:
        raise RefusedWrite(
            f"All files would have {total:,} bytes of {limits.max_bytes:,}; "
            "shorten or delete some.",
            kind="memory_full",
        )


def usage_of(files: Sequence[Item], limits: Limits) -> dict[str, int]:
    """Used and allowed files and bytes of a memory with these files, and whether it is nearly full."""
    count = len(files)
    size = sum(map(content_size, files))
    has_many_files = count >= NEARLY_FULL * limits.max_files
    has_many_bytes = size >= NEARLY_FULL * limits.max_bytes
    return {
        "files": count,
        "bytes": size,
        "max_files": limits.max_files,
        "max_bytes": limits.max_bytes,
        "nearly_full": has_many_files or has_many_bytes,
    }
