"""Answers about changes that wait for their person."""

from operator import not_
from typing import Literal

from pydantic import Field

from lasting_memory.http.models.base import Answer, Note, Outcome
from lasting_memory.memory.proposals import ProposalKind


class ProposedLine(Answer):
    """A line that a proposal takes out or puts in."""

    line: int = Field(description="its number, for the decision")
    sign: Literal["-", "+"]
    text: str
    reason: str = Field(description='why it goes; "" where none is known')


class Proposal(Answer):
    """Changes that wait for your decision."""

    id: str
    at: str
    kind: ProposalKind = Field(description="what it was made of, or by whom")
    threads: list[str] = Field(description="ids of the conversations that it comes from")
    files: dict[str, str] = Field(description="by path a diff")
    lines: dict[str, list[ProposedLine]] = Field(description="by path; of JSON there are none")
    unconfirmed: dict[str, list[int]] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="by path the numbers of lines that a text from elsewhere says, and not you",
    )


class ProposalOutcome(Answer):
    """What became of what the agent would have written."""

    id: str
    at: str
    threads: list[str]
    files: dict[str, Outcome] = Field(description="by path")


class Proposals(Answer):
    proposals: list[Proposal] = Field(description="the oldest first")
    more: int = Field(description="newer ones, which are shown once these are decided")
    decided: list[ProposalOutcome]


class DecidedProposal(Answer):
    id: str
    accepted: bool
    refused: dict[str, str] = Field(
        description="by path why something could not be applied; that still waits"
    )
    notes: list[Note] = Field(
        default_factory=list, exclude_if=not_, description="a reason each; absent without one"
    )
