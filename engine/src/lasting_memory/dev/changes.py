"""What another engine changes for a fork: the texts that it overrides, and the names that it
imports.

A fork is a user's project, made from the template. It may have files that stand in place of the
engine's (overrides). `old_sources` are those of the engine that it has, `new_sources` those of the
one that it may get; a point is one line of the answer, for one thing to look at.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

from lasting_memory.dev.fork_imports import import_points
from lasting_memory.dev.package_sources import Sources

# Folders of a fork whose files stand in place of the engine's of the same name, and where these
# are.
_OVERRIDDEN = {"prompts": "prompts", "texts": "http/static/texts"}
_MAX_DIFF_LINES = 60


def for_fork(template: Path, old_sources: Sources, new_sources: Sources) -> str:
    """What changes for the fork in this folder, a point for each thing to look at."""
    points = [
        *_override_points(template, old_sources, new_sources),
        *import_points(template, old_sources, new_sources),
    ]
    if not points:
        return "For this fork: nothing that it overrides or imports has changed."
    lines = [f"- {point}" for point in points]
    return "\n".join(["For this fork:", *lines])


def _override_points(template: Path, old_sources: Sources, new_sources: Sources) -> Iterator[str]:
    """A point for each override whose original is not the same in both engines."""
    for fork_folder, engine_folder in _OVERRIDDEN.items():
        overrides = (template / fork_folder).glob("*")
        for path in sorted(overrides):
            name = path.name
            if name.startswith("."):
                continue
            original = f"{engine_folder}/{name}"
            old_text = old_sources.get(original)
            new_text = new_sources.get(original)
            if old_text != new_text:
                yield _override_point(f"{fork_folder}/{name}", old_text, new_text)


def _override_point(where: str, old_text: str | None, new_text: str | None) -> str:
    """The point for an override. `old_text` and `new_text` are its original in the old engine and in the
    new one; None if that engine has no file of this name.
    """
    if new_text is None:
        return f"{where}: the engine no longer has a file of this name, so yours may be read by nobody."
    if old_text is None:
        return f"{where}: the engine has a file of this name now; yours stands in its place."
    return f"{where} stands in place of the engine's, which changed:\n{_diff(old_text, new_text)}"


def _diff(old_text: str, new_text: str) -> str:
    """The unified diff of two texts, indented; at most `_MAX_DIFF_LINES` lines of it."""
    old_lines = old_text.splitlines()
    new_lines = new_text.splitlines()
    difference = difflib.unified_diff(old_lines, new_lines, "was", "is", n=1, lineterm="")
    lines = [f"    {line}" for line in difference]
    further_lines = len(lines) - _MAX_DIFF_LINES
    if further_lines <= 0:
        return "\n".join(lines)
    shown_lines = lines[:_MAX_DIFF_LINES]
    shown_lines.append(f"    and {further_lines} more lines")
    return "\n".join(shown_lines)
