"""The tools of the model that edits a draft, beside those for files: it reads its batch again, and
says which lines are no longer true.
"""

from typing import Literal

from langchain_core.tools import tool

from lasting_memory.consolidation.drafts import CURRENT_DRAFT, READ_TOOL
from lasting_memory.consolidation.no_batch import NOTHING_NEW

_BECAUSE_CHARS = 200


@tool(READ_TOOL)
async def search_recent_conversations() -> str:
    """Read again what is new in this person's conversations since the last consolidation, oldest
    first; or, where your task is about another text, that text.
    """
    draft = CURRENT_DRAFT.get()
    return draft.text if draft else NOTHING_NEW


@tool
async def forget_lines(
    path: str, lines: list[str], reason: Literal["outdated", "contradicted"], because: str = ""
) -> str:
    """Say which lines of a memory file are no longer true, before you remove or replace them. This
    changes no file itself.

    Args:
        path: the file, e.g. /memories/topics/cooking.md. lines: each line as it stands there.
        reason: outdated, where time has passed over them; contradicted, where something newer says
        otherwise. because: why, in a few words for the person, e.g. "the launch was in May".
    """
    is_in_memory = path.startswith("/memories/")
    if not is_in_memory or ".." in path:
        return f"Error: '{path}' is not memory; use a path under /memories/."
    draft = CURRENT_DRAFT.get()
    if draft:
        reason_for_person = because[:_BECAUSE_CHARS] or reason
        given_up_lines = draft.given_up_lines[path]
        for raw_line in lines:
            line = raw_line.strip()
            given_up_lines[line] = reason_for_person
            if reason == "contradicted":
                draft.contradicted_lines.add((path, line))
    return f"Noted {len(lines)} lines; now change {path}."
