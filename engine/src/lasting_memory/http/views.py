"""What a person sees beside their files: who they are, the prompt, the rules, past conversations; and their controls."""

import asyncio
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Query
from langchain_core.messages import SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.store.base import Item
from langgraph_sdk import get_client
from pydantic import Field, StringConstraints
from starlette.exceptions import HTTPException

from lasting_memory import journal, platform, recall
from lasting_memory.agent.prompt import Block, PromptBlocks, memory_files
from lasting_memory.agent.skills import skills
from lasting_memory.controls import controls, set_controls
from lasting_memory.http.requests import IN_TURN, About, AboutQuery, Answer, Caller, MemoryQuery, PersonRequest, Sent
from lasting_memory.people import namespaces
from lasting_memory.people.identity import claims_of, is_operator, may_write_policies
from lasting_memory.people.namespaces import NotAMemberError, Scope
from lasting_memory.validation import is_policy, text_of

router = APIRouter(tags=["Memory"], dependencies=[IN_TURN])
_EXCERPT_CHARS = 240


@router.get("/memory/me")
async def me(caller: Caller, query: AboutQuery) -> Answer:
    """Who you are here, and how this deployment keeps memory.

    `routes`: by folder, whether it is `shared` with others, whether your agent `writes` there (allow, deny, interrupt: an
    operator approves), and the `namespace` in which you can read it over the store API (null: you cannot).
    """
    user, deployment = caller.http.user, caller.deployment
    return {
        **asdict(caller.actor),
        "agents": deployment.agents,
        "memory_scope": deployment.settings.memory_scope,
        "routes": {path: _route(caller, deployment.scope(path)) for path in deployment.routes},
        "memory_writes": deployment.settings.memory_writes,
        "sign_in": deployment.settings.sign_in,
        "operator": is_operator(user, deployment.settings),
        "writes_policies": may_write_policies(user, deployment.settings),
    }


def _route(caller: PersonRequest, scope: Scope) -> Answer:
    claims, namespace = claims_of(caller.http.user), None
    with suppress(NotAMemberError):
        namespace = scope.namespace(caller.actor, caller.assistant, claims)
    readable = namespace is not None and scope.may_read(namespace, caller.actor, claims)
    writes = scope.rule(caller.deployment.settings)
    return {"shared": scope.is_shared, "writes": writes, "namespace": namespace if readable else None}


@router.get("/memory/prompt")
async def prompt(caller: Caller, query: MemoryQuery) -> Answer:
    """What the model is shown of you at your next turn.

    `blocks` of the system prompt: name (agent: its own; policies, memory, and skills where there are any), text, bytes, tokens
    (estimated), budget (null: none), `left_out`. `tools`: their names; none where the server does not tell.
    """
    deployment, actor, assistant = caller.deployment, caller.actor, caller.assistant
    shown = [Block("agent", deployment.prompt("agent.md").strip(), 0)]
    shown += await PromptBlocks(deployment, memory_files(deployment)).read(caller.store, actor, assistant, preview=True)
    if listed := skills(deployment):
        shown.append(await listed.preview(caller.store, actor, assistant, claims_of(caller.http.user)))
    blocks = [
        {
            "name": block.name,
            "text": block.text,
            "bytes": len(block.text.encode(errors="replace")),
            "tokens": count_tokens_approximately([SystemMessage(block.text)]),
            "budget": block.budget or None,
            "left_out": block.left_out,
        }
        for block in shown
    ]
    return {"blocks": blocks, "tools": platform.tools_of(deployment.agents[0])}


@router.get("/memory/policies")
async def policies(caller: Caller, query: AboutQuery) -> Answer:
    """The rules of your organization.

    `files`: path, key, content (null where it is not text), bytes, in_prompt. The store API (PUT /store/items) changes them in
    `namespace`; `writable`: whether you may.
    """
    namespace = namespaces.policies(caller.actor.org_id)
    files = [_policy(item) for item in await journal.all_items(caller.store, namespace)]
    writable = may_write_policies(caller.http.user, caller.deployment.settings)
    return {"namespace": namespace, "writable": writable, "files": files}


def _policy(item: Item) -> Answer:
    path, content, in_prompt = f"/policies{item.key}", text_of(item), is_policy(item.key)
    return {"path": path, "key": item.key, "content": content, "bytes": len((content or "").encode()), "in_prompt": in_prompt}


class Search(About):
    q: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=20)] = 10


@router.get("/memory/search")
async def search(caller: Caller, query: Annotated[Search, Query()]) -> Answer:
    """Search your past conversations, as the agent does with its tool.

    `conversations`, best first: thread_id, updated_at, the best turns; `searched`: in how many; `outstanding`: how many older
    ones are not indexed yet, so search again.
    """
    async with get_client() as client:
        agents = caller.deployment.agents
        results = await recall.search(
            caller.store, client.threads, caller.actor, query.q, query.limit, agents=agents, began=caller.began
        )
    shown = await asyncio.to_thread(lambda: [_shown(query.q, match) for match in results.matches])
    return {"conversations": shown, "searched": results.searched, "outstanding": results.outstanding}


def _shown(query: str, match: recall.Match) -> Answer:
    talk, turns = match.conversation, recall.excerpts(query, match, _EXCERPT_CHARS)
    return {"thread_id": talk.thread_id, "updated_at": talk.updated_at, "turns": turns}


class Switches(Sent):
    paused: bool = False
    review: bool = False
    review_agent: bool = False


@router.get("/memory/controls")
async def read_controls(caller: Caller, query: AboutQuery) -> Answer:
    """Whether remembering is paused, and whether changes are proposed to you first: `paused` and `review`.

    `review_agent` is there where it is on.
    """
    caller.check_not_shared()
    return (await controls(caller.store, caller.actor, caller.deployment)).told()


@router.put("/memory/controls")
async def write_controls(caller: Caller, query: AboutQuery, body: Switches) -> Answer:
    """Pause or resume remembering; turn the review of changes on or off.

    Paused: nothing new is remembered, at once, and what is said meanwhile is never consolidated; what you change yourself
    counts. With `review` changes of consolidation become proposals, with `review_agent` what the agent would write during a
    conversation. A field that is left out stays as it is.
    """
    caller.check_own()
    caller.check_not_shared()
    if await journal.is_forgotten(caller.store, caller.began):
        raise HTTPException(409, "You were forgotten meanwhile; call again.")
    switched = body.model_dump(exclude_unset=True)
    before = await controls(caller.store, caller.actor, caller.deployment)
    await set_controls(caller.store, caller.actor, switched)
    return replace(before, **switched).told()  # nothing that may fail comes after the change
