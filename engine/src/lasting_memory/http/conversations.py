"""A person's past conversations: they are searched, and asked what waits for an answer in them."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.exceptions import HTTPException

from lasting_memory import platform, recall
from lasting_memory.auth import interrupt_display, interrupts
from lasting_memory.http.models.conversations import (
    FoundConversation,
    FoundConversations,
    FoundTurn,
    Question,
    Questions,
)
from lasting_memory.http.requests import IN_TURN, About, Caller, PersonRequest, memory_router
from lasting_memory.people import identity
from lasting_memory.platform import get_client

router = memory_router(IN_TURN)
# Of a turn of a conversation that a search found.
_EXCERPT_CHARS = 240


class Search(About):
    q: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 10


@router.get("/memory/search")
async def search(caller: Caller, query: Annotated[Search, Query()]) -> FoundConversations:
    """Search your past conversations, as the agent does with its tool."""
    deployment = caller.deployment
    zone = await recall.zone_of_person(
        caller.store, deployment, caller.actor, deployment.default_assistant
    )
    async with get_client() as client:
        results = await recall.search(
            caller.store,
            client.threads,
            caller.actor,
            query.q,
            query.limit,
            agents=deployment.agents,
            writer=caller.writer,
            routes=deployment.routes,
            zone=zone,
        )

    def found_conversations() -> list[FoundConversation]:
        return [_found(query.q, match) for match in results.matches]

    return FoundConversations(
        conversations=await platform.in_thread(found_conversations),
        searched=results.searched,
        outstanding=results.outstanding,
    )


def _found(query: str, match: recall.Match) -> FoundConversation:
    """A conversation that matches, with excerpts of its best turns. Blocks."""
    turns = recall.excerpts(query, match, _EXCERPT_CHARS)
    return FoundConversation(
        thread_id=match.conversation.thread_id,
        updated_at=match.conversation.last_said_at,
        turns=[FoundTurn.model_validate(turn) for turn in turns],
    )


class OneThread(About):
    thread_id: UUID


@router.get("/memory/interrupts")
async def pending_interrupts(caller: Caller, query: Annotated[OneThread, Query()]) -> Questions:
    """What waits for an answer in one of your conversations.

    It is what a tool asks (`interrupt()`), which is yours to answer, or a write that an operator
    approves. Answer with a run: `command: {"resume": {"<id>": <answer>}}`. Texts are cut to what a
    page shows. Operators ask about anybody's conversation. 404: it is no conversation of yours.
    """
    thread_id = str(query.thread_id)
    await _check_thread(caller, thread_id, names_person=query.user_id is not None)
    _checkpoint_id, all_interrupts = await interrupts.pending(thread_id)

    def questions() -> list[Question]:
        return [
            Question.model_validate(interrupt_display.shown(interrupt))
            for interrupt in all_interrupts
        ]

    return Questions(interrupts=await platform.in_thread(questions))


async def _check_thread(caller: PersonRequest, thread_id: str, *, names_person: bool) -> None:
    """Raise `HTTPException` 404 for a thread that is not there, or is not the person's.

    An operator may ask about any thread; one who names a person about that person's alone.
    """
    is_operator = identity.is_operator(caller.http.user, caller.deployment.settings)
    owner: dict[str, str] | None = asdict(caller.actor)
    if is_operator and not names_person:
        owner = None
    async with get_client() as client:
        threads = await client.threads.search(
            ids=[thread_id], metadata=owner, limit=1, select=["thread_id"]
        )
    if not threads:
        raise HTTPException(404, "There is no such conversation.")
