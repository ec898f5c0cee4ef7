"""What a person sees beside their files: who they are, the prompt, the rules, past conversations; and their controls."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from langgraph_sdk import get_client
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException

from api.requests import About, Caller, Memory, body_of, json_response, takes
from memory import journal, namespaces, recall
from memory.blocks import Block
from memory.controls import controls, set_controls
from memory.identity import is_operator, may_write_policies
from memory.prompt import PromptBlocks, memory_files
from memory.skills import preview_skills
from memory.validation import is_policy, stored_file
from settings import MAX_BODY_BYTES, MAX_MEMORY_BYTES

router = APIRouter(tags=["Memory"])
_EXCERPT_CHARS = 240


@router.get("/memory/me")
async def me(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """Who you are here, and how this deployment keeps memory.

    user_id, org_id, memory_scope (user, user+assistant, assistant), memory_writes (both, background), sign_in (dev, token),
    operator, writes_policies.
    """
    user, settings = caller.http.user, caller.settings
    return json_response(
        {
            **asdict(caller.actor),
            "memory_scope": settings.memory_scope,
            "memory_writes": settings.memory_writes,
            "sign_in": settings.sign_in,
            "operator": is_operator(user, settings),
            "writes_policies": may_write_policies(user, settings),
        }
    )


# --- The prompt ------------------------------------------------------------------------------------------------------


@router.get("/memory/prompt")
async def prompt(caller: Caller, query: Annotated[Memory, Query()]) -> Response:
    """What the model is shown of you at your next turn.

    `blocks` of the system prompt: name (policies, memory, skills), text, bytes, budget, `left_out`. Reads only; a turn also
    puts right what a run that died left behind, which then shows there and not here.
    """
    settings, actor, assistant = caller.settings, caller.actor, caller.assistant
    shown = [*await PromptBlocks(settings, memory_files(settings)).preview(caller.store, actor, assistant)]
    shown.append(await preview_skills(caller.store, actor, assistant, settings))
    return json_response({"blocks": [_block(block) for block in shown]})


def _block(block: Block) -> dict[str, Any]:
    size = len(block.text.encode(errors="replace"))
    return {"name": block.name, "text": block.text, "bytes": size, "budget": block.budget, "left_out": list(block.left_out)}


@router.get("/memory/policies")
async def policies(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """The rules of your organization.

    `files`: path, key, content (null where it is not text, or beyond 4 MiB in all), bytes, in_prompt; `namespace`, by which the
    store API (PUT /store/items) changes them, and `writable`: whether you may.
    """
    namespace = namespaces.policies(caller.actor.org_id)
    items = await journal.all_items(caller.store, namespace)

    def files() -> list[dict[str, Any]]:
        policies, room = list[dict[str, Any]](), MAX_MEMORY_BYTES
        for item in items:
            try:
                file = stored_file(item)
            except ValueError:
                file = None
            content = file["content"] if file and file["encoding"] == "utf-8" else None
            size = len((content or "").encode())
            room -= size
            about = {"path": f"/policies{item.key}", "key": item.key, "bytes": size, "in_prompt": is_policy(item.key)}
            policies.append({**about, "content": content if room >= 0 else None})
        return policies

    writable = may_write_policies(caller.http.user, caller.settings)
    return json_response({"namespace": namespace, "writable": writable, "files": await asyncio.to_thread(files)})


# --- Past conversations ----------------------------------------------------------------------------------------------


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("ask for something")
    return text


class Search(About):
    q: Annotated[str, Field(max_length=1_000, description="words or a time"), AfterValidator(_not_blank)]
    limit: Annotated[int, Field(ge=1, le=20)] = 10


@router.get("/memory/search")
async def search(caller: Caller, query: Annotated[Search, Query()]) -> Response:
    """Search your past conversations, as the agent does with its tool.

    `conversations`, best first: thread_id, updated_at, and the turns that match best (number, speaker, text); `searched`: in
    how many; `outstanding`: how many older ones are not indexed yet, so search again.
    """
    async with get_client() as client:
        results = await recall.search(caller.store, client.threads, caller.actor, query.q, query.limit, began=caller.began)
    shown = await asyncio.to_thread(lambda: [_shown(query.q, match) for match in results.matches])
    return json_response({"conversations": shown, "searched": results.searched, "outstanding": results.outstanding})


def _shown(query: str, match: recall.Match) -> dict[str, Any]:
    talk, turns = match.conversation, recall.excerpts(query, match, _EXCERPT_CHARS)
    return {"thread_id": talk.thread_id, "updated_at": talk.updated_at, "turns": turns}


# --- Controls --------------------------------------------------------------------------------------------------------


class Switches(BaseModel, extra="forbid"):
    """A field that is left out stays as it is."""

    paused: bool | None = None
    review: bool | None = None


@router.get("/memory/controls")
async def read_controls(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """Whether remembering is paused, and whether changes are proposed to you first: `paused` and `review`."""
    caller.check_not_shared()
    return json_response(asdict(await controls(caller.store, caller.actor, caller.settings)))


@router.put("/memory/controls", openapi_extra=takes(Switches))
async def write_controls(
    caller: Caller,
    query: Annotated[About, Query()],
    body: Annotated[Switches, Depends(body_of(Switches, MAX_BODY_BYTES))],
) -> Response:
    """Pause or resume remembering; turn the review of changes on or off.

    Paused: nothing new is remembered, what is known is still used, and what you change yourself counts. It holds at once, also
    for a run that is going. Conversations in which you say something meanwhile are never consolidated. With `review` what
    consolidation would change becomes a proposal (GET /memory/proposals). A field that is left out stays as it is.
    """
    caller.check_own()
    caller.check_not_shared()
    switched = body.model_dump(exclude_unset=True)
    if not switched or None in switched.values():
        raise HTTPException(422, 'The body needs one or both of two fields: {"paused": true, "review": false}.')
    if await journal.is_forgotten(caller.store, caller.began):
        raise HTTPException(409, "You were forgotten meanwhile; call again.")
    before = await controls(caller.store, caller.actor, caller.settings)
    await set_controls(caller.store, caller.actor, switched)
    return json_response({**asdict(before), **switched})  # nothing that may fail comes after the change
