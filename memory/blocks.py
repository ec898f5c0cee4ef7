"""Blocks of the system prompt: the text of others within a budget, unable to close its block; and the block of policies."""

import asyncio
import logging
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from langgraph.store.base import BaseStore, Item, Op

from memory import identity
from memory.namespaces import Namespace
from memory.validation import RefusedWriteError, check_content, check_path, stored_file
from settings import POLICY_BUDGET_BYTES, PROJECT

logger = logging.getLogger(__name__)

POLICY_ROUTE = "/policies/"
POLICY_BLOCK = (PROJECT / "prompts" / "policies_block.md").read_text("utf-8")
# Policy files of one organization among which a run looks for top-level rules. Files that rules refer to are among them.
MAX_POLICY_FILES = 1_000

_BRACKET = re.compile("([<\ufe64\uff1c])")  # all that compatibility normalization makes a "<" of
_BLOCK_NAMES = ("polic", "memor", "skill")  # their beginnings


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments, and unable to open or close a block. In linear time."""
    *ended, rest = text.split("-->")
    kept = [part.partition("<!--")[0] if "<!--" in part else f"{part}-->" for part in ended]
    # What is left of comments within comments, or of one that never closes, is shown as text.
    before, *tagged = _BRACKET.split("".join([*kept, rest]).replace("<!--", "&lt;!--"))
    pairs = zip(tagged[::2], tagged[1::2], strict=True)
    return "".join([before, *(("&lt;" if _names_block(after) else bracket) + after for bracket, after in pairs)]).strip()


def _names_block(after: str) -> bool:
    """Whether a bracket before this text may open or close a block, also for a reader who sees only letters and digits."""
    letters = (letter for char in after for letter in unicodedata.normalize("NFKD", char).lower() if letter.isalnum())
    return "".join(islice(letters, len("memor"))).startswith(_BLOCK_NAMES)


Loaded = TypeVar("Loaded")


class PerRun(Generic[Loaded]):
    """One load for all model calls of a run, its subagents' included. Without a server, which gives run ids, one a call.

    A run that continues after an approval is a new run.
    """

    def __init__(self, load: Callable[[], Awaitable[Loaded]], runs_kept: int = 256) -> None:
        self._load = load
        self._runs_kept = runs_kept
        self._kept: OrderedDict[str, Loaded] = OrderedDict()

    async def get(self) -> Loaded:
        run_id = identity.current_run_id()
        if run_id is None:
            return await self._load()
        if run_id not in self._kept:
            self._kept[run_id] = await self._load()
            while len(self._kept) > self._runs_kept:
                self._kept.popitem(last=False)
        return self._kept[run_id]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt: its name and text, its budget for files in bytes, and a line for each omission."""

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()


def within_budget(files: Sequence[tuple[str, str]], budget: int) -> str:
    """`sections` without the omissions."""
    return sections(files, budget)[0]


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


def file_text(path: str, value: object) -> str:
    """The text of a loaded value, or a line that says why there is none. Never an empty text for something that is there."""
    if isinstance(value, str):
        return value
    if isinstance(value, BaseException):
        return f"[{path} could not be read ({type(value).__name__}); it is not empty: say so, and try read_file]"
    try:
        file = stored_file(cast("Item", value))
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    if file["encoding"] != "utf-8":
        return f"[{path} is not text; it is left out]"
    return file["content"]


async def read_all(store: BaseStore, ops: Sequence[Op]) -> list[Any]:
    """The results of one batch. If it fails, each operation runs alone, and an exception stands in for each failing one."""
    try:
        return list(await store.abatch(ops))
    except Exception:  # a store raises what its driver raises; each failure is shown below
        logger.exception("Reading memory in one batch failed; reading each part alone.")
        parts = await asyncio.gather(*(store.abatch([op]) for op in ops), return_exceptions=True)
        return [part if isinstance(part, BaseException) else part[0] for part in parts]


def policy_block(namespace: Namespace, items: Any) -> Block:
    """The block of an organization's rules, from its files or the store's error. Blocks."""
    if isinstance(items, BaseException):
        return Block("policies", POLICY_BLOCK.replace("{files}", file_text(POLICY_ROUTE, items)), POLICY_BUDGET_BYTES)
    rules = sorted((item for item in items if item.namespace == namespace and is_policy(item.key)), key=lambda item: item.key)
    text, left_out = sections([(path := f"/policies{item.key}", file_text(path, item)) for item in rules], POLICY_BUDGET_BYTES)
    text = text or "(The organization has set no policies.)"
    if len(items) >= MAX_POLICY_FILES:
        text += f"\n\n[There are {MAX_POLICY_FILES} files or more; ls /policies/ and read those that are not here]"
    return Block("policies", POLICY_BLOCK.replace("{files}", text), POLICY_BUDGET_BYTES, left_out)


def check_policy(key: str, value: Mapping[str, Any] | None) -> None:
    """Raise `RefusedWriteError` for a policy that prompts could not show: it must be a Markdown file, of text, not too large.

    A value of None deletes the file.
    """
    check_path(key)
    if not key.endswith(".md"):
        raise RefusedWriteError(f"'{key}' does not end in .md; policies are Markdown.")
    if value is not None:
        if not isinstance(value.get("content"), str) or value.get("encoding", "utf-8") != "utf-8":
            raise RefusedWriteError(f'\'{key}\' needs a value such as {{"content": "...", "encoding": "utf-8"}}.')
        check_content(key, value["content"])


def is_policy(key: str) -> bool:
    """Whether every prompt shows this file of an organization."""
    return key.endswith(".md") and key.count("/") == 1
