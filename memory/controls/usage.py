"""The used share of a memory's quota."""

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph.store.base import Item

from settings import MAX_MEMORY_BYTES, MAX_MEMORY_FILES

# The share of files or bytes at which memory is nearly full.
NEARLY_FULL = 0.8
# UTF-8 bytes of memory beyond which consolidation merges and shortens the oldest topics.
SHORTEN_ABOVE_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Usage:
    """Used and allowed files and bytes of a memory."""

    files: int
    max_files: int
    bytes: int
    max_bytes: int

    @property
    def nearly_full(self) -> bool:
        """Whether to warn, before a write is refused."""
        return self.files >= NEARLY_FULL * self.max_files or self.bytes >= NEARLY_FULL * self.max_bytes

    @property
    def warning(self) -> str:
        """A warning to add to a write's answer when memory is nearly full; otherwise empty."""
        if not self.nearly_full:
            return ""
        room = f"{self.files} of {self.max_files} files, {self.bytes:,} of {self.max_bytes:,} bytes"
        return f" Memory is nearly full ({room}): tell them, and that what is no longer needed can be deleted."


def usage_of(files: Sequence[Item]) -> Usage:
    """The usage of a memory with these files."""
    size = sum(len(str(item.value.get("content", "")).encode(errors="replace")) for item in files)
    return Usage(len(files), MAX_MEMORY_FILES, size, MAX_MEMORY_BYTES)
