"""Answers about consolidations, and what is due."""

from typing import Literal

from pydantic import Field

from lasting_memory.http.models.base import Answer, Note
from lasting_memory.memory.proposals import BatchKind


class ConsolidationRecord(Answer):
    """One run of consolidation. Times are ISO in UTC."""

    run_id: str
    started_at: str
    ended_at: str
    status: Literal[
        "running", "done", "proposed", "undone", "failed", "accepted", "declined", "replaced"
    ] = Field(
        description="undone: its changes were refused; accepted, declined: what you decided; "
        "replaced: a newer proposal took its place"
    )
    reason: str = Field(description="as the model was told")
    conversations: int
    messages: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    undone: int
    dry_run: bool
    kind: BatchKind
    files: dict[str, str] = Field(description="by path a diff")
    found: int = Field(description="facts and messages in a text that was brought")
    proposed: int = Field(description="those of them that are proposed")
    notes: list[Note] = Field(description="the reason for people")


class Records(Answer):
    consolidations: list[ConsolidationRecord] = Field(description="the newest first")


class NothingToDo(Answer):
    """A run had nothing to work on, or did not begin."""

    dry_run: bool
    files: dict[str, str] = Field(description="empty")
    reason: str
    notes: list[Note]


class Queued(Answer):
    queued: Literal[True]


class Backlog(Answer):
    """What is due for consolidation."""

    people: int
    conversations: int
    oldest: str | None = Field(description="when the oldest of them changed")


class Operations(Answer):
    due: Backlog
