"""Files as sections of a part of the prompt, within a budget of bytes.

A section is a title with the file's path, and the file's text as prompts show it. Where the whole
text has no room, the section has an excerpt of it and a note for the model. For people an omission,
a line such as `/memories/MEMORY.md: 1,200 bytes`, says how much of the file is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from langgraph.store.base import Item

from lasting_memory.agent.shown_text import prompt_text
from lasting_memory.memory import stored_files


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt.

    `budget` is that of its files in bytes. `left_out` has the omissions. `is_read_only` says that
    this run may not write memory.
    """

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()
    is_read_only: bool = False


class TextFile(NamedTuple):
    """A file to show: its path, as the agent sees it, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """What a section shows of a file: the head of its text, and perhaps the tail.

    `missing_bytes` is how many bytes are left out; 0: the head is the whole text.
    """

    path: str
    head: str
    missing_bytes: int = 0
    tail: str = ""


def file_text(path: str, item: Item) -> str:
    """The text of a stored file, or a line that says why there is none."""
    try:
        file = stored_files.stored_file(item)
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    if file["encoding"] != "utf-8":
        return f"[{path} is not text; it is left out]"
    return file["content"]


def sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """The sections of files (path and text, most important first) as one text, and the omissions.

    `budget` is UTF-8 bytes of the files' text in all. The first files get all that they need. Of a
    file for which too little is left the head is shown.
    """
    excerpts = list[_Excerpt]()
    room = budget
    for path, text in files:
        prepared_text = text
        # Without room nothing of the file is shown, so nothing is prepared.
        if room > 0:
            prepared_text = prompt_text(text)
        encoded_text = _in_utf8(prepared_text)
        head = _from_utf8(encoded_text[:room])
        head_bytes = len(head.encode())
        missing_bytes = len(encoded_text) - head_bytes
        excerpts.append(_Excerpt(path, head, missing_bytes))
        room -= head_bytes
    return _joined_sections(excerpts)


def memory_sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """The sections of files of memory (path and text) as one text, and the omissions.

    `budget` is UTF-8 bytes of the files' text in all. Each file has its share, so that a long one
    hides no other. Of a file over its share the beginning and the end are shown, because what was
    remembered last stands at the end.
    """
    texts = list[str]()
    sizes = list[int]()
    for _, text in files:
        prepared_text = prompt_text(text)
        encoded_text = _in_utf8(prepared_text)
        texts.append(prepared_text)
        sizes.append(len(encoded_text))
    shares = shared_room(sizes, budget)
    excerpts = list[_Excerpt]()
    for number, (path, _) in enumerate(files):
        excerpt = _excerpt(path, texts[number], shares[number])
        excerpts.append(excerpt)
    return _joined_sections(excerpts)


def shared_room(sizes: Sequence[int], budget: int) -> list[int]:
    """How much of a budget each of these sizes gets, in their order; at most the size itself.

    The budget is shared equally. What a smaller size leaves of its share goes to the larger ones.
    """
    shares = [0] * len(sizes)
    waiting_count = len(sizes)
    room = budget
    sizes_smallest_first = sorted(enumerate(sizes), key=itemgetter(1))
    for number, size in sizes_smallest_first:
        equal_share = room // waiting_count
        share = min(size, equal_share)
        shares[number] = share
        room -= share
        waiting_count -= 1
    return shares


def _in_utf8(text: str) -> bytes:
    """A text in UTF-8, with question marks for what has no form there."""
    return text.encode(errors="replace")


def _from_utf8(encoded_text: bytes) -> str:
    """Bytes of a text as text, without a character at its end or beginning that was cut."""
    return encoded_text.decode(errors="ignore")


def _excerpt(path: str, text: str, room: int) -> _Excerpt:
    """The whole text of a file, or, of one with more than `room` bytes, its two ends.

    The ends together have at most `room` bytes, in whole lines where there are any.
    """
    encoded_text = _in_utf8(text)
    size = len(encoded_text)
    if size <= room:
        return _Excerpt(path, text)
    half = room // 2
    head = _from_utf8(encoded_text[:half])
    lines_of_head, _, _ = head.rpartition("\n")
    head = lines_of_head or head
    tail = _from_utf8(encoded_text[size - half :])
    _, _, lines_of_tail = tail.partition("\n")
    tail = lines_of_tail or tail
    head_bytes = len(head.encode())
    tail_bytes = len(tail.encode())
    missing_bytes = size - head_bytes - tail_bytes
    return _Excerpt(path, head, missing_bytes, tail)


def _joined_sections(excerpts: Sequence[_Excerpt]) -> tuple[str, tuple[str, ...]]:
    """The sections of these excerpts as one text, and the omissions."""
    parts = list[str]()
    omissions = list[str]()
    for excerpt in excerpts:
        section = _section(excerpt)
        parts.append(section)
        if excerpt.missing_bytes:
            omissions.append(f"{excerpt.path}: {excerpt.missing_bytes:,} bytes")
    text = "\n\n".join(parts)
    return text, tuple(omissions)


def _section(excerpt: _Excerpt) -> str:
    """The title and the excerpt of a file, with a note of what is left out between its two ends."""
    title = prompt_text(excerpt.path)
    body = excerpt.head
    if excerpt.missing_bytes:
        note = f"[{excerpt.missing_bytes:,} bytes left out; read_file {excerpt.path} for the rest]"
        body = f"{body}\n{note}\n{excerpt.tail}"
    return f"## {title}\n\n{body}".rstrip()
