"""Answers to a text that a person brings: what came of it, and what was left out."""

from pydantic import Field
from pydantic.config import JsonDict

from lasting_memory.http.models.base import Answer, Note
from lasting_memory.http.models.proposals import Proposal

_LEFT_OUT_REASONS: JsonDict = {
    "propertyNames": {
        "enum": [
            "known",
            "taken_back",
            "twice",
            "too_long",
            "too_many",
            "credential",
            "refused",
            "not_taken",
            "failed",
            "not_read",
        ]
    }
}


class LeftOut(Answer):
    count: int
    lines: list[str] = Field(description="the beginnings of the first")


class FailedPart(Answer):
    part: int = Field(description="its number, from 1")
    reason: str


class Brought(Answer):
    """What became of a text that a person brought along."""

    proposal: Proposal | None = Field(description="what would be added")
    reason: str = Field(description="all of it in a sentence")
    notes: list[Note]
    found: int = Field(description="facts and messages")
    proposed: int
    left_out: dict[str, LeftOut] = Field(
        description="by reason", json_schema_extra=_LEFT_OUT_REASONS
    )
    invented: list[str] = Field(description="lines of the model's that the text does not say")
    framing: LeftOut = Field(description="lines that say nothing about you")
    parts: int
    failed: list[FailedPart]


class PartBegins(Answer):
    """A line of the answer before each part of a text."""

    part: int
    parts: int
    found: int


class LateRefusal(Answer):
    """The last line of an answer that had begun when it was refused."""

    status: int
    detail: str
