"""A batch's changes: comparing the files, objecting to changes, and merging them into files that others have changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from memory import journal
from memory.consolidation.facts import Standing, facts_of, is_plain
from memory.identity import Author
from memory.validation import RefusedWriteError, before_write, stored_file
from settings import MAX_SHRINKING


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch's change of one text. Its text is "" for no file."""

    key: str
    before: str
    after: str
    deleted: bool = False

    @property
    def path(self) -> str:
        """The path as the agent sees it."""
        return f"/memories{self.key}"

    def merged(self, file: FileData | None, author: Author) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWriteError` as `before_write`."""
        if file and file["encoding"] != "utf-8":
            raise RefusedWriteError(f"{self.path} is not text, and somebody else has changed it.")
        text = journal.merge(self.key, self.before, file["content"] if file else "", self.after)
        if not text and (self.deleted or file is None):
            return None
        before_write(self.path, text, author)
        return FileData(content=text or "", encoding="utf-8")

    def merged_item(self, item: Item | None, author: Author) -> Item | None:
        """`merged` for a store's item."""
        file, now = self.merged(stored_file(item) if item else None, author), datetime.now(UTC)
        value = {**(item.value if item else {}), **(file or {})}
        return Item(value=value, key=self.key, namespace=("changed",), created_at=now, updated_at=now) if file else None


def changes(before: Mapping[str, Item], after: Mapping[str, Item]) -> list[Changed]:
    """The differences between two states of the same files. What is not text stays as it is."""
    old, new, changed = texts(before), texts(after), list[Changed]()
    for key in sorted(old | new):
        is_text = (key in old or key not in before) and (key in new or key not in after)
        if is_text and old.get(key) != new.get(key):
            changed.append(Changed(key, old.get(key, ""), new.get(key, ""), deleted=key not in new))
    return changed


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    return {each.path: journal.cut(journal.diff(each.before, each.after)) for each in changed}


def texts(items: Mapping[str, Item]) -> dict[str, str]:
    """The text of each file that has text, by key."""
    found = dict[str, str]()
    for key, item in items.items():
        try:
            file = stored_file(item)
        except ValueError:
            continue
        if file["encoding"] == "utf-8":
            found[key] = file["content"]
    return found


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
    known = {*changed.before.splitlines()}
    if odd := next((line for line in changed.after.splitlines() if line not in known and not is_plain(line)), None):
        return f"{changed.path}: only plain text, without HTML, comments, code blocks and invisible characters: {odd[:80]!r}."
    before = facts_of([(changed.path, changed.before)])
    given = facts_of((changed.path, line) for line in given_up)
    lost = after.lost(before, given)
    explained = sum(key in given and key not in after.facts for key in before)
    if len(lost) <= (len(before) - explained) * MAX_SHRINKING:
        return None
    return (
        f"{changed.path} would lose {len(lost)} lines that were not given to forget_lines as outdated or contradicted: "
        f"{'; '.join(line[:80] for line in lost[:5])}. Only plain text counts, no line in a comment."
    )
