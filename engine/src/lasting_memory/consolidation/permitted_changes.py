"""Which part of a batch's changes the deployment permits, by their kinds: additions, updates and
removals (`Consolidation.may`).

This compares a batch's draft with memory, whatever the model was told. What is forbidden is left
out line by line (`permitted_lines.py`), of a JSON object field by field (`permitted_fields.py`), and
the rest stays.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from lasting_memory.consolidation.change_kinds import ForbiddenChange
from lasting_memory.consolidation.facts import is_heading
from lasting_memory.consolidation.permitted_fields import permitted_json
from lasting_memory.consolidation.permitted_lines import moved_lines, permitted_text
from lasting_memory.deployment import KINDS
from lasting_memory.deployment import Kind as ChangeKind
from lasting_memory.memory.proposals import Changed


def permitted_part(
    batch_changes: Sequence[Changed], permitted_kinds: Collection[ChangeKind]
) -> tuple[list[Changed], list[ForbiddenChange]]:
    """What is permitted of a batch's changes, and what is not. A file of which nothing may change
    is not among the changes. Blocks.
    """
    are_all_permitted = {*KINDS} <= {*permitted_kinds}
    if are_all_permitted:
        return list(batch_changes), []
    moves = moved_lines(batch_changes)
    permitted_changes = list[Changed]()
    forbidden_changes = list[ForbiddenChange]()
    for change in batch_changes:
        if change.path.endswith(".json"):
            text, forbidden_here = permitted_json(change, permitted_kinds)
        else:
            text, forbidden_here = permitted_text(change, permitted_kinds, moves)
        lines = _lines_with_text(text)
        has_only_headings = all(map(is_heading, lines))
        # All lines of a deleted file are elsewhere, or may go.
        if change.deleted and has_only_headings:
            permitted_changes.append(change)
            continue
        forbidden_changes += forbidden_here
        is_file = bool(change.before or lines)
        is_changed = text != change.before
        if is_file and is_changed:
            part = replace(change, after=text, deleted=False)
            permitted_changes.append(part)
    return permitted_changes, forbidden_changes


def _lines_with_text(text: str) -> list[str]:
    """The lines of a text that are not blank."""
    lines = list[str]()
    for line in text.split("\n"):
        if line.strip():
            lines.append(line)
    return lines
