"""What a consolidation changed, whether that may stand, and how it is undone.

Everything it wrote is in the journal with its run's id, so that the changes of one batch can be told from those that the
agent or the person made meanwhile, and taken back without them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from memory import scopes
from memory.consensus import NOTHING, LoggedFile, Revision
from memory.facts import Standing, facts_of
from memory.files import acarry_out
from memory.journal import Journal
from memory.lines import cut, diff, edits, without
from memory.profile import PROFILE_PATH
from memory.validation import RefusedWriteError, check_profile
from settings import (
    CONSOLIDATION_ADDS,
    CONSOLIDATION_REMOVES,
    CONSOLIDATION_UPDATES,
    MAX_MEMORY_FILES,
    MAX_SHRINKING,
)

# Number of a file's newest revision, by key; 0 where it has none.
Base = dict[str, int]
_SWITCHES = {"insert": CONSOLIDATION_ADDS, "replace": CONSOLIDATION_UPDATES, "delete": CONSOLIDATION_REMOVES}
_NAMES = {"insert": "adding", "replace": "updating", "delete": "removing"}


@dataclass(frozen=True, slots=True)
class Changed:
    """What a run did to a file, whatever others did to it meanwhile.

    Args:
        key: the file's.
        before: its text as it would be without the run's steps; "" for no file.
        after: its text with them.
        encoding: of `before`.
        whole: False where the journal does not go back as far as the run's first step. `before` is then what it made early on.
    """

    key: str
    before: str
    after: str
    encoding: str = "utf-8"
    whole: bool = True

    def diff(self) -> str:
        """A unified diff, cut at `MAX_DIFF_CHARS`."""
        return cut(diff(self.before, self.after))

    @property
    def path(self) -> str:
        """As the agent sees it."""
        return f"/memories{self.key}"


async def base(store: BaseStore, files: scopes.Namespace) -> Base:
    """Where every file stands, to tell later what was changed."""
    items = await store.asearch(files, limit=MAX_MEMORY_FILES + 1)
    return {item.key: int(item.value.get("revision") or 0) for item in items}


async def changes(store: BaseStore, files: scopes.Namespace, since: Base, run_id: str) -> list[Changed]:
    """What a run has changed since then."""
    now, found = await base(store, files), list[Changed]()
    for key in sorted({*since, *now}):
        if now.get(key) == since.get(key):
            continue
        history = await acarry_out(store, Journal(LoggedFile(files, key)).history())
        changed = await asyncio.to_thread(_by_run, key, history[::-1], since.get(key, 0), run_id)
        if changed and changed.before != changed.after:
            found.append(changed)
    return found


def _by_run(key: str, history: Sequence[Revision], since: int, run_id: str) -> Changed | None:
    """What a run did after revision `since`: its steps, one after the other taken back from the text that there is now.

    Args:
        key: the file's.
        history: its revisions, oldest first.
        since: 0 where there was no file, or one that had been put around the journal: then from the last such point on.
        run_id: the run.
    """
    since = since or max((revision.number for revision in history if revision.content is None or revision.adopted), default=0)
    known = [revision for revision in (NOTHING, *history) if revision.number >= since]
    whole = [revision.number for revision in known[:2]] in ([since], [since, since + 1])
    if not whole and known[:1] == [NOTHING]:
        known = known[1:]
    own = [n for n, revision in enumerate(known) if revision.number > since and _wrote(run_id, revision)]
    if not own:
        return None
    known = known[max(own[0] - 1, 0) :]
    text = after = known[-1].content or ""
    for old, new in reversed([*pairwise(known)]):
        if _wrote(run_id, new):
            text = _without(key, text, old.content or "", new.content or "")
    encoding = known[0].encoding if text == known[0].content else "utf-8"
    return Changed(key, text, after, encoding, whole)


def objections(changed: Sequence[Changed], given_up: Mapping[str, Sequence[str]]) -> str | None:
    """Why the changes of one batch must not stand, or None. A fact may move from one file to another.

    Args:
        changed: the changes.
        given_up: by path, the lines that the model gave as outdated or contradicted (`forget_lines`).
    """
    after = Standing(facts_of((change.path, change.after) for change in changed))
    reasons = (_objection(change, given_up.get(change.path, ()), after) for change in changed)
    return next(filter(None, reasons), None)


def objection(changed: Changed, given_up: Sequence[str]) -> str | None:
    """`objections` for one change alone."""
    return objections([changed], {changed.path: given_up})


def _objection(changed: Changed, given_up: Sequence[str], after: Standing) -> str | None:
    if changed.key.startswith("/skills/"):
        return f"{changed.path} is a skill of the person's own, and not consolidation's to change."
    if not changed.whole:
        return f"{changed.path} was changed so often that its journal does not say what it was; change it once."
    for kind, *_ in edits(changed.before.splitlines(), changed.after.splitlines()):
        if not _SWITCHES[kind]:
            return f"{changed.path}: {_NAMES[kind]} lines is switched off in this deployment."
    before = facts_of([(changed.path, changed.before)])
    given = facts_of((changed.path, line) for line in given_up).everything
    unexplained = after.lost(before, given)
    explained = sum(key in given and not after.has(key) for key in before.everything)
    if unexplained and len(unexplained) > (len(before.everything) - explained) * MAX_SHRINKING:
        lines = "; ".join(line[:80] for line in unexplained[:5])
        return (
            f"{changed.path} would lose {len(unexplained)} lines that were not given to forget_lines as outdated or "
            f"contradicted: {lines}. Only plain text counts, no line in a comment, in HTML or in a code block."
        )
    return None


async def undo(store: BaseStore, files: scopes.Namespace, changed: Changed, author: scopes.Author) -> None:
    """Take a change back, and leave what others have written since."""

    def reverted(file: FileData | None) -> FileData | None:
        if file is None and not changed.before:
            raise RefusedWriteError("There is no file, and there was none.")
        text = _without(changed.key, file["content"] if file else "", changed.before, changed.after)
        encoding = changed.encoding if text == changed.before else "utf-8"
        return FileData(content=text, encoding=encoding) if text else None

    try:
        await acarry_out(store, Journal(LoggedFile(files, changed.key)).change(reverted, author))
    except RefusedWriteError:
        return


def _without(key: str, current: str, before: str, after: str) -> str:
    """`without` for a file: a profile, which is not lines but fields, stays one that code can read."""
    if f"/memories{key}" != PROFILE_PATH or current == after:
        return without(current, before, after)
    try:
        now, old, new = (json.loads(text or "{}") for text in (current, before, after))
        kept = {name: value for name, value in now.items() if value == old.get(name) or value != new.get(name)}
        back = {name: value for name, value in old.items() if now.get(name) == new.get(name)}
        text = json.dumps({**kept, **back}, indent=2, ensure_ascii=False) + "\n"
        check_profile(text)
    except (ValueError, AttributeError, RecursionError):  # one of them is no profile: what is there now is not made worse
        return current
    return text


def diffs(found: Collection[Changed]) -> dict[str, str]:
    """What was changed, by path as the agent sees it."""
    return {changed.path: changed.diff() for changed in found}


def merged(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """The diffs of two batches, one after the other."""
    return {path: cut("\n".join(filter(None, (earlier.get(path), later.get(path))))) for path in {**earlier, **later}}


def _wrote(run_id: str, revision: Revision) -> bool:
    return revision.author.kind == "consolidation" and revision.author.run_id == run_id
