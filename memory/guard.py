"""What a consolidation changed, whether that may stand, and how it is undone.

Everything it wrote is in the journal with its run's id, so that the changes of one batch can be told from those that the
agent or the person made meanwhile, and taken back without them.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from memory import scopes
from memory.consensus import LoggedFile, Revision
from memory.files import acarry_out
from memory.journal import Journal
from memory.validation import RefusedWriteError
from settings import (
    CONSOLIDATION_ADDS,
    CONSOLIDATION_REMOVES,
    CONSOLIDATION_UPDATES,
    MAX_DIFF_CHARS,
    MAX_MEMORY_FILES,
    MAX_SHRINKING,
)

# Number of a file's newest revision, by key; 0 where it has none.
Base = dict[str, int]
_SWITCHES = {"insert": CONSOLIDATION_ADDS, "replace": CONSOLIDATION_UPDATES, "delete": CONSOLIDATION_REMOVES}
_NAMES = {"insert": "adding", "replace": "updating", "delete": "removing"}


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that a run changed: its key, and its text before the run's first revision and after its last ("" for no file)."""

    key: str
    before: str
    after: str

    def diff(self) -> str:
        """A unified diff, cut at `MAX_DIFF_CHARS`."""
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), "before", "after", lineterm="", n=1)
        text = "\n".join(lines)
        return text if len(text) <= MAX_DIFF_CHARS else f"{text[:MAX_DIFF_CHARS]}\n[{len(text) - MAX_DIFF_CHARS:,} more]"


async def base(store: BaseStore, files: scopes.Namespace) -> Base:
    """Where every file stands, to tell later what was changed."""
    items = await store.asearch(files, limit=MAX_MEMORY_FILES + 1)
    return {item.key: int(item.value.get("revision") or 0) for item in items}


async def changes(store: BaseStore, files: scopes.Namespace, since: Base, run_id: str) -> list[Changed]:
    """The files whose text a run has changed since then."""
    now, found = await base(store, files), list[Changed]()
    for key in sorted({*since, *now}):
        if now.get(key) == since.get(key):
            continue
        history = await acarry_out(store, Journal(LoggedFile(files, key)).history())
        own = [revision for revision in history if revision.number > since.get(key, 0) and _wrote(run_id, revision)]
        if not own:
            continue
        before = next((revision for revision in history if revision.number == own[-1].number - 1), None)
        changed = Changed(key, (before.content if before else None) or "", own[0].content or "")
        if changed.before != changed.after:
            found.append(changed)
    return found


def objection(changed: Changed, given_up: Collection[str]) -> str | None:
    """Why a change must not stand, or None.

    Args:
        changed: the change.
        given_up: lines that the model gave as outdated or contradicted (`forget_lines`).
    """
    if changed.key.startswith("/skills/"):
        return f"/memories{changed.key} is a skill of the person's own, and not consolidation's to change."
    before, after = changed.before.splitlines(), changed.after.splitlines()
    for kind, *_ in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if not _SWITCHES.get(kind, True):
            return f"/memories{changed.key}: {_NAMES[kind]} lines is switched off in this deployment."
    gone = [*(Counter(_plain(before)) - Counter(_plain(after))).elements()]
    unexplained = [*(Counter(gone) - Counter(_plain(given_up))).elements()]
    kept = sum(map(len, _plain(before))) - sum(map(len, gone)) + sum(map(len, unexplained))
    left = sum(map(len, _plain(after)))
    if unexplained and left < kept * (1 - MAX_SHRINKING):
        lines = "; ".join(line[:80] for line in unexplained[:5])
        return (
            f"/memories{changed.key} would lose {len(unexplained)} lines that were not given to forget_lines as outdated or "
            f"contradicted: {lines}"
        )
    return None


async def undo(store: BaseStore, files: scopes.Namespace, changed: Changed, author: scopes.Author) -> None:
    """Take a change back, and leave what others have written since."""

    def reverted(file: FileData | None) -> FileData | None:
        text = without(file["content"] if file else "", changed)
        if file is None and not text:
            raise RefusedWriteError("There is no file, and there was none.")
        return FileData(content=text, encoding="utf-8") if text else None

    try:
        await acarry_out(store, Journal(LoggedFile(files, changed.key)).change(reverted, author))
    except RefusedWriteError:
        return


def without(current: str, changed: Changed) -> str:
    """A text as it would be without a change that was made on its way here."""
    if current == changed.after:
        return changed.before
    before, after = Counter(changed.before.splitlines()), Counter(changed.after.splitlines())
    added, removed = after - before, before - after
    kept = list[str]()
    for line in current.splitlines():
        if added[line] > 0:
            added[line] -= 1
        else:
            kept.append(line)
    lines = [*kept, *removed.elements()]
    return "\n".join(lines) + "\n" if lines else ""


def diffs(found: Collection[Changed]) -> dict[str, str]:
    """What was changed, by path as the agent sees it."""
    return {f"/memories{changed.key}": changed.diff() for changed in found}


def merged(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """The diffs of two batches, one after the other."""
    return {path: "\n".join(filter(None, (earlier.get(path), later.get(path)))) for path in {**earlier, **later}}


def _wrote(run_id: str, revision: Revision) -> bool:
    return revision.author.kind == "consolidation" and revision.author.run_id == run_id


def _plain(lines: Collection[str]) -> list[str]:
    return [text for line in lines if (text := " ".join(line.split()))]
