"""A change of one text that may wait, and be merged into a file that others have changed meanwhile."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from deepagents.backends.protocol import FileData

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import Author
from lasting_memory.validation import RefusedWrite, before_write


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

    def lines(self) -> list[tuple[str, str]]:
        """The lines that it takes out ("-") and puts in ("+"), in order, without blank ones. None of JSON, which has fields."""
        is_json = self.key.endswith(".json")
        return [] if is_json else [(sign, text) for sign, text, _ in self._walk() if sign != " " and text.strip()]

    def only(self, chosen: Mapping[int, str | None]) -> tuple["Changed", "Changed"]:
        """This change with some of its `lines`, by number, and the change that follows it with those that have another text.

        Raises `RefusedWrite` for what is no number of a line, or takes no text.
        """
        lines = self.lines()
        for number, text in chosen.items():
            if number >= len(lines):
                raise RefusedWrite(f"{self.path} has {len(lines)} changed lines to choose from, and no number {number}.")
            if text is not None and lines[number][0] == "-":
                raise RefusedWrite(f"Line {number} of {self.path} is taken out; it has no other text.")
        before, after = list[str](), list[str]()
        for sign, text, number in self._walk():
            if sign == " " or (sign == "+") == (number in chosen or (number < 0 and bool(chosen))):
                given = chosen.get(number) if sign == "+" and text.strip() else None
                before += [text] if given is None else []
                after.append(given or text)
        texts = "\n".join(before), "\n".join(after)
        first = replace(self, after=texts[0], deleted=self.deleted and not texts[0])
        return first, Changed(self.key, *texts)

    def _walk(self) -> Iterator[tuple[str, str, int]]:
        """All lines of both texts in order: kept (" "), taken out and put in; and the number of the changed line that each goes
        with: a blank line's is that of the next line that changes with it, or of the last one.
        """
        old, new, at, number = self.before.split("\n"), self.after.split("\n"), 0, 0
        for i, i_end, j, j_end in [*journal.edits(old, new), (len(old), len(old), 0, 0)]:
            yield from ((" ", line, -1) for line in old[at:i])
            for sign, lines in (("-", old[i:i_end]), ("+", new[j:j_end])):
                last = number + sum(bool(line.strip()) for line in lines) - 1
                for line in lines:
                    yield sign, line, min(number, last)
                    number += bool(line.strip())
            at = i_end

    def merged(self, file: FileData | None, author: Author, deployment: Deployment) -> FileData | None:
        """A file with this change and others' changes since the batch began. Raises `RefusedWrite` as `before_write`."""
        if file and file["encoding"] != "utf-8":
            raise RefusedWrite(f"{self.path} is not text, and somebody else has changed it.")
        text = journal.merge(self.key, self.before, file["content"] if file else "", self.after) or ""
        gone = not text and (self.deleted or file is None)
        if file or not gone:
            before_write(deployment, self.path, None if gone else text, author)
        return None if gone else FileData(content=text, encoding="utf-8")


def changes(before: Mapping[str, FileData], after: Mapping[str, FileData]) -> list[Changed]:
    """The differences between two states of the same files, by key. What is not text stays as it is."""
    old, new, changed = texts(before), texts(after), list[Changed]()
    for key in sorted(old | new):
        is_text = (key in old or key not in before) and (key in new or key not in after)
        if is_text and old.get(key) != new.get(key):
            changed.append(Changed(key, old.get(key, ""), new.get(key, ""), deleted=key not in new))
    return changed


def diffs(changed: Iterable[Changed]) -> dict[str, str]:
    """The diff of each file, by path. Blocks."""
    return {each.path: journal.cut(journal.diff(each.before, each.after)) for each in changed}


def texts(files: Mapping[str, FileData]) -> dict[str, str]:
    """The text of each file that has text, by key."""
    return {key: file["content"] for key, file in files.items() if file["encoding"] == "utf-8"}
