"""Answers about dreams: what one costs, its state and its result."""

from pydantic import Field

from lasting_memory.consolidation import DreamReason, DreamStatus
from lasting_memory.http.models.base import Answer


class DreamEstimate(Answer):
    """What it would take to read all of your conversations again. Nothing has begun."""

    tokens: int = Field(description="about; to begin, send them as `tokens`")
    conversations: int
    messages: int


class Dream(Answer):
    """All of your conversations are read again, or were. Times are ISO in UTC."""

    began: str
    status: DreamStatus = Field(
        description="paused, failed: it waits for you; proposed: decide (GET /memory/proposals)"
    )
    reason: DreamReason = Field(description="why it waits or ended, in a word")
    tokens: int = Field(description="used up to now")
    cap: int = Field(description="tokens after which it ends with what it has")
    conversations: int
    read: int = Field(description="conversations of which nothing is left to read")
    left_out: int = Field(description="conversations that could not be read")
    messages: int


class DreamState(Answer):
    dream: Dream | None
