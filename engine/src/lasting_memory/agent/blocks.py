"""Blocks of the system prompt: the text of others within a budget, unable to close its block."""

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from langgraph.store.base import Item

from lasting_memory.people import identity
from lasting_memory.validation import stored_file

# All that compatibility normalization makes a "<" of; and what after it opens or closes a block, also for a reader
# who sees letters alone. So many characters are normalized: it takes time quadratic in accents that follow each other.
_BRACKET = re.compile("[<\ufe64\uff1c]")
_NAMES = "|".join(r"[\W_]{0,3}".join(name) for name in ("polic", "memor", "skill"))
_NAME = re.compile(rf"[\W_]{{0,40}}(?:{_NAMES})", re.IGNORECASE)
_NAME_CHARS = 60
_RUNS_KEPT = 256


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments, and unable to open or close a block."""
    return _BRACKET.sub(_escaped, without_comments(text)).strip()


def without_comments(text: str, *, line_breaks: bool = False) -> str:
    """Text without HTML comments, or with the line breaks in them, so that each line keeps its number. In linear time."""
    before, *commented = text.split("<!--")
    parts = (part.partition("-->") for part in commented)
    return before + "".join(
        "\n" * (line_breaks * said.count("\n")) + after if end else f"<!--{said}" for said, end, after in parts
    )


def _escaped(bracket: re.Match[str]) -> str:
    after = bracket.string[bracket.end() : bracket.end() + _NAME_CHARS]
    return "&lt;" if _NAME.match(unicodedata.normalize("NFKD", after)) else bracket[0]


Loaded = TypeVar("Loaded")


def once_a_run(load: Callable[[], Coroutine[Any, Any, Loaded]]) -> Callable[[], Awaitable[Loaded]]:
    """One load for all model calls of a run, its subagents' included. Without a server, which gives run ids, one a call."""
    of_run = lru_cache(_RUNS_KEPT)(lambda _: asyncio.ensure_future(load()))

    def loaded() -> Awaitable[Loaded]:
        run_id = identity.current_run_id()
        return asyncio.shield(of_run(run_id)) if run_id else load()

    return loaded


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt: its name and text, its budget for files in bytes, and a line for each omission."""

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()


def sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files (path and text, most important first) as sections of one text, and a line for each omission.

    `budget` is UTF-8 bytes of text in all. Of a file over it the head is kept, and a line says how much is left out.
    """
    parts, left_out = list[str](), list[str]()
    for path, text in files:
        raw = (shown(text) if budget > 0 else text).encode(errors="replace")  # nothing is shown of it, so nothing is prepared
        head = raw[:budget].decode(errors="ignore")
        budget -= len(head.encode())
        if left := len(raw) - len(head.encode()):
            head += f"\n[{left:,} bytes left out; read_file {path} for the rest]"
            left_out.append(f"{path}: {left:,} bytes")
        parts.append(f"## {shown(path)}\n\n{head}".rstrip())
    return "\n\n".join(parts), tuple(left_out)


def file_text(path: str, item: Item) -> str:
    """The text of a stored file, or a line that says why there is none."""
    try:
        file = stored_file(item)
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    return file["content"] if file["encoding"] == "utf-8" else f"[{path} is not text; it is left out]"
