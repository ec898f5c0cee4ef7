"""A batch's changes: comparing the files, objecting to changes, and merging them into files that others have changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from memory.consolidation.facts import Standing, facts_of, is_plain
from memory.journal import cut, diff, edits, revert_change
from memory.validation import PROFILE_PATH, RefusedWriteError, check_profile, stored_file
from settings import CONSOLIDATION_ADDS, CONSOLIDATION_REMOVES, CONSOLIDATION_UPDATES, MAX_SHRINKING

_SWITCHES = {"insert": CONSOLIDATION_ADDS, "replace": CONSOLIDATION_UPDATES, "delete": CONSOLIDATION_REMOVES}
_NAMES = {"insert": "adding", "replace": "updating", "delete": "removing"}


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch's change of one file. Its text is "" for no file."""

    key: str
    before: str
    after: str
    deleted: bool = False
    binary: bool = False  # one of the texts is base64

    def diff(self) -> str:
        return cut(diff(self.before, self.after))

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    @property
    def growth(self) -> int:
        """The characters that the change adds. Additions are applied before removals, and checked after them."""
        return len(self.after) - len(self.before)

    def applied_to(self, file: FileData | None) -> FileData | None:
        """A file with this change merged into others' changes since the batch began.

        Raises:
            RefusedWriteError: they cannot be merged.
        """
        current = file["content"] if file else ""
        if file and current == self.after:
            return None if self.deleted else file
        if current != self.before and (self.binary or (file and file["encoding"] != "utf-8")):
            raise RefusedWriteError(f"{self.path} is not text, and somebody else has changed it.")
        # Reverting the opposite change is a three-way merge.
        text = self.after if current == self.before else revert_file(self.key, current, self.after, self.before)
        return FileData(content=text, encoding="utf-8") if text or not (self.deleted or file is None) else None

    def item(self, item: Item | None) -> Item | None:
        """`applied_to` for a store's item."""
        file, now = self.applied_to(stored_file(item) if item else None), datetime.now(UTC)
        if file is None:
            return None
        value = {**(item.value if item else {}), **file}
        return Item(value=value, key=self.key, namespace=("changed",), created_at=now, updated_at=now)


def changes(before: Mapping[str, Item], after: Mapping[str, Item]) -> list[Changed]:
    """The differences between two states of the same files. A value that is no file counts as missing."""
    changed = []
    for key in sorted({*before, *after}):
        old, new = _file(before.get(key)), _file(after.get(key))
        texts = [file["content"] if file else "" for file in (old, new)]
        if (old is None) != (new is None) or texts[0] != texts[1]:
            binary = any(file is not None and file["encoding"] != "utf-8" for file in (old, new))
            changed.append(Changed(key, texts[0], texts[1], deleted=new is None, binary=binary))
    return changed


def texts(items: Mapping[str, Item]) -> list[tuple[str, str]]:
    """Path and text of each file that has text."""
    files = ((key, _file(item)) for key, item in items.items())
    return [(f"/memories{key}", file["content"]) for key, file in files if file and file["encoding"] == "utf-8"]


def _file(item: Item | None) -> FileData | None:
    try:
        return stored_file(item) if item else None
    except ValueError:
        return None


def objections(changed: Sequence[Changed], given_up: Mapping[str, Sequence[str]]) -> str | None:
    """The reason to refuse a batch's changes, or None. A fact may move from one file to another. Blocks.

    `given_up`: by path, the lines that the model named as outdated or contradicted (`forget_lines`).
    """
    after = Standing(facts_of((change.path, change.after) for change in changed))
    reasons = (_objection(change, given_up.get(change.path, ()), after) for change in changed)
    return next(filter(None, reasons), None)


def _objection(changed: Changed, given_up: Sequence[str], after: Standing) -> str | None:
    if changed.key.startswith("/skills/"):
        return f"{changed.path} is the person's own skill, which consolidation must not change."
    old = changed.before.splitlines()
    for kind, *_ in edits(old, changed.after.splitlines()):
        if not _SWITCHES[kind]:
            return f"{changed.path}: {_NAMES[kind]} lines is switched off in this deployment."
    known = set(old)
    if hidden := next((line for line in changed.after.splitlines() if line not in known and not is_plain(line)), None):
        return f"{changed.path}: only plain text, without HTML, comments and invisible characters: {hidden[:80]!r}."
    before = facts_of([(changed.path, changed.before)])
    given = facts_of((changed.path, line) for line in given_up)
    unexplained = after.lost(before, given)
    explained = sum(key in given and not after.has(key) for key in before)
    if unexplained and len(unexplained) > (len(before) - explained) * MAX_SHRINKING:
        lines = "; ".join(line[:80] for line in unexplained[:5])
        return (
            f"{changed.path} would lose {len(unexplained)} lines that were not given to forget_lines as outdated or "
            f"contradicted: {lines}. Only plain text counts, no line in a comment or in a code block."
        )
    return None


def revert_file(key: str, current: str, before: str, after: str) -> str:
    """`revert_change` for a file. A profile is reverted field by field, so that it stays valid.

    Raises:
        RefusedWriteError: one of the texts should be a profile, and is not.
    """
    if f"/memories{key}" != PROFILE_PATH or current == after:
        return revert_change(current, before, after)
    try:
        now, old, new = (json.loads(text or "{}") for text in (current, before, after))
        kept = {name: value for name, value in now.items() if value == old.get(name) or value != new.get(name)}
        back = {name: value for name, value in old.items() if now.get(name) == new.get(name)}
    except (ValueError, AttributeError, RecursionError):
        raise RefusedWriteError(f"{PROFILE_PATH} holds no profile; delete it, then save it again.") from None
    text = json.dumps({**kept, **back}, indent=2, ensure_ascii=False) + "\n" if kept or back else ""
    if text:
        check_profile(text)
    return text
