"""What consolidation, or the agent, would change, and a person's decision about it.

A proposal has changes of files, and of lines in these. It waits until the person accepts or declines
all of it; a part may be decided before.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from lasting_memory import consolidation
from lasting_memory.http import requests
from lasting_memory.http.consolidation_runs import IS_ON
from lasting_memory.http.models.base import Note
from lasting_memory.http.models.proposals import (
    DecidedProposal,
    Proposal,
    ProposalOutcome,
    Proposals,
)
from lasting_memory.http.requests import Caller, MemoryQuery, Sent
from lasting_memory.memory.proposals import rules_of

router = requests.memory_router(IS_ON, requests.IN_TURN)
# What is compared for one answer with proposals, as `journal.comparison_cost` counts it: about a second.
_MAX_WORK = 1_500_000


@router.get("/memory/proposals")
async def list_proposals(caller: Caller, query: MemoryQuery) -> Proposals:
    """What consolidation, or your agent, would change, and waits for your decision.

    Where comparing all at once would take long, newer ones are shown once the older ones are
    decided.
    """
    memory = caller.memory
    shown_proposals, hidden_count = await memory.shown_proposals(_MAX_WORK)
    outcomes = list[ProposalOutcome]()
    for proposal in await memory.proposals():
        if rules_of(proposal.kind).shows_decisions and proposal.decided:
            outcome = proposal.outcome()
            outcomes.append(ProposalOutcome.model_validate(outcome))
    proposals = [Proposal.model_validate(proposal) for proposal in shown_proposals]
    return Proposals(proposals=proposals, more=hidden_count, decided=outcomes)


class ChosenLine(Sent):
    line: Annotated[int, Field(ge=0, description="its number in `lines`")]
    text: Annotated[str, Field(pattern=r"^[^\r\n]*\S[^\r\n]*$", max_length=10_000)] | None = None


class Decision(Sent):
    accept: bool
    files: Annotated[list[str], Field(min_length=1)] | None = None
    lines: Annotated[dict[str, list[ChosenLine]], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check_lines(self) -> Self:
        lines = self.lines or {}
        if lines and not self.accept:
            raise ValueError("lines are for accept: true; what they leave out is declined")
        for path, chosen_lines in lines.items():
            numbers = {line.line for line in chosen_lines}
            if len(numbers) < len(chosen_lines):
                raise ValueError(f"{path[:80]} names a line twice; it can have one text")
            if self.files is not None and path not in self.files:
                raise ValueError(
                    f"lines has {path[:80]}, which files leaves out; name it in both, or leave files out"
                )
        return self


@router.post("/memory/proposals/{proposal_id}")
async def decide_proposal(
    caller: Caller, proposal_id: str, query: MemoryQuery, body: Decision
) -> DecidedProposal:
    """Accept or decline a proposal, or some of its files, or lines of these.

    `lines`, by path, are those to accept (`{"line": 0}`), also with a text of yours (`{"line": 0,
    "text": "- likes leek"}`); the file's other lines are declined. With `files` or `lines` only the
    files that they name are decided, and the others go on waiting; where both are there, `lines` is
    about some of `files`, and the rest of `files` are decided whole. What is accepted is merged
    with what memory says now; what is declined is not proposed again, unless you say it again. 409:
    it was decided already.
    """
    caller.check_own()
    chosen_by_path = body.lines or {}
    lines = dict[str, dict[int, str | None]]()
    for path, chosen_lines in chosen_by_path.items():
        lines[path] = {line.line: line.text for line in chosen_lines}
    error_by_path = await caller.memory.decide(
        proposal_id, accept=body.accept, paths=body.files, lines=lines
    )
    errors = list(error_by_path.values())
    return DecidedProposal(
        id=proposal_id,
        accepted=body.accept,
        refused={path: str(error) for path, error in error_by_path.items()},
        notes=_notes(errors),
    )


def _notes(errors: list[ValueError]) -> list[Note]:
    """A note for each of these errors; none unless each has a kind."""
    notes = list[Note]()
    for error in errors:
        kind = getattr(error, "kind", "")
        if not kind:
            return []
        note = consolidation.note(kind)
        notes.append(Note.model_validate(note))
    return notes
