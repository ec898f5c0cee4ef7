"""Patterns of file names within bounds.

deepagents makes a regular expression of a pattern and tries it on every path; each `**` in it multiplies the time by the depth
of the path, and meanwhile nothing else in the process runs: five of them on one path of 120 folders take half a minute.
"""

from __future__ import annotations

from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import GlobResult, GrepResult

MAX_PATTERN_CHARS = 200
# `**` and groups of alternatives such as {md,txt}, together; and alternatives beyond the first of each group.
MAX_MULTIPLIERS, MAX_COMMAS = 2, 20


def pattern_error(pattern: str) -> str | None:
    """Why a pattern is not tried, or None."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"The pattern has {len(pattern):,} characters of {MAX_PATTERN_CHARS}; use a shorter one, or ls."
    if pattern.count("**") + pattern.count("{") > MAX_MULTIPLIERS or pattern.count(",") > MAX_COMMAS or ".." in pattern:
        return f"The pattern {pattern!r} is too complex; use at most {MAX_MULTIPLIERS} of ** and {{...}} together, and no '..'."
    return None


class BoundedPatterns(CompositeBackend):
    """`CompositeBackend`, which refuses such patterns whoever asks."""

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        error = pattern_error(pattern)
        return GlobResult(error=error) if error else super().glob(pattern, path)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        error = pattern_error(pattern)
        return GlobResult(error=error) if error else await super().aglob(pattern, path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        error = pattern_error(glob) if glob else None
        return GrepResult(error=error) if error else super().grep(pattern, path, glob, max_count=max_count)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        error = pattern_error(glob) if glob else None
        return GrepResult(error=error) if error else await super().agrep(pattern, path, glob, max_count=max_count)
