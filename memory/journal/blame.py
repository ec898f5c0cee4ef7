"""The origin of each line of a file."""

from collections.abc import Sequence

from memory.journal.diffs import edits, lines_of
from memory.journal.revisions import Revision

# Longer files get no origins, because every revision is compared with the one before.
MAX_BLAMED_LINES = 2_000


def line_origins(history: Sequence[Revision]) -> list[Revision | None]:
    """For each line of the newest revision, the revision that added it. Blocks; call it in a thread.

    None for a line whose revision is no longer kept. Empty if a revision has more than `MAX_BLAMED_LINES` lines.

    Args:
        history: a file's revisions, newest first.
    """
    texts = [lines_of(revision.content or "") for revision in history]
    if any(len(lines) > MAX_BLAMED_LINES for lines in texts):
        return []
    before, origins = list[str](), list[Revision | None]()
    for revision, lines in zip(reversed(history), reversed(texts), strict=True):
        first_kept = revision is history[-1] and revision.number > 1
        came: list[Revision | None] = []
        at = 0
        for _, start, end, new_start, new_end in edits(before, lines):
            came += [*origins[at:start], *[None if first_kept else revision] * (new_end - new_start)]
            at = end
        before, origins = lines, [*came, *origins[at:]]
    return origins
