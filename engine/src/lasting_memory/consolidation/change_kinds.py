"""The kinds of change that a deployment permits or forbids (`Consolidation.may`), as people and
models are told of them.
"""

from collections.abc import Collection
from typing import NamedTuple

from lasting_memory.deployment import KINDS
from lasting_memory.deployment import Kind as ChangeKind

# Characters of a line or field that is left out, as it is told.
_TEXT_CHARS = 120


class ForbiddenChange(NamedTuple):
    """A change that may not be made: the path of its file, its kind, and the line or field."""

    path: str
    kind: ChangeKind
    text: str

    def __str__(self) -> str:
        start = self.text[:_TEXT_CHARS]
        return f"{self.path}, {self.kind}: {start}"


def verbs(kinds: Collection[ChangeKind], conjunction: str = "and") -> str:
    """Kinds of change as a list of verbs, in a fixed order: "add", "add and update"."""
    ordered_kinds = list[str]()
    for kind in KINDS:
        if kind in kinds:
            ordered_kinds.append(kind)
    return f" {conjunction} ".join(ordered_kinds)
