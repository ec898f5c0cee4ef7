"""Files as sections of a part of the prompt, within a budget of bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from lasting_memory.agent.shown_text import shown


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt.

    `budget` is that of its files in bytes. `left_out` has a line for each omission. `is_read_only`
    says that this run may not write memory.
    """

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()
    is_read_only: bool = False


def sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files (path and text, most important first) as one text, and a line for each omission.

    `budget` is UTF-8 bytes of text in all. Of a file over it the head is kept, and a line says how
    much is left out.
    """
    parts = list[str]()
    left_out = list[str]()
    room = budget
    for path, text in files:
        # Without room nothing of the file is shown, so nothing is prepared.
        prepared = shown(text) if room > 0 else text
        raw = _bytes_of(prepared)
        head = raw[:room].decode(errors="ignore")
        head_bytes = len(head.encode())
        room -= head_bytes
        missing = len(raw) - head_bytes
        if missing:
            note = _note(path, missing)
            head = f"{head}\n{note}"
            left_out.append(_omission(path, missing))
        section = _section(path, head)
        parts.append(section)
    return "\n\n".join(parts), tuple(left_out)


def _bytes_of(text: str) -> bytes:
    """A text in UTF-8, with question marks for what has no form there."""
    return text.encode(errors="replace")


def memory_sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files of memory (path and text) as one text, and a line for each omission.

    `budget` is UTF-8 bytes of text in all. Each file has its share, so that a long one hides no
    other. Of a file over its share the beginning and the end are kept, because what was remembered
    last stands at the end. A line between them says how much is left out.
    """
    texts = [shown(text) for _, text in files]
    sizes = [len(_bytes_of(text)) for text in texts]
    shares = shared_room(sizes, budget)
    parts = list[str]()
    left_out = list[str]()
    for number, (path, _) in enumerate(files):
        body, missing, end = _ends_of(texts[number], shares[number])
        if missing:
            note = _note(path, missing)
            body = f"{body}\n{note}\n{end}"
            left_out.append(_omission(path, missing))
        section = _section(path, body)
        parts.append(section)
    return "\n\n".join(parts), tuple(left_out)


def _section(path: str, body: str) -> str:
    return f"## {shown(path)}\n\n{body}".rstrip()


def _note(path: str, missing: int) -> str:
    return f"[{missing:,} bytes left out; read_file {path} for the rest]"


def _omission(path: str, missing: int) -> str:
    return f"{path}: {missing:,} bytes"


def shared_room(sizes: Sequence[int], budget: int) -> list[int]:
    """The share of a budget that each of these sizes gets.

    Shares are equal, but what one does not need goes to the others.
    """
    shares = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=lambda number: sizes[number])
    room = budget
    waiting = len(sizes)
    for number in smallest_first:
        equal_share = room // waiting
        share = min(sizes[number], equal_share)
        shares[number] = share
        room -= share
        waiting -= 1
    return shares


def _ends_of(text: str, room: int) -> tuple[str, int, str]:
    """The beginning of a text, how many bytes are left out, and its end.

    Both ends together have at most `room` bytes, in whole lines where there are any.
    """
    raw = _bytes_of(text)
    size = len(raw)
    if size <= room:
        return text, 0, ""
    half = room // 2
    head = raw[:half].decode(errors="ignore")
    tail = raw[size - half :].decode(errors="ignore")
    lines_of_head, _, _ = head.rpartition("\n")
    head = lines_of_head or head
    _, _, lines_of_tail = tail.partition("\n")
    tail = lines_of_tail or tail
    head_bytes = len(head.encode())
    tail_bytes = len(tail.encode())
    return head, size - head_bytes - tail_bytes, tail
