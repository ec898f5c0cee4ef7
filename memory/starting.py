"""What a new person's memory starts with."""

from __future__ import annotations

from typing import Any

from memory import scopes
from settings import PROJECT

# Folders beside these files are for named users (`python -m seeds`).
_SEED_FILES = {f"/{path.name}": path.read_text("utf-8") for path in sorted((PROJECT / "seeds" / "memories").glob("*.*"))}


def starting_memory(actor: scopes.Actor, context: Any) -> dict[str, str]:
    """The files that somebody who has none is given at the start of their first run, by key, such as `/preferences.md`.

    Change this where what a new person starts with depends on who they are, or on what your front end knows of them: add
    fields to `scopes.Context` and send them with the run. Whatever a client sends there is its own claim.

    Args:
        actor: the person.
        context: the run's, as `scopes.Context`; None without one.
    """
    return _SEED_FILES
