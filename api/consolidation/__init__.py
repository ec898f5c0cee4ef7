"""What consolidation adds to a person's own view: its runs, its proposals, and for operators how it does over all people."""

from __future__ import annotations

from starlette.routing import Route

from api.consolidation.operations import operations
from api.consolidation.proposals import decide_proposal, list_proposals
from api.consolidation.runs import consolidate, consolidations
from memory.consolidation import shown_proposals

__all__ = ["consolidation", "shown_proposals"]


def consolidation() -> list[Route]:
    return [
        Route("/memory/proposals", list_proposals, methods=["GET"]),
        Route("/memory/proposals/{proposal_id}", decide_proposal, methods=["POST"]),
        Route("/memory/consolidate", consolidate, methods=["POST"]),
        Route("/memory/consolidations", consolidations, methods=["GET"]),
        Route("/memory/operations", operations, methods=["GET"]),
    ]
